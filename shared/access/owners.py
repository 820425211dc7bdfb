"""Ownership without passwords: who can commit a word to the default branch of a repository owns it here.

A challenge has two parts. The word goes into the file and is public from then on; the id of the challenge stays with
the person who asked, and only that id is exchanged for a token. So reading the file gives a stranger nothing. A
challenge is for one repository by its numeric id, can be met once, and expires.

Tokens are stored as hashes, under the id of the repository that they are for, so all of its tokens are listed together,
whichever of its writers created them.
"""

import asyncio
import math
import re
import secrets
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from shared.access.audit import audit_put
from shared.access.auth import ID_LENGTH, sha256_of
from shared.access.limits import refuse_locked, take_from_limit
from shared.access.proven_owners import proven_put
from shared.access.sessions import SESSION_TTL
from shared.access.signing import is_same
from shared.db import get_github, get_kv, get_settings, now
from shared.errors import ConditionFailed, Conflict, Forbidden, InvalidRequest, NotFound, TooManyRequests, Unauthorized
from shared.github.client import GitHubRepo
from shared.github.interactive import for_client
from shared.records.owners import Owner, owns
from shared.records.skills import Skill
from shared.records.submissions import Submission
from shared.storage.documents import encode
from shared.storage.kv import ABSENT, Delete, Key, Put, Write, query_all

PROOF_PATH = ".vskill-owner"
CHALLENGE_TTL = timedelta(hours=1)
OWNER_TOKEN_TTL = timedelta(days=90)
MAX_OWNER_TOKENS = 20  # that an owner creates; sessions and proofs are not counted
MAX_LABEL = 60
ACTIONS_AN_HOUR = 200  # of one repository: enough to withdraw or cancel each of a hundred skills
_HOUR = 3600
_TOKEN = re.compile(r"vso_([1-9][0-9]{0,17})_[A-Za-z0-9_-]{43}", re.ASCII)


