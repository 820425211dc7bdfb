"""Proving a repository by GitHub's device flow: an account with push access owns it.

What is stored is for one repository by its numeric id, is found by a secret of the person who asked (stored as a hash),
can be used once, and ends when GitHub's code does. GitHub is not asked more often than it allows.
"""

import secrets
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from shared.access.auth import sha256_of
from shared.access.owners import IssuedToken, issue_token, label_of, repo_name
from shared.db import get_github, get_kv, get_settings, now
from shared.errors import ConditionFailed, Conflict, Forbidden, NotFound, PlatformError, TooManyRequests
from shared.github.client import GitHubRepo
from shared.github.device_flow import DeviceAnswer, DeviceError
from shared.github.interactive import for_client
from shared.records.owners import Owner
from shared.storage.documents import encode
from shared.storage.kv import ABSENT, Delete, Expect, Key, Put

SLOWER = 5  # seconds more, where GitHub asks to slow down and does not say by how much


class Device(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    repo: str
    repo_id: int
    device_code: str
    user_code: str
    verification_uri: str
    interval: int  # seconds
    next_poll_at: datetime
    expires_at: datetime

    def is_open(self, at: datetime) -> bool:
        return at < self.expires_at


class OpenedDevice(NamedTuple):
    id: str  # a secret of the person who asked: stored as a hash only
    device: Device


async def open_device(owner: str, name: str) -> OpenedDevice:
    client_id = _client_id()
    async with for_client(get_github()) as github:
        found = await github.get_repo(owner, name)
        github.yield_quota_to_workers()
        code = await github.device_flow.request_code(client_id)
    at = now()
    device = Device(
        repo=repo_name(found),
        repo_id=found.id,
        device_code=code.device_code,
        user_code=code.user_code,
        verification_uri=github.device_flow.verification_uri,
        interval=code.interval,
        next_poll_at=at + timedelta(seconds=code.interval),
        expires_at=at + timedelta(seconds=code.expires_in),
    )
    opened = OpenedDevice(secrets.token_urlsafe(32), device)
    await get_kv().put(_device_put(opened, ABSENT))
    return opened


async def prove_by_device(device_id: str, label: str, is_session: bool = False) -> IssuedToken | Device:
    """A token, or the device itself while the user has not entered the code. Raises TooManyRequests if it is too soon
    to ask again."""
    client_id, name = _client_id(), label_of(label)
    opened = await _take_turn(device_id)
    async with for_client(get_github()) as github:
        answer = await github.device_flow.ask_for_token(client_id, opened.device.device_code)
    if answer.error is DeviceError.PENDING:
        return opened.device
    if answer.error is DeviceError.SLOW_DOWN:
        raise await _slow_down(opened, answer)
    used = Delete(_device_key(device_id), {"pk": _device_key(device_id).pk})
    try:
        found = await _proven(opened.device, answer)
    except PlatformError:
        await _forget(used)  # GitHub gives a token once, so what it did not prove has to be started again
        raise
    try:
        return await issue_token(Owner(repo_name(found), found.id), name, is_session, "by GitHub's device flow", [used])
    except Conflict as error:
        raise _no_device() from error


async def find_device(device_id: str) -> Device | None:
    doc = await get_kv().get(_device_key(device_id))
    device = None if doc is None else _DEVICE.decode(doc)
    return device if device and device.is_open(now()) else None


_DEVICE = msgspec.json.Decoder(Device)


async def _take_turn(device_id: str) -> OpenedDevice:
    """Of several polls at the same time one asks GitHub."""
    device = await find_device(device_id)
    if device is None:
        raise _no_device()
    if now() < device.next_poll_at:
        raise _too_soon(device)
    taken = OpenedDevice(device_id, _later(device, device.interval))
    try:
        await get_kv().put(_device_put(taken, {"nextPollAt": _turn(device)}))
    except ConditionFailed as error:
        raise _too_soon(taken.device) from error
    return taken


async def _slow_down(opened: OpenedDevice, answer: DeviceAnswer) -> TooManyRequests:
    slower = _later(opened.device, answer.interval or opened.device.interval + SLOWER)
    try:
        await get_kv().put(_device_put(OpenedDevice(opened.id, slower), {"nextPollAt": _turn(opened.device)}))
    except ConditionFailed as error:
        raise _no_device() from error
    return _too_soon(slower)


async def _proven(device: Device, answer: DeviceAnswer) -> GitHubRepo:
    if answer.error is DeviceError.EXPIRED:
        raise _no_device()
    if answer.error is DeviceError.DENIED:
        raise Forbidden("The sign-in was denied on GitHub. Start again to try once more.", code="access_denied")
    async with for_client(get_github()) as github:
        found = await github.device_flow.find_writable_repo(answer.token, device.repo_id)
    if found is None:
        raise Forbidden(
            f"This GitHub account may not push to {device.repo}. Sign in with one that may, or prove it by a file.",
            code="no_push_permission",
        )
    if not _is_same_repo(found, device):
        raise Conflict("GitHub answered for another repository. Start again.", code="repository_changed")
    return found


def _is_same_repo(found: GitHubRepo, device: Device) -> bool:
    return found.id == device.repo_id


async def _forget(used: Delete) -> None:
    try:
        await get_kv().transact(lambda: [used])
    except ConditionFailed:
        return  # another request has used it up


def _later(device: Device, interval: int) -> Device:
    return msgspec.structs.replace(device, interval=interval, next_poll_at=now() + timedelta(seconds=interval))


def _device_put(opened: OpenedDevice, expect: Expect) -> Put:
    attrs: dict[str, str | int] = {
        "expiresAt": int(opened.device.expires_at.timestamp()) + 1,
        "nextPollAt": _turn(opened.device),
    }
    return Put(_device_key(opened.id), encode(opened.device), attrs, expect)


def _turn(device: Device) -> int:
    return int(device.next_poll_at.timestamp() * 1000)


def _device_key(device_id: str) -> Key:
    return Key(f"owner-device:{sha256_of(device_id)}")


def _client_id() -> str:
    client_id = get_settings().github_client_id
    if not client_id:
        raise NotFound(
            "Signing in with GitHub is not set up on this platform. Prove the repository by a file instead.",
            code="device_flow_off",
        )
    return client_id


def _too_soon(device: Device) -> TooManyRequests:
    wait = max(1, -int((now() - device.next_poll_at).total_seconds() // 1))
    return TooManyRequests(f"Too soon to ask GitHub again: wait {wait} s.", "slow_down", retry_after=wait)


def _no_device() -> Conflict:
    return Conflict(
        "This sign-in with GitHub was used already, has expired, or never existed. Start again.", code="device_expired"
    )
