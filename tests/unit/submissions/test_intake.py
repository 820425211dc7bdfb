"""Accepting a submission: one identity, one record, one answer."""

import asyncio
import dataclasses

import pytest

from shared.errors import Conflict, Forbidden, InvalidRequest, TooManyRequests, Unavailable, Unprocessable
from shared.evidence.blocklist import add_block, entry_for, remove_block
from shared.records.submissions import CATEGORIES, PARKED_STATES, State
from shared.storage.content import content_hash_of
from shared.submissions import intake
from shared.submissions.submission_store import claim_submission, get_submission, move_submission
from tests.support.builders import WHILE, a_bundle, an_unusable_bundle, processed
from tests.support.invariants import check_invariants
from tests.support.memory import MemoryKV, memory_env, within

REPO = "https://github.com/owner/repo"
KEY = "k" * 16


def submit(env, bundle=None, token=None, idempotency=None):
    bundle = bundle or a_bundle()
    return within(env, lambda: intake.submit_bundle(bundle["name"], bundle["files"], token, "cli", idempotency))


def submit_repo(env, url=REPO, name=None, path=None, idempotency=None):
    return within(env, lambda: intake.submit_repo(url, name, path, None, idempotency))


def changed(name="greeter"):
    return a_bundle(name, "Greets people by name, twice.")


async def in_state(env, submission, state, parked_by=None):
    """Brings a fresh submission where it is wanted, by legal moves."""

    async def go():
        at = submission
        if state in (State.TIER1_FAILED, State.RESCAN_REQUIRED, State.TIER2_SCANNING, State.AUTO_APPROVED):
            at = await claim_submission(at, "w", WHILE)
        if state is State.RESCAN_REQUIRED:
            at = await move_submission(at, State.AUTO_APPROVED, "worker")
        return await move_submission(at, state, "admin:ann", "a reason", parked_by=parked_by)

    if state is State.PUBLISHED:
        await processed(env, submission)
        return await within(env, lambda: get_submission(submission.id))
    return await within(env, go)


async def test_a_new_bundle_is_recorded_stored_and_sent(env):
    accepted = await submit(env)
    submission = accepted.submission
    assert accepted.flag is None
    assert (submission.state, submission.skill_name) == (State.RECEIVED, "uploads/anonymous/greeter")
    assert await env.content.get_files(submission.content_hash)
    assert [sent for sent, _ in env.queue.sent] == [submission.id]
    check_invariants(env.kv)


async def test_20_parallel_submits_of_one_skill_are_1_record_and_20_equal_ids(env):
    barrier = asyncio.Barrier(20)

    async def one():
        await barrier.wait()
        return await submit(env)

    answers = await asyncio.gather(*(one() for _ in range(20)))
    assert len({answer.submission.id for answer in answers}) == 1
    assert [answer.flag for answer in answers].count(None) == 1
    assert len(await env.kv.ids("sub:")) == 1
    assert len(env.queue.sent) == 1
    check_invariants(env.kv)


async def test_20_parallel_submits_of_one_repository_written_differently_are_1_record(env):
    urls = [REPO, REPO.upper(), REPO + ".git", REPO + "/", "www.github.com/Owner/Repo"] * 4
    answers = await asyncio.gather(*(submit_repo(env, url) for url in urls))
    assert len({answer.submission.id for answer in answers}) == 1
    assert [answer.flag for answer in answers].count(None) == 1


@pytest.mark.requirement("S11")
async def test_an_upload_that_looks_like_another_is_taken_for_it(env):
    first = await submit(env, a_bundle("pdf-tool"))
    assert (await submit(env, a_bundle("pdf-tool"))).submission.id == first.submission.id
    with pytest.raises(Conflict) as taken:
        await submit(env, a_bundle("pdf_t00l"))
    assert taken.value.code == "name_taken"


@pytest.mark.parametrize(
    ("state", "flag"),
    [
        (State.RECEIVED, "duplicate"),
        (State.TIER2_SCANNING, "duplicate"),
        (State.PUBLISHED, "alreadyVerified"),
        (State.REJECTED, "duplicate"),
        (State.TIER1_FAILED, "duplicate"),
        (State.DEQUEUED, "duplicate"),
        (State.ON_HOLD, "duplicate"),
        (State.RESCAN_REQUIRED, "duplicate"),
        (State.BLOCKED, "blocked"),
    ],
)
@pytest.mark.parametrize("with_token", [True, False])
async def test_the_same_content_again_changes_nothing_and_says_where_it_stands(env, state, flag, with_token):
    first = await submit(env)
    if state is not State.RECEIVED:
        await in_state(env, first.submission, state)
    before = await within(env, lambda: get_submission(first.submission.id))
    again = await submit(env, token=first.upload_token if with_token else None)
    assert (again.flag, again.submission, again.upload_token) == (flag, before, None)
    assert len(env.queue.sent) == 1


