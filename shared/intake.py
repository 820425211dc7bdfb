"""Accepting a submission. The record is its own outbox: when the send fails, the answer is still yes, and the stuck
scan sends it."""

import asyncio
import hashlib
import hmac
from typing import NamedTuple

import msgspec

from shared.content import Files, content_hash_of
from shared.db import get_content, get_github, get_kv, get_queue, get_secrets, get_settings, now
from shared.documents import encode
from shared.errors import (
    BadGateway,
    ConditionFailed,
    Conflict,
    Deferred,
    Forbidden,
    LostLease,
    Refused,
    TooManyRequests,
    Unavailable,
    Unprocessable,
)
from shared.kv import ABSENT, Key, Put, query_all
from shared.search_words import look_alike
from shared.skill_source import (
    UPLOADS,
    Asked,
    Place,
    Repo,
    asked_by,
    find_folder,
    github_name,
    identity_path,
    parse_repo_url,
    parse_skill_path,
    parse_slug,
    read_bundle,
    tree_of,
)
from shared.stats import get_stats
from shared.submission_store import commit, create, find_by_identity, get_submission, get_submissions_fresh
from shared.submissions import (
    ACTIVE_STATES,
    CATEGORIES,
    PARKED_STATES,
    State,
    Submission,
    new_id,
    reopen,
    token_hash,
)
from shared.telemetry import logger
from shared.timing import IDEMPOTENCY_TTL, RESOLVE_BUDGET

NEWER_RULES = "the rules have changed since it was refused"


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
    # First the name, then the bytes: a stranger cannot fill the bucket under a name that is taken.
    existing, _ = await asyncio.gather(find_by_identity(UPLOADS, look_alike(slug)), _refuse_when_full())
    if existing is None:
        accepted = await _accept_bundle(slug, bundle, sent_by, idempotency)
        existing = None if accepted.flag is None else accepted.submission
    if existing is not None:
        accepted = await _resubmit_bundle(existing, bundle, upload_token)
    return await _with_upload_token(await _remembered(accepted, idempotency))


async def submit_repo(
    repo_url: str, skill_name: str | None, skill_path: str | None, sent_by: str | None, idempotency: Idempotency | None
) -> Accepted:
    repo = parse_repo_url(repo_url, get_settings().github_host)
    sent = _identity_as_sent(repo, skill_name, skill_path)
    if earlier := await _find_earlier(idempotency):
        return earlier
    await _refuse_when_full()
    skill = await _identity_on_github(repo, sent)
    draft = _draft(repo.source, skill.path, skill.skill_name, repo_url=repo.url, sent_by=sent_by, ref=skill.ref)
    accepted = await _accept(draft, idempotency)
    if accepted.flag is not None:
        accepted = await _resubmit_repo(accepted.submission, repo)
    return await _remembered(accepted, idempotency)


async def discover(repo_url: str) -> tuple[list[dict[str, str | None]], bool]:
    """Every skill of a repository with what became of it here, and whether there are more than could be listed."""
    repo = parse_repo_url(repo_url, get_settings().github_host)
    try:
        found = await get_github().get_repo(repo.owner, repo.name)
        pinned = await get_github().resolve_ref(found, repo.tree)
        get_github().give_way()
        listed = await get_github().discover(found, pinned.commit)
    except Refused as refusal:
        raise Unprocessable(str(refusal), refusal.code) from refusal
    except Deferred as deferred:
        raise BadGateway(str(deferred), deferred.code) from deferred
    known = await _submitted_from(repo.source)
    skills: list[dict[str, str | None]] = []
    for skill in listed.skills:
        here = known.get(identity_path(skill.path, pinned.ref))
        status = {"status": here.state, "submissionId": here.id} if here else {"status": "new"}
        skills.append({"name": skill.name, "path": skill.path, **status})
    return skills, listed.truncated


async def send_or_leave_to_scan(submission: Submission) -> None:
    try:
        await get_queue().send(submission.id, turn=submission.turn)
    except Unavailable:
        logger.exception("send failed, left to the stuck scan", extra={"submission": submission.id})


class _Identity(NamedTuple):
    """What a skill of a repository is known by, as far as it can be told."""

    path: str
    skill_name: str
    ref: str | None = None


def _identity_as_sent(repo: Repo, skill_name: str | None, skill_path: str | None) -> _Identity:
    """The slug is the folder of SKILL.md, the repository's name at its root."""
    path = parse_skill_path(skill_path) if skill_path else None
    if repo.tree is None and path:
        return _Identity(path, _name(repo, repo.name if path == "." else path.rpartition("/")[2]))
    if skill_name and not path:
        return _Identity(Asked(repo.tree, parse_slug(skill_name)).path, _name(repo, skill_name))
    if repo.tree is None:
        return _Identity(Asked().path, _name(repo, repo.name))
    tree = repo.tree if path in (None, ".") else f"{repo.tree}/{path}"
    return _Identity(Asked(tree).path, _name(repo, tree.rpartition("/")[2] if "/" in tree else repo.name))


