"""Forty attacks and forty harmless twins with the same words, written by a person who had not seen the code."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.scanner.flow import find_flows
from shared.scanner.matching import Deadline, TextFile

PAIRS = yaml.load(
    (Path(__file__).parent / "pairs.yaml").read_text("utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader)
)
# What the engine does not follow yet.
MISSED = {
    "repo-walker-workspace-chunks",
    "session-notes-shell-to-node",
}


def has_flow(files: dict[str, str]) -> bool:
    return bool(find_flows([TextFile(path, text, text) for path, text in files.items()], Deadline(float("inf"))))


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair["name"] not in MISSED], ids=lambda pair: pair["name"])
def test_an_attack_is_followed_to_where_it_leaves(pair: dict[str, Any]) -> None:
    assert has_flow(pair["attack"])


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair["name"])
def test_its_twin_has_no_flow(pair: dict[str, Any]) -> None:
    assert not has_flow(pair["twin"])
