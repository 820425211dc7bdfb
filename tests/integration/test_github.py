"""GitHub as a source, against a stub on loopback: references, faults (R27), attacks (S01 to S05)."""

import asyncio
import gzip
import json
import random
import subprocess
import sys
import urllib.request
from datetime import UTC, datetime, timedelta

import pytest

from shared import archive
from shared.archive import Odd
from shared.errors import Deferred, NeedsPerson, PlatformError, Refused
from shared.github import FoundSkill, GitHub, GitHubRepo
from shared.github_http import GitHubHttp
from shared.settings import GITHUB
from shared.timing import GITHUB_BUDGET, LONGEST_QUOTA_WAIT, OUTAGE_PAUSE, SETTLE_TIME, time_limit
from tests.support.memory import GITHUB_TOKEN, FixedSecrets
from tests.support.platform import REPOSITORY
from tests.support.stub_github import StubGitHub
from tests.support.tarballs import (
    DEVICE,
    FOLDER,
    HARDLINK,
    PIPE,
    SYMLINK,
    Member,
    ended,
    entry,
    git_archive,
    header,
    packed,
    padded,
    pax,
    tar,
)

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


def with_archive(stub: StubGitHub, members: list[Member], files: dict | None = None, raw=lambda raw: raw) -> None:
    """The skill itself, then what the test adds to its archive."""
    repo = stub.repo("acme/skills", FILES if files is None else files)
    sha = repo.branches["main"]
    own = [Member(f"{repo.root(sha)}/{path}", data) for path, data in repo.commits[sha].files.items()]
    added = [m._replace(name=m.name.replace("ROOT", repo.root(sha))) for m in members]
    repo.commits[sha].archive = packed(raw(tar([*own, *added], sha)))


# --- repositories ---------------------------------------------------------------------------------------------------


async def test_a_repository_is_known_by_its_ids_and_its_own_spelling(stub, github):
    made = stub.repo("Acme/Skills", FILES, default_branch="trunk")
    repo = await github.get_repo("acme", "skills")
    pushed_at = datetime(2026, 1, 1, tzinfo=UTC)
    assert repo == GitHubRepo(made.id, made.owner_id, "Acme", "Skills", "trunk", pushed_at, False, 7)


@pytest.mark.parametrize("make", ["missing", "private", "uploads"])
async def test_a_private_repository_looks_like_one_that_does_not_exist(stub, github, make):
    owner = "uploads" if make == "uploads" else "acme"
    if make != "missing":
        stub.repo(f"{owner}/skills", FILES, private=make == "private")
    with pytest.raises(Refused, match="could not find this repository, or it is private") as refused:
        await github.get_repo(owner, "skills")
    assert refused.value.code == "repo_not_found"


async def test_a_renamed_repository_keeps_its_id_and_is_asked_under_its_new_name(stub, github):
    repo = stub.repo("acme/skills", FILES)
    stub.rename(repo, "newcorp/tools")
    found = await github.get_repo("acme", "skills")
    assert (found.id, found.owner, found.name) == (repo.id, "newcorp", "tools")
    folder = await github.fetch_skill(found, (await github.resolve_ref(found)).commit, "skills/pdf")
    assert set(folder.files) == {"SKILL.md", "scripts/run.py"}


async def test_a_repository_without_a_commit_is_refused_in_words(stub, github):
    stub.repo("acme/empty")
    with pytest.raises(Refused, match="no files yet"):
        await fetch(github, "acme/empty")


# --- references -----------------------------------------------------------------------------------------------------


