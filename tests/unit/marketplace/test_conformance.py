"""What the specification of agentskills.io says of a SKILL.md, and what clients make of it."""

from pathlib import Path

import pytest

from shared.marketplace.conformance import BYTE_ORDER_MARK, MAX_FRONT_MATTER, check_conformance

SAMPLES = sorted((Path(__file__).parents[3] / "samples" / "good").iterdir())


def test_the_first_start_has_skills_for_every_client_and_one_that_shows_what_to_change():
    read = {folder.name: check_conformance((folder / "SKILL.md").read_bytes(), folder.name) for folder in SAMPLES}
    assert [name for name, each in read.items() if each.deviations] == ["sql-review"]


def checked(front_matter: str, folder: str = "pdf"):
    return check_conformance(f"---\n{front_matter}\n---\nText\n".encode(), folder)


GOOD = "name: pdf\ndescription: Reads files."


@pytest.mark.parametrize(
    "more",
    [
        "",
        "license: MIT",
        "compatibility: Needs git",
        "metadata: {version: '1.0'}",
        "allowed-tools: Bash(git:*) Read",
        "other: [1, 2.5, true, null, {a: b}]",
    ],
)
def test_a_page_that_keeps_to_it_has_no_deviations(more):
    result = checked(f"{GOOD}\n{more}")
    assert result.deviations == ()
    assert result.front_matter["name"] == "pdf"


@pytest.mark.parametrize(
    ("front_matter", "fields"),
    [
        ("description: Reads files.", {"yaml"}),
        ("name: 7\ndescription: Reads files.", {"yaml"}),
        ("name: PDF\ndescription: x", {"name"}),
        ("name: pdf--x\ndescription: x", {"name"}),
        (f"name: {'a' * 65}\ndescription: x", {"name"}),
        ("name: other\ndescription: x", {"name"}),
        (f"name: pdf\ndescription: {'x' * 1025}", {"description"}),
        (f"{GOOD}\nlicense: [MIT]", {"license"}),
        (f"{GOOD}\ncompatibility: ''", {"compatibility"}),
        (f"{GOOD}\ncompatibility: {'x' * 501}", {"compatibility"}),
        (f"{GOOD}\nmetadata: {{tags: [a]}}", {"metadata"}),
        (f"{GOOD}\nmetadata: {{version: 1.0}}", {"metadata"}),
        (f"{GOOD}\nmetadata: text", {"metadata"}),
        (f"{GOOD}\nallowed-tools: [Read]", {"allowed-tools"}),
        ("name: pdf\ndescription: a: b", {"yaml"}),
        (f"{GOOD}\nother: 2026-01-01", {"yaml"}),
        (f"{GOOD}\nother: .inf", {"yaml"}),
        (f"{GOOD}\nother: {{1: 2}}", {"yaml"}),
        (f"{GOOD}\nother: {10**30}", {"yaml"}),
        (f"{GOOD}\nother: !!set {{a, b}}", {"yaml"}),
        (f"{GOOD}\nother: {'x' * MAX_FRONT_MATTER}", {"yaml"}),
    ],
)
def test_every_deviation_is_named(front_matter, fields):
    assert {each.field for each in checked(front_matter).deviations} == fields


def test_a_byte_order_mark_is_a_deviation_and_the_rest_is_read():
    result = check_conformance(b"\xef\xbb\xbf---\nname: pdf\ndescription: x\n---\n", "pdf")
    assert [each.problem for each in result.deviations] == [BYTE_ORDER_MARK]
    assert result.front_matter == {"name": "pdf", "description": "x"}


@pytest.mark.parametrize("raw", [b"", b"no front matter", b"---\nname: x\n", b"---\nname: \xff\n---\n"])
def test_what_cannot_be_read_is_no_front_matter(raw):
    result = check_conformance(raw, "pdf")
    assert result.front_matter is None
    assert [each.field for each in result.deviations] == ["yaml"]
