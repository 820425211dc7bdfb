"""What one worker learns of a repository serves the others: how often GitHub is asked, and what is never shared."""

import asyncio
import dataclasses
from collections import Counter
from datetime import timedelta

import pytest

from shared.errors import Deferred, Unprocessable
from shared.github.client import GitHub
from shared.github.repo_cache import RepoCache
from shared.records.submissions import State, reopen
from shared.storage.kv import Key
from shared.submissions import intake
from shared.submissions.intake import Accepted, RequestedSkill
from shared.submissions.submission_store import commit, get_history, get_submission
from shared.timing import FETCH_LEASE, PIN_AGE, SNAPSHOT_AGE
from tests.support.builders import processed
from tests.support.memory import GITHUB_TOKEN, memory_env, within
from tests.support.platform import eventually
from tests.support.stub_github import StubGitHub
from tests.support.tarballs import Member, packed, tar

URL = "https://github.com/acme/skills"
MANY = [f"skill-{n:02}" for n in range(50)]
SKILL_MD = "---\nname: {name}\ndescription: Helps with {name}.\n---\n\n# Help\n\nRead it, then sum it up.\n"
FILES = {f"skills/{name}/SKILL.md": SKILL_MD.format(name=f"{name}-itself") for name in MANY}
BY_PATH = [RequestedSkill(None, f"skills/{name}") for name in MANY]


@pytest.fixture
def stub():
    with StubGitHub() as github:
        github.repo("acme/skills", FILES)
        yield github


@pytest.fixture
async def workers(stub):
    """Five, each with a client of its own: nothing but the store and the bucket is common to them."""
    first = memory_env(github_api_url=stub.url)
    envs = [first, *(_beside(first, stub) for _ in range(4))]
    yield envs
    for env in envs:
        await env.github.close()


def _beside(env, stub):
    cache = RepoCache(env.kv, env.content, env.clock)
    return dataclasses.replace(env, github=GitHub(stub.url, env.secrets, env.clock, cache))


async def submit(env, skills, url=URL):
    accepted = await within(env, lambda: intake.submit_several(url, skills, None, None))
    return [one.submission for one in accepted]


async def submit_unasked(stub, env, skills, url=URL):
    """While GitHub is down, so that all questions are left to the workers."""
    stub.fail("any", "500")
    submissions = await submit(env, skills, url)
    stub.fail("any", None)
    asked(stub)
    return submissions


async def work(workers, submissions):
    """All at once, each worker a share of them."""
    jobs = [processed(workers[n % len(workers)], one) for n, one in enumerate(submissions)]
    await asyncio.gather(*jobs)
    return [await record(workers[0], one) for one in submissions]


async def record(env, submission):
    return await within(env, lambda: get_submission(submission.id))


def asked(stub) -> Counter:
    counted = Counter(one.kind for one in stub.asked)
    stub.asked.clear()
    return counted


def states(records) -> set:
    return {one.state for one in records}


@pytest.mark.requirement("S37")
@pytest.mark.parametrize(
    ("url", "skills"),
    [
        (URL, BY_PATH),
        (URL, [RequestedSkill(name, None) for name in MANY]),
        (URL, [RequestedSkill(f"{name}-itself", None) for name in MANY[:20]]),
        (f"{URL}/tree/main", BY_PATH),
        (f"{URL}/tree/dev", BY_PATH),
        (f"{URL}/tree/v1", BY_PATH),
    ],
    ids=["paths", "names", "names in front matters", "the default branch", "another branch", "an annotated tag"],
)
async def test_fifty_skills_of_a_repository_ask_github_at_most_ten_times_and_download_once(workers, stub, url, skills):
    stub.repos["acme/skills"].commit(FILES, "dev")
    stub.repos["acme/skills"].tag("v1", annotated=True)
    after = await work(workers, await submit(workers[0], skills, url))
    assert states(after) == {State.PUBLISHED}
    counted = asked(stub)
    assert counted.total() <= 10, counted
    assert counted["codeload"] == 1


@pytest.mark.requirement("S37")
async def test_a_batch_whose_post_could_not_reach_github_is_resolved_by_its_workers_with_as_few_calls(workers, stub):
    stub.repos["acme/skills"].commit(FILES, "dev")
    stub.fail("any", "500")
    submissions = await submit(workers[0], BY_PATH, f"{URL}/tree/dev")
    assert {one.skill_path.partition("/skill-")[0] for one in submissions} == {"/tree/dev/skills"}
    stub.fail("any", None)
    asked(stub)
    assert states(await work(workers, submissions)) == {State.PUBLISHED}
    counted = asked(stub)
    assert (counted.total(), counted["codeload"]) == (5, 1), counted