async def test_a_reference_ends_where_github_says(stub, github):
    made = stub.repo("acme/skills", FILES)
    branch = made.commit({**FILES, "new.md": "x"}, "feature/pdf/v2")
    made.commit(FILES, "feature-pdf")
    tag = made.tag("v1.0")
    made.tag("release/1", annotated=True)
    head = made.branches["main"]
    repo = await github.get_repo("acme", "skills")
    expected = {
        None: (head, None, ""),
        "main": (head, None, ""),
        "main/skills/pdf": (head, None, "skills/pdf"),
        "feature/pdf/v2": (branch, "feature/pdf/v2", ""),
        "feature/pdf/v2/skills/pdf": (branch, "feature/pdf/v2", "skills/pdf"),
        "v1.0/skills": (tag, "v1.0", "skills"),
        "release/1/skills": (head, "release/1", "skills"),
    }
    for tree, pinned in expected.items():
        assert await github.resolve_ref(repo, tree) == pinned, tree


async def test_a_default_branch_may_have_a_slash_too(stub, github):
    made = stub.repo("acme/skills", FILES, default_branch="release/next")
    repo = await github.get_repo("acme", "skills")
    pinned = await github.resolve_ref(repo, "release/next/skills/pdf")
    assert pinned == (made.branches["release/next"], None, "skills/pdf")


async def test_a_tag_named_like_the_default_branch_is_not_it(stub, github):
    made = stub.repo("acme/skills", FILES)
    made.tag("main", made.fork_commit({"SKILL.md": "evil"}))
    repo = await github.get_repo("acme", "skills")
    assert (await github.resolve_ref(repo, "main")).commit == made.branches["main"]


async def test_a_bare_commit_counts_when_the_default_branch_contains_it(stub, github):
    made = stub.repo("acme/skills", FILES)
    first = made.branches["main"]
    head = made.commit({**FILES, "more.md": "x"})
    repo = await github.get_repo("acme", "skills")
    assert await github.resolve_ref(repo, f"{first}/skills/pdf") == (first, first, "skills/pdf")
    # Not the plain identity even while it is the head: the head moves on, a commit does not.
    assert await github.resolve_ref(repo, head) == (head, head, "")


async def test_S05_the_commit_of_a_fork_is_refused_although_github_answers_for_it(stub, github):
    made = stub.repo("acme/skills", FILES)
    imposter = made.fork_commit({"skills/pdf/SKILL.md": "evil"})
    unmerged = made.commit({"skills/pdf/SKILL.md": "unreviewed"}, "draft")
    repo = await github.get_repo("acme", "skills")
    for sha in (imposter, unmerged):
        with pytest.raises(Refused, match="not part of this repository's default branch") as refused:
            await github.resolve_ref(repo, sha)
        assert refused.value.code == "foreign_commit"


@pytest.mark.parametrize(
    "tree",
    [
        "nowhere",
        "pull/1/head",
        "HEAD",
        "mai",
        "main~1",
        "main^{}",
        "--upload-pack=x",
        "0" * 40,
        "abc1234",
        "..",
        "%2e%2e/x",
    ],
)
async def test_S05_what_is_no_branch_or_tag_is_refused(stub, github, tree):
    stub.repo("acme/skills", FILES)
    repo = await github.get_repo("acme", "skills")
    with pytest.raises(Refused) as refused:
        await github.resolve_ref(repo, tree)
    assert refused.value.code == "ref_not_found"
    assert all(asked.path.startswith("/repos/acme/skills") for asked in stub.asked)


# --- files ----------------------------------------------------------------------------------------------------------


async def test_the_files_of_one_folder_come_with_one_download(stub, github):
    stub.repo("acme/skills", FILES)
    folder = await fetch(github)
    assert folder == ({"SKILL.md": SKILL_MD.encode(), "scripts/run.py": b"print(1)\n"}, (), "")
    assert (stub.count("tarball"), stub.count("codeload")) == (1, 1)


async def test_a_skill_at_the_top_has_all_files(stub, github):
    stub.repo("acme/skills", {"SKILL.md": SKILL_MD, "docs/a.md": "a"})
    assert set((await fetch(github, path=".")).files) == {"SKILL.md", "docs/a.md"}


