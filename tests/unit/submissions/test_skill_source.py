"""Addresses, paths, names and bundles as people send them."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.errors import InvalidRequest, NotFound, TooLarge
from shared.records.search_words import look_alike
from shared.records.submissions import State, Submission
from shared.submissions.skill_source import (
    MAX_BUNDLE,
    MAX_FILES,
    RESERVED_SLUGS,
    Repo,
    fetch_upload,
    parse_repo_url,
    parse_skill_path,
    parse_slug,
    read_bundle,
)
from tests.support.memory import within

SAME_REPO = [
    "https://github.com/Owner/Repo",
    "http://github.com/Owner/Repo",
    "https://www.github.com/Owner/Repo",
    "HTTPS://GitHub.COM/Owner/Repo",
    "https://github.com/Owner/Repo/",
    "https://github.com/Owner/Repo.git",
    "https://github.com/Owner/Repo.GIT",
    "https://github.com/Owner/Repo.git/",
    "https://github.com//Owner//Repo",
    "  https://github.com/Owner/Repo \n",
    "github.com/Owner/Repo",
    "www.github.com/Owner/Repo",
    "https://github.com/Owner/Repo?tab=readme-ov-file#usage",
]


@pytest.mark.parametrize("text", SAME_REPO)
def test_every_way_to_write_a_repository_is_one_repository(text):
    assert parse_repo_url(text) == Repo("Owner", "Repo")
    assert parse_repo_url(text).url == "https://github.com/Owner/Repo"


def test_repositories_are_compared_in_lower_case():
    assert parse_repo_url("github.com/OWNER/RePo").source == parse_repo_url("github.com/owner/repo").source


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("https://github.com/o/r/tree/main", "main"),
        ("https://github.com/o/r/tree/main/", "main"),
        ("https://github.com/o/r/tree/main/skills/pdf", "main/skills/pdf"),
        ("https://github.com/o/r/tree/feature/x/skills/pdf", "feature/x/skills/pdf"),
        ("https://github.com/o/r/tree/main/a%20b", "main/a b"),
        ("https://github.com/o/r/tree/main/100%25", "main/100%"),
    ],
)
def test_a_folder_of_a_repository_is_understood_not_dropped(text, tree):
    assert parse_repo_url(text) == Repo("o", "r", tree)


OTHER_HOSTS = [
    "https://gitlab.com/o/r",
    "https://github.com.evil.example/o/r",
    "https://evil.example/github.com/o/r",
    "https://raw.githubusercontent.com/o/r",
    "https://api.github.com/o/r",
    "https://gist.github.com/o/r",
    "https://github.com./o/r",
    "https://user@github.com/o/r",
    "https://user:secret@github.com/o/r",
    "https://github.com@evil.example/o/r",
    "git@github.com:o/r.git",
    "https://github.com:443/o/r",
    "https://github.com:22/o/r",
    "https://github.com\\@evil.example/o/r",
    "http://127.0.0.1/o/r",
    "http://2130706433/o/r",
    "http://0x7f.1/o/r",
    "http://[::1]/o/r",
    "http://[::1/o/r",
    "https://[github.com]/o/r",
    "http://169.254.169.254/latest/meta-data",
    "https://g\u0456thub.com/o/r",
    "https://github\u3002com/o/r",
    "https://github.com\u2100.example/o/r",
    "https://xn--gthub-n4a.com/o/r",
    "file:///etc/passwd",
    "file://github.com/o/r",
    "ssh://github.com/o/r",
    "ftp://github.com/o/r",
    "javascript://github.com/o/r",
    "//github.com/o/r",
    "",
    " ",
    "://",
    "o/r",
]
NO_REPOSITORY = [
    "https://github.com",
    "https://github.com/o",
    "https://github.com/o/",
    "https://github.com/o/..",
    "https://github.com/o/%2e%2e",
    "https://github.com/o/.",
    "https://github.com/../r",
    "https://github.com/%2e%2e/r",
    "https://github.com/o/.git",
    "https://github.com/-o/r",
    "https://github.com/o-/r",
    f"https://github.com/{'o' * 40}/r",
    f"https://github.com/o/{'r' * 101}",
    "https://github.com/o_o/r",
    "https://github.com/\u00f6/r",
    "https://github.com/o/r\u00e9po",
    "https://github.com/o/r%2Fx",
    "https://github.com/o%2Fr/x",
    "https://github.com/o/r%00",
    "https://github.com/o/r%0d%0ahost:evil",
    "https://github.com/o/r r",
    "https://github.com/o/r\ud800",
    "https://github.com/uploads/anonymous",
    "https://github.com/Uploads/x",
    "https://github.com/o/r/blob/main/SKILL.md",
    "https://github.com/o/r/issues/1",
    "https://github.com/o/r/tree",
    "https://github.com/o/r/tree/",
    "https://github.com/o/r/tree/main/../../x",
    "https://github.com/o/r/tree/main/%2e%2e/x",
    "https://github.com/o/r/tree/main/a%2F..%2Fb",
    "https://github.com/o/r/tree/main/a%5Cb",
    "https://github.com/o/r/tree/main/a%00b",
    "https://github.com/o/r/tree/main/%E2%80%AEb",
    f"https://github.com/o/r/tree/main/{'a' * 2000}",
]


@pytest.mark.requirement("S04", "S12")
@pytest.mark.parametrize("text", OTHER_HOSTS + NO_REPOSITORY)
def test_what_is_not_a_repository_on_github_is_refused(text):
    with pytest.raises(InvalidRequest) as refusal:
        parse_repo_url(text)
    assert refusal.value.code == "invalid_repo_url"
    assert "https://github.com/owner/repo" in str(refusal.value)


@pytest.mark.requirement("S04")
@settings(deadline=None)
@given(st.text(max_size=80) | st.builds("https://github.com/{}/{}".format, st.text(max_size=30), st.text(max_size=30)))
def test_any_text_is_refused_or_rebuilt_from_safe_parts(text):
    try:
        repo = parse_repo_url(text)
    except InvalidRequest:
        return
    assert parse_repo_url(repo.url) == repo._replace(tree=None)
    assert repo.source.isascii()
    assert repo.source.startswith("https://github.com/")
    assert repo.source.count("/") == 4
    assert not {"", ".", ".."} & {repo.owner, repo.name}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("skills/pdf", "skills/pdf"),
        ("/skills/pdf/", "skills/pdf"),
        ("skills//pdf", "skills/pdf"),
        ("skills/pdf/SKILL.md", "skills/pdf"),
        ("skills/pdf/skill.md", "skills/pdf"),
        ("SKILL.md", "."),
        (".", "."),
        ("/", "."),
        (" skills/pdf ", "skills/pdf"),
        ("Skills/PDF", "Skills/PDF"),
    ],
)
def test_a_skill_path_has_one_form(text, path):
    assert parse_skill_path(text) == path


@pytest.mark.requirement("S02")
@pytest.mark.parametrize(
    "text",
    [
        "..",
        "a/../b",
        "a/./b",
        "a\\b",
        "a\0b",
        "a\nb",
        "a\u200bb",
        "a\u202eb",
        "a\ud800b",
        "x" * 501,
        "\U0001f600" * 300,
    ],
)
def test_an_unsafe_skill_path_is_refused(text):
    with pytest.raises(InvalidRequest) as refusal:
        parse_skill_path(text)
    assert refusal.value.code == "invalid_skill_path"


@pytest.mark.parametrize("slug", ["a", "pdf", "pdf-tools", "a.b_c-d", "0", "x" * 64])
def test_a_slug_is_taken_as_it_is(slug):
    assert parse_slug(slug) == slug


@pytest.mark.requirement("S11", "S12")
@pytest.mark.parametrize(
    "text",
    [
        *sorted(RESERVED_SLUGS),
        *("", " ", "PDF", "-a", "a-", ".a", "a.", "_a", "a..b", "a/b", "a b", "a\n", "a:b", "a#b", "a@b", "a\0"),
        *("\u0440df", "pd\u200bf", "caf\u00e9", "\u0661", "x" * 65, "\ud800"),
    ],
)
def test_what_cannot_be_a_slug_is_refused(text):
    with pytest.raises(InvalidRequest) as refusal:
        parse_slug(text)
    assert refusal.value.code == "invalid_skill_name"


@pytest.mark.requirement("S11")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("pdf-tool", "pdf_tool"),
        ("pdf-tool", "pdftool"),
        ("pdf.tool", "pdf-tool"),
        ("pdf", "PDF"),
        ("lint", "1int"),
        ("lint", "iint"),
        ("lint", "Iint"),
        ("tool", "t00l"),
        ("a--b", "a-b"),
    ],
)
def test_names_that_people_confuse_look_alike(one, other):
    assert look_alike(one) == look_alike(other)


@pytest.mark.requirement("S11")
@pytest.mark.parametrize(("one", "other"), [("pdf", "pdfs"), ("ab", "ba"), ("tool2", "tool3"), ("a", "b")])
def test_names_that_differ_do_not_look_alike(one, other):
    assert look_alike(one) != look_alike(other)


def test_a_bundle_is_its_files_as_bytes():
    assert read_bundle([("SKILL.md", "# \u00e4\r\n"), ("a/b.py", "")]) == {"SKILL.md": b"# \xc3\xa4\r\n", "a/b.py": b""}


UNSAFE_FILES = ["", "/etc/passwd", "../x", "a/../x", "a/./x", "./x", "a//x", "a/", "/", ".", "..", "a\\x", "C:\\x"]
UNSAFE_FILES += ["a\0x", "a\nx", "a\u200bx", "a\u202ex", "a\ud800x", "x" * 301]


@pytest.mark.requirement("S02")
@pytest.mark.parametrize("path", UNSAFE_FILES)
def test_a_path_out_of_the_folder_is_refused(path):
    with pytest.raises(InvalidRequest) as refusal:
        read_bundle([("SKILL.md", "x"), (path, "x")])
    assert refusal.value.code == "invalid_bundle"


@pytest.mark.requirement("S03")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SKILL.md", "SKILL.md"),
        ("SKILL.md", "skill.MD"),
        ("a/B", "A/b"),
        ("stra\u00dfe", "STRASSE"),
        ("caf\u00e9", "cafe\u0301"),
        ("a", "a/b"),
        ("a/b/c", "A"),
    ],
)
def test_files_that_one_disk_would_take_for_the_same_are_refused(one, other):
    with pytest.raises(InvalidRequest) as refusal:
        read_bundle([(one, "1"), ("between", ""), (other, "2")])
    assert refusal.value.code == "invalid_bundle"


@pytest.mark.requirement("S10")
@pytest.mark.parametrize("content", ["\ud800", "a\udfffb"])
def test_a_lone_surrogate_in_a_file_is_refused(content):
    with pytest.raises(InvalidRequest, match="UTF-8"):
        read_bundle([("SKILL.md", content)])


@pytest.mark.requirement("S01")
def test_a_bundle_of_4_MB_is_taken_and_a_byte_more_is_not():
    half = "x" * (MAX_BUNDLE // 2)
    assert sum(map(len, read_bundle([("SKILL.md", half), ("b", half)]).values())) == 4 * 1024 * 1024
    with pytest.raises(TooLarge):
        read_bundle([("SKILL.md", half), ("b", half), ("c", "x")])
    with pytest.raises(TooLarge):
        read_bundle([("SKILL.md", half), ("b", half[1:] + "\u00e4")])  # bytes count, not characters


@pytest.mark.requirement("S01")
@pytest.mark.parametrize(("n", "is_taken"), [(0, False), (1, True), (MAX_FILES, True), (MAX_FILES + 1, False)])
def test_a_bundle_has_1_to_500_files(n, is_taken):
    files = [("SKILL.md", ""), *((f"file{i}", "") for i in range(n - 1))][:n]
    if is_taken:
        assert len(read_bundle(files)) == n
    else:
        with pytest.raises(InvalidRequest, match="500"):
            read_bundle(files)


async def test_the_files_of_an_upload_are_those_that_were_stored(env):
    content_hash = await env.content.put_files({"SKILL.md": b"x"})
    fetched = await within(env, lambda: fetch_upload(_submission(content_hash)))
    assert (fetched.files, fetched.path, fetched.place) == ({"SKILL.md": b"x"}, "pdf", None)


async def test_lost_content_is_an_error_not_an_empty_skill(env):
    with pytest.raises(NotFound):
        await within(env, lambda: fetch_upload(_submission("0" * 64)))


def _submission(content_hash):
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return Submission(
        id="sub_" + "0" * 26,
        source="uploads/anonymous",
        skill_path="pdf",
        skill_name="uploads/anonymous/pdf",
        state=State.TIER1_SCANNING,
        created_at=at,
        updated_at=at,
        content_hash=content_hash,
    )
