"""How many calls of the product lie between a request and the store call that completes it."""

from pathlib import Path

from bench.house import walks

ROOT = Path(__file__).parents[3]
READ, CHANGE = 3, 7  # hops


def test_reads_and_changes_take_few_hops():
    hops = {name: len(chain) - 1 for name, chain in walks(ROOT).items()}
    assert max(hops[name] for name in ("GET /queue", "a search")) <= READ
    assert max(hops.values()) <= CHANGE, hops