@pytest.mark.requirement("S37")
async def test_a_submission_of_a_repository_seen_minutes_ago_costs_two_calls(workers, stub):
    env = workers[0]
    first, second, third = await submit_unasked(stub, env, BY_PATH[:3])
    await processed(env, first)
    asked(stub)
    env.clock.forward(seconds=PIN_AGE.total_seconds())
    await processed(workers[1], second)
    assert asked(stub) == {"repo": 1, "ref": 1}
    env.clock.forward(seconds=SNAPSHOT_AGE.total_seconds())
    await processed(workers[2], third)
    assert asked(stub) == {"repo": 1, "ref": 1, "tree": 1, "tarball": 1, "codeload": 1}


@pytest.mark.requirement("S37")
@pytest.mark.parametrize("way", ["by path", "by name", "again"])
async def test_with_its_request_a_submission_of_a_repository_seen_minutes_ago_costs_at_most_two_calls(
    workers, stub, way
):
    env, clock = workers[0], workers[0].clock
    [first] = await submit(env, BY_PATH[:1])
    await processed(env, first)
    if way == "again":
        clock.forward(seconds=PIN_AGE.total_seconds())
        stub.repos["acme/skills"].commit(FILES | {"README.md": "New."})
        await processed(workers[1], (await submit(env, BY_PATH[1:2]))[0])  # by somebody else: the new commit is seen
    asked(stub)
    clock.forward(seconds=PIN_AGE.total_seconds() * 0.5)
    wanted = {"by path": BY_PATH[1:2], "by name": [RequestedSkill(MANY[1], None)], "again": BY_PATH[:1]}
    [submitted] = await submit(workers[1], wanted[way])
    clock.forward(seconds=PIN_AGE.total_seconds() * 0.8)  # the queue is long
    await processed(workers[2], submitted)
    assert (await record(env, submitted)).state == State.PUBLISHED
    counted = asked(stub)
    assert counted.total() <= 2, counted
    assert counted["ref"] == 1  # and it was asked


@pytest.mark.requirement("S37")
async def test_what_was_pushed_before_it_is_sent_again_is_seen_though_the_first_answer_is_still_kept(workers, stub):
    env = workers[0]
    [first] = await submit(env, BY_PATH[:1])
    await processed(env, first)
    env.clock.forward(seconds=60)
    sha = stub.repos["acme/skills"].commit(FILES | {"skills/skill-00/MORE.md": "More."})
    before = await record(env, first)
    again = await within(env, lambda: commit(lambda at: reopen(before, "admin:anna", at, "again")))  # asks nobody
    await processed(workers[1], again)
    assert (await record(env, first)).commit == sha


@pytest.mark.requirement("S37")
async def test_what_is_not_there_is_asked_for_once_too(workers, stub):
    gone = await submit_unasked(stub, workers[0], BY_PATH, "https://github.com/acme/nowhere")
    assert states(await work(workers, gone)) == {State.REJECTED}
    assert asked(stub) == {"repo": 1}
    wrong = await submit_unasked(stub, workers[0], [RequestedSkill(None, f"other/{name}") for name in MANY])
    assert states(await work(workers, wrong)) == {State.REJECTED}
    assert asked(stub) == {"repo": 1, "ref": 1, "tree": 1}


@pytest.mark.requirement("S37")
async def test_what_no_worker_could_accept_is_refused_at_submit_for_as_few_calls(workers, stub):
    broken = {
        "skills/no-text/SKILL.md": "# Nothing\n",
        "skills/odd/SKILL.md": "---\nname: odd\ndescription: a: b\n---\n",
    }
    stub.repos["acme/skills"].commit(FILES | broken)
    paths = ["skills/no-text", "skills/odd", "skills/none", *(one.path for one in BY_PATH[:20])]
    named = [RequestedSkill(None, path) for path in paths]
    outcomes = await within(workers[0], lambda: intake.submit_several(URL, named, None, None))
    assert [one.code for one in outcomes[::2][:2]] == ["invalid_front_matter", "no_skill_md"]
    assert [bool(one.warnings) for one in outcomes if isinstance(one, Accepted)] == [True, *[False] * 20]
    assert states(await work(workers, [one.submission for one in outcomes[3:]])) == {State.PUBLISHED}
    assert asked(stub) == {"repo": 1, "ref": 1, "tree": 1, "tarball": 1, "codeload": 1}
    with pytest.raises(Unprocessable, match=r"no SKILL\.md in the folder 'skills/none'"):
        await within(workers[0], lambda: intake.submit_repo(URL, None, "skills/none", None, None))


