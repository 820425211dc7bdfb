"""Archives of repositories, hostile ones among them: refused under caps, or read as exactly one thing."""

import gzip
import random
from datetime import UTC, datetime

import pytest

from shared.errors import Deferred, Refused
from shared.github import archive
from shared.github.archive import AnomalyKind
from shared.github.client import GitHub
from tests.support.memory import FixedSecrets
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


@pytest.mark.requirement("S01")
async def test_a_huge_archive_is_refused_before_its_end(stub, github, monkeypatch):
    monkeypatch.setattr(archive, "MAX_ARCHIVE", 200_000)
    stub.apply({"repos": [{"fullName": "acme/skills", "files": FILES, "padding": 5_000_000}]})
    with pytest.raises(Refused, match="larger than 50 MB"):
        await fetch(github)


@pytest.mark.requirement("S01")
async def test_a_bomb_is_refused_before_it_unpacks(stub, github):
    with_archive(stub, [Member("ROOT/zeros", bytes(80 * archive.MB))])
    with pytest.raises(Refused, match="unpacks to far more"):
        await fetch(github)


@pytest.mark.requirement("S01")
async def test_more_than_may_be_unpacked_is_refused(stub, github, monkeypatch):
    monkeypatch.setattr(archive, "MAX_UNPACKED", 100_000)
    with_archive(stub, [Member("ROOT/text", b"some text " * 20_000)])
    with pytest.raises(Refused, match="unpacks to far more"):
        await fetch(github)


@pytest.mark.requirement("S01")
async def test_many_members_and_deep_folders_are_refused(stub, github, monkeypatch):
    monkeypatch.setattr(archive, "MAX_MEMBERS", 50)
    with_archive(stub, [Member(f"ROOT/{number}") for number in range(60)])
    with pytest.raises(Refused, match="more than 50 files"):
        await fetch(github)
    with_archive(stub, [Member("ROOT/" + "a/" * 70 + "b")])
    with pytest.raises(Refused, match="deeper than 64"):
        await fetch(github)


@pytest.mark.requirement("S01")
async def test_a_skill_over_its_caps_keeps_its_skill_md_and_says_so(stub, github):
    many = {f"skills/pdf/A{number:04}.md": "x" for number in range(600)}
    stub.repo("acme/skills", FILES | many)
    folder = await fetch(github)
    assert len(folder.files) == archive.MAX_SKILL_FILES
    assert "SKILL.md" in folder.files
    assert [anomaly.kind for anomaly in folder.anomalies] == [AnomalyKind.TOO_MANY]
    large = {f"skills/pdf/{number:02}.md": random.Random(number).randbytes(archive.MB - 1) for number in range(12)}
    stub.repo("acme/large", FILES | large | {"skills/pdf/big.md": "x" * (archive.MB + 1)})
    folder = await fetch(github, "acme/large")
    assert sum(map(len, folder.files.values())) <= archive.MAX_SKILL_BYTES + len(SKILL_MD)
    assert {anomaly.kind for anomaly in folder.anomalies} == {
        AnomalyKind.BINARY,
        AnomalyKind.TOO_LARGE,
        AnomalyKind.OVER_SIZE,
    }


@pytest.mark.requirement("S01")
async def test_a_skill_md_over_its_cap_is_refused(stub, github):
    stub.repo("acme/skills", {"skills/pdf/SKILL.md": "x" * (archive.MB + 1)})
    with pytest.raises(Refused, match=r"SKILL\.md is larger than 1 MB"):
        await fetch(github)


ODD_MEMBERS = [
    (Member("ROOT/skills/pdf/x", kind=SYMLINK, link="/etc/passwd"), AnomalyKind.SYMLINK),
    (Member("ROOT/skills/pdf/x", kind=HARDLINK, link="/etc/passwd"), AnomalyKind.HARDLINK),
    (Member("ROOT/skills/pdf/x", kind=DEVICE), AnomalyKind.DEVICE),
    (Member("ROOT/skills/pdf/x", kind=PIPE), AnomalyKind.DEVICE),
    (Member("/etc/cron.d/x", b"x"), AnomalyKind.UNSAFE_PATH),
    (Member("ROOT/../../x", b"x"), AnomalyKind.UNSAFE_PATH),
    (Member("ROOT/skills/pdf/../x", b"x"), AnomalyKind.UNSAFE_PATH),
    (Member("ROOT/skills/pdf/a\\x", b"x"), AnomalyKind.UNSAFE_PATH),
    (Member("ROOT/skills\\pdf\\x", b"x"), AnomalyKind.UNSAFE_PATH),
    (Member("ROOT/skills/pdf/C:x", b"x"), AnomalyKind.UNSAFE_PATH),
    (Member("ROOT/skills/pdf/a\nx", b"x"), AnomalyKind.UNSAFE_PATH),
    (Member("ROOT/Skills/PDF/x", b"x"), AnomalyKind.UNSAFE_PATH),
    (Member("ROOT/skills/pdf/skill.MD", b"x"), AnomalyKind.CLASH),
    (Member("ROOT/skills/pdf/x", b"a\0b"), AnomalyKind.BINARY),
]