REOPENED_BY_CONTENT = [
    (State.PUBLISHED, None),
    (State.REJECTED, None),
    (State.TIER1_FAILED, None),
    *((state, by) for state in sorted(PARKED_STATES) for by in ("rule", "judge")),
]
LEFT_TO_A_PERSON = [
    (State.DEQUEUED, None),
    *((state, by) for state in sorted(PARKED_STATES) for by in ("blocklist", "person", "source")),
]


@pytest.mark.parametrize(("state", "parked_by"), REOPENED_BY_CONTENT)
async def test_new_content_of_its_owner_is_queued_again(env, state, parked_by):
    first = await submit(env)
    stood = await in_state(env, first.submission, state, parked_by)
    again = await submit(env, changed(), token=first.upload_token)
    assert (again.flag, again.submission.id, again.submission.state) == ("requeued", stood.id, State.RECEIVED)
    assert (again.submission.attempts, again.submission.content_hash != stood.content_hash) == (0, True)
    assert again.upload_token is None
    assert len(env.queue.sent) == 2
    check_invariants(env.kv)


@pytest.mark.parametrize(("state", "parked_by"), LEFT_TO_A_PERSON)
async def test_new_content_does_not_reopen_what_a_person_must_decide(env, state, parked_by):
    first = await submit(env)
    stood = await in_state(env, first.submission, state, parked_by)
    again = await submit(env, changed(), token=first.upload_token)
    assert again.flag == ("blocked" if state is State.BLOCKED else "duplicate")
    assert again.submission == stood
    assert len(env.queue.sent) == 1


@pytest.mark.parametrize("state", [State.RECEIVED, State.PUBLISHED, State.REJECTED, State.BLOCKED])
@pytest.mark.parametrize(
    ("token", "code"), [(None, "name_taken"), ("", "name_taken"), ("0" * 64, "wrong_upload_token")]
)
async def test_new_content_without_the_owners_token_is_refused(env, state, token, code):
    first = await submit(env)
    if state is not State.RECEIVED:
        await in_state(env, first.submission, state)
    with pytest.raises((Conflict, Forbidden)) as taken:
        await submit(env, changed(), token=token)
    assert taken.value.code == code


async def test_a_stranger_cannot_fill_the_bucket_under_a_name_that_is_taken(env):
    await submit(env)
    stored = dict(env.content.files)
    for n in range(3):
        with pytest.raises(Forbidden):
            await submit(env, a_bundle(description=f"Something else, {n}."), token="0" * 64)
    assert env.content.files == stored


@pytest.mark.requirement("S37")
@pytest.mark.parametrize("is_again", [False, True], ids=["a new upload", "new content of a known one"])
@pytest.mark.parametrize("about", ["name", "content"])
async def test_an_upload_that_the_blocklist_names_is_neither_accepted_nor_stored(env, about, is_again):
    token = None
    if is_again:
        first = await submit(env)
        await processed(env, first.submission)
        token = first.upload_token
    banned = {path: text.encode() for path, text in changed()["files"]}
    scope = {"content_hash": content_hash_of(banned)} if about == "content" else {}
    name = "uploads/anonymous/greeter"
    entry = await within(env, lambda: add_block(entry_for(name, "It steals keys.", None, **scope)))
    before = dict(env.kv.items), dict(env.content.files), list(env.queue.sent)
    with pytest.raises(Conflict, match="The upload was not accepted or stored") as refused:
        await submit(env, changed(), token)
    assert (refused.value.code, refused.value.details) == ("blocklisted", {"entry": entry.id})
    assert (env.kv.items, env.content.files, env.queue.sent) == before
    await within(env, lambda: remove_block(entry.id))
    accepted = await submit(env, changed(), token)
    await processed(env, accepted.submission)
    assert (await within(env, lambda: get_submission(accepted.submission.id))).state is State.PUBLISHED
    check_invariants(env.kv)


