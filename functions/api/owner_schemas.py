"""Requests and responses of the routes for owners."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from functions.api.admin_schemas import Reason
from functions.api.submission_schemas import Cursor, RepoUrl, Slug
from shared.access.audit import MAX_REASON, VISIBLE
from shared.access.device_proofs import Device, OpenedDevice
from shared.access.owners import MAX_LABEL, IssuedToken, OpenedChallenge, OwnerToken
from shared.access.owners import PROOF_PATH as PROOF_PATH
from shared.records.skills import Deprecation, Skill, set_by_owner
from shared.records.submissions import SubmissionRow

Label = Annotated[
    str,
    Meta(min_length=1, max_length=MAX_LABEL, description="What the token is for.", examples=["release workflow"]),
]


class _Sent(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    pass


class ChallengeBody(_Sent, frozen=True):
    repo_url: RepoUrl


class ProofBody(_Sent, frozen=True):
    challenge_id: Annotated[str, Meta(min_length=1, max_length=100)]
    label: Label = "API"


class DeviceProofBody(_Sent, frozen=True):
    device_id: Annotated[str, Meta(min_length=1, max_length=100)]
    label: Label = "API"


class TokenBody(_Sent, frozen=True):
    label: Label


class OwnerReason(_Sent, frozen=True):
    reason: Reason


class VersionOrSkill(_Sent, frozen=True):
    """Without `version`: all of the skill."""

    reason: Reason
    version: Annotated[str, Meta(min_length=1, max_length=40)] | None = None


class DeprecateBody(_Sent, frozen=True):
    sentence: Annotated[str, Meta(min_length=1, max_length=MAX_REASON, pattern=VISIBLE, description="Shown to users.")]
    successor: (
        Annotated[str, Meta(min_length=1, max_length=300, description="A skill that is published here.")] | None
    ) = None


class TransferBody(_Sent, frozen=True):
    """`targetToken` is an owner token of the other repository: it proves that the target is yours too."""

    reason: Reason
    target_token: Annotated[str, Meta(min_length=1, max_length=200)]
    skill_slug: Slug | None = None


class OwnedQuery(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=100)] = 50
    cursor: Cursor | None = None


class OwnedSkill(msgspec.Struct, frozen=True, rename="camel"):
    """A published skill with what its owner set on it."""

    name: str
    current_version: str
    submission_id: str
    is_blocked: bool
    is_yanked: bool
    withdrawn: str | None
    deprecated: Deprecation | None
    transferred_to: str | None
    transferred_from: str | None


class OwnedSubmission(msgspec.Struct, frozen=True, rename="camel"):
    submission: SubmissionRow
    skill: OwnedSkill | None  # null: not published


class OwnedSubmissions(msgspec.Struct, frozen=True, rename="camel"):
    repo: str
    submissions: list[OwnedSubmission]
    cursor: str | None
    stale: list[str]


class ChallengeAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """Commit `word` as the only line of `path` to the default branch. Keep `challengeId` to yourself: it gets the
    token, the word in the file does not."""

    challenge_id: str
    repo: str
    repo_id: int
    path: str
    word: str
    expires_at: datetime


class DeviceOpened(msgspec.Struct, frozen=True, rename="camel"):
    """Enter `userCode` at `verificationUri`, with an account that has push access. Keep `deviceId` to yourself."""

    device_id: str
    repo: str
    repo_id: int
    user_code: str
    verification_uri: str
    expires_at: datetime
    interval_seconds: int


class DevicePending(msgspec.Struct, frozen=True, rename="camel"):
    """The code has not been entered yet."""

    repo: str
    user_code: str
    verification_uri: str
    expires_at: datetime
    interval_seconds: int


class TokenRow(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    label: str
    created_at: datetime
    expires_at: datetime
    is_session: bool
    revoked_at: datetime | None


class NewOwnerToken(msgspec.Struct, frozen=True, rename="camel"):
    """`token` is shown in this response only."""

    token: str
    id: str
    repo: str
    repo_id: int
    label: str
    expires_at: datetime


class OwnerTokens(msgspec.Struct, frozen=True, rename="camel"):
    repo: str
    repo_id: int
    tokens: list[TokenRow]


def owned_skill_of(skill: Skill) -> OwnedSkill:
    return OwnedSkill(
        skill.name,
        skill.current_version,
        skill.submission_id,
        skill.is_blocked,
        skill.is_yanked,
        **set_by_owner(skill),
    )


def challenge_answer(opened: OpenedChallenge) -> ChallengeAnswer:
    challenge = opened.challenge
    return ChallengeAnswer(
        opened.id, challenge.repo, challenge.repo_id, PROOF_PATH, challenge.word, challenge.expires_at
    )


def device_answer(opened: OpenedDevice) -> DeviceOpened:
    device = opened.device
    return DeviceOpened(
        opened.id,
        device.repo,
        device.repo_id,
        device.user_code,
        device.verification_uri,
        device.expires_at,
        device.interval,
    )


def pending_answer(device: Device) -> DevicePending:
    return DevicePending(device.repo, device.user_code, device.verification_uri, device.expires_at, device.interval)


def token_row(token: OwnerToken) -> TokenRow:
    return TokenRow(token.id, token.label, token.created_at, token.expires_at, token.is_session, token.revoked_at)


def new_token_answer(issued: IssuedToken) -> NewOwnerToken:
    token = issued.token
    return NewOwnerToken(issued.secret, token.id, token.repo, token.repo_id, token.label, token.expires_at)
