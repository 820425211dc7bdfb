"""What must hold at every moment (I1–I5, I14), checked on the in-memory store itself."""

from collections import Counter
from itertools import pairwise

import msgspec

from shared.kv import Key
from shared.stats import COUNTER_KEYS
from shared.submissions import LEGAL_MOVES, HistoryEntry, State, Submission, due_at
from tests.support.memory import MemoryKV


def check_invariants(kv: MemoryKV) -> None:
    submissions = [_decode(kv, key) for key in kv.items if key.pk.startswith("sub:")]
    for submission in submissions:
        _check_history(kv, submission)
        _check_publication(kv, submission)
        _check_index(kv, submission)
    _check_counters(kv, submissions)
    identities = [(submission.source, submission.skill_path) for submission in submissions]
    assert len(set(identities)) == len(identities), "I7: one identity, one submission"


def _decode(kv: MemoryKV, key: Key) -> Submission:
    return msgspec.json.decode(kv.items[key].doc, type=Submission)


def _check_history(kv: MemoryKV, submission: Submission) -> None:
    keys = sorted(key for key in kv.items if key.pk == f"hist:{submission.id}")
    history = [msgspec.json.decode(kv.items[key].doc, type=HistoryEntry) for key in keys]
    assert [entry.seq for entry in history] == list(range(1, submission.seq + 1)), "I3: history only grows"
    assert history[-1].to_state == submission.state, "I3: the last entry is the state"
    assert history[0].from_state is None
    for before, after in pairwise(history):
        assert after.from_state == before.to_state
        assert after.to_state in LEGAL_MOVES[before.to_state], "I2: only legal moves"


def _check_publication(kv: MemoryKV, submission: Submission) -> None:
    if submission.state not in (State.PUBLISHED, State.VENDOR_APPROVED):
        return
    versions = [
        msgspec.json.decode(item.doc) for key, item in kv.items.items() if key.pk == f"version:{submission.skill_name}"
    ]
    assert submission.content_hash in {version["contentHash"] for version in versions}, "I4: published, so it exists"


def _check_counters(kv: MemoryKV, submissions: list[Submission]) -> None:
    counted: Counter[str] = Counter()
    for key in COUNTER_KEYS:
        if key in kv.items:
            counted.update(kv.items[key].attrs)
    assert +counted == Counter(submission.state for submission in submissions), "I5: counters equal a recount"
    assert min(counted.values(), default=0) >= 0, "I5: none negative"


def _check_index(kv: MemoryKV, submission: Submission) -> None:
    attrs = kv.items[Key(f"sub:{submission.id}")].attrs
    assert attrs["statePk"].partition("#")[0] == submission.state, "I14: the index follows the record"
    assert msgspec.json.decode(attrs["row"])["state"] == submission.state
    assert len(attrs["row"]) <= 700
    assert ("duePk" in attrs) == (due_at(submission) is not None)