def _name(repo: Repo, folder: str) -> str:
    return f"{repo.owner}/{repo.name}/{parse_slug(folder.lower())}"


async def _identity_on_github(repo: Repo, sent: _Identity) -> _Identity:
    """Asked for five seconds; when GitHub is silent, the skill is accepted as it was named and its worker asks."""
    asked = asked_by(sent.path)
    if asked is None:
        return sent
    try:
        async with asyncio.timeout(RESOLVE_BUDGET.total_seconds()):
            found = await get_github().get_repo(repo.owner, repo.name)
            pinned = await get_github().resolve_ref(found, asked.tree)
            get_github().give_way()
            path = await find_folder(Place(found, pinned), asked.name)
    except Refused as refusal:
        raise Unprocessable(str(refusal), refusal.code) from refusal
    except (Deferred, TimeoutError):
        return sent
    return _Identity(identity_path(path, pinned.ref), github_name(found, path, pinned.ref), pinned.ref)


async def _resubmit_repo(existing: Submission, repo: Repo) -> Accepted:
    """The same commit is the same content. When GitHub is silent, nothing is known to have changed."""
    if existing.state in ACTIVE_STATES or not _may_reopen(existing):
        return Accepted(existing, _flag_of(existing))
    commit_now = await _head(repo, existing)
    is_new = commit_now not in (None, existing.commit)
    if not is_new and not _has_newer_rules(existing):
        return Accepted(existing, _flag_of(existing))
    try:
        return await _reopened(existing, "a new commit was submitted" if is_new else NEWER_RULES)
    except LostLease:  # it moved meanwhile: what it is now decides
        return await _resubmit_repo(await get_submission(existing.id), repo)


async def _head(repo: Repo, existing: Submission) -> str | None:
    try:
        async with asyncio.timeout(RESOLVE_BUDGET.total_seconds()):
            found = await get_github().get_repo(repo.owner, repo.name)
            return (await get_github().resolve_ref(found, tree_of(existing))).commit
    except (Refused, Deferred, TimeoutError) as silent:
        logger.info("head not known", extra={"submission": existing.id, "problem": str(silent)})
        return None


def _has_newer_rules(existing: Submission) -> bool:
    """Whether what was refused was refused under other rules than those of today."""
    if existing.state not in (State.REJECTED, State.TIER1_FAILED):
        return False
    from shared.scanner import RULE_SET_VERSION  # here: it loads the matcher, which nothing else in an API needs

    return existing.rule_set is not None and existing.rule_set != RULE_SET_VERSION


async def _submitted_from(source: str) -> dict[str, Submission]:
    rows = await query_all(get_kv(), f"unique:{source}")
    ids = {row.sort: msgspec.json.decode(row.text)["id"] for row in rows}
    fresh = await get_submissions_fresh(ids.values())
    by_id = {submission.id: submission for submission in fresh.submissions}
    return {path: by_id[submission_id] for path, submission_id in ids.items() if submission_id in by_id}


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


async def _accept_bundle(slug: str, bundle: Files, sent_by: str | None, idempotency: Idempotency | None) -> Accepted:
    content_hash = await get_content().put_files(bundle)
    draft = _draft(UPLOADS, look_alike(slug), f"{UPLOADS}/{slug}", content_hash=content_hash, sent_by=sent_by)
    token = await _upload_token(draft.id)
    return await _accept(msgspec.structs.replace(draft, upload_token_hash=token_hash(token)), idempotency)


async def _resubmit_bundle(existing: Submission, bundle: Files, upload_token: str | None) -> Accepted:
    content_hash = content_hash_of(bundle)
    is_new = content_hash != existing.content_hash
    if not is_new and not _has_newer_rules(existing):
        return Accepted(existing, _flag_of(existing))
    if is_new and (upload_token is None or not _owns(existing, upload_token)):
        raise Conflict(
            f"The name {existing.skill_name!r}, or one that looks like it, is taken by another upload."
            " Choose another name, or send the `uploadToken` that its first submission was answered with.",
            code="name_taken",
        )
    if not _may_reopen(existing):
        return Accepted(existing, _flag_of(existing))
    await get_content().put_files(bundle)
    reason = "new content was submitted" if is_new else NEWER_RULES
    try:
        return await _reopened(existing, reason, content_hash=content_hash)
    except LostLease:  # it moved meanwhile: what it is now decides
        return await _resubmit_bundle(await get_submission(existing.id), bundle, upload_token)


async def _reopened(existing: Submission, reason: str, **set_: str) -> Accepted:
    reopened = await commit(lambda at: reopen(existing, "system", at, reason, **set_))
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
