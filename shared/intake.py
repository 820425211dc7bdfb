"""Accepting a submission. The record is its own outbox: when the send fails, the answer is still yes, and the stuck
scan sends it."""

import hashlib
import hmac
from typing import NamedTuple

import msgspec

from shared.db import get_content, get_kv, get_queue, get_secrets, get_settings, now
from shared.documents import encode
from shared.errors import ConditionFailed, Conflict, Forbidden, LostLease, TooManyRequests, Unavailable, Unprocessable
from shared.kv import ABSENT, Key, Put
from shared.skill_source import UPLOADS, Repo, look_alike, parse_repo_url, parse_skill_path, parse_slug, read_bundle
from shared.stats import get_stats
from shared.submission_store import commit, create, get_submission
from shared.submissions import CATEGORIES, PARKED_STATES, State, Submission, new_id, reopen, token_hash
from shared.telemetry import logger
from shared.timing import IDEMPOTENCY_TTL


class Accepted(NamedTuple):
    submission: Submission
    flag: str | None = None  # None: new; else duplicate | alreadyVerified | requeued | blocked
    upload_token: str | None = None


class Idempotency(NamedTuple):
    """A client's own key for one request, and what the request said."""

    key: str
    body_hash: str

    @property
    def record_key(self) -> Key:
        return Key(f"idem:{self.key}")


async def submit_bundle(
    name: str,
    files: list[tuple[str, str]],
    upload_token: str | None,
    sent_by: str | None,
    idempotency: Idempotency | None,
) -> Accepted:
    if not get_settings().allow_uploads:
        raise Forbidden("This platform takes skills from GitHub only. Send `repoUrl` instead.", code="uploads_off")
    slug = parse_slug(name)
    bundle = read_bundle(files)
    if earlier := await _find_earlier(idempotency):
        return await _with_upload_token(earlier)
    await _refuse_when_full()
    content_hash = await get_content().put_files(bundle)
    draft = _draft(UPLOADS, look_alike(slug), f"{UPLOADS}/{slug}", content_hash=content_hash, sent_by=sent_by)
    token = await _upload_token(draft.id)
    draft = msgspec.structs.replace(draft, upload_token_hash=token_hash(token))
    accepted = await _accept(draft, idempotency)
    if accepted.flag is not None:
        accepted = await _resubmit_bundle(accepted.submission, content_hash, upload_token)
    return await _with_upload_token(await _remembered(accepted, idempotency))


async def submit_repo(
    repo_url: str, skill_name: str | None, skill_path: str | None, sent_by: str | None, idempotency: Idempotency | None
) -> Accepted:
    repo = parse_repo_url(repo_url)
    path, slug = _path_and_slug(repo, skill_name, skill_path)
    if earlier := await _find_earlier(idempotency):
        return earlier
    await _refuse_when_full()
    draft = _draft(repo.source, path, f"{repo.owner}/{repo.name}/{slug}", repo_url=repo.url, sent_by=sent_by)
    return await _remembered(await _accept(draft, idempotency), idempotency)


async def send_or_leave_to_scan(submission: Submission) -> None:
    try:
        await get_queue().send(submission.id)
    except Unavailable:
        logger.exception("send failed, left to the stuck scan", extra={"submission": submission.id})


def _path_and_slug(repo: Repo, skill_name: str | None, skill_path: str | None) -> tuple[str, str]:
    """The slug is the folder of SKILL.md, the repository's name at its root. What only GitHub can resolve to a path
    starts with a slash, as no path does."""
    if skill_path:
        path = parse_skill_path(skill_path)
        return path, parse_slug((repo.name if path == "." else path.rpartition("/")[2]).lower())
    if skill_name:
        return f"/name/{skill_name}", parse_slug(skill_name)
    if repo.tree:
        folder = repo.tree.rpartition("/")[2] if "/" in repo.tree else repo.name
        return f"/tree/{repo.tree}", parse_slug(folder.lower())
    return ".", parse_slug(repo.name.lower())


def _draft(source: str, path: str, skill_name: str, **more: str | None) -> Submission:
    at = now()
    return Submission(
        id=new_id(at),
        source=source,
        skill_path=path,
        skill_name=skill_name,
        state=State.RECEIVED,
        created_at=at,
        updated_at=at,
        **more,  # type: ignore[arg-type]  # all of them are optional texts
    )


