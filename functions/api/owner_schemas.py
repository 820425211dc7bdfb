"""Requests and responses of the routes for owners."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from functions.api.submission_schemas import RepoUrl
from shared.access.owners import MAX_LABEL, IssuedToken, OpenedChallenge, OwnerToken
from shared.access.owners import PROOF_PATH as PROOF_PATH

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


class TokenBody(_Sent, frozen=True):
    label: Label


class ChallengeAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """Commit `word` as the only line of `path` to the default branch. Keep `challengeId` to yourself: whoever has it,
    and not who reads the file, gets the token."""

    challenge_id: str
    repo: str
    repo_id: int
    path: str
    word: str
    expires_at: datetime


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


def challenge_answer(opened: OpenedChallenge) -> ChallengeAnswer:
    challenge = opened.challenge
    return ChallengeAnswer(
        opened.id, challenge.repo, challenge.repo_id, PROOF_PATH, challenge.word, challenge.expires_at
    )


def token_row(token: OwnerToken) -> TokenRow:
    return TokenRow(token.id, token.label, token.created_at, token.expires_at, token.is_session, token.revoked_at)


def new_token_answer(issued: IssuedToken) -> NewOwnerToken:
    token = issued.token
    return NewOwnerToken(issued.secret, token.id, token.repo, token.repo_id, token.label, token.expires_at)
