"""Cost by work: how many skills one address may submit, and how much of the queue it may hold."""

import asyncio
import dataclasses
from datetime import timedelta

import pytest

from shared.access.idempotency import Idempotency
from shared.access.limits import find_holder
from shared.errors import ShareUsedUp, TooManyRequests
from shared.moderation import submission_decisions
from shared.records.submissions import CATEGORIES, State
from shared.settings import Limit
from shared.storage.kv import Key
from shared.storage.secret_store import AdminToken
from shared.submissions import intake
from shared.submissions.intake import Accepted, NotAccepted, RequestedSkill
from shared.submissions.submission_store import get_submission, move_submission
from tests.support.builders import a_bundle, processed
from tests.support.invariants import check_invariants
from tests.support.memory import memory_env, within

URL = "https://github.com/acme/skills"
IP, OTHER = "192.0.2.1", "192.0.2.2"
HOUR = timedelta(hours=1)
ANNA = AdminToken("anna", "admin", "")
WHY = "looked at it"
ONCE = Idempotency("k" * 16, "hash")


def limited_env(skills=1000, **settings):
    return memory_env(limits={"submit": Limit(1000, HOUR), "skills": Limit(skills, HOUR)}, **settings)


@pytest.fixture
def env():
    """One address may hold three."""
    return limited_env(max_active=30)


async def submit(env, name, ip=IP, token=None, content="Greets people."):
    bundle = a_bundle(name, content)
    return await within(env, lambda: intake.submit_bundle(name, bundle["files"], token, None, None, ip))


async def submit_batch(env, count, ip=IP, once=None, url=URL):
    skills = [RequestedSkill(None, f"skills/s{n}") for n in range(count)]
    return await within(env, lambda: intake.submit_several(url, skills, None, once, ip))


async def record(env, accepted):
    return await within(env, lambda: get_submission(accepted.submission.id))


async def held(env, ip=IP) -> int:
    holder = await within(env, lambda: find_holder(ip))
    item = env.kv.items.get(Key(f"held:{holder}"))
    return 0 if item is None else item.attrs["held"]


async def move(env, accepted, to, **set_):
    submission = await record(env, accepted)
    return await within(env, lambda: move_submission(submission, to, "worker", "because", **set_))


# --- the share ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("S37")
async def test_one_address_holds_a_tenth_of_the_queue_and_others_are_not_affected(env):
    for n in range(3):
        await submit(env, f"skill-{n}")
    with pytest.raises(TooManyRequests, match="as many submissions in progress") as refusal:
        await submit(env, "one-more")
    assert (refusal.value.code, refusal.value.retry_after) == ("share_used_up", 300)
    assert (await submit(env, "of-another", OTHER)).flag is None
    check_invariants(env.kv)


@pytest.mark.requirement("S37")
async def test_what_is_decided_gives_its_share_back(env):
    accepted = [await submit(env, f"skill-{n}") for n in range(3)]
    await processed(env, accepted[0].submission)
    assert (await record(env, accepted[0])).state == State.PUBLISHED
    assert await held(env) == 2
    await submit(env, "one-more")
    check_invariants(env.kv)


@pytest.mark.requirement("S37")
@pytest.mark.parametrize("to", [state for state in State if state not in CATEGORIES["active"]])
async def test_every_way_out_of_the_queue_gives_the_share_back(env, to):
    accepted = await submit(env, "skill")
    path = [State.TIER1_SCANNING]
    if to in (State.PUBLISHED, State.VENDOR_APPROVED, State.RESCAN_REQUIRED):
        path.append(State.AUTO_APPROVED)
    for state in path:
        await move(env, accepted, state)
        assert await held(env) == 1, "it is still active"
    moved = await move(env, accepted, to)
    assert (moved.held_by, await held(env)) == (None, 0)