@pytest.mark.requirement("S37")
async def test_an_archive_that_is_refused_is_downloaded_once(workers, stub):
    repo = stub.repos["acme/skills"]
    sha = repo.branches["main"]
    root = repo.root(sha)
    twice = [Member(f"{root}/{path}", text.encode()) for path, text in FILES.items()]
    repo.commits[sha].archive = packed(tar([*twice, twice[0]], sha))
    after = await work(workers, await submit_unasked(stub, workers[0], BY_PATH))
    assert {(one.state, "twice" in one.reason) for one in after} == {(State.REJECTED, True)}
    assert asked(stub)["codeload"] == 1


@pytest.mark.requirement("S37")
async def test_a_tree_that_is_refused_is_asked_for_once(workers, stub, monkeypatch):
    monkeypatch.setattr("shared.github.http.MAX_JSON", 1000)
    after = await work(workers, await submit_unasked(stub, workers[0], BY_PATH))
    assert {(one.state, "too large" in one.reason) for one in after} == {(State.REJECTED, True)}
    assert asked(stub) == {"repo": 1, "ref": 1, "tree": 1}
    names = await within(workers[0], lambda: intake.submit_several(URL, [RequestedSkill("x", None)], None, None))
    assert [one.code for one in names] == ["repo_too_large"]


@pytest.mark.requirement("S37")
@pytest.mark.parametrize("fault", ["500", "truncated", "quota"])
async def test_one_worker_finds_github_down_and_the_others_wait_without_asking(workers, stub, fault):
    submissions = await submit_unasked(stub, workers[0], BY_PATH[:10])
    stub.fail("codeload" if fault == "truncated" else "tree", fault)
    after = await work(workers, submissions)
    assert {(one.state, one.attempts) for one in after} == {(State.RECEIVED, 0)}
    assert asked(stub).total() <= 5
    stub.fail("codeload" if fault == "truncated" else "tree", None)
    workers[0].clock.forward(hours=2)
    assert states(await work(workers, [await record(workers[0], one) for one in submissions])) == {State.PUBLISHED}


@pytest.mark.requirement("S37")
@pytest.mark.parametrize("damage", ["changed", "truncated", "gone"])
async def test_a_damaged_archive_is_noticed_and_downloaded_again(workers, stub, damage):
    env = workers[0]
    first, second, third = await submit_unasked(stub, env, BY_PATH[:3])
    await processed(env, first)
    bodies = env.content.bodies
    [place] = [key for key in bodies if key.startswith("github/")]
    whole = bodies[place]
    other = packed(tar([Member("acme-skills-0000000/skills/skill-01/SKILL.md", b"something else")], "0" * 40))
    broken = {"changed": other, "truncated": whole[:-1]}.get(damage)
    bodies.update({place: broken}) if broken else bodies.pop(place)
    asked(stub)
    await processed(workers[1], second)
    assert (await record(env, second)).state == State.PUBLISHED
    assert asked(stub) == {"tarball": 1, "codeload": 1}
    await processed(workers[2], third)
    assert bodies[place] == whole
    assert asked(stub) == {}


@pytest.mark.requirement("S37")
async def test_a_malformed_entry_counts_as_absent(workers, stub):
    env = workers[0]
    first, second = await submit_unasked(stub, env, BY_PATH[:2])
    await processed(env, first)
    for key in [key for key in env.kv.items if key.pk.startswith("github:")]:
        env.kv.items[key].doc = "{"
    await processed(workers[1], second)
    assert (await record(env, second)).state == State.PUBLISHED


@pytest.mark.requirement("S37")
async def test_a_worker_that_died_while_it_asked_is_replaced_by_one_other(workers, stub):
    submissions = await submit_unasked(stub, workers[0], BY_PATH[:9])
    arrived = stub.hold_until(2, "codeload")
    dying = asyncio.ensure_future(processed(workers[0], submissions[0]))
    await asyncio.to_thread(eventually, lambda: arrived.arrived)
    items = {key: dataclasses.replace(item) for key, item in workers[0].kv.items.items() if key.pk[:7] == "github:"}
    dying.cancel()
    await asyncio.wait([dying])
    workers[0].kv.items |= items  # as if it had not lived to give its lease back
    stub.release(arrived)
    asked(stub)
    workers[0].clock.forward(seconds=FETCH_LEASE.total_seconds())
    assert states(await work(workers, submissions[1:])) == {State.PUBLISHED}
    assert asked(stub)["codeload"] == 1


