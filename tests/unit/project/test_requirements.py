"""Every requirement has a test, and every `requirement` marker names a known one."""

import re

from tests.faults.fault_table import rows
from tests.support.marked_tests import ROOT, marked_tests

INVARIANTS = {f"I{n}" for n in range(1, 17)}  # most are checked after every step, not by a test of their own


def documented() -> set[str]:
    """The ids in the first column of the tables in docs/requirements.md."""
    return set(
        re.findall(r"^\| ((?:TC|AC|FR)-[\w-]+) \|", (ROOT / "docs" / "requirements.md").read_text(), re.MULTILINE)
    )


def marked() -> set[str]:
    return {id_ for test in marked_tests() for id_ in test.ids}


def test_every_requirement_and_every_fault_has_a_test():
    assert (documented() | {row.id for row in rows()}) - marked() == set()


def test_no_marker_names_an_unknown_requirement():
    assert marked() - documented() - {row.id for row in rows()} - INVARIANTS == set()


def test_an_id_is_spelled_in_a_marker_and_not_in_a_name():
    spelled = re.compile(r"_((tc|ac|fr)_(\d+|spec)|[rs]\d\d|i\d\d?)(_|$)", re.IGNORECASE)
    assert [test.node_id for test in marked_tests() if spelled.search(test.name)] == []