async def test_the_token_of_one_upload_is_none_for_another(env):
    await submit(env, a_bundle("one"))
    other = await submit(env, a_bundle("other"))
    with pytest.raises(Forbidden):
        await submit(env, changed("one"), token=other.upload_token)


async def test_the_upload_token_is_stored_nowhere(env):
    token = (await submit(env)).upload_token
    assert len(token) == 64
    assert not [key for key, item in env.kv.items.items() if token in item.doc + str(item.attrs)]


async def test_racing_resubmissions_of_new_content_queue_it_once(env):
    first = await submit(env)
    await in_state(env, first.submission, State.REJECTED)
    answers = await asyncio.gather(*(submit(env, changed(), token=first.upload_token) for _ in range(10)))
    assert sorted(answer.flag for answer in answers) == [*["duplicate"] * 9, "requeued"]
    assert len(env.queue.sent) == 2
    check_invariants(env.kv)


# --- Idempotency-Key (R31) ------------------------------------------------------------------------------------------


@pytest.mark.requirement("R31")
async def test_a_repeated_request_gets_the_same_answer_with_the_token(env):
    once = intake.Idempotency(KEY, "hash")
    first = await submit(env, idempotency=once)
    again = await submit(env, idempotency=once)
    assert again == first
    assert again.upload_token == first.upload_token is not None
    assert len(env.queue.sent) == 1


@pytest.mark.requirement("R31")
async def test_the_token_is_repeated_under_that_key_and_body_only(env):
    await submit(env, idempotency=intake.Idempotency(KEY, "hash"))
    assert (await submit(env, idempotency=intake.Idempotency("l" * 16, "hash"))).upload_token is None
    assert (await submit(env)).upload_token is None


@pytest.mark.requirement("R31")
async def test_a_key_used_for_another_body_is_refused(env):
    await submit(env, idempotency=intake.Idempotency(KEY, "hash"))
    with pytest.raises(Unprocessable) as refusal:
        await submit(env, a_bundle("another"), idempotency=intake.Idempotency(KEY, "other"))
    assert refusal.value.code == "idempotency_key_reused"
    assert len(await env.kv.ids("sub:")) == 1


@pytest.mark.requirement("R31")
async def test_parallel_requests_with_one_key_get_one_id_and_one_token(env):
    once = intake.Idempotency(KEY, "hash")
    answers = await asyncio.gather(*(submit(env, idempotency=once) for _ in range(10)))
    assert len({answer.submission.id for answer in answers}) == 1
    assert len({answer.upload_token for answer in answers}) == 1
    assert {answer.flag for answer in answers} == {None}


@pytest.mark.requirement("R31")
async def test_parallel_requests_for_two_skills_with_one_key_make_one_of_them(env):
    async def one(name):
        try:
            return await submit(env, a_bundle(name), idempotency=intake.Idempotency(KEY, name))
        except Unprocessable as refusal:
            return refusal.code

    answers = await asyncio.gather(*(one(name) for name in ("one", "other")))
    assert "idempotency_key_reused" in answers
    assert len(await env.kv.ids("sub:")) == 1


@pytest.mark.requirement("R31")
async def test_a_repeated_requeue_is_answered_as_the_first_one(env):
    first = await submit(env)
    await in_state(env, first.submission, State.REJECTED)
    once = intake.Idempotency(KEY, "hash")
    answers = [await submit(env, changed(), first.upload_token, once) for _ in range(2)]
    assert [answer.flag for answer in answers] == ["requeued", "requeued"]
    assert len(env.queue.sent) == 2


@pytest.mark.requirement("R31")
async def test_a_key_of_a_duplicate_is_taken_too(env):
    await submit_repo(env)
    duplicate = await submit_repo(env, idempotency=intake.Idempotency(KEY, "hash"))
    assert duplicate.flag == "duplicate"
    with pytest.raises(Unprocessable):
        await submit_repo(env, name="another", idempotency=intake.Idempotency(KEY, "other"))


@pytest.mark.requirement("R31")
async def test_a_key_is_free_again_after_a_day(env):
    await submit(env, idempotency=intake.Idempotency(KEY, "hash"))
    env.clock.forward(hours=24, seconds=1)
    later = await submit(env, a_bundle("another"), idempotency=intake.Idempotency(KEY, "other"))
    assert later.flag is None