@pytest.mark.requirement("S37")
async def test_a_worker_that_is_interrupted_gives_its_lease_back(workers, stub):
    first, second = await submit_unasked(stub, workers[0], BY_PATH[:2])
    arrived = stub.hold_until(2, "codeload")
    interrupted = asyncio.ensure_future(processed(workers[0], first))
    await asyncio.to_thread(eventually, lambda: arrived.arrived)
    interrupted.cancel()
    await asyncio.wait([interrupted])
    stub.release(arrived)
    await processed(workers[1], second)
    assert (await record(workers[1], second)).state == State.PUBLISHED


@pytest.mark.requirement("S37")
async def test_who_has_waited_long_enough_defers_and_loses_no_attempt(workers, stub, monkeypatch):
    monkeypatch.setattr("shared.github.repo_cache.FETCH_WAIT", PIN_AGE * 0.002)
    first, second = await submit_unasked(stub, workers[0], BY_PATH[:2])
    arrived = stub.hold_until(2, "codeload")
    slow = asyncio.ensure_future(processed(workers[0], first))
    await asyncio.to_thread(eventually, lambda: arrived.arrived)
    await processed(workers[1], second)
    waiting = await record(workers[1], second)
    assert (waiting.state, waiting.attempts) == (State.RECEIVED, 0)
    assert "Another worker is still reading this repository" in waiting.reason
    stub.release(arrived)
    await slow
    assert stub.count("codeload") == 1


@pytest.mark.requirement("S37")
async def test_a_client_that_has_just_pushed_is_not_answered_from_the_cache(workers, stub):
    env = workers[0]
    [first] = await submit(env, BY_PATH[:1])
    await processed(env, first)
    stub.repos["acme/skills"].commit({**FILES, "skills/skill-00/SKILL.md": SKILL_MD.format(name="second")})
    again = await within(env, lambda: intake.submit_repo(URL, None, "skills/skill-00", None, None))
    assert again.flag == "requeued"
    await processed(workers[1], again.submission)
    history = await within(env, lambda: get_history(first.id))
    assert history[-1].reason == "published as version 1.0.1"


@pytest.mark.requirement("S37")
async def test_an_archive_that_takes_too_long_for_a_request_hides_no_new_commit(workers, stub, monkeypatch):
    monkeypatch.setattr("shared.submissions.discovery.RESOLVE_BUDGET", timedelta(seconds=0.5))
    [first] = await submit(workers[0], BY_PATH[:1])
    await processed(workers[0], first)
    stub.repos["acme/skills"].commit({**FILES, "skills/skill-00/SKILL.md": SKILL_MD.format(name="second")})
    gate = stub.hold_until(2, "codeload")
    again = await within(workers[0], lambda: intake.submit_repo(URL, None, "skills/skill-00", None, None))
    assert (gate.arrived, again.flag) == (1, "requeued")
    stub.release(gate)
    await processed(workers[1], again.submission)
    assert (await record(workers[1], first)).published_version == "1.0.1"


async def test_a_skill_pushed_and_submitted_within_the_age_of_a_shared_answer_is_read(workers, stub):
    await work(workers, await submit(workers[0], BY_PATH[:1]))
    stub.repos["acme/skills"].commit({"skills/new/SKILL.md": SKILL_MD.format(name="new")})
    workers[0].clock.forward(seconds=15)
    stub.fail("any", "500")  # so that the request learns nothing itself
    submissions = await submit(workers[0], [RequestedSkill(None, "skills/new")])
    stub.fail("any", None)
    assert states(await work(workers, submissions)) == {State.PUBLISHED}


@pytest.mark.requirement("S37")
async def test_an_older_answer_never_replaces_a_newer_one(workers, stub):
    """A worker asked before a push, and its answer comes after that of a client who asked since."""
    env = workers[0]
    asked_before = env.clock()
    await within(env, lambda: _pin(env))
    key = next(key for key in env.kv.items if key.pk.startswith("github:pin:"))
    newer = env.kv.items[key].doc
    cache = RepoCache(env.kv, env.content, env.clock)
    await cache.replace(key, PIN_AGE, asked_before, "{}")
    assert env.kv.items[key].doc == newer


