"""Thirty submissions under way at one moment on the running platform: ten workers, three messages each."""

import pytest

from tests.support.in_flight import IN_FLIGHT, asked_for, queue_up_behind_busy_workers
from tests.support.platform import Platform, eventually
from tests.support.stub_github import StubGitHub


@pytest.fixture
def github():
    with StubGitHub() as stub:
        yield stub


@pytest.fixture
def platform(tmp_path, github):
    running = Platform.start(tmp_path, GITHUB_API_URL=github.url)
    yield running
    running.kill()


@pytest.mark.requirement("R25")
def test_30_submissions_are_at_github_at_one_moment_and_take_one_archive_each(platform, github):
    """Whoever works on one after the other never gets all thirty to the gate, and it stays shut."""
    ids = queue_up_behind_busy_workers(platform, github, "acme/many")
    for submission_id in ids:
        path = f"/api/v1/submissions/{submission_id}"
        done = eventually(lambda p=path: (s := platform.json("GET", p)[1])["category"] != "active" and s, 90)
        moves = [entry["to"] for entry in done["stateHistory"]]
        assert moves == ["RECEIVED", "TIER1_SCANNING", "AUTO_APPROVED", "PUBLISHED"], done["reason"]
    assert asked_for(github, "acme/many", "tarball") == IN_FLIGHT
    assert asked_for(github, "acme/many", "codeload") == IN_FLIGHT
