"""Results of external scanners: taken once, from the holder of the claim; a critical one blocks the skill."""

import asyncio
import dataclasses

import msgspec
import pytest

from shared.errors import Conflict, NotFound, Unavailable
from shared.marketplace.skill_search import get_published_skills_list
from shared.marketplace.skill_store import find_skill
from shared.records.external_scans import ExternalOutcome, ExternalVerdict, Status, problem_of
from shared.records.submissions import State, reopen
from shared.submissions.submission_store import commit, get_history, get_submission
from tests.support.builders import processed
from tests.support.external_scans import CLEAN, CRITICAL, NAME, claim, published, report, requested, security, status
from tests.support.invariants import check_invariants
from tests.support.memory import MemoryKV, memory_env, within


@pytest.fixture
def env():
    return memory_env(external_scanners=("bandit", "other"))


# --- reported -------------------------------------------------------------------------------------------------------


async def test_a_result_is_what_readers_see(env):
    await requested(env)
    await report(env, await claim(env), msgspec.structs.replace(CLEAN, report_url="https://scanner.example/1"))
    shown = await security(env)
    assert (shown.overall_verdict, shown.providers[0].report_url) == ("PASS", "https://scanner.example/1")
    [bandit, _] = shown.providers
    assert (bandit.status, bandit.verdict, bandit.score, bandit.critical_count) == ("COMPLETED", "PASS", 97, 0)


async def test_the_worst_verdict_is_the_overall_one(env):
    await requested(env)
    await report(
        env, await claim(env, "other"), ExternalOutcome(status="COMPLETED", verdict=ExternalVerdict.CONCERNS, score=60)
    )
    await report(env, await claim(env), CLEAN)
    assert (await security(env)).overall_verdict == "CONCERNS"


async def test_a_scanner_that_could_not_look_says_nothing_about_the_skill(env):
    await requested(env)
    await report(env, await claim(env), ExternalOutcome(status="FAILED", summary="out of memory"))
    shown = await security(env)
    assert shown.overall_verdict is None
    assert (shown.providers[0].status, shown.providers[0].critical_count) == ("FAILED", None)


async def test_the_same_report_again_changes_nothing_and_another_one_is_refused(env):
    await requested(env)
    held = await claim(env)
    first = await report(env, held)
    assert await report(env, held) == first
    with pytest.raises(Conflict) as refusal:
        await report(env, held, CRITICAL)
    assert refusal.value.code == "already_reported"


async def test_reports_of_one_moment_have_one_effect(env):
    await requested(env)
    held = await claim(env)
    answers = await asyncio.gather(*(report(env, held) for _ in range(8)))
    assert len({answer.finished_at for answer in answers}) == 1


@pytest.mark.parametrize("wrong", [{"claim_id": "guessed"}, {"content_hash": "hash-2"}])
async def test_a_report_that_names_another_claim_or_content_is_refused(env, wrong):
    submission = await published(env)
    held = await claim(env)
    with pytest.raises(Conflict):
        await report(env, held, CRITICAL, **wrong)
    assert (await within(env, lambda: get_submission(submission.id))).state == State.PUBLISHED


async def test_a_report_without_a_request_is_refused(env):
    await requested(env)
    held = await claim(env)
    with pytest.raises(NotFound):
        await report(env, msgspec.structs.replace(held, skill_name="a/b/none"))


@pytest.mark.parametrize(
    ("outcome", "problem"),
    [
        (CLEAN, None),
        (CRITICAL, None),
        (ExternalOutcome(status="FAILED", summary="why"), None),
        (ExternalOutcome(status="FAILED", verdict=ExternalVerdict.PASS), "FAILED"),
        (ExternalOutcome(status="COMPLETED"), "verdict"),
        (ExternalOutcome(status="COMPLETED", verdict=ExternalVerdict.PASS, critical_count=1), "critical"),
    ],
)
def test_a_report_must_not_contradict_itself(outcome, problem):
    assert problem_of(outcome) is None if problem is None else problem in problem_of(outcome)


# --- a critical result ----------------------------------------------------------------------------------------------


async def listed(env):
    return [skill.name for skill in (await within(env, lambda: get_published_skills_list(10))).skills]


async def test_a_critical_result_takes_the_skill_out_of_the_marketplace_and_says_why(env):
    submission = await published(env)
    await published(env, "neighbour")
    scans = [await claim(env), await claim(env)]
    await report(env, next(scan for scan in scans if scan.skill_name == NAME), CRITICAL)
    after = await within(env, lambda: get_submission(submission.id))
    assert (after.state, after.parked_by) == (State.BLOCKED, "person")  # only a person reopens it
    assert "bandit" in after.reason
    assert "Runs what it is given (run.py, line 3)" in after.reason
    history = await within(env, lambda: get_history(submission.id))
    assert (history[-1].to_state, history[-1].actor, history[-1].reason) == ("BLOCKED", "system", after.reason)
    assert await listed(env) == ["uploads/anonymous/neighbour"]
    assert (await within(env, lambda: find_skill(NAME))).is_blocked
    shown = await security(env)
    assert (shown.overall_verdict, shown.providers[0].critical_count) == ("FAIL", 1)
    check_invariants(env.kv)


async def test_a_critical_result_while_new_content_is_verified_blocks_the_skill_alone(env):
    submission = await published(env)
    await within(env, lambda: commit(lambda at: reopen(submission, "system", at, "new content")))
    await report(env, await claim(env), CRITICAL)
    assert (await within(env, lambda: get_submission(submission.id))).state == State.RECEIVED
    await processed(env, submission)
    assert await listed(env) == []
    check_invariants(env.kv)


async def test_two_critical_results_block_once(env):
    submission = await published(env)
    held = [await claim(env, provider) for provider in ("bandit", "other")]
    await asyncio.gather(*(report(env, scan, CRITICAL) for scan in held))
    history = await within(env, lambda: get_history(submission.id))
    assert [entry.to_state for entry in history].count("BLOCKED") == 1
    assert [p.status for p in (await security(env)).providers] == ["COMPLETED", "COMPLETED"]
    check_invariants(env.kv)


async def test_a_crash_between_block_and_record_is_made_up_for_by_the_next_report(env):
    submission = await published(env)
    held = await claim(env)

    class Crashing(MemoryKV):
        async def put(self, put):
            raise Unavailable("down")

    kv = Crashing(env.clock.seconds)
    kv.items = env.kv.items
    with pytest.raises(Unavailable):
        await report(dataclasses.replace(env, kv=kv), held, CRITICAL)
    assert await status(env) == Status.RUNNING
    await report(env, held, CRITICAL)
    assert await status(env) == Status.COMPLETED
    assert (await within(env, lambda: get_submission(submission.id))).state == State.BLOCKED
    check_invariants(env.kv)


async def test_a_critical_result_about_a_skill_that_is_gone_is_kept(env):
    await requested(env)
    await report(env, await claim(env), CRITICAL)
    assert (await security(env)).overall_verdict == "FAIL"
