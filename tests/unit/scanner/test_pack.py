"""The rule pack: built, loaded, versioned, documented."""

import io
from pathlib import Path

import pytest
import yara_x

from shared.scanner import build, pack, rule_set_version
from shared.scanner.pack import RuleError, compile_pack, find_compiled_pack, loosen_spaces, sources_digest, write_pack


def test_a_written_pack_is_loaded_and_works(tmp_path: Path) -> None:
    written = write_pack(tmp_path / "rules.pack")
    loaded = find_compiled_pack(tmp_path / "rules.pack")
    assert loaded == written
    scanner = yara_x.Scanner(yara_x.Rules.deserialize_from(io.BytesIO(loaded.compiled)))
    assert [r.identifier for r in scanner.scan(b"stratum+tcp://pool:1").matching_rules] == ["MI_POOL"]


def test_a_missing_broken_or_outdated_pack_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rules.pack"
    assert find_compiled_pack(path) is None
    path.write_bytes(b"nonsense")
    assert find_compiled_pack(path) is None
    write_pack(path)
    monkeypatch.setattr(pack, "sources_digest", lambda: "another")
    assert find_compiled_pack(path) is None


def test_the_version_changes_with_the_rules_and_with_the_code_that_reads_them() -> None:
    assert rule_set_version().endswith(sources_digest()[:10])
    assert rule_set_version().startswith("20")


def test_every_category_that_is_promised_has_rules() -> None:
    assert {rule.category for rule in build.published_rules()} >= {
        *("remote code", "credential access", "exfiltration", "reverse shell", "persistence", "privilege and defence"),
        *("destruction", "mining", "prompt injection", "agent tampering", "obfuscation", "supply chain", "secrets"),
        "hidden content",
    }


def test_the_page_of_rules_is_current() -> None:
    assert build.RULES_PAGE.read_text("utf-8") == build.rules_page(), "run `make rules`"


def test_the_table_has_one_line_per_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(build.published_rules()) + 1


COMPLETE = "id: A, title: t, severity: low, action: none, why: w, fix: f"


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("  - id: A\n", "x.yaml: rule A"),
        (f"  - {{{COMPLETE.replace('low', 'huge')}}}\n", "severity"),
        (f"  - {{{COMPLETE}, colour: x}}\n", "colour"),
        (f"  - {{{COMPLETE}, patterns: ['(']}}\n", "rule A"),
        (f"  - {{{COMPLETE}}}\n" * 2, "twice"),
    ],
)
def test_a_rule_that_is_wrong_is_named(tmp_path: Path, rules: str, message: str) -> None:
    for name in (
        "vocabulary.yaml",
        "trusted.yaml",
        "packages.yaml",
        "hosts.yaml",
        "known_hosts.yaml",
        "read_words.yaml",
    ):
        (tmp_path / name).write_text((pack.RULES_DIR / name).read_text())
    (tmp_path / "x.yaml").write_text("category: x\nrules:\n" + rules)
    with pytest.raises(RuleError, match=message):
        compile_pack(tmp_path)


def test_a_space_in_a_pattern_matches_any_white_space() -> None:
    assert loosen_spaces(r"a b[^ x]\ c ?d") == r"a\s+b[^ x]\ c ?d"
