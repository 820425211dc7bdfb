"""Scripts that SKILL.md has run and the skill does not ship."""

import pytest

from shared.scanner import scan_skill
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


def test_a_page_that_skill_md_leads_to_counts_and_may_rely_on_what_was_made_before() -> None:
    header = "---\nname: notes\ndescription: Keeps notes.\n---\n\nFollow [the guide](guide.md).\n"
    files = {"SKILL.md": header.encode(), "guide.md": b"Then run `bash scripts/todo.sh`.\n"}
    found = [(one.path, one.excerpt) for one in scan_skill(files).findings if one.rule.startswith("SC-SCRIPT-")]
    assert found == [("guide.md", "todo.sh")]
    made = f"{header}Save the following as scripts/todo.sh.\n"
    assert not [one for one in scan_skill({**files, "SKILL.md": made.encode()}).findings if "SC-SCRIPT" in one.rule]
    alone = {**files, "SKILL.md": header.replace("guide.md", "other.md").encode()}
    assert not [one for one in scan_skill(alone).findings if "SC-SCRIPT" in one.rule]
