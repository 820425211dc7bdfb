"""GitHub's device flow: a user allows on GitHub, by a short code, that we ask what they may do.

No scope is requested, so the user's token reads what is public and says what its user may do there. It is used for one
request and then dropped: never stored, never logged.
"""

from enum import StrEnum
from typing import Annotated, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from shared.github.http import GitHubHttp, Missing, api_path
from shared.github.repos import GitHubRepo, RepoAnswer, no_repo, repo_of_answer

T = TypeVar("T")
GRANT = "urn:ietf:params:oauth:grant-type:device_code"


class DeviceCode(msgspec.Struct, frozen=True):
    device_code: Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_.-]+\Z")]
    user_code: Annotated[str, Meta(min_length=4, max_length=20, pattern=r"^[A-Za-z0-9-]+\Z")]
    expires_in: Annotated[int, Meta(ge=1, le=3600)]
    interval: Annotated[int, Meta(ge=1, le=300)] = 5


class DeviceError(StrEnum):
    PENDING = "authorization_pending"
    SLOW_DOWN = "slow_down"
    EXPIRED = "expired_token"
    DENIED = "access_denied"


class DeviceAnswer(NamedTuple):
    """Either a token of the user, or why there is none."""

    token: str = ""
    error: DeviceError | None = None
    interval: int | None = None  # the new one, where GitHub asks to slow down


class _TokenAnswer(msgspec.Struct, frozen=True):
    access_token: Annotated[str, Meta(max_length=300, pattern=r"^[A-Za-z0-9_.-]*\Z")] = ""
    error: str = ""
    interval: Annotated[int, Meta(ge=1, le=300)] | None = None


class _Permissions(msgspec.Struct, frozen=True):
    push: bool = False
    maintain: bool = False
    admin: bool = False


class _PermittedRepo(RepoAnswer):
    permissions: _Permissions = msgspec.field(default_factory=_Permissions)


class DeviceFlow:
    def __init__(self, http: GitHubHttp) -> None:
        self._http = http

    @property
    def verification_uri(self) -> str:
        """Ours, not the one that is answered: users type a code there."""
        return f"{self._http.login_url}/login/device"

    async def request_code(self, client_id: str) -> DeviceCode:
        answer = await self._post("/login/device/code", {"client_id": client_id, "scope": ""}, msgspec.Raw)
        try:
            return msgspec.json.decode(answer, type=DeviceCode)
        except msgspec.MsgspecError as error:
            raise self._http.down("it does not offer the device flow for our client id") from error

    async def ask_for_token(self, client_id: str, device_code: str) -> DeviceAnswer:
        form = {"client_id": client_id, "device_code": device_code, "grant_type": GRANT}
        answer = await self._post("/login/oauth/access_token", form, _TokenAnswer)
        if answer.access_token:
            return DeviceAnswer(token=answer.access_token)
        if answer.error not in set(DeviceError):
            raise self._http.down("it refused the device flow")
        return DeviceAnswer(error=DeviceError(answer.error), interval=answer.interval)

    async def find_writable_repo(self, token: str, repo_id: int) -> GitHubRepo | None:
        """By its id, under its current name. None: the user may not push to it."""
        path = api_path("repositories", str(repo_id))
        answer = await self._http.get_json_as(token, path, _PermittedRepo, no_repo())
        return repo_of_answer(answer) if may_push(answer.permissions) else None

    async def _post(self, path: str, form: dict[str, str], type_: type[T]) -> T:
        try:
            return await self._http.post_login(path, form, type_, Missing("unknown client id"))
        except Missing as error:
            raise self._http.down("it does not know our client id") from error


def may_push(permissions: _Permissions) -> bool:
    return permissions.push or permissions.maintain or permissions.admin
