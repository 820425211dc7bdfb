"""Thirty submissions at once on a running platform: ten workers with three messages each, all queued beforehand."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.support.platform import Platform, eventually
from tests.support.stub_github import Gate, StubGitHub

WORKERS, BATCH = 10, 3
IN_FLIGHT = WORKERS * BATCH


def skill_md(name: str) -> str:
    return f"---\nname: {name}\ndescription: Helps with {name} files.\n---\n\n# {name}\n\nSum {name} files up.\n"


def with_skills(github: StubGitHub, full_name: str, count: int = IN_FLIGHT) -> list[dict[str, str]]:
    """So many repositories of one skill each, since workers share what they learn of one; and a body to submit each."""
    names = [f"s{n}" for n in range(count)]
    for name in names:
        github.repo(f"{full_name}-{name}", {f"skills/{name}/SKILL.md": skill_md(name)})
    return [{"repoUrl": f"https://github.com/{full_name}-{name}", "skillPath": f"skills/{name}"} for name in names]


def submit(platform: Platform, github: StubGitHub, body: dict[str, str]) -> str:
    """Its request finds GitHub down, so that its worker asks every question."""
    github.fail(body["repoUrl"].removeprefix("https://github.com/"), "500", times=1)
    status, answer = platform.json("POST", "/api/v1/submissions", body)
    assert status == 201, answer
    return str(answer["id"])


def queue_up_behind_busy_workers(
    platform: Platform, github: StubGitHub, full_name: str, before_release: Callable[[], None] = lambda: None
) -> list[str]:
    """Every worker is kept busy by one submission, so that none polls the queue while it fills. The workers are
    warm then, and each takes a whole batch when they are let go, all at one moment."""
    bodies = with_skills(github, full_name)
    # Twice: a process takes its time to start, and a first call may time out. The second time all of them run.
    github.release(_keep_all_busy(platform, github, f"{full_name}-first"))
    busy = _keep_all_busy(platform, github, f"{full_name}-before")
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda body: submit(platform, github, body), bodies))
    github.asked.clear()
    github.hold_until(IN_FLIGHT)
    before_release()
    github.release(busy)
    return ids


def _keep_all_busy(platform: Platform, github: StubGitHub, full_name: str) -> Gate:
    busy = github.hold_until(WORKERS + 1, "codeload")  # the question that workers are most patient with
    for n, body in enumerate(with_skills(github, full_name, WORKERS)):
        submit(platform, github, body)
        eventually(lambda arrived=n: busy.arrived > arrived, 60)
    return busy


def asked_for(github: StubGitHub, full_name: str, kind: str) -> int:
    return sum(asked.kind == kind and f"/{full_name}-s" in asked.path for asked in github.asked)