@pytest.mark.requirement("S37")
async def test_a_retry_and_a_recovery_keep_the_share(env):
    accepted = await submit(env, "skill")
    for state in (State.TIER1_SCANNING, State.RECEIVED, State.TIER1_SCANNING, State.TIER2_SCANNING, State.RECEIVED):
        await move(env, accepted, state)
        assert await held(env) == 1


@pytest.mark.requirement("S37")
async def test_twenty_parallel_requests_get_exactly_the_share(env):
    answers = await asyncio.gather(*(submit(env, f"skill-{n}") for n in range(20)), return_exceptions=True)
    assert sum(isinstance(answer, Accepted) for answer in answers) == 3
    assert sum(isinstance(answer, ShareUsedUp) for answer in answers) == 17
    assert await held(env) == 3
    check_invariants(env.kv)


@pytest.mark.requirement("S37")
async def test_a_batch_is_accepted_as_far_as_the_share_goes(env):
    answers = await submit_batch(env, 5)
    codes = sorted(answer.code for answer in answers if isinstance(answer, NotAccepted))
    assert codes == ["share_used_up", "share_used_up"]
    assert await held(env) == 3


@pytest.mark.requirement("S37")
async def test_a_batch_that_was_cut_by_the_share_goes_on_with_its_key_when_there_is_room(env):
    first = await submit_batch(env, 5, once=ONCE)
    for answer in first:
        if isinstance(answer, Accepted):
            await move(env, answer, State.REJECTED)
    again = await submit_batch(env, 5, once=ONCE)
    assert all(isinstance(answer, Accepted) for answer in again)
    assert [a.submission.id for a in first if isinstance(a, Accepted)] == [
        b.submission.id for a, b in zip(first, again, strict=True) if isinstance(a, Accepted)
    ]
    assert await held(env) == 2


@pytest.mark.requirement("S37")
async def test_a_duplicate_takes_no_share(env):
    for _ in range(2):
        await submit_batch(env, 2)
    assert await held(env) == 2
    assert (await submit(env, "third")).flag is None


@pytest.mark.requirement("S37")
async def test_a_requeue_is_held_by_the_one_who_sent_the_new_content(env):
    accepted = await submit(env, "skill")
    await processed(env, accepted.submission)
    again = await submit(env, "skill", OTHER, accepted.upload_token, content="Greets them anew.")
    assert again.flag == "requeued"
    assert (await held(env), await held(env, OTHER)) == (0, 1)
    check_invariants(env.kv)


@pytest.mark.requirement("S37")
async def test_a_requeue_beyond_the_share_is_refused_and_changes_nothing(env):
    accepted = await submit(env, "skill")
    await processed(env, accepted.submission)
    before = await record(env, accepted)
    for n in range(3):
        await submit(env, f"other-{n}")
    with pytest.raises(ShareUsedUp):
        await submit(env, "skill", IP, accepted.upload_token, content="Greets them anew.")
    assert await record(env, accepted) == before


@pytest.mark.requirement("S37")
async def test_what_a_person_reopens_counts_against_no_share(env):
    accepted = await submit(env, "skill")
    await move(env, accepted, State.ON_HOLD, parked_by="faults")
    reopened = await within(env, lambda: submission_decisions.requeue(accepted.submission.id, ANNA, WHY))
    assert (reopened.state, reopened.held_by, await held(env)) == (State.RECEIVED, None, 0)
    await processed(env, reopened)
    assert await held(env) == 0
    check_invariants(env.kv)


@pytest.mark.requirement("S37")
async def test_records_of_an_older_release_count_against_no_share(env):
    accepted = await submit(env, "skill", ip=None)
    assert '"heldBy"' not in env.kv.items[Key(f"sub:{accepted.submission.id}")].doc
    await processed(env, accepted.submission)
    check_invariants(env.kv)


