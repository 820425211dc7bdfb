"""Front matter: lenient where authors are careless, strict where a reader could be harmed."""

import pytest

from shared.scanner.front_matter import read_front_matter


def page(fields: str) -> str:
    return f"---\n{fields}\n---\n\n# Title\n"


def test_all_fields_are_read() -> None:
    found = read_front_matter(
        page(
            "name: a-b\ndescription: Does it.\nallowed-tools: Bash(git add:*), Read\n"
            "metadata:\n  version: 1.2.3\n  category: Data\n  tags: [x, y]"
        ),
        folder="a-b",
    )
    assert (found.name, found.description, found.version) == ("a-b", "Does it.", "1.2.3")
    assert (found.category, found.tags) == ("data", ("x", "y"))
    assert found.allowed_tools == ("Bash(git add:*)", "Read")
    assert (found.errors, found.warnings) == ((), ())


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (None, "SKILL.md is missing"),
        ("# No front matter\n", "does not begin with front matter"),
        ("---\nname: a\ndescription: never closed\n", "does not begin with front matter"),
        (page("description: x"), "no name"),
        (page("name: a"), "no description"),
        (page("name: [a]\ndescription: x"), "no name"),
        (page("name: ../a\ndescription: x"), "the name is invalid"),
        (page(f"name: {'a' * 200}\ndescription: x"), "the name is invalid"),
        (page(f"name: a\ndescription: {'x ' * 5000}"), "longer than"),
        (page("name: a\ndescription: !!python/object/apply:os.system [id]"), "Python objects"),
        (page("name: a\ndescription: x\nb: " + "[" * 200 + "]" * 200), "nested or aliased"),
        (page("name: a\ndescription: x\na: &a [x]\nb: [" + ", ".join(["*a"] * 40) + "]"), "nested or aliased"),
        (page("name: a\n" + "x: y\n" * 20_000), "larger than"),
    ],
)
def test_what_cannot_be_used_is_an_error(text: str | None, error: str) -> None:
    errors = read_front_matter(text).errors
    assert any(error in found for found in errors), errors


def test_a_colon_in_the_description_is_forgiven_with_a_warning() -> None:
    found = read_front_matter(page("name: a\ndescription: Use when: things break"))
    assert (found.name, found.description, found.errors) == ("a", "Use when: things break", ())
    assert any("read line by line" in warning for warning in found.warnings)


UNSEEN = "\\x1b[2J\\u202Egood\\u200B\\u0007\\uFEFF"


def test_control_and_invisible_characters_are_left_out_with_a_warning() -> None:
    fields = [f'{key}: "a {UNSEEN}"' for key in ("description", "license", "compatibility", "category")]
    found = read_front_matter(page("\n".join(["name: a", *fields, f'tags: ["a {UNSEEN}"]', f'tools: "{UNSEEN}"'])))
    assert {found.description, found.license, found.compatibility, found.category, *found.tags} == {
        "a [2jgood",
        "a [2Jgood",
    }
    assert found.allowed_tools == ("[2Jgood",)
    [warning] = [each for each in found.warnings if "control and invisible" in each]
    assert warning.endswith("from: category, compatibility, description, license, tags, tools")
    assert "category, tags" in str(
        read_front_matter(
            page(f'name: a\ndescription: b\nmetadata:\n  tags: ["{UNSEEN}"]\n  category: "{UNSEEN}"')
        ).warnings
    )


def test_what_joins_letters_stays_and_a_name_is_not_mended() -> None:
    found = read_front_matter(page("name: a\ndescription: \u0645\u06cc\u200c\u062e \U0001f469\u200d\U0001f4bb"))
    assert found.description == "\u0645\u06cc\u200c\u062e \U0001f469\u200d\U0001f4bb"
    assert not found.warnings
    assert "the name is invalid" in read_front_matter(page('name: "a\\u202E"\ndescription: b')).errors[0]


@pytest.mark.parametrize(
    ("fields", "folder", "warning"),
    [
        ("name: My Skill\ndescription: x", "", "lower-case words"),
        (f"name: {'a' * 70}\ndescription: x", "", "longer than 64"),
        ("name: a\ndescription: x", "b", "differs from the name of its folder"),
        (f"name: a\ndescription: {'x' * 1100}", "", "longer than 1024"),
        ("name: a\ndescription: x\nversion: new", "", "not a semantic version"),
        ("name: a\ndescription: x\ncolour: blue", "", "colour"),
    ],
)
def test_what_breaks_only_the_specification_is_a_warning(fields: str, folder: str, warning: str) -> None:
    found = read_front_matter(page(fields), folder)
    assert found.errors == ()
    assert any(warning in text for text in found.warnings)


def test_a_byte_order_mark_and_windows_lines_are_understood() -> None:
    assert read_front_matter("\ufeff---\r\nname: a\r\ndescription: x\r\n---\r\n").errors == ()
