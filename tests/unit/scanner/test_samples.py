"""The samples get the verdict their folders promise."""

from pathlib import Path

import pytest

from shared.scanner.folders import read_skill
from shared.scanner.report import Verdict
from shared.scanner.scan import scan_skill

SAMPLES = Path(__file__).parents[3] / "samples"
GOOD = sorted((SAMPLES / "good").iterdir())
BAD = sorted((SAMPLES / "bad").iterdir())


@pytest.mark.parametrize("folder", [*GOOD, *BAD], ids=lambda folder: folder.name)
def test_a_sample_gets_the_verdict_its_folder_promises(folder: Path) -> None:
    skill = read_skill(folder)
    verdict = scan_skill(skill.files, skill.findings).verdict
    assert (verdict is Verdict.PASS) == (folder.parent.name == "good")
    assert verdict is not Verdict.FAIL or not folder.name.endswith("-concerns")


@pytest.mark.parametrize("folder", [*GOOD, *BAD], ids=lambda folder: folder.name)
def test_a_sample_has_complete_front_matter(folder: Path) -> None:
    front_matter = scan_skill(read_skill(folder).files).front_matter
    assert (front_matter.errors, front_matter.warnings) == ((), ())
    assert front_matter.name == folder.name
    assert front_matter.version
    assert front_matter.tags
    assert front_matter.category != "other"


def test_there_are_enough_samples_of_both_kinds() -> None:
    assert len(GOOD) >= 8
    assert len(BAD) >= 8


def test_the_bad_samples_cover_the_main_categories() -> None:
    found = {f.category for folder in BAD for f in scan_skill(read_skill(folder).files).findings}
    assert found >= {
        *("remote code", "credential access", "exfiltration", "reverse shell", "persistence", "privilege and defence"),
        *("destruction", "mining", "prompt injection", "agent tampering", "obfuscation", "supply chain"),
    }
