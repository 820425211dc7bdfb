"""Several skills in one request: each stands for itself, and under an Idempotency-Key they are one request."""

import asyncio

import pytest

from shared.access import idempotency
from shared.access.idempotency import Idempotency
from shared.errors import TooManyRequests, Unavailable, Unprocessable
from shared.records.submissions import State
from shared.submissions import intake
from shared.submissions.intake import Accepted, NotAccepted, RequestedSkill
from shared.submissions.submission_store import move_submission
from tests.support.invariants import check_invariants
from tests.support.memory import FillsUp, MemoryKV, memory_env, within

REPO = "https://github.com/owner/repo"
ONCE = Idempotency("k" * 16, "hash")
OTHER = Idempotency("k" * 16, "another body")
TWO = [RequestedSkill("pdf", "skills/pdf"), RequestedSkill("csv", "skills/csv")]
WITH_ONE_BAD = [*TWO, RequestedSkill("up", "../up")]


def submit(env, skills=TWO, once=ONCE):
    return within(env, lambda: intake.submit_several(REPO, skills, None, once))


def outcomes(answers):
    return [(a.submission.id, a.flag) if isinstance(a, Accepted) else a for a in answers]


def paths_of(env) -> list[str]:
    return sorted(key.sk for key in env.kv.items if key.pk == f"unique:{REPO}")


@pytest.mark.requirement("R31")
async def test_a_batch_repeated_gets_the_same_answer_also_about_what_was_not_accepted(env):
    first = await submit(env, WITH_ONE_BAD)
    assert [getattr(one, "flag", "skipped") for one in first] == [None, None, "skipped"]
    for answer in first[:2]:
        await within(env, lambda a=answer: move_submission(a.submission, State.REJECTED, "admin:ann", "no"))
    again = await submit(env, WITH_ONE_BAD)
    assert outcomes(again) == outcomes(first)
    assert again[0].submission.state is State.REJECTED  # the same submission, as it is now
    assert len(env.queue.sent) == 2


@pytest.mark.requirement("R31")
@pytest.mark.parametrize("swapped", [False, True], ids=["a batch, then one skill", "one skill, then a batch"])
async def test_a_key_is_of_a_batch_or_of_one_skill(env, swapped):
    def batch(once):
        return submit(env, TWO, once)

    def single(once):
        return within(env, lambda: intake.submit_repo(REPO, None, "skills/xml", None, once))

    first, second = (single, batch) if swapped else (batch, single)
    await first(ONCE)
    before = paths_of(env)
    with pytest.raises(Unprocessable) as refused:
        await second(OTHER)
    assert refused.value.code == "idempotency_key_reused"
    assert paths_of(env) == before


@pytest.mark.requirement("R31")
async def test_another_batch_under_the_same_key_is_refused_whole(env):
    """Even where it says the same of its first skills, and has one more that the first did not have."""
    await submit(env, TWO[:1])
    with pytest.raises(Unprocessable) as refused:
        await submit(env, [*TWO, RequestedSkill("xml", "skills/xml")], OTHER)
    assert refused.value.code == "idempotency_key_reused"
    assert paths_of(env) == ["skills/pdf"]


@pytest.mark.requirement("R31")
async def test_parallel_batches_with_one_key_get_one_answer(env):
    barrier = asyncio.Barrier(8)

    async def one():
        await barrier.wait()
        return outcomes(await submit(env, WITH_ONE_BAD))

    answers = await asyncio.gather(*(one() for _ in range(8)))
    assert all(answer == answers[0] for answer in answers)
    assert [one[1] for one in answers[0][:2]] == [None, None]
    assert len(env.queue.sent) == 2
    check_invariants(env.kv)


@pytest.mark.requirement("R31")
async def test_of_two_parallel_batches_with_one_key_one_is_refused_whole(env):
    async def one(skill, once):
        try:
            return await submit(env, [RequestedSkill(skill, f"skills/{skill}")] * 3, once)
        except Unprocessable as refusal:
            return refusal.code

    answers = await asyncio.gather(one("pdf", ONCE), one("csv", OTHER))
    assert answers.count("idempotency_key_reused") == 1
    assert len(paths_of(env)) == 1