async def _refuse_when_full() -> None:
    stats = await get_stats()
    if stats.active is None:
        raise Unavailable("The store does not answer, so nothing can be accepted safely.")
    if stats.active >= get_settings().max_active:
        raise TooManyRequests(
            "The queue is full at the moment. Please submit again in a few minutes.", code="queue_full", retry_after=300
        )


async def _accept(draft: Submission, idempotency: Idempotency | None) -> Accepted:
    try:
        stored = await create(draft, _idempotency_writes(idempotency, draft.id))
    except ConditionFailed:
        # Two requests with one key at one instant: the other one won, so its answer is ours.
        if not (earlier := await _find_earlier(idempotency)):
            raise
        return earlier
    if stored.id != draft.id:
        return Accepted(stored, _flag_of(stored))
    await send_or_leave_to_scan(stored)
    logger.info("submission accepted", extra={"submission": stored.id, "skill": stored.skill_name})
    return Accepted(stored)


async def _find_earlier(idempotency: Idempotency | None) -> Accepted | None:
    doc = await get_kv().get(idempotency.record_key) if idempotency else None
    if idempotency is None or doc is None:
        return None
    earlier = msgspec.json.decode(doc)
    if earlier["bodyHash"] != idempotency.body_hash:
        raise Unprocessable(
            "This Idempotency-Key was used for another request. Use a new key for a new request.",
            code="idempotency_key_reused",
        )
    return Accepted(await get_submission(earlier["id"]), earlier.get("flag"))


async def _remembered(accepted: Accepted, idempotency: Idempotency | None) -> Accepted:
    """The same request is answered the same for a day. A new submission was remembered when it was created."""
    if idempotency is None or accepted.flag is None:
        return accepted
    try:
        for put in _idempotency_writes(idempotency, accepted.submission.id, accepted.flag):
            await get_kv().put(put)
    except ConditionFailed:  # its twin was faster
        return await _find_earlier(idempotency) or accepted
    return accepted


async def _with_upload_token(accepted: Accepted) -> Accepted:
    if accepted.flag is not None:
        return accepted
    return accepted._replace(upload_token=await _upload_token(accepted.submission.id))


def _idempotency_writes(idempotency: Idempotency | None, submission_id: str, flag: str | None = None) -> list[Put]:
    if idempotency is None:
        return []
    expires_at = int((now() + IDEMPOTENCY_TTL).timestamp())
    doc = encode({"id": submission_id, "bodyHash": idempotency.body_hash, "flag": flag})
    return [Put(idempotency.record_key, doc, {"expiresAt": expires_at}, ABSENT)]


def _flag_of(existing: Submission) -> str:
    if existing.state == State.BLOCKED:
        return "blocked"
    return "alreadyVerified" if existing.state in CATEGORIES["published"] else "duplicate"


async def _resubmit_bundle(existing: Submission, content_hash: str, upload_token: str | None) -> Accepted:
    if existing.content_hash == content_hash:
        return Accepted(existing, _flag_of(existing))
    if upload_token is None or not _owns(existing, upload_token):
        raise Conflict(
            f"The name {existing.skill_name!r}, or one that looks like it, is taken by another upload."
            " Choose another name, or send the `uploadToken` that its first submission was answered with.",
            code="name_taken",
        )
    if not _may_reopen(existing):
        return Accepted(existing, _flag_of(existing))
    try:
        reopened = await commit(
            lambda at: reopen(existing, "system", at, "new content was submitted", content_hash=content_hash)
        )
    except LostLease:  # it moved meanwhile: what it is now decides
        return await _resubmit_bundle(await get_submission(existing.id), content_hash, upload_token)
    await send_or_leave_to_scan(reopened)
    return Accepted(reopened, "requeued")


def _may_reopen(existing: Submission) -> bool:
    """Whether changed content alone may reopen it, or only a person."""
    if existing.state in PARKED_STATES:
        return existing.parked_by in ("rule", "judge")
    return existing.state in (*CATEGORIES["published"], State.REJECTED, State.TIER1_FAILED)


def _owns(existing: Submission, upload_token: str) -> bool:
    return hmac.compare_digest(token_hash(upload_token), existing.upload_token_hash or "")


async def _upload_token(submission_id: str) -> str:
    """Derived, not stored: a replay of the first request can repeat it, nothing else can."""
    key = (await get_secrets().get()).signing_key
    return hmac.new(key.encode(), f"upload\n{submission_id}".encode(), hashlib.sha256).hexdigest()