async def _pin(env):
    async with env.github.with_request_cache() as github:
        return await github.pin("acme", "skills")


@pytest.mark.requirement("S37")
async def test_a_repository_that_changed_hands_is_noticed_when_its_answer_has_expired(workers, stub):
    """Until then its workers see the former owner's repository whole: never his id with the new owner's head."""
    env = workers[0]
    first, second, third = await submit(env, BY_PATH[:3])
    await processed(env, first)
    del stub.repos["acme/skills"]
    taken = stub.repo("acme/skills", {path: SKILL_MD.format(name="evil") for path in FILES}, id=9999)
    await processed(workers[1], second)
    seen = await record(env, second)
    assert seen.repo_id != 9999
    assert seen.commit not in taken.commits
    env.clock.forward(seconds=PIN_AGE.total_seconds())
    await processed(workers[2], third)
    assert (await record(env, third)).repo_id == 9999
    again = await within(env, lambda: intake.submit_repo(URL, None, "skills/skill-00", None, None))
    await processed(env, again.submission)
    held = await record(env, first)
    assert (held.state, held.parked_by) == (State.ON_HOLD, "hands")


@pytest.mark.requirement("S37")
async def test_an_answer_from_a_clock_ahead_of_ours_is_not_used(workers, stub):
    env = workers[0]
    first, second = await submit_unasked(stub, env, BY_PATH[:2])
    env.clock.forward(minutes=5)
    await processed(env, first)
    env.clock.forward(minutes=-5)
    asked(stub)
    await processed(workers[1], second)
    assert asked(stub)["repo"] == 1


@pytest.mark.requirement("S37")
async def test_a_large_tree_goes_to_the_bucket_and_is_asked_for_once(workers, stub):
    stub.repo("acme/skills", FILES | {f"docs/{'x' * 80}/{n}.md": "text" for n in range(900)})
    after = await work(workers, await submit(workers[0], BY_PATH[:12]))
    assert states(after) == {State.PUBLISHED}
    assert asked(stub)["tree"] == 1
    assert max(len(item.doc) for item in workers[0].kv.items.values()) < 300_000


@pytest.mark.requirement("S37")
async def test_an_archive_is_stored_in_pieces_and_read_back_in_order(workers, stub, monkeypatch):
    monkeypatch.setattr("shared.github.snapshots.PIECE", 512)
    stub.latency = 0
    repo = stub.repos["acme/skills"]
    sha = repo.branches["main"]
    members = [Member(f"{repo.root(sha)}/{path}", text.encode()) for path, text in FILES.items()]
    noise = b"".join(bytes([n * 7919 % 251]) for n in range(200_000))
    repo.commits[sha].archive = packed(tar([*members, Member(f"{repo.root(sha)}/zzz", noise)], sha))
    after = await work(workers, await submit(workers[0], BY_PATH[:6]))
    assert states(after) == {State.PUBLISHED}
    assert asked(stub)["codeload"] == 1


@pytest.mark.requirement("S37")
async def test_nothing_of_a_request_is_stored(workers, stub):
    await work(workers, await submit(workers[0], BY_PATH[:2]))
    stored = [item.doc.encode() for item in workers[0].kv.items.values()] + list(workers[0].content.bodies.values())
    assert not any(GITHUB_TOKEN.encode() in each or b"uthorization" in each for each in stored)


@pytest.mark.requirement("S37")
async def test_a_private_repository_leaves_nothing_but_that_it_is_not_there(workers, stub):
    stub.repo("acme/secret", FILES, private=True)
    after = await work(workers, await submit_unasked(stub, workers[0], BY_PATH[:3], "https://github.com/acme/secret"))
    assert states(after) == {State.REJECTED}
    assert asked(stub) == {"repo": 1}
    assert not [key for key in workers[0].content.bodies if key.startswith("github/")]


@pytest.mark.requirement("S37")
async def test_a_failed_attempt_is_shared_as_the_error_it_was(workers, stub):
    env = workers[0]
    stub.fail("repo", "429-after")
    with pytest.raises(Deferred) as first:
        await env.github.pin("acme", "skills")
    with pytest.raises(Deferred) as second:
        await workers[1].github.pin("acme", "skills")
    assert (str(first.value), first.value.until) == (str(second.value), second.value.until)
    assert asked(stub) == {"repo": 1}
    assert Key("github:pin:acme/skills") in env.kv.items
