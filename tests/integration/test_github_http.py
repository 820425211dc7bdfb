"""HTTP to GitHub: every way in which it can fail, and which address may be asked at all."""

import asyncio
import json
import subprocess
import sys
import urllib.request
from datetime import UTC, datetime, timedelta

import pytest

from shared.errors import Deferred, NeedsPerson, PlatformError, Refused
from shared.github.client import GitHub, GitHubRepo
from shared.github.http import GitHubHttp
from shared.settings import GITHUB
from shared.timing import GITHUB_BUDGET, LONGEST_QUOTA_WAIT, OUTAGE_PAUSE, SETTLE_TIME, time_limit
from tests.support.memory import GITHUB_TOKEN, FixedSecrets
from tests.support.platform import REPOSITORY
from tests.support.stub_github import StubGitHub

SKILL_MD = "---\nname: pdf\ndescription: Reads PDF files.\n---\n\n# PDF\n"
FILES = {"README.md": "# All skills", "skills/pdf/SKILL.md": SKILL_MD, "skills/pdf/scripts/run.py": "print(1)\n"}
MOMENT = timedelta(seconds=0.3)


@pytest.fixture
def stub():
    with StubGitHub() as github:
        yield github


@pytest.fixture
async def github(stub):
    client = GitHub(stub.url, FixedSecrets(), lambda: datetime.now(UTC))
    yield client
    await client.close()


async def fetch(github: GitHub, full_name: str = "acme/skills", path: str = "skills/pdf", tree: str | None = None):
    """All that a worker asks for one submission."""
    repo = await github.get_repo(*full_name.split("/"))
    pinned = await github.resolve_ref(repo, tree)
    return await github.fetch_skill(repo, pinned.commit, path)


# --- R27: GitHub fails ----------------------------------------------------------------------------------------------

DOWN = ["401", "403", "500", "reset", "truncated", "junk", "slow", "hang"]
STEPS = ["repo", "ref", "tree", "tarball", "codeload"]


@pytest.mark.requirement("R27")
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("fault", DOWN)
async def test_an_outage_defers_and_never_outlasts_its_time(stub, github, step, fault):
    stub.repo("acme/skills", FILES)
    stub.fail(step, fault)
    started, loop = datetime.now(UTC), asyncio.get_running_loop()
    began = loop.time()
    expected: type[PlatformError] = Refused if (step, fault) in JUNK_ARCHIVES else Deferred
    with time_limit(SETTLE_TIME + MOMENT), pytest.raises(expected) as raised:
        await fetch(github)
    assert loop.time() - began < GITHUB_BUDGET.total_seconds()  # the limit ended it, not the budget
    if expected is Deferred:
        assert (raised.value.code, raised.value.what) == ("github_down", "GitHub")
        assert started < raised.value.until <= datetime.now(UTC) + OUTAGE_PAUSE
        assert str(raised.value).startswith("We could not reach GitHub (")
    assert "rate" not in str(raised.value)


JUNK_ARCHIVES = {("tarball", "junk"), ("codeload", "junk")}  # whole, but no archive


@pytest.mark.requirement("R27")
@pytest.mark.parametrize("step", STEPS)
async def test_a_used_up_quota_defers_to_its_reset(stub, github, step):
    stub.repo("acme/skills", FILES)
    stub.fail(step, "quota")
    with pytest.raises(Deferred, match="quota used up") as deferred:
        await fetch(github)
    assert deferred.value.until == datetime.fromtimestamp(stub.resets_at, UTC)
    assert deferred.value.code == "github_quota"


@pytest.mark.requirement("R27")
async def test_a_used_up_quota_is_not_asked_again_before_its_reset(stub, github):
    stub.repo("acme/skills", FILES)
    stub.fail("repo", "quota", times=1)
    for _ in range(3):
        with pytest.raises(Deferred):
            await fetch(github)
    assert len(stub.asked) == 1


@pytest.mark.requirement("R27")
async def test_a_reset_in_the_far_future_is_not_believed(stub, github):
    stub.repo("acme/skills", FILES)
    stub.resets_at += 10**6
    stub.fail("repo", "quota")
    with pytest.raises(Deferred) as deferred:
        await fetch(github)
    assert deferred.value.until <= datetime.now(UTC) + LONGEST_QUOTA_WAIT


@pytest.mark.requirement("R27")
@pytest.mark.parametrize(("fault", "wait"), [("429", OUTAGE_PAUSE), ("429-after", timedelta(seconds=77))])
async def test_too_many_requests_waits_as_long_as_github_says(stub, github, fault, wait):
    stub.repo("acme/skills", FILES)
    stub.fail("any", fault)
    with pytest.raises(Deferred) as deferred:
        await fetch(github)
    assert timedelta(seconds=-5) < deferred.value.until - (datetime.now(UTC) + wait) <= timedelta()
    assert deferred.value.code == "github_quota"


@pytest.mark.requirement("R27")
async def test_a_refused_connection_is_an_outage(github, stub):
    client = GitHub("http://127.0.0.1:9", FixedSecrets(), lambda: datetime.now(UTC))
    with pytest.raises(Deferred, match="the connection failed"):
        await client.get_repo("acme", "skills")
    await client.close()


