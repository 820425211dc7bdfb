"""Skills made to cost the scanner time and memory, on the running platform beside harmless ones."""

import pytest

from bench.hostile import attempts_of, children_of, finish, hostile_bodies, submit_all, upload
from tests.support.hostile_submissions import QUICK, harmless
from tests.support.platform import Platform
from tests.support.stub_github import StubGitHub


@pytest.fixture(scope="module")
def github():
    with StubGitHub() as stub:
        yield stub


@pytest.fixture(scope="module")
def platform(tmp_path_factory, github):
    platform = Platform.start(tmp_path_factory.mktemp("hostile"), GITHUB_API_URL=github.url, RATE_LIMITS="off")
    yield platform
    platform.kill()


@pytest.mark.requirement("R35", "R37")
def test_harmless_skills_are_published_at_their_first_attempt_beside_hostile_ones(platform, github):
    hostile = hostile_bodies(github, list(QUICK), "quick")
    innocent = [upload(f"harmless-{n}", harmless(n)) for n in range(3)]
    ids = submit_all(platform, [body for pair in zip(hostile, innocent, strict=True) for body in pair])
    for record in finish(platform, ids[1::2]):
        assert (record["state"], attempts_of(record)) == ("PUBLISHED", 1), record["reason"]
    # The first only costs time: it hides nothing. The others may still be tried.
    hostile_now = [platform.json("GET", f"/api/v1/submissions/{each}")[1]["state"] for each in ids[2::2]]
    assert "PUBLISHED" not in hostile_now
    assert "timed out" not in platform.output


def test_scan_processes_end_with_their_worker(platform):
    workers = platform.info["workers"]["Consumer"]
    scanning = [child for worker in workers for child in children_of(worker)]
    assert scanning
    platform.stop()
    assert not any(children_of(worker) for worker in workers)
    assert not [pid for pid in scanning if is_scanning(pid)]


def is_scanning(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as command:
            return "scan_process" in command.read()
    except OSError:
        return False