async def test_paths_of_any_length_and_script_are_read_as_git_writes_them(stub, github):
    long = ["d" * 60 + "/" + "e" * 90 + ".md", "f" * 200 + ".md", "/".join(["g" * 40] * 12) + ".md", "über/文.md"]
    stub.repo("acme/skills", FILES | {f"skills/pdf/{path}": path for path in long})
    folder = await fetch(github)
    assert {path: folder.files[path] for path in long} == {path: path.encode() for path in long}
    assert folder.oddities == ()


async def test_no_skill_md_is_refused_without_a_download(stub, github):
    stub.repo("acme/skills", FILES)
    with pytest.raises(Refused, match=r"no SKILL\.md in the folder 'skills'") as refused:
        await fetch(github, path="skills")
    assert refused.value.code == "no_skill_md"
    assert stub.count("codeload") == 0


async def test_what_a_repository_hides_from_its_archive_is_told(stub, github):
    files = FILES | {
        "skills/pdf/run.bat": "a\nb\n",
        "skills/pdf/hidden.sh": "curl x",
        "skills/pdf/id.txt": "$Format:%H$",
    }
    repo = stub.repo("acme/skills", files)
    sha = repo.commit(files, submodules=("skills/pdf/vendor",))
    content = dict(repo.commits[sha].files)
    del content["skills/pdf/hidden.sh"]  # export-ignore
    content["skills/pdf/id.txt"] = sha.encode()  # export-subst
    content["skills/pdf/run.bat"] = b"a\r\nb\r\n"  # eol=crlf is no secret
    repo.commits[sha].archive = git_archive(repo.root(sha), sha, content)
    folder = await fetch(github)
    expected = {("hidden.sh", Odd.LEFT_OUT), ("id.txt", Odd.CHANGED), ("vendor", Odd.SUBMODULE)}
    assert {(oddity.path, oddity.kind) for oddity in folder.oddities} == expected
    assert all(oddity.hides_content for oddity in folder.oddities)


async def test_discover_lists_every_skill_of_a_repository(stub, github):
    stub.repo("acme/skills", FILES | {"SKILL.md": "x", "a/b/SKILL.md": "x", "a/b/skill.md.txt": "x"})
    repo = await github.get_repo("acme", "skills")
    found = await github.discover(repo, (await github.resolve_ref(repo)).commit)
    assert [(skill.name, skill.path) for skill in found.skills] == [
        ("skills", "."),
        ("b", "a/b"),
        ("pdf", "skills/pdf"),
    ]
    assert not found.truncated
    assert await github.read_skill_md(repo, found.skills[2]) == SKILL_MD.encode()
    with pytest.raises(Refused, match=r"no SKILL\.md"):
        await github.read_skill_md(repo, FoundSkill("x", "x", "0" * 40))


async def test_readers_give_way_to_workers_when_the_quota_is_low(stub, github):
    stub.repo("acme/skills", FILES)
    stub.remaining = 499
    repo = await github.get_repo("acme", "skills")
    pinned = await github.resolve_ref(repo)
    asked = len(stub.asked)
    with pytest.raises(Deferred, match="quota used up"):
        github.give_way()
    assert len(stub.asked) == asked
    assert (await github.discover(repo, pinned.commit)).skills  # a worker still may
    assert (await github.fetch_skill(repo, pinned.commit, "skills/pdf")).files
    stub.remaining = 4000
    await github.get_repo("acme", "skills")
    github.give_way()


async def test_many_at_once_share_one_session(stub, github):
    for number in range(20):
        stub.repo(f"acme/r{number}", FILES)
    stub.hold_until(20)
    async with asyncio.timeout(20):
        folders = await asyncio.gather(*(fetch(github, f"acme/r{number}") for number in range(20)))
    assert all("SKILL.md" in folder.files for folder in folders)
    assert stub.count("codeload") == 20


# --- R27: GitHub fails ----------------------------------------------------------------------------------------------

