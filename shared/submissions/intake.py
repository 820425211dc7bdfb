"""Accepting a submission. The record is its own outbox: when the send fails, the submission is still accepted, and
the stuck scan sends it."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from shared.access.idempotency import (
    Idempotency,
    StoredOutcome,
    find_stored_response,
    part_of,
    response_put,
    store_outcomes,
    take_key,
)
from shared.db import get_github, get_kv, get_queue, get_settings, now
from shared.errors import (
    ConditionFailed,
    LostLease,
    RequestError,
    ShareUsedUp,
    Unavailable,
)
from shared.records.search_words import look_alike
from shared.records.submissions import (
    ACTIVE_STATES,
    State,
    Submission,
    new_id,
    reopen,
    token_hash,
)
from shared.storage.content import Files, content_hash_of
from shared.submissions.admission import (
    QUEUE_FULL,
    Sender,
    count_skills,
    flag_of,
    get_room,
    has_newer_rules,
    may_claim,
    may_reopen,
    queue_is_full,
    refuse_when_full,
    sender_of,
)
from shared.submissions.discovery import (
    Identity,
    PageCheck,
    RepoLookup,
    check_pages,
    find_head,
    identity_as_sent,
    identity_on_github,
    start_lookup,
)
from shared.submissions.skill_source import (
    UPLOADS,
    parse_repo_url,
    parse_slug,
    read_bundle,
    refuse_uploads_where_off,
    store_upload,
)
from shared.submissions.submission_store import commit, create, find_by_identity, get_submission, get_submissions_fresh
from shared.submissions.upload_tokens import (
    is_abandoned,
    is_current_token,
    next_upload_token,
    require_upload_token,
    upload_token_of,
    was_cancelled_by_uploader,
)
from shared.telemetry import logger

SUBMITS_IN_FLIGHT = 5
LONGEST_MESSAGE = 1000
CLAIMED = "claimed anew: never published, and unchanged for 7 days"
AFTER_CANCEL = "submitted again after it was cancelled"
NEW_CONTENT = "new content was submitted"
NEWER_RULES = "the rules have changed since it was refused"


class Accepted(NamedTuple):
    submission: Submission
    flag: str | None = None  # None: new; else duplicate | alreadyVerified | requeued | blocked
    upload_token: str | None = None
    warnings: tuple[str, ...] = ()  # of the front matter of what was sent, where it was read


class NotAccepted(NamedTuple):
    """One of several skills, and why there is no submission of it."""

    code: str
    message: str


class RequestedSkill(NamedTuple):
    name: str | None
    path: str | None


async def submit_bundle(
    name: str,
    files: Sequence[tuple[str, str | bytes]],
    upload_token: str | None,
    sent_by: str | None,
    idempotency: Idempotency | None,
    ip: str | None = None,
) -> Accepted:
    refuse_uploads_where_off()
    slug = parse_slug(name)
    bundle = read_bundle(files)
    if earlier := await _find_earlier(idempotency):
        return await _with_upload_token(earlier)
    sender = await sender_of(sent_by, ip)
    # First the name, then the bytes: a stranger cannot fill the bucket under a name that is taken.
    existing, _ = await asyncio.gather(find_by_identity(UPLOADS, look_alike(slug)), refuse_when_full(sender))
    await count_skills(sender, 1)
    if existing is None:
        accepted = await _accept_bundle(slug, bundle, sender, idempotency)
        existing = None if accepted.flag is None else accepted.submission
    if existing is not None:
        accepted = await _resubmit_bundle(existing, bundle, upload_token, sender)
    return await _with_upload_token(await _remembered(accepted, idempotency))


async def submit_repo(
    repo_url: str,
    skill_name: str | None,
    skill_path: str | None,
    sent_by: str | None,
    idempotency: Idempotency | None,
    ip: str | None = None,
) -> Accepted:
    repo = parse_repo_url(repo_url, get_settings().github_host)
    sent = identity_as_sent(repo, skill_name, skill_path)
    if earlier := await _find_earlier(idempotency):
        return earlier
    sender = await sender_of(sent_by, ip)
    await refuse_when_full(sender)
    await count_skills(sender, 1)
    async with get_github().with_request_cache() as github:
        lookup = start_lookup(repo, github)
        named = await identity_on_github(lookup, sent)
        page = (await check_pages(lookup, [named])).get(named.path, PageCheck())
        return await _accept_skill(lookup, named, page, sender, idempotency)


async def submit_several(
    repo_url: str,
    skills: Sequence[RequestedSkill],
    sent_by: str | None,
    idempotency: Idempotency | None,
    ip: str | None = None,
) -> list[Accepted | NotAccepted]:
    """Each is independent: one that cannot be accepted has its error among the results. What they share is checked
    once, and GitHub has as much time for all of them as for one."""
    repo = parse_repo_url(repo_url, get_settings().github_host)
    earlier = await find_stored_response(idempotency) if idempotency else None
    if earlier and earlier.outcomes is not None:
        return await _replayed(earlier.outcomes)
    sender = await sender_of(sent_by, ip)
    # A retry gets what was accepted before, and was counted then.
    room = await (get_room(sender) if earlier else refuse_when_full(sender))
    if earlier is None:
        await count_skills(sender, len(skills))
    reserved = await take_key(idempotency) if idempotency else None
    if reserved and reserved.outcomes is not None:
        return await _replayed(reserved.outcomes)
    parts = [part_of(idempotency, reserved, n) if idempotency and reserved else None for n in range(len(skills))]
    async with get_github().with_request_cache() as github:
        in_flight = asyncio.Semaphore(SUBMITS_IN_FLIGHT)
        several = _Several(start_lookup(repo, github), sender, in_flight, iter(range(room.left)))
        is_resumed = reserved is not None and not reserved.is_first
        looks = [several.identify(skill, parts[n], is_resumed) for n, skill in enumerate(skills)]
        named = await asyncio.gather(*looks, return_exceptions=True)
        pages = await check_pages(several.lookup, [one for one in named if isinstance(one, Identity)])
        jobs = [several.accept(one, pages, parts[n]) for n, one in enumerate(named)]
        results = _without_faults(await asyncio.gather(*jobs, return_exceptions=True))
    if idempotency is None or reserved is None or any(map(_is_retried, results)):
        return results
    ours = list(map(_outcome_of, results))
    outcomes = await store_outcomes(idempotency, reserved, ours)
    return results if outcomes is ours else await _replayed(outcomes)


async def send_or_leave_to_scan(submission: Submission) -> Submission:
    """The record is its own outbox: what cannot be sent now, the stuck scan sends."""
    try:
        await get_queue().send(submission.id, generation=submission.generation)
    except Unavailable:
        logger.exception("send failed, left to the stuck scan", extra={"submission": submission.id})
    return submission


class _Several(NamedTuple):
    """One request for several skills."""

    lookup: RepoLookup
    sender: Sender
    in_flight: asyncio.Semaphore  # limits how many requests reach the store at once
    places: Iterator[int]  # left in the queue; a skill accepted before has one already

    async def identify(self, skill: RequestedSkill, part: Idempotency | None, is_resumed: bool) -> Identity | Accepted:
        """Accepted: by an earlier request with this key."""
        sent = identity_as_sent(self.lookup.repo, skill.name, skill.path)
        if is_resumed and (earlier := await _find_earlier(part)):
            return earlier
        if next(self.places, None) is None:
            raise queue_is_full()
        return await identity_on_github(self.lookup, sent)

    async def accept(
        self, named: Identity | Accepted | BaseException, pages: Mapping[str, PageCheck], part: Idempotency | None
    ) -> Accepted:
        if isinstance(named, BaseException):
            raise named
        if isinstance(named, Accepted):
            return named
        async with self.in_flight:
            return await _accept_skill(self.lookup, named, pages.get(named.path, PageCheck()), self.sender, part)


def _without_faults(results: Sequence[Accepted | BaseException]) -> list[Accepted | NotAccepted]:
    """A fault fails the whole request: a retry resumes where this one stopped."""
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, RequestError):
            raise result
    return [_result_of(result) for result in results]


def _result_of(result: Accepted | BaseException) -> Accepted | NotAccepted:
    if isinstance(result, RequestError):
        return NotAccepted(result.code, _cut(str(result)))
    assert isinstance(result, Accepted)  # faults were raised before
    return result


def _cut(message: str) -> str:
    """Fifty of them must fit one record, and a message may list paths as long as GitHub takes them."""
    return message if len(message) <= LONGEST_MESSAGE else f"{message[: LONGEST_MESSAGE - 1]}…"


def _is_retried(result: Accepted | NotAccepted) -> bool:
    """A client that is asked to retry in a few minutes does so with the same key, so this result is not remembered."""
    return isinstance(result, NotAccepted) and result.code in (QUEUE_FULL, ShareUsedUp.code)


def _outcome_of(result: Accepted | NotAccepted) -> StoredOutcome:
    if isinstance(result, NotAccepted):
        return StoredOutcome(code=result.code, message=result.message)
    return StoredOutcome(id=result.submission.id, flag=result.flag)


async def _replayed(outcomes: Sequence[StoredOutcome]) -> list[Accepted | NotAccepted]:
    fresh = await get_submissions_fresh({outcome.id for outcome in outcomes if outcome.id})
    if fresh.failed:
        raise Unavailable("Not every submission of this request could be read.")
    by_id = {submission.id: submission for submission in fresh.submissions}
    return [
        Accepted(by_id[outcome.id], outcome.flag) if outcome.id else NotAccepted(outcome.code, outcome.message)
        for outcome in outcomes
    ]


async def _accept_skill(
    lookup: RepoLookup, skill: Identity, page: PageCheck, sender: Sender, idempotency: Idempotency | None
) -> Accepted:
    """What no worker, reviewer or judge could accept is refused at once, as for an upload."""
    if page.problem:
        raise page.problem
    repo = lookup.repo
    draft = _draft(sender, repo.source, skill.path, skill.skill_name, repo_url=repo.url, ref=skill.ref)
    accepted = await _accept(draft, idempotency)
    if accepted.flag is not None:
        accepted = await _resubmit_repo(accepted.submission, lookup, sender)
    return (await _remembered(accepted, idempotency))._replace(warnings=page.warnings)


async def _resubmit_repo(existing: Submission, lookup: RepoLookup, sender: Sender) -> Accepted:
    """The same commit is the same content. When GitHub does not respond, nothing is known to have changed."""
    if existing.state in ACTIVE_STATES or not may_reopen(existing):
        return Accepted(existing, flag_of(existing))
    commit_now = await find_head(lookup, existing)
    is_new = commit_now not in (None, existing.commit)
    if not is_new and not has_newer_rules(existing):
        return Accepted(existing, flag_of(existing))
    try:
        return await _reopened(existing, sender, "a new commit was submitted" if is_new else NEWER_RULES)
    except LostLease:  # it moved meanwhile: what it is now decides
        return await _resubmit_repo(await get_submission(existing.id), lookup, sender)


def _draft(sender: Sender, source: str, path: str, skill_name: str, **more: str | None) -> Submission:
    at = now()
    return Submission(
        id=new_id(at),
        source=source,
        skill_path=path,
        skill_name=skill_name,
        state=State.RECEIVED,
        created_at=at,
        updated_at=at,
        sent_by=sender.client,
        held_by=sender.holder,
        run=1,
        **more,  # type: ignore[arg-type]  # all of them are optional texts
    )


async def _accept(draft: Submission, idempotency: Idempotency | None) -> Accepted:
    try:
        stored = await create(draft, [response_put(idempotency, draft.id)] if idempotency else [])
    except ConditionFailed:
        # Two requests with one key at one instant: the other one won, so its result is returned.
        if not (earlier := await _find_earlier(idempotency)):
            raise
        return earlier
    if stored.id != draft.id:
        return Accepted(stored, flag_of(stored))
    await send_or_leave_to_scan(stored)
    logger.info("submission accepted", extra={"submission": stored.id, "skill": stored.skill_name})
    return Accepted(stored)


async def _find_earlier(idempotency: Idempotency | None) -> Accepted | None:
    earlier = await find_stored_response(idempotency) if idempotency else None
    return Accepted(await get_submission(earlier.id), earlier.flag) if earlier and earlier.id else None


async def _remembered(accepted: Accepted, idempotency: Idempotency | None) -> Accepted:
    """A repeated request gets the same response for a day. A new submission was remembered when it was created."""
    if idempotency is None or accepted.flag is None:
        return accepted
    try:
        await get_kv().put(response_put(idempotency, accepted.submission.id, accepted.flag))
    except ConditionFailed:  # the parallel request with the same key was faster
        return await _find_earlier(idempotency) or accepted
    return accepted


async def _with_upload_token(accepted: Accepted) -> Accepted:
    if accepted.flag is not None:
        return accepted
    token = await upload_token_of(accepted.submission.id)
    return accepted._replace(upload_token=token if is_current_token(accepted.submission, token) else None)


async def _accept_bundle(slug: str, bundle: Files, sender: Sender, idempotency: Idempotency | None) -> Accepted:
    skill_name = f"{UPLOADS}/{slug}"
    content_hash = await store_upload(skill_name, bundle)
    draft = _draft(sender, UPLOADS, look_alike(slug), skill_name, content_hash=content_hash)
    token = await upload_token_of(draft.id)
    return await _accept(msgspec.structs.replace(draft, upload_token_hash=token_hash(token)), idempotency)


async def _resubmit_bundle(existing: Submission, bundle: Files, upload_token: str | None, sender: Sender) -> Accepted:
    content_hash = content_hash_of(bundle)
    is_new = content_hash != existing.content_hash
    is_cancelled = upload_token is not None and await was_cancelled_by_uploader(existing)
    if not is_new and not is_cancelled and not has_newer_rules(existing):
        return Accepted(existing, flag_of(existing))
    is_claim = is_new and upload_token is None and is_abandoned(existing, now()) and may_claim(existing)
    if (is_new or is_cancelled) and not is_claim:
        require_upload_token(existing, upload_token)
    if not is_claim and not is_cancelled and not may_reopen(existing):
        return Accepted(existing, flag_of(existing))
    await store_upload(existing.skill_name, bundle)
    token, set_ = await next_upload_token(existing) if is_claim else (None, {})
    reason = CLAIMED if is_claim else AFTER_CANCEL if is_cancelled else NEW_CONTENT if is_new else NEWER_RULES
    try:
        reopened = await _reopened(existing, sender, reason, content_hash=content_hash, **set_)
    except LostLease:  # it moved meanwhile: what it is now decides
        return await _resubmit_bundle(await get_submission(existing.id), bundle, upload_token, sender)
    return reopened._replace(upload_token=token)


async def _reopened(existing: Submission, sender: Sender, reason: str, **set_: str | int) -> Accepted:
    """It counts against the share of the caller who sent it now, not of the first sender."""
    reopened = await commit(lambda at: reopen(existing, "system", at, reason, held_by=sender.holder, **set_))
    await send_or_leave_to_scan(reopened)
    return Accepted(reopened, "requeued")
