"""GitHub as a source, against a stub on loopback: repositories, references, the files of a folder (S05)."""

import asyncio
from datetime import UTC, datetime

import pytest

from shared.errors import Deferred, Refused
from shared.github.archive import AnomalyKind
from shared.github.client import GitHub, GitHubRepo
from tests.support.memory import FixedSecrets
from tests.support.stub_github import StubGitHub
from tests.support.tarballs import (
    git_archive,
)

SKILL_MD = "---\nname: pdf\ndescription: Reads PDF files.\n---\n\n# PDF\n"
FILES = {"README.md": "# All skills", "skills/pdf/SKILL.md": SKILL_MD, "skills/pdf/scripts/run.py": "print(1)\n"}


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


# --- repositories ---------------------------------------------------------------------------------------------------


async def test_a_repository_is_known_by_its_ids_and_its_own_spelling(stub, github):
    made = stub.repo("Acme/Skills", FILES, default_branch="trunk")
    repo = await github.get_repo("acme", "skills")
    pushed_at = datetime(2026, 1, 1, tzinfo=UTC)
    assert repo == GitHubRepo(made.id, made.owner_id, "Acme", "Skills", "trunk", pushed_at, 7)


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


@pytest.mark.requirement("S05")
async def test_the_commit_of_a_fork_is_refused_although_github_answers_for_it(stub, github):
    made = stub.repo("acme/skills", FILES)
    imposter = made.fork_commit({"skills/pdf/SKILL.md": "evil"})
    unmerged = made.commit({"skills/pdf/SKILL.md": "unreviewed"}, "draft")
    repo = await github.get_repo("acme", "skills")
    for sha in (imposter, unmerged):
        with pytest.raises(Refused, match="not part of this repository's default branch") as refused:
            await github.resolve_ref(repo, sha)
        assert refused.value.code == "foreign_commit"


@pytest.mark.requirement("S05")
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
async def test_what_is_no_branch_or_tag_is_refused(stub, github, tree):
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
    assert folder.anomalies == ()


async def test_no_skill_md_is_refused_without_a_download(stub, github):
    stub.repo("acme/skills", FILES)
    with pytest.raises(Refused, match=r"no SKILL\.md in the folder 'skills'") as refused:
        await fetch(github, path="skills")
    assert refused.value.code == "no_skill_md"
    assert stub.count("codeload") == 0


async def test_what_a_repository_hides_from_its_archive_is_reported(stub, github):
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
    expected = {("hidden.sh", AnomalyKind.LEFT_OUT), ("id.txt", AnomalyKind.CHANGED), ("vendor", AnomalyKind.SUBMODULE)}
    assert {(anomaly.path, anomaly.kind) for anomaly in folder.anomalies} == expected
    assert all(anomaly.hides_content for anomaly in folder.anomalies)


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
    commit = (await github.resolve_ref(repo)).commit
    wanted = [skill.skill_md for skill in found.skills]
    texts = await github.read_skill_mds(repo, commit, [*wanted, "not/there/SKILL.md"])
    assert texts == {"SKILL.md": b"x", "a/b/SKILL.md": b"x", "skills/pdf/SKILL.md": SKILL_MD.encode()}


async def test_readers_yield_quota_to_workers_when_it_is_low(stub, github):
    stub.repo("acme/skills", FILES)
    stub.remaining = 499
    repo = await github.get_repo("acme", "skills")
    pinned = await github.resolve_ref(repo)
    asked = len(stub.asked)
    with pytest.raises(Deferred, match="quota used up"):
        github.yield_quota_to_workers()
    assert len(stub.asked) == asked
    assert (await github.discover(repo, pinned.commit)).skills  # a worker still may
    assert (await github.fetch_skill(repo, pinned.commit, "skills/pdf")).files
    stub.remaining = 4000
    await github.get_repo("acme", "skills")
    github.yield_quota_to_workers()


async def test_many_at_once_share_one_session(stub, github):
    for number in range(20):
        stub.repo(f"acme/r{number}", FILES)
    stub.hold_until(20)
    async with asyncio.timeout(20):
        folders = await asyncio.gather(*(fetch(github, f"acme/r{number}") for number in range(20)))
    assert all("SKILL.md" in folder.files for folder in folders)
    assert stub.count("codeload") == 20