DOWN = ["401", "403", "500", "reset", "truncated", "junk", "slow", "hang"]
STEPS = ["repo", "ref", "tree", "tarball", "codeload"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("fault", DOWN)
async def test_R27_an_outage_defers_and_never_outlasts_its_time(stub, github, step, fault):
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


@pytest.mark.parametrize("step", STEPS)
async def test_R27_a_used_up_quota_defers_to_its_reset(stub, github, step):
    stub.repo("acme/skills", FILES)
    stub.fail(step, "quota")
    with pytest.raises(Deferred, match=r"quota used up.*next try is at \d\d:\d\d UTC") as deferred:
        await fetch(github)
    assert deferred.value.until == datetime.fromtimestamp(stub.resets_at, UTC)
    assert deferred.value.code == "github_quota"


async def test_R27_a_used_up_quota_is_not_asked_again_before_its_reset(stub, github):
    stub.repo("acme/skills", FILES)
    stub.fail("repo", "quota", times=1)
    for _ in range(3):
        with pytest.raises(Deferred):
            await fetch(github)
    assert len(stub.asked) == 1


async def test_R27_a_reset_in_the_far_future_is_not_believed(stub, github):
    stub.repo("acme/skills", FILES)
    stub.resets_at += 10**6
    stub.fail("repo", "quota")
    with pytest.raises(Deferred) as deferred:
        await fetch(github)
    assert deferred.value.until <= datetime.now(UTC) + LONGEST_QUOTA_WAIT


@pytest.mark.parametrize(("fault", "wait"), [("429", OUTAGE_PAUSE), ("429-after", timedelta(seconds=77))])
async def test_R27_too_many_requests_waits_as_long_as_github_says(stub, github, fault, wait):
    stub.repo("acme/skills", FILES)
    stub.fail("any", fault)
    with pytest.raises(Deferred) as deferred:
        await fetch(github)
    assert timedelta(seconds=-5) < deferred.value.until - (datetime.now(UTC) + wait) <= timedelta()
    assert deferred.value.code == "github_quota"


async def test_R27_nobody_listens(github, stub):
    client = GitHub("http://127.0.0.1:9", FixedSecrets(), lambda: datetime.now(UTC))
    with pytest.raises(Deferred, match="the connection broke"):
        await client.get_repo("acme", "skills")
    await client.close()


async def test_R27_no_time_left_is_no_request(stub, github):
    stub.repo("acme/skills", FILES)
    with time_limit(SETTLE_TIME / 2), pytest.raises(Deferred):
        await fetch(github)
    assert stub.asked == []


# --- S01 to S03: archives -------------------------------------------------------------------------------------------


async def test_S01_a_huge_archive_is_refused_before_its_end(stub, github, monkeypatch):
    monkeypatch.setattr(archive, "MAX_ARCHIVE", 200_000)
    stub.apply({"repos": [{"fullName": "acme/skills", "files": FILES, "padding": 5_000_000}]})
    with pytest.raises(Refused, match="larger than 50 MB"):
        await fetch(github)


async def test_S01_a_bomb_is_refused_before_it_unpacks(stub, github):
    with_archive(stub, [Member("ROOT/zeros", bytes(80 * archive.MB))])
    with pytest.raises(Refused, match="unpacks to far more"):
        await fetch(github)


async def test_S01_more_than_may_be_unpacked_is_refused(stub, github, monkeypatch):
    monkeypatch.setattr(archive, "MAX_UNPACKED", 100_000)
    with_archive(stub, [Member("ROOT/text", b"some text " * 20_000)])
    with pytest.raises(Refused, match="unpacks to far more"):
        await fetch(github)


async def test_S01_many_members_and_deep_folders_are_refused(stub, github, monkeypatch):
    monkeypatch.setattr(archive, "MAX_MEMBERS", 50)
    with_archive(stub, [Member(f"ROOT/{number}") for number in range(60)])
    with pytest.raises(Refused, match="more than 50 files"):
        await fetch(github)
    with_archive(stub, [Member("ROOT/" + "a/" * 70 + "b")])
    with pytest.raises(Refused, match="deeper than 64"):
        await fetch(github)


async def test_S01_a_skill_over_its_caps_keeps_its_skill_md_and_says_so(stub, github):
    many = {f"skills/pdf/A{number:04}.md": "x" for number in range(600)}
    stub.repo("acme/skills", FILES | many)
    folder = await fetch(github)
    assert len(folder.files) == archive.MAX_SKILL_FILES
    assert "SKILL.md" in folder.files
    assert [oddity.kind for oddity in folder.oddities] == [Odd.TOO_MANY]
    large = {f"skills/pdf/{number:02}.md": random.Random(number).randbytes(archive.MB - 1) for number in range(12)}
    stub.repo("acme/large", FILES | large | {"skills/pdf/big.md": "x" * (archive.MB + 1)})
    folder = await fetch(github, "acme/large")
    assert sum(map(len, folder.files.values())) <= archive.MAX_SKILL_BYTES + len(SKILL_MD)
    assert {oddity.kind for oddity in folder.oddities} == {Odd.BINARY, Odd.TOO_LARGE, Odd.OVER_SIZE}


async def test_S01_a_skill_md_over_its_cap_is_refused(stub, github):
    stub.repo("acme/skills", {"skills/pdf/SKILL.md": "x" * (archive.MB + 1)})
    with pytest.raises(Refused, match=r"SKILL\.md is larger than 1 MB"):
        await fetch(github)


ODD_MEMBERS = [
    (Member("ROOT/skills/pdf/x", kind=SYMLINK, link="/etc/passwd"), Odd.SYMLINK),
    (Member("ROOT/skills/pdf/x", kind=HARDLINK, link="/etc/passwd"), Odd.HARDLINK),
    (Member("ROOT/skills/pdf/x", kind=DEVICE), Odd.DEVICE),
    (Member("ROOT/skills/pdf/x", kind=PIPE), Odd.DEVICE),
    (Member("/etc/cron.d/x", b"x"), Odd.UNSAFE_PATH),
    (Member("ROOT/../../x", b"x"), Odd.UNSAFE_PATH),
    (Member("ROOT/skills/pdf/../x", b"x"), Odd.UNSAFE_PATH),
    (Member("ROOT/skills/pdf/a\\x", b"x"), Odd.UNSAFE_PATH),
    (Member("ROOT/skills\\pdf\\x", b"x"), Odd.UNSAFE_PATH),
    (Member("ROOT/skills/pdf/C:x", b"x"), Odd.UNSAFE_PATH),
    (Member("ROOT/skills/pdf/a\nx", b"x"), Odd.UNSAFE_PATH),
    (Member("ROOT/Skills/PDF/x", b"x"), Odd.UNSAFE_PATH),
    (Member("ROOT/skills/pdf/skill.MD", b"x"), Odd.CLASH),
    (Member("ROOT/skills/pdf/x", b"a\0b"), Odd.BINARY),
]


@pytest.mark.parametrize(("member", "kind"), ODD_MEMBERS, ids=[f"{m.name!r}-{k}" for m, k in ODD_MEMBERS])
async def test_S02_what_does_not_belong_in_a_skill_is_a_finding_and_kept_out(
    stub, github, member, kind, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with_archive(stub, [member])
    folder = await fetch(github)
    assert [oddity.kind for oddity in folder.oddities] == [kind]
    assert folder.oddities[0].why
    kept = set(folder.files) - {"SKILL.md", "scripts/run.py"}
    assert bool(kept) is not folder.oddities[0].hides_content
    assert list(tmp_path.iterdir()) == []


async def test_S02_links_elsewhere_in_a_repository_are_none_of_the_skills_business(stub, github):
    with_archive(stub, [Member("ROOT/docs/x", kind=SYMLINK, link="/etc/passwd"), Member("ROOT/skills/x", b"\0")])
    assert (await fetch(github)).oddities == ()


async def test_S02_the_list_of_findings_is_bounded(stub, github):
    with_archive(stub, [Member(f"ROOT/skills/pdf/{n}", kind=SYMLINK, link="x") for n in range(1000)])
    folder = await fetch(github)
    assert len(folder.oddities) == archive.MAX_ODDITIES + 1
    assert folder.oddities[-1].kind is Odd.MORE


TWO_READINGS = {
    "a name twice": lambda root: entry(Member(f"{root}/skills/pdf/SKILL.md", b"other")),
    "file and folder of a name": lambda root: entry(Member(f"{root}/README.md/", kind=FOLDER)),
    "a path in the extended header": lambda root: (
        pax("x", path=f"{root}/skills/pdf/a.sh") + entry(Member(f"{root}/docs/a.md", b"x"))
    ),
    "a size in the extended header": lambda root: pax("x", size="3") + entry(Member(f"{root}/a.md", b"x")),
    "two extended headers": lambda root: (
        pax("x", path=f"{root}/a") + pax("x", path=f"{root}/b") + entry(Member("0" * 40 + ".data"))
    ),
    "an empty header for all": lambda root: pax("g"),
    "a header for all that follow": lambda root: pax("g", path="x") + entry(Member(f"{root}/a.md", b"x")),
    "a second header for all": lambda root: pax("g", comment="0" * 40),
    "a malformed extended header": lambda root: _pax_of(b"99 path=x\n") + entry(Member("0" * 40 + ".data")),
    "GNU long name": lambda root: entry(Member("././@LongLink", b"x" * 120, "L")) + entry(Member(f"{root}/a", b"x")),
    "GNU sparse": lambda root: entry(Member(f"{root}/a", b"x", "S")),
    "a link with a body": lambda root: header(f"{root}/a".encode(), Member("", kind=SYMLINK), size=512) + bytes(512),
    "a folder with a body": lambda root: header(f"{root}/a/".encode(), Member("", kind=FOLDER), size=512) + bytes(512),
    "a file named as a folder": lambda root: entry(Member(f"{root}/a/", b"x")),
    "a NUL in a name": lambda root: header(f"{root}/a\0b".encode(), Member("")),
    "a wrong checksum": lambda root: header(f"{root}/a".encode(), Member("")).replace(b"0000664", b"0000665"),
    "another magic": lambda root: header(f"{root}/a".encode(), Member("")).replace(b"ustar\x0000", b"ustar  \0"),
    "a size in base 256": lambda root: _resized(header(f"{root}/a".encode(), Member("")), b"\x80" + bytes(11)),
    "a second top folder": lambda root: entry(Member("elsewhere/skills/pdf/x", b"x")),
    "a dot in a path": lambda root: entry(Member(f"{root}/./skills/pdf/x", b"x")),
    "an empty part of a path": lambda root: entry(Member(f"{root}/skills//pdf/x", b"x")),
}


@pytest.mark.parametrize("trick", TWO_READINGS)
async def test_S03_an_archive_that_two_programs_read_differently_is_refused(stub, github, trick):
    repo = stub.repo("acme/skills", FILES)
    sha = repo.branches["main"]
    own = pax("g", comment=sha) + b"".join(
        entry(Member(f"{repo.root(sha)}/{path}", data)) for path, data in repo.commits[sha].files.items()
    )
    repo.commits[sha].archive = packed(ended(own + TWO_READINGS[trick](repo.root(sha))))
    with pytest.raises(Refused, match="cannot be trusted") as refused:
        await fetch(github)
    assert refused.value.code == "bad_archive"


@pytest.mark.parametrize("place", ["after the end", "a second archive", "after the gzip", "a second gzip"])
async def test_S03_bytes_after_the_end_are_refused(stub, github, place):
    repo = stub.repo("acme/skills", FILES)
    sha = repo.branches["main"]
    whole = repo.archive(sha)
    raw = tar([Member(f"{repo.root(sha)}/{path}", data) for path, data in repo.commits[sha].files.items()], sha)
    repo.commits[sha].archive = {
        "after the end": packed(raw + b"x"),
        "a second archive": packed(raw + raw),
        "after the gzip": whole + b"x",
        "a second gzip": whole + whole,
    }[place]
    with pytest.raises(Refused, match="bytes after its end"):
        await fetch(github)


async def test_R27_an_archive_that_ends_too_early_is_downloaded_again_later(stub, github):
    repo = stub.repo("acme/skills", FILES)
    sha = repo.branches["main"]
    whole = repo.archive(sha)
    for cut in (whole[: len(whole) // 2], b"", packed(gzip.decompress(whole)[:1024])):
        repo.commits[sha].archive = cut
        with pytest.raises(Deferred, match="the download broke off"):
            await fetch(github)


async def test_S03_the_archive_of_another_commit_is_refused(stub, github):
    repo = stub.repo("acme/skills", FILES)
    sha = repo.branches["main"]
    repo.commits[sha].archive = git_archive(repo.root(sha), "0" * 40, repo.commits[sha].files)
    with pytest.raises(Refused, match="not the archive of the commit"):
        await fetch(github)


async def test_a_damaged_archive_is_refused(stub, github):
    repo = stub.repo("acme/skills", FILES)
    repo.commits[repo.branches["main"]].archive = b"PK\x03\x04 this is not a tarball"
    with pytest.raises(Refused, match="damaged"):
        await fetch(github)


# --- S04: where the token and the requests go -----------------------------------------------------------------------


async def test_S04_the_token_goes_to_the_api_and_never_along_a_redirect(stub, github):
    stub.repo("acme/skills", FILES)
    await fetch(github)
    sent = {asked.kind: asked.headers.get("Authorization") for asked in stub.asked}
    assert sent.pop("codeload") is None
    assert set(sent.values()) == {f"Bearer {GITHUB_TOKEN}"}


@pytest.mark.parametrize("step", ["repo", "ref", "tree", "tarball", "codeload"])
async def test_S04_a_redirect_to_another_host_is_not_followed(stub, github, step):
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


@pytest.mark.parametrize("location", ADDRESSES)
def test_S04_an_archive_comes_from_githubs_download_host_only(location):
    http = GitHubHttp(GITHUB, FixedSecrets(), lambda: datetime.now(UTC))
    with pytest.raises(NeedsPerson):
        http._archive_address(Redirect(location))
    good = "https://codeload.github.com/acme/skills/legacy.tar.gz/abc?token=x"
    assert http._archive_address(Redirect(good)) == good


def test_S04_an_enterprise_host_is_the_only_one():
    http = GitHubHttp("https://git.corp.example/api/v3", FixedSecrets(), lambda: datetime.now(UTC))
    own = "https://git.corp.example/_codeload/acme/skills/legacy.tar.gz/abc"
    assert http._archive_address(Redirect(own)) == own
    assert http._moved_to(Redirect("https://git.corp.example/api/v3/repositories/7")) == "/repositories/7"
    with pytest.raises(NeedsPerson):
        http._archive_address(Redirect("https://codeload.github.com/acme/skills/legacy.tar.gz/abc"))
    for elsewhere in ("https://api.github.com/repositories/7", "https://git.corp.example:444/api/v3/repositories/7"):
        with pytest.raises(NeedsPerson):
            http._moved_to(Redirect(elsewhere))


async def test_S04_no_name_leads_out_of_its_place_in_the_address(stub, github):
    for owner, name in (("..", ".."), ("a/b", "c?d"), ("acme", "skills/../../user"), ("acme", "x#y"), ("a%2f", "b")):
        with pytest.raises(Refused):
            await github.get_repo(owner, name)
    repo = GitHubRepo(1, 1, "acme", "skills", "main", None, False, 0)
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


def _pax_of(data: bytes) -> bytes:
    return header(b"x", Member("", data, "x")) + padded(data)


def _resized(block: bytes, size: bytes) -> bytes:
    changed = bytearray(block)
    changed[124:136] = size
    changed[148:156] = b"        "
    changed[148:156] = b"%07o\0" % sum(changed)
    return bytes(changed)
