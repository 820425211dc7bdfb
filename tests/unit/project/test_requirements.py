"""Every requirement the platform was asked for with has a test that bears its id."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
CASES = ["050", "056", "057", "058", "060", "061", "062", "063", "065", "070", "071", "072", "075", "076", "077"]
CRITERIA = {
    "0281": {1: 3, 2: 3, 3: 3},
    "0310": {1: 3, 2: 3, 3: 5},
    "spec": {1: 3, 2: 3, 3: 5},
}


def test_every_requirement_is_in_the_name_of_a_test():
    names = " ".join(
        name for path in TESTS.rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
    )
    wanted = [f"tc_{case}" for case in CASES] + [
        f"ac_{spec}_us{story}_{n:02}"
        for spec, stories in CRITERIA.items()
        for story, last in stories.items()
        for n in range(1, last + 1)
    ]
    assert [requirement for requirement in wanted if requirement not in names] == []