# --- limits and faults ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("S21")
async def test_a_full_queue_refuses_new_work_with_a_retry_time():
    env = memory_env(max_active=2)
    once = intake.Idempotency(KEY, "hash")
    first = await submit(env, a_bundle("one"), idempotency=once)
    await submit(env, a_bundle("two"))
    for refused in (submit(env, a_bundle("three")), submit_repo(env)):
        with pytest.raises(TooManyRequests) as full:
            await refused
        assert (full.value.code, full.value.retry_after) == ("queue_full", 300)
    assert await submit(env, a_bundle("one"), idempotency=once) == first  # accepted already: the same answer
    await processed(env, first.submission)
    assert (await submit(env, a_bundle("three"))).flag is None


@pytest.mark.requirement("R02")
async def test_a_failing_send_is_still_accepted_and_left_to_the_scan(env):
    env.queue.is_down = True
    accepted = await submit(env)
    assert (accepted.flag, accepted.submission.state) == (None, State.RECEIVED)
    assert "due:waiting" in str([item.attrs.get("duePk") for item in env.kv.items.values()])


@pytest.mark.requirement("R02")
async def test_a_failing_send_of_new_content_is_still_requeued(env):
    first = await submit(env, an_unusable_bundle("greeter"))
    await processed(env, first.submission)
    env.queue.is_down = True
    assert (await submit(env, changed(), first.upload_token)).flag == "requeued"


async def test_nothing_is_accepted_while_the_counters_cannot_be_read():
    class NoCounters(MemoryKV):
        async def load(self, key):
            if key.pk.startswith("stats:"):
                raise Unavailable("down")
            return await super().load(key)

    env = memory_env(NoCounters)
    with pytest.raises(Unavailable):
        await submit(env)
    assert await env.kv.ids("sub:") == []


async def test_nothing_is_accepted_when_the_content_cannot_be_stored(env):
    class NoBucket:
        async def put_files(self, files):
            raise Unavailable("down")

    with pytest.raises(Unavailable):
        await submit(dataclasses.replace(env, content=NoBucket()))
    assert await env.kv.ids("sub:") == []


async def test_uploads_can_be_switched_off():
    with pytest.raises(Forbidden) as refusal:
        await submit(memory_env(allow_uploads=False))
    assert refusal.value.code == "uploads_off"


# --- repositories ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "name", "path", "skill_name"),
    [
        (REPO, None, None, "owner/repo/repo"),
        ("https://github.com/Owner/My-Skill", None, None, "Owner/My-Skill/my-skill"),
        (REPO, None, "skills/pdf", "owner/repo/pdf"),
        (REPO, None, "skills/PDF/SKILL.md", "owner/repo/pdf"),
        (REPO, "docx", "skills/pdf", "owner/repo/pdf"),
        (REPO, "pdf", None, "owner/repo/pdf"),
        (REPO + "/tree/main/skills/pdf", None, None, "owner/repo/pdf"),
        (REPO + "/tree/main", None, None, "owner/repo/repo"),
    ],
)
async def test_a_skill_of_a_repository_is_named_by_its_folder(env, url, name, path, skill_name):
    submission = (await submit_repo(env, url, name, path)).submission
    assert (submission.skill_name, submission.source) == (skill_name, submission.repo_url.lower())


async def test_different_places_of_a_repository_are_different_skills(env):
    places = [
        await submit_repo(env),
        await submit_repo(env, path="skills/pdf"),
        await submit_repo(env, path="other/pdf"),
        await submit_repo(env, name="pdf"),
        await submit_repo(env, path="name/pdf"),
        await submit_repo(env, path="name:pdf/x"),
        await submit_repo(env, REPO + "/tree/main/skills/pdf"),
        await submit_repo(env, REPO + "/tree/main/skills/docx"),
    ]
    assert [place.flag for place in places] == [None] * len(places)


@pytest.mark.requirement("S12")
@pytest.mark.parametrize("path", ["skills/versions", "badge", "a b", "caf\u00e9", "skills/.hidden"])
async def test_a_folder_that_cannot_be_a_name_is_refused(env, path):
    with pytest.raises(InvalidRequest) as refusal:
        await submit_repo(env, path=path)
    assert refusal.value.code == "invalid_skill_name"


def test_every_category_has_an_answer():
    states = {state for states in CATEGORIES.values() for state in states}
    decided = {state for state, _ in REOPENED_BY_CONTENT + LEFT_TO_A_PERSON}
    assert states - decided - set(CATEGORIES["active"]) == {State.VENDOR_APPROVED}