@pytest.mark.requirement("S37")
async def test_an_address_is_stored_as_a_keyed_hash_only(env):
    await submit(env, "skill", "2001:db8:1:2::1")
    stored = [f"{key} {item.doc} {item.attrs}" for key, item in env.kv.items.items() if key.pk[:6] != "limit:"]
    assert not any("2001:db8" in each for each in stored)
    holders = [await within(env, lambda ip=ip: find_holder(ip)) for ip in ("2001:db8:1:2::9", "2001:db8:1:3::1")]
    records = [each for each in stored if "'sub:" in each]
    assert [holder in records[0] for holder in holders] == [True, False]


@pytest.mark.requirement("S37")
async def test_where_limits_are_off_no_share_is_counted():
    env = memory_env(max_active=30)
    for n in range(5):
        await submit(env, f"skill-{n}")
    assert not [key for key in env.kv.items if key.pk.startswith(("held:", "limit:"))]


@pytest.mark.requirement("S37")
async def test_the_smallest_share_is_one():
    env = limited_env(max_active=5)
    await submit(env, "first")
    with pytest.raises(ShareUsedUp):
        await submit(env, "second")


@pytest.mark.requirement("S37")
async def test_the_share_is_a_setting():
    env = limited_env(max_active=10, address_share=50)
    for n in range(5):
        await submit(env, f"skill-{n}")
    with pytest.raises(ShareUsedUp):
        await submit(env, "one-more")


# --- the limit of skills --------------------------------------------------------------------------------------------


@pytest.mark.requirement("S37")
async def test_a_batch_counts_as_many_as_it_has_and_the_answer_has_a_retry_time():
    env = limited_env(skills=100)
    await submit_batch(env, 50)
    await submit_batch(env, 49, url=f"{URL}-2")
    with pytest.raises(TooManyRequests, match="100 skills per 60 minutes") as refusal:
        await submit_batch(env, 2, url=f"{URL}-3")
    assert refusal.value.code == "rate_limited"
    await submit(env, "the-hundredth")  # what was refused was not counted
    with pytest.raises(TooManyRequests):
        await submit(env, "one-more")
    await submit(env, "of-another", OTHER)
    env.clock.forward(seconds=refusal.value.retry_after)
    await submit(env, "an-hour-later")


@pytest.mark.requirement("S37")
async def test_a_repeated_request_is_not_counted_again():
    env = limited_env(skills=5)
    for _ in range(4):
        answers = await submit_batch(env, 5, once=ONCE)
    assert len(answers) == 5


@pytest.mark.requirement("S37")
async def test_a_key_does_not_get_around_the_limit():
    env = limited_env(skills=5)
    for _ in range(3):
        with pytest.raises(TooManyRequests):
            await submit_batch(env, 6, once=ONCE)
    assert not [key for key in env.kv.items if key.pk.startswith("sub:")]


@pytest.mark.requirement("S37")
async def test_what_the_full_queue_refused_is_not_counted():
    env = limited_env(skills=2, max_active=1)
    await submit(env, "first")
    for _ in range(3):
        with pytest.raises(TooManyRequests) as refusal:
            await submit(env, "second", OTHER)
        assert refusal.value.code == "queue_full"
    roomy = dataclasses.replace(env, settings=dataclasses.replace(env.settings, max_active=100))
    await submit(roomy, "second", OTHER)
    await submit(roomy, "third", OTHER)


@pytest.mark.requirement("S37")
async def test_what_is_refused_by_the_limit_costs_no_content(env):
    env = limited_env(skills=1)
    await submit(env, "first")
    stored = dict(env.content.files)
    with pytest.raises(TooManyRequests):
        await submit(env, "second", content="Something else.")
    assert env.content.files == stored


@pytest.mark.requirement("S37")
async def test_what_exceeds_the_share_costs_no_content(env):
    for n in range(3):
        await submit(env, f"skill-{n}")
    stored = dict(env.content.files)
    with pytest.raises(ShareUsedUp):
        await submit(env, "one-more", content="Something else.")
    assert env.content.files == stored
