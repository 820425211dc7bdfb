"""Several skills of one repository, with GitHub behind them: what they have in common is asked once, and a GitHub that
hangs costs them all together no more than it costs one."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from shared.access.idempotency import Idempotency
from shared.errors import BadGateway, Unavailable
from shared.records.submissions import State
from shared.submissions import discovery, intake
from shared.submissions.intake import Accepted, NotAccepted, RequestedSkill
from tests.support.builders import processed
from tests.support.counting_stores import CountingKV
from tests.support.memory import FillsUp, memory_env, within
from tests.support.stub_github import StubGitHub

URL = "https://github.com/acme/skills"
ONCE = Idempotency("k" * 16, "hash")
MANY = [f"skill-{n:02}" for n in range(50)]
SKILL_MD = "---\nname: {name}-by-its-own-name\ndescription: Helps.\n---\n\n# Help\n"
FILES = {f"skills/{name}/SKILL.md": SKILL_MD.format(name=name) for name in MANY}


@pytest.fixture
def stub():
    with StubGitHub() as github:
        github.repo("acme/skills", FILES)
        yield github


@pytest.fixture
async def env(stub):
    env = memory_env(FillsUp, github_api_url=stub.url)
    yield env
    await env.github.close()


EACH_ONCE = {"repo": 1, "ref": 1, "tree": 1, "tarball": 1, "codeload": 1}


def submit(env, skills, url=URL, once=None):
    return within(env, lambda: intake.submit_several(url, skills, None, once))


def asked(stub) -> Counter:
    counted = Counter(one.kind for one in stub.asked)
    stub.asked.clear()
    return counted


async def test_fifty_skills_by_name_ask_each_question_once(env, stub):
    answers = await submit(env, [RequestedSkill(name, None) for name in MANY])
    assert [one.submission.skill_path for one in answers] == [f"skills/{name}" for name in MANY]
    assert asked(stub) == EACH_ONCE


async def test_fifty_skills_of_a_branch_ask_each_question_once(env, stub):
    answers = await submit(env, [RequestedSkill(None, f"skills/{name}") for name in MANY], f"{URL}/tree/main")
    assert {one.flag for one in answers} == {None}
    assert asked(stub) == EACH_ONCE


async def test_names_that_only_front_matters_know_are_looked_up_in_one_archive(env, stub):
    names = [f"{name}-by-its-own-name" for name in MANY[:10]]
    answers = await submit(env, [RequestedSkill(name, None) for name in [*names, "nobody"]])
    assert [one.submission.skill_path for one in answers[:10]] == [f"skills/{name}" for name in MANY[:10]]
    assert isinstance(answers[10], NotAccepted)
    assert "'nobody'" in answers[10].message  # what is missing is named as the caller wrote it
    assert asked(stub) == EACH_ONCE


async def test_skills_submitted_again_ask_for_the_head_once(env, stub):
    named = [RequestedSkill(None, f"skills/{name}") for name in MANY[:5]]
    for answer in await submit(env, named):
        await processed(env, answer.submission)
    asked(stub)
    again = await submit(env, named)
    assert [(one.flag, one.submission.state) for one in again] == [("alreadyVerified", State.PUBLISHED)] * 5
    assert asked(stub) == {"repo": 1, "ref": 1}


async def test_each_missing_entry_is_reported_with_its_own_message(env):
    answers = await submit(env, [RequestedSkill(None, "a"), RequestedSkill(None, "b")], f"{URL}/tree/no-such-branch")
    assert ["/a'" in answers[0].message, "/b'" in answers[1].message] == [True, True]
    answers = await submit(env, [RequestedSkill("a", None), RequestedSkill("b", None)], "https://github.com/acme/none")
    assert [one.code for one in answers] == ["repo_not_found", "repo_not_found"]


@pytest.mark.requirement("R32")
async def test_fifty_long_messages_fit_the_record_of_their_request(env, stub):
    deep = "/".join(["a-folder-with-a-long-name" + "x" * 40] * 8)
    stub.repo("acme/skills", {f"{deep}/{name}/SKILL.md": SKILL_MD.format(name=name) for name in MANY})
    named = [RequestedSkill(f"nobody-{n}", None) for n in range(50)]
    answers = await submit(env, named, once=ONCE)
    assert all(
        one.message.startswith(f"This repository has no single skill 'nobody-{n}'") and one.message.endswith("…")
        for n, one in enumerate(answers)
    )
    assert await submit(env, named, once=ONCE) == answers


@pytest.mark.requirement("R31")
async def test_a_batch_is_answered_the_same_when_its_repository_has_changed_since(env, stub):
    named = [RequestedSkill(MANY[0], None), RequestedSkill("new-one", None)]
    first = await submit(env, named, once=ONCE)
    stub.repo("acme/skills", {"skills/new-one/SKILL.md": SKILL_MD.format(name="new-one")})
    again = await submit(env, named, once=ONCE)
    assert (again[0].submission.id, again[0].flag) == (first[0].submission.id, None)
    assert again[1] == first[1]
    assert again[1].code == "skill_not_in_repo"


@pytest.mark.requirement("R31")
async def test_a_batch_that_broke_off_repeats_what_it_had_when_its_repository_has_changed_since(env, stub):
    named = [RequestedSkill(name, None) for name in MANY[:2]]
    env.kv.left = 1
    with pytest.raises(Unavailable):
        await submit(env, named, once=ONCE)
    env.kv.left = 1000
    stub.repo("acme/skills", {"skills/new-one/SKILL.md": SKILL_MD.format(name="new-one")})
    answers = await submit(env, named, once=ONCE)
    assert sorted(isinstance(one, Accepted) for one in answers) == [False, True]  # the one that was there, and is


@pytest.mark.requirement("R27")
@pytest.mark.parametrize("hanging", ["repo", "tree"])
async def test_a_github_that_hangs_costs_a_batch_what_it_costs_one(env, stub, monkeypatch, hanging):
    budget = timedelta(seconds=0.4)
    monkeypatch.setattr("shared.submissions.discovery.RESOLVE_BUDGET", budget)
    stub.fail(hanging, "hang")
    loop = asyncio.get_running_loop()
    started = loop.time()
    answers = await submit(env, [RequestedSkill(name, None) for name in MANY])
    assert loop.time() - started < 5 * budget.total_seconds()  # one after the other, five at a time, it is 10
    assert {one.flag for one in answers} == {None}
    assert {one.submission.skill_path for one in answers} == {f"/name/{name}" for name in MANY}  # their workers ask
    assert stub.count("repo") == 1
    assert [task for task in asyncio.all_tasks() if "get_json" in repr(task.get_coro())] == []


@pytest.mark.requirement("S04")
async def test_a_redirect_of_github_to_another_host_is_left_to_the_workers_and_fails_no_request(env, stub):
    stub.fail("repo", "elsewhere")
    [several] = await submit(env, [RequestedSkill(MANY[0], None)])
    one = await within(env, lambda: intake.submit_repo(URL, MANY[1], None, None, None))
    assert [a.submission.skill_path for a in (several, one)] == [f"/name/{name}" for name in MANY[:2]]
    with pytest.raises(BadGateway) as refused:
        await within(env, lambda: discovery.discover(URL))
    assert refused.value.code == "upstream_failed"
    again = await submit(env, [RequestedSkill(None, "skills/x")])
    await processed(env, again[0].submission)
    assert (await submit(env, [RequestedSkill(None, "skills/x")]))[0].submission.state is State.ON_HOLD


async def test_the_store_is_asked_once_for_what_a_batch_has_in_common(stub):
    env = memory_env(CountingKV, github_api_url=stub.url)
    requests = []
    for size in (3, 1, 2):
        env.kv.forget()
        stub.fail("any", "500")  # what GitHub says is stored for all of them
        named = [RequestedSkill(None, f"skills/{size}-{n}") for n in range(size)]
        answers = await submit(env, named)
        assert all(isinstance(one, Accepted) for one in answers)
        requests.append(env.kv.requests)
    assert requests[1:] == [
        1,
        1,
    ]  # (the first one reads GitHub's quota too) whether there is room; each skill is its transaction and nothing else
    await env.github.close()