@pytest.mark.requirement("R31")
async def test_a_batch_that_broke_off_goes_on_where_it_stopped():
    env = memory_env(FillsUp)
    env.kv.left = 1
    with pytest.raises(Unavailable):
        await submit(env)
    [path] = paths_of(env)
    env.kv.left = 1000
    answers = await submit(env)
    assert [answer.flag for answer in answers] == [None, None]  # as if nothing had happened
    assert len(env.queue.sent) == 2
    assert path in [answer.submission.skill_path for answer in answers]
    with pytest.raises(Unprocessable):
        await submit(env, TWO[:1], OTHER)


@pytest.mark.requirement("R31")
async def test_the_key_of_a_batch_is_free_again_after_a_day(env):
    first = await submit(env)
    env.clock.forward(hours=24, seconds=1)
    later = await submit(env, [RequestedSkill("xml", "skills/xml")], OTHER)
    assert [one.flag for one in later] == [None]
    assert not {one.submission.id for one in later} & {one.submission.id for one in first}


@pytest.mark.requirement("R31")
async def test_a_part_of_a_batch_is_no_key_of_its_own(env):
    """A client may well end its keys with a number."""
    await submit(env, TWO, ONCE)
    single = await within(
        env, lambda: intake.submit_repo(REPO, None, "skills/xml", None, OTHER._replace(key=f"{ONCE.key}#0"))
    )
    assert single.flag is None


async def test_a_replay_that_cannot_be_read_is_an_error_and_never_shortened(env, monkeypatch):
    first = await submit(env)
    lost = first[0].submission.id
    load = MemoryKV.load

    async def broken(kv, key):
        if key.pk == f"sub:{lost}":
            raise Unavailable("down")
        return await load(kv, key)

    monkeypatch.setattr(MemoryKV, "load", broken)
    with pytest.raises(Unavailable):
        await submit(env)


@pytest.mark.requirement("S21")
async def test_a_batch_fills_the_queue_to_its_cap_and_not_beyond():
    env = memory_env(max_active=3)
    four = [RequestedSkill(name, f"skills/{name}") for name in ("a", "b", "c", "d")]
    answers = await submit(env, four, None)
    assert [one.code for one in answers if isinstance(one, NotAccepted)] == ["queue_full"]
    with pytest.raises(TooManyRequests):
        await submit(env, four, None)
    assert len(paths_of(env)) == 3


@pytest.mark.requirement("R31")
async def test_what_found_the_queue_full_is_accepted_when_the_same_request_comes_again():
    env = memory_env(max_active=1)
    first = await submit(env)
    assert [getattr(one, "code", None) for one in first] == [None, "queue_full"]
    await within(env, lambda: move_submission(first[0].submission, State.REJECTED, "admin:ann", "no"))
    again = await submit(env)
    assert outcomes(again)[0] == outcomes(first)[0]
    assert again[1].flag is None
    assert outcomes(await submit(env)) == outcomes(again)
    assert len(env.queue.sent) == 2


@pytest.mark.requirement("R31")
async def test_a_batch_that_broke_off_at_its_end_is_replayed_although_it_filled_the_queue(monkeypatch):
    async def breaks_off(*_):
        raise Unavailable("down")

    env = memory_env(max_active=2)
    with monkeypatch.context() as patched:
        patched.setattr("shared.submissions.intake.store_outcomes", breaks_off)
        with pytest.raises(Unavailable):
            await submit(env)
    assert [answer.flag for answer in await submit(env)] == [None, None]
    with pytest.raises(TooManyRequests):
        await submit(env, once=ONCE._replace(key="x" * 16))


async def test_the_same_skill_twice_in_a_batch_is_one_record(env):
    answers = await submit(env, [TWO[0]] * 4, None)
    assert len({answer.submission.id for answer in answers}) == 1
    assert sorted(str(answer.flag) for answer in answers) == ["None", "duplicate", "duplicate", "duplicate"]


def test_an_answer_of_an_older_release_is_still_read():
    old = b'{"id":"sub_1","bodyHash":"hash","flag":"duplicate"}'
    answered = idempotency._RESPONSE.decode(old)
    assert (answered.id, answered.body_hash, answered.flag) == ("sub_1", "hash", "duplicate")
