"""SIGKILL of the whole platform, a few times; `python -m tests.faults.kills` does it fifty times."""

import pytest

from tests.faults.kills import Kills


@pytest.mark.requirement("R39")
def test_killed_with_everything_under_load_nothing_that_was_acknowledged_is_lost(tmp_path):
    kills = Kills(tmp_path, seed=7)
    kills.run(times=2)
    assert kills.problems == []
    assert kills.submitted
    assert kills.decisions