class Challenge(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    repo: str
    repo_id: int
    word: str
    expires_at: datetime


class OpenedChallenge(NamedTuple):
    id: str  # a secret of the person who asked: stored as a hash only
    challenge: Challenge


class OwnerToken(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    sha256: str
    repo: str
    repo_id: int
    label: str
    created_at: datetime
    expires_at: datetime
    is_session: bool = False  # of a browser that has just proven: this token was never shown
    revoked_at: datetime | None = None

    @property
    def id(self) -> str:
        return self.sha256[:ID_LENGTH]

    @property
    def owner(self) -> Owner:
        return Owner(self.repo, self.repo_id)

    def is_valid(self, at: datetime) -> bool:
        return self.revoked_at is None and at < self.expires_at


class IssuedToken(NamedTuple):
    secret: str  # shown once
    token: OwnerToken


# --- proofs ---------------------------------------------------------------------------------------------------------


async def open_challenge(owner: str, name: str) -> OpenedChallenge:
    """For the repository that has this name now, or that was renamed from it."""
    async with for_client(get_github()) as github:
        found = await github.get_repo(owner, name)
        github.yield_quota_to_workers()
    opened = OpenedChallenge(
        secrets.token_urlsafe(32),
        Challenge(
            repo=repo_name(found),
            repo_id=found.id,
            word=f"vskill-owner-{secrets.token_hex(16)}",
            expires_at=now() + CHALLENGE_TTL,
        ),
    )
    expires_at = int(opened.challenge.expires_at.timestamp())
    await get_kv().put(Put(_challenge_key(opened.id), encode(opened.challenge), {"expiresAt": expires_at}, ABSENT))
    return opened


async def prove(challenge_id: str, label: str, is_session: bool = False) -> IssuedToken:
    """A token, if the head of the default branch of exactly that repository has the word. The challenge is used up in
    the transaction that stores the token."""
    name = label_of(label)
    challenge = await find_challenge(challenge_id)
    if challenge is None:
        raise _no_challenge()
    async with for_client(get_github()) as github:
        found = await github.get_repo(*challenge.repo.split("/"))
        if not _is_still_it(found, challenge):
            raise Conflict(
                f"{challenge.repo} is another repository now than the one this challenge is for. Open a new challenge.",
                code="repository_changed",
            )
        written = await github.find_file_at_head(found, PROOF_PATH)
    if written is None or not is_same(challenge.word, written.decode(errors="replace").strip()):
        raise Conflict(_not_proven(challenge, found, written), code="not_proven")
    used = Delete(_challenge_key(challenge_id), {"pk": _challenge_key(challenge_id).pk})
    return await issue_token(Owner(repo_name(found), found.id), name, is_session, "by a file", [used])


async def find_challenge(challenge_id: str) -> Challenge | None:
    doc = await get_kv().get(_challenge_key(challenge_id))
    challenge = None if doc is None else _CHALLENGE.decode(doc)
    return challenge if challenge and now() < challenge.expires_at else None


async def issue_token(
    owner: Owner, label: str, is_session: bool, how: str, also: list[Write] | None = None
) -> IssuedToken:
    """For an owner that has just been proven. Raises Conflict if the proof was used up meanwhile."""
    issued = new_token(owner, label, is_session)
    audit = audit_put(owner, "prove ownership", owner.repo, how)
    try:
        await get_kv().transact(lambda: [token_put(issued.token), audit, proven_put(owner, now()), *(also or ())])
    except ConditionFailed as error:
        raise _no_challenge() from error
    return issued


def repo_name(repo: GitHubRepo) -> str:
    return f"{repo.owner}/{repo.name}".lower()


# --- tokens ---------------------------------------------------------------------------------------------------------


async def authorize_owner(authorization: str | None, ip: str) -> Owner:
    scheme, _, secret = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not secret:
        raise Unauthorized("Send `Authorization: Bearer <owner token>`. Prove a repository to get one.")
    return (await identify_owner(secret, ip)).owner


async def identify_owner(secret: str, ip: str) -> OwnerToken:
    """Failed attempts are counted per IP address, together with those of operators."""
    token, _ = await asyncio.gather(find_owner_token(secret), refuse_locked("sign-in", ip))
    if token is None:
        await take_from_limit("sign-in", ip)
        raise Unauthorized("This owner token is invalid, has expired or was revoked. Prove the repository again.")
    return token


async def count_owner_action(owner: Owner) -> None:
    """Anyone with a repository can be an owner, and every action is written to the log that operators read."""
    if not get_settings().limits:
        return
    at = now().timestamp()
    left = math.ceil(_HOUR - at % _HOUR)
    key = Key(f"limit:owner-actions:{owner.repo_id}", str(int(at // _HOUR)))
    if await get_kv().take(key, ACTIONS_AN_HOUR, math.ceil(at) + left) is None:
        message = f"Rate limit: {ACTIONS_AN_HOUR} actions per hour for one repository. Try again in {left} s."
        raise TooManyRequests(message, code="rate_limited", retry_after=left)


async def find_owner_token(secret: str) -> OwnerToken | None:
    match = _TOKEN.fullmatch(secret.strip())
    return await find_stored_token(int(match[1]), sha256_of(secret)) if match else None


async def find_stored_token(repo_id: int, sha256: str) -> OwnerToken | None:
    """None also if it was revoked or has expired."""
    doc = await get_kv().get(_token_key(repo_id, sha256))
    token = None if doc is None else _OWNER_TOKEN.decode(doc)
    return token if token and token.is_valid(now()) else None


async def get_owner_tokens(owner: Owner) -> list[OwnerToken]:
    """All that have not expired, newest first."""
    at = now()
    rows = await query_all(get_kv(), _token_key(owner.repo_id, "").pk)
    tokens = [_OWNER_TOKEN.decode(row.text) for row in rows]
    alive = [token for token in tokens if at < token.expires_at]
    return sorted(alive, key=lambda token: token.created_at, reverse=True)


async def create_owner_token(owner: Owner, label: str) -> IssuedToken:
    """One more, for another machine or program."""
    name = label_of(label)
    own = [token for token in await get_owner_tokens(owner) if token.revoked_at is None and not token.is_session]
    if len(own) >= MAX_OWNER_TOKENS:
        raise Conflict(f"An owner has at most {MAX_OWNER_TOKENS} tokens. Revoke one first.", code="too_many_tokens")
    issued = new_token(owner, name)
    audit = audit_put(owner, "create owner token", f"{owner.repo} {issued.token.id}", name)
    await get_kv().transact(lambda: [token_put(issued.token), audit])
    return issued


async def revoke_owner_token(owner: Owner, token_id: str) -> OwnerToken:
    """Also ends the sessions that were opened with it."""
    token = next((one for one in await get_owner_tokens(owner) if one.id == token_id), None)
    if token is None:
        raise NotFound("There is no owner token with this id.", code="token_not_found")
    if token.revoked_at is not None:
        raise Conflict("This token is revoked already.", code="nothing_to_change")
    revoked = msgspec.structs.replace(token, revoked_at=now())
    audit = audit_put(owner, "revoke owner token", f"{owner.repo} {token.id}", token.label)
    await get_kv().transact(lambda: [_stored_put(revoked), audit])
    return revoked


def new_token(owner: Owner, label: str, is_session: bool = False) -> IssuedToken:
    at = now()
    secret = f"vso_{owner.repo_id}_{secrets.token_urlsafe(32)}"
    token = OwnerToken(
        sha256=sha256_of(secret),
        repo=owner.repo,
        repo_id=owner.repo_id,
        label=label,
        created_at=at,
        expires_at=at + (SESSION_TTL if is_session else OWNER_TOKEN_TTL),
        is_session=is_session,
    )
    return IssuedToken(secret, token)


def token_put(token: OwnerToken) -> Put:
    return Put(_token_key(token.repo_id, token.sha256), encode(token), _expiry(token), ABSENT)


def label_of(text: str) -> str:
    label = " ".join(text.split())
    if not label or len(label) > MAX_LABEL or not label.isprintable():
        raise InvalidRequest(f"A label has 1 to {MAX_LABEL} printable characters.", code="invalid_label")
    return label


# --- what belongs to an owner ---------------------------------------------------------------------------------------


def require_owner(owner: Owner, subject: Submission | Skill) -> None:
    if not owns(owner, subject):
        raise Forbidden(f"This does not belong to {owner.repo}.", code="not_the_owner")


_CHALLENGE = msgspec.json.Decoder(Challenge)
_OWNER_TOKEN = msgspec.json.Decoder(OwnerToken)


def _challenge_key(challenge_id: str) -> Key:
    return Key(f"owner-challenge:{sha256_of(challenge_id)}")


def _token_key(repo_id: int, sha256: str) -> Key:
    return Key(f"owner-tokens:{repo_id}", sha256)


def _stored_put(token: OwnerToken) -> Put:
    key = _token_key(token.repo_id, token.sha256)
    return Put(key, encode(token), _expiry(token), {"pk": key.pk})


def _expiry(token: OwnerToken) -> dict[str, str | int]:
    return {"expiresAt": int(token.expires_at.timestamp()) + 1}


def _is_still_it(found: GitHubRepo, challenge: Challenge) -> bool:
    """A name can lead to another repository within an hour; the id cannot."""
    return found.id == challenge.repo_id


def _no_challenge() -> Conflict:
    return Conflict(
        "There is no such challenge: it was met already, has expired, or never existed. Open a new one.",
        code="challenge_expired",
    )


def _not_proven(challenge: Challenge, repo: GitHubRepo, written: bytes | None) -> str:
    where = f"`{PROOF_PATH}` on the branch {repo.default_branch!r} of {challenge.repo}"
    if written is None:
        return f"There is no file {where} yet. Commit it with the word of the challenge as its only line."
    return f"The file {where} has another text. Its only line must be the word of the challenge."