@pytest.mark.requirement("R27")
async def test_no_time_left_is_no_request(stub, github):
    stub.repo("acme/skills", FILES)
    with time_limit(SETTLE_TIME / 2), pytest.raises(Deferred):
        await fetch(github)
    assert stub.asked == []


# --- S04: where the token and the requests go -----------------------------------------------------------------------


@pytest.mark.requirement("S04")
async def test_the_token_goes_to_the_api_and_never_along_a_redirect(stub, github):
    stub.repo("acme/skills", FILES)
    await fetch(github)
    sent = {asked.kind: asked.headers.get("Authorization") for asked in stub.asked}
    assert sent.pop("codeload") is None
    assert set(sent.values()) == {f"Bearer {GITHUB_TOKEN}"}


@pytest.mark.requirement("S04")
@pytest.mark.parametrize("step", ["repo", "ref", "tree", "tarball", "codeload"])
async def test_a_redirect_to_another_host_is_not_followed(stub, github, step):
    stub.repo("acme/skills", FILES)
    stub.fail(step, "elsewhere")
    with pytest.raises(NeedsPerson, match="an address that we do not follow") as parked:
        await fetch(github)
    assert parked.value.parked_by == "source"


ADDRESSES = [
    "https://codeload.github.com.evil.org/a",
    "https://codeload.github.com@evil.org/a",
    "https://user:pass@codeload.github.com/a",
    "https://codeload.github.com:8443/a",
    "https://codeload.github.com\\@evil.org/a",
    "http://codeload.github.com/a",
    "file:///etc/passwd",
    "//evil.org/a",
    "/a",
    "",
    "https://169.254.169.254/latest/meta-data",
    "https://[::ffff:169.254.169.254]/",
    "https://2852039166/",
    "https://сodeload.github.com/a",
    "https://codeload.github.com/a b",
    "https://codeload.github.com/a\r\nHost: evil",
    "https://api.github.com/a",
]


class Redirect:
    def __init__(self, location: str) -> None:
        self.headers = {"location": location}


@pytest.mark.requirement("S04")
@pytest.mark.parametrize("location", ADDRESSES)
def test_an_archive_comes_from_githubs_download_host_only(location):
    http = GitHubHttp(GITHUB, FixedSecrets(), lambda: datetime.now(UTC))
    with pytest.raises(NeedsPerson):
        http._archive_address(Redirect(location))
    good = "https://codeload.github.com/acme/skills/legacy.tar.gz/abc?token=x"
    assert http._archive_address(Redirect(good)) == good


@pytest.mark.requirement("S04")
def test_an_enterprise_host_is_the_only_one():
    http = GitHubHttp("https://git.corp.example/api/v3", FixedSecrets(), lambda: datetime.now(UTC))
    own = "https://git.corp.example/_codeload/acme/skills/legacy.tar.gz/abc"
    assert http._archive_address(Redirect(own)) == own
    assert http._moved_to(Redirect("https://git.corp.example/api/v3/repositories/7")) == "/repositories/7"
    with pytest.raises(NeedsPerson):
        http._archive_address(Redirect("https://codeload.github.com/acme/skills/legacy.tar.gz/abc"))
    for elsewhere in ("https://api.github.com/repositories/7", "https://git.corp.example:444/api/v3/repositories/7"):
        with pytest.raises(NeedsPerson):
            http._moved_to(Redirect(elsewhere))


@pytest.mark.requirement("S04")
async def test_no_name_leads_out_of_its_place_in_the_address(stub, github):
    for owner, name in (("..", ".."), ("a/b", "c?d"), ("acme", "skills/../../user"), ("acme", "x#y"), ("a%2f", "b")):
        with pytest.raises(Refused):
            await github.get_repo(owner, name)
    repo = GitHubRepo(1, 1, "acme", "skills", "main", None, 0)
    for tree in ("..", "a/../../../user", "?x=1", "#x", "a b", "a\r\nHost: evil"):
        with pytest.raises(Refused):
            await github.resolve_ref(repo, tree)
    assert {asked.kind for asked in stub.asked} == {"refs"}
    assert all(asked.path.startswith("/repos/acme/skills/git/matching-refs/") for asked in stub.asked)


# --- the stub as a process ------------------------------------------------------------------------------------------


@pytest.fixture
def stub_process():
    command = [sys.executable, "-m", "tests.support.stub_github"]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().strip()
        process.terminate()


async def test_the_stub_runs_as_a_process_of_its_own(stub_process):
    orders = {"repos": [{"fullName": "acme/skills", "files": FILES, "tags": ["v1"], "fork": {"a": "b"}}]}
    heads = await asyncio.to_thread(_post, f"{stub_process}/__admin", orders)
    client = GitHub(stub_process, FixedSecrets(), lambda: datetime.now(UTC))
    repo = await client.get_repo("acme", "skills")
    assert (await client.resolve_ref(repo, "v1")).commit == heads["heads"]["acme/skills"]["main"]
    await client.close()


def _post(url: str, body: dict) -> dict:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)
