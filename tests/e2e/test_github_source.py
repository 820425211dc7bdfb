"""The running platform with a stub GitHub on loopback: what each repository promises, and nothing left on disk."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.platform import Platform, eventually
from tests.support.stub_github import StubGitHub
from tests.support.tarballs import Member, packed, tar


def skill_md(name: str, text: str = "Read the file, then sum it up.") -> str:
    return f"---\nname: {name}\ndescription: Helps with {name} files.\n---\n\n# {name}\n\n{text}\n"


THREE = {f"skills/{name}/SKILL.md": skill_md(name) for name in ("pdf", "csv", "xml")}


@pytest.fixture(scope="module")
def github():
    with StubGitHub() as stub:
        yield stub


@pytest.fixture(scope="module")
def platform(tmp_path_factory, github):
    running = Platform.start(tmp_path_factory.mktemp("github"), GITHUB_API_URL=github.url)
    yield running
    running.kill()


def post(platform, body):
    return platform.json("POST", "/api/v1/submissions", body)


def submission(platform, submission_id):
    return platform.json("GET", f"/api/v1/submissions/{submission_id}")[1]


def ended(platform, submission_id, *states):
    return eventually(lambda: (s := submission(platform, submission_id))["state"] in states and s, 60)


def test_a_repo_with_three_skills_from_discovery_to_the_marketplace(platform, github):
    github.repo("acme/three", THREE)
    url = "https://github.com/acme/three"
    status, found = platform.json("POST", "/api/v1/submissions/discover", {"repoUrl": url})
    assert (status, found["count"], found["truncated"]) == (200, 3, False)
    skills = [{"name": skill["name"], "path": skill["path"]} for skill in found["skills"]]
    status, answer = post(platform, {"repoUrl": url, "skills": skills})
    assert (status, answer["count"], answer["skipped"]) == (201, 3, [])
    for one in answer["submissions"]:
        done = ended(platform, one["id"], "PUBLISHED")
        assert done["scanResult"]["judgement"] == "not_judged"
    status, same = post(platform, {"repoUrl": f"{url}.git/", "skillPath": "skills/pdf"})
    assert (status, same["alreadyVerified"]) == (200, True)
    status, one = platform.json("GET", "/api/v1/skills/acme/three/pdf")
    assert (status, one["skill"]["currentVersion"]) == (200, "1.0.0")


def test_a_subfolder_a_branch_with_a_slash_and_a_forks_commit(platform, github):
    repo = github.repo("acme/refs", THREE)
    repo.commit({"skills/pdf/SKILL.md": skill_md("pdf", "Another way.")}, branch="feature/x")
    fork = repo.fork_commit(THREE)
    tree = "https://github.com/acme/refs/tree"
    names = {}
    for ref in ("main", "feature/x"):
        status, answer = post(platform, {"repoUrl": f"{tree}/{ref}/skills/pdf"})
        assert status == 201
        names[ref] = ended(platform, answer["id"], "PUBLISHED")["skillName"]
    assert names == {"main": "acme/refs/pdf", "feature/x": "acme/refs/pdf@feature~x"}
    status, refused = post(platform, {"repoUrl": f"{tree}/{fork}/skills/pdf"})
    assert (status, refused["error"]["code"]) == (422, "foreign_commit")


def test_private_huge_broken_and_hostile_repositories_end_with_their_reason(platform, github):
    github.repo("acme/private", THREE, private=True)
    status, refused = post(platform, {"repoUrl": "https://github.com/acme/private"})
    assert (status, refused["error"]["code"]) == (422, "repo_not_found")
    linked = github.repo("acme/linked")
    linked.commit({"SKILL.md": skill_md("linked")}, links={"key": "/etc/passwd"})
    climbing = github.repo("acme/climbing", {"SKILL.md": skill_md("climbing")})
    sha = climbing.branches["main"]
    members = [Member(f"{climbing.root(sha)}/SKILL.md", skill_md("climbing").encode()), Member("../../evil", b"x")]
    climbing.commits[sha].archive = packed(tar(members, sha))
    ends = {"acme/linked": ("ON_HOLD", "BLOCKED"), "acme/climbing": ("REJECTED", "ON_HOLD", "BLOCKED")}
    for name, states in ends.items():
        status, answer = post(platform, {"repoUrl": f"https://github.com/{name}", "skillPath": "."})
        assert status == 201
        assert ended(platform, answer["id"], *states)["reason"]
    assert not [path for path in platform.directory.rglob("*") if path.name in ("evil", "SKILL.md", "key")]


@pytest.fixture
def quick_platform(tmp_path, github):
    """Two minutes until the next try become twelve seconds."""
    running = Platform.start(tmp_path, GITHUB_API_URL=github.url, TIME_SCALE="0.1")
    yield running
    running.kill()


def test_an_outage_defers_without_using_an_attempt_and_ends_well(quick_platform, github):
    platform = quick_platform
    github.repo("acme/later", {"SKILL.md": skill_md("later")})
    github.fail("any", "500")
    status, answer = post(platform, {"repoUrl": "https://github.com/acme/later", "skillPath": "."})
    assert status == 201
    waiting = eventually(lambda: (s := submission(platform, answer["id"]))["reason"] and s, 60)
    assert (waiting["state"], waiting["attempts"]) == ("RECEIVED", 0)
    assert waiting["reason"].startswith("deferred: We could not reach GitHub")
    github.fail("any", None)
    assert ended(platform, answer["id"], "PUBLISHED")["attempts"] == 1


def test_many_at_once_take_one_download_each(platform, github):
    github.repo("acme/many", {f"skills/s{n}/SKILL.md": skill_md(f"s{n}") for n in range(30)})
    before = github.count("tarball")

    def one(n):
        return post(platform, {"repoUrl": "https://github.com/acme/many", "skillPath": f"skills/s{n}"})[1]["id"]

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(one, range(30)))
    for submission_id in ids:
        ended(platform, submission_id, "PUBLISHED")
    assert github.count("tarball") - before == 30