@pytest.mark.requirement("S02")
@pytest.mark.parametrize(("member", "kind"), ODD_MEMBERS, ids=[f"{m.name!r}-{k}" for m, k in ODD_MEMBERS])
async def test_what_does_not_belong_in_a_skill_is_a_finding_and_kept_out(
    stub, github, member, kind, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with_archive(stub, [member])
    folder = await fetch(github)
    assert [anomaly.kind for anomaly in folder.anomalies] == [kind]
    assert folder.anomalies[0].why
    kept = set(folder.files) - {"SKILL.md", "scripts/run.py"}
    assert bool(kept) is not folder.anomalies[0].hides_content
    assert list(tmp_path.iterdir()) == []


@pytest.mark.requirement("S02")
async def test_links_outside_the_skill_folder_do_not_affect_the_skill(stub, github):
    with_archive(stub, [Member("ROOT/docs/x", kind=SYMLINK, link="/etc/passwd"), Member("ROOT/skills/x", b"\0")])
    assert (await fetch(github)).anomalies == ()


@pytest.mark.requirement("S02")
async def test_the_list_of_findings_is_bounded(stub, github):
    with_archive(stub, [Member(f"ROOT/skills/pdf/{n}", kind=SYMLINK, link="x") for n in range(1000)])
    folder = await fetch(github)
    assert len(folder.anomalies) == archive.MAX_ANOMALIES + 1
    assert folder.anomalies[-1].kind is AnomalyKind.MORE


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


@pytest.mark.requirement("S03")
@pytest.mark.parametrize("trick", TWO_READINGS)
async def test_an_archive_that_two_programs_read_differently_is_refused(stub, github, trick):
    repo = stub.repo("acme/skills", FILES)
    sha = repo.branches["main"]
    own = pax("g", comment=sha) + b"".join(
        entry(Member(f"{repo.root(sha)}/{path}", data)) for path, data in repo.commits[sha].files.items()
    )
    repo.commits[sha].archive = packed(ended(own + TWO_READINGS[trick](repo.root(sha))))
    with pytest.raises(Refused, match="cannot be trusted") as refused:
        await fetch(github)
    assert refused.value.code == "bad_archive"


@pytest.mark.requirement("S03")
@pytest.mark.parametrize("place", ["after the end", "a second archive", "after the gzip", "a second gzip"])
async def test_bytes_after_the_end_are_refused(stub, github, place):
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


@pytest.mark.requirement("R27")
async def test_an_archive_that_ends_too_early_is_downloaded_again_later(stub, github):
    repo = stub.repo("acme/skills", FILES)
    sha = repo.branches["main"]
    whole = repo.archive(sha)
    for cut in (whole[: len(whole) // 2], b"", packed(gzip.decompress(whole)[:1024])):
        repo.commits[sha].archive = cut
        with pytest.raises(Deferred, match="the download was interrupted"):
            await fetch(github)


@pytest.mark.requirement("S03")
async def test_the_archive_of_another_commit_is_refused(stub, github):
    repo = stub.repo("acme/skills", FILES)
    sha = repo.branches["main"]
    repo.commits[sha].archive = git_archive(repo.root(sha), "0" * 40, repo.commits[sha].files)
    with pytest.raises(Refused, match="not the archive of the requested commit"):
        await fetch(github)


async def test_a_damaged_archive_is_refused(stub, github):
    repo = stub.repo("acme/skills", FILES)
    repo.commits[repo.branches["main"]].archive = b"PK\x03\x04 this is not a tarball"
    with pytest.raises(Refused, match="damaged"):
        await fetch(github)


def _pax_of(data: bytes) -> bytes:
    return header(b"x", Member("", data, "x")) + padded(data)


def _resized(block: bytes, size: bytes) -> bytes:
    changed = bytearray(block)
    changed[124:136] = size
    changed[148:156] = b"        "
    changed[148:156] = b"%07o\0" % sum(changed)
    return bytes(changed)
