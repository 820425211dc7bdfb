"""Thirty submissions under way at one moment on the running platform: ten workers, three messages each."""

import pytest

from tests.support.in_flight import IN_FLIGHT, asked_for, queue_up_behind_busy_workers, skill_md
from tests.support.platform import Platform, eventually
from tests.support.stub_github import StubGitHub


@pytest.fixture(scope="module")
def github():
    with StubGitHub() as stub:
        yield stub


@pytest.fixture(scope="module")
def platform(tmp_path_factory, github):
    running = Platform.start(tmp_path_factory.mktemp("in-flight"), GITHUB_API_URL=github.url)
    yield running
    running.kill()


@pytest.mark.requirement("R25")
def test_30_submissions_are_at_github_at_one_moment_and_take_one_archive_each(platform, github):
    """A worker that takes one after the other never gets all thirty to the gate, and it stays shut."""
    ids = queue_up_behind_busy_workers(platform, github, "acme/many")
    for submission_id in ids:
        path = f"/api/v1/submissions/{submission_id}"
        done = eventually(lambda p=path: (s := platform.json("GET", p)[1])["category"] != "active" and s, 90)
        moves = [entry["to"] for entry in done["stateHistory"]]
        assert moves == ["RECEIVED", "TIER1_SCANNING", "AUTO_APPROVED", "PUBLISHED"], done["reason"]
    assert asked_for(github, "acme/many", "tarball") == IN_FLIGHT
    assert asked_for(github, "acme/many", "codeload") == IN_FLIGHT


@pytest.mark.requirement("S37")
def test_a_batch_of_50_skills_asks_github_at_most_ten_times_and_downloads_once(platform, github):
    names = [f"s{n}" for n in range(50)]
    github.repo("acme/batch", {f"skills/{name}/SKILL.md": skill_md(name) for name in names})
    skills = [{"name": name, "path": f"skills/{name}"} for name in names]
    body = {"repoUrl": "https://github.com/acme/batch", "skills": skills}
    github.asked.clear()
    status, answer = platform.json("POST", "/api/v1/submissions", body)
    assert (status, answer["count"]) == (201, 50), answer
    for one in answer["submissions"]:
        path = f"/api/v1/submissions/{one['id']}"
        done = eventually(lambda p=path: (s := platform.json("GET", p)[1])["category"] != "active" and s, 120)
        assert done["state"] == "PUBLISHED", done["reason"]
    assert len(github.asked) <= 10, [asked.path for asked in github.asked]
    assert github.count("codeload") == 1
