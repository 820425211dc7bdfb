"""Scripts that SKILL.md has run and the skill does not ship."""

import pytest

from shared.scanner.missing_scripts import find_missing_scripts


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("Run `bash scripts/todo.sh add`.", ["todo.sh"]),
        ("Run:\n\n    python3 {baseDir}/tools/get.py x\n", ["get.py"]),
        ("`node skills/notes/scripts/sync.mjs`, then `./scripts/done.sh`", ["sync.mjs", "done.sh"]),
        ("Run `python train.py` in your project.", []),
        ("Download it with `curl -o scripts/todo.sh https://example.org/t`, then `bash scripts/todo.sh`.", []),
        ("`python scripts/shipped.py`", []),
    ],
)
def test_a_script_of_the_skill_itself_is_missed(page: str, names: list[str]) -> None:
    assert [one.name for one in find_missing_scripts(page, ["SKILL.md", "scripts/shipped.py"])] == names


def test_a_promise_counts_only_where_nothing_is_shipped() -> None:
    page = "The bundled script prepares the folder.\n\n```bash\n./prepare.sh\n```\n"
    assert [(one.name, one.line, one.is_promised) for one in find_missing_scripts(page, ["SKILL.md"])] == [
        ("prepare.sh", 4, True)
    ]
    assert not find_missing_scripts(page, ["SKILL.md", "other.py"])
    assert not find_missing_scripts(page, ["SKILL.md", "bin/prepare.sh"])
