"""What must hold at every moment (I1–I16), checked on the in-memory stores themselves.

`check_invariants` looks at one moment. A `Watcher` also remembers the moments before it and who wrote what.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec

from shared.marketplace.skill_index import index_puts
from shared.marketplace.skill_store import counts_key, decode_skill, installs_order
from shared.records.facets import counted_facets
from shared.records.skills import Skill, SkillVersion
from shared.records.submissions import (
    ACTIVE_STATES,
    CATEGORIES,
    LARGEST_ROW,
    LEGAL_MOVES,
    PARKED_STATES,
    TERMINAL_STATES,
    HistoryEntry,
    State,
    Submission,
    due_at,
)
from shared.storage.kv import Key
from shared.storage.queue import Poison, parse_body
from shared.submissions.counters import SKILL_COUNTER_KEYS, counter_keys
from shared.submissions.submission_store import history_in, words_of
from shared.timing import MAX_ATTEMPTS
from tests.support.memory import Stored
from tests.support.memory_sqs import Sent

Items = Mapping[Key, Stored]


def check_invariants(kv: Any) -> None:
    """I2–I5, I7, I8 and I14, on anything with `items`."""
    items: Items = kv.items
    submissions = submissions_of(items)
    histories = histories_of(items)
    versions = versions_of(items)
    for submission in submissions.values():
        _check_history(submission, histories[submission.id])
        _check_attempts(submission, histories[submission.id])
        _check_index(items, submission)
        if submission.state in CATEGORIES["published"]:
            hashes = {version.content_hash for version in versions[submission.skill_name.lower()]}
            assert submission.content_hash in hashes, "I4: published, so its version exists"
    _check_marketplace(items, submissions, versions, histories)
    _check_words(items, submissions.values())
    _check_counters(items, submissions)
    _check_holders(items, submissions)
    _check_skill_counters(items, versions)
    _check_identities(items, submissions)


def submissions_of(items: Items) -> dict[str, Submission]:
    found = [_SUBMISSION.decode(item.doc) for key, item in items.items() if key.pk.startswith("sub:")]
    return {submission.id: submission for submission in found}


def histories_of(items: Items) -> dict[str, list[HistoryEntry]]:
    histories: dict[str, list[HistoryEntry]] = defaultdict(list)
    for key in sorted(key for key in items if key.pk.startswith("hist:")):
        histories[key.pk.removeprefix("hist:")] += history_in(items[key].doc)
    for submission in submissions_of(items).values():
        histories[submission.id] += submission.unwritten
    return histories


def versions_of(items: Items) -> dict[str, list[SkillVersion]]:
    versions: dict[str, list[SkillVersion]] = defaultdict(list)
    for key in sorted(key for key in items if key.pk.startswith("version:")):
        versions[key.pk.removeprefix("version:")].append(_VERSION.decode(items[key].doc))
    return versions


_SUBMISSION = msgspec.json.Decoder(Submission)
_VERSION = msgspec.json.Decoder(SkillVersion)
_SKILL = msgspec.json.Decoder(Skill)


def _check_history(submission: Submission, history: list[HistoryEntry]) -> None:
    assert [entry.seq for entry in history] == list(range(1, submission.seq + 1)), "I3: history only grows"
    assert history[-1].to_state == submission.state, "I3: the last entry is the state"
    assert history[0].from_state is None, "I3: only creation comes from nowhere"
    for before, after in pairwise(history):
        assert after.from_state == before.to_state, "I3: no gap"
        assert after.to_state in LEGAL_MOVES[before.to_state], "I2: only legal moves"
        if before.to_state in TERMINAL_STATES:
            by_decision = after.actor.startswith("admin:") or after.actor == "system"
            assert by_decision, "I2: terminal states absorb except an explicit reopen"
            assert after.reason, "I2: a reopen is logged with its reason"


def _check_attempts(submission: Submission, history: list[HistoryEntry]) -> None:
    """I8: the record's count agrees with its history."""
    attempts = 0
    for entry in history:
        if entry.to_state is State.TIER1_SCANNING:
            attempts += 1
        elif entry.to_state is State.RECEIVED:
            if entry.actor in ("worker", "recovery"):
                assert entry.reason, "I8: an attempt that failed says why"
                attempts -= bool(entry.reason.startswith("deferred:"))
            else:
                attempts = 0
        elif entry.to_state is State.AUTO_APPROVED and entry.actor.startswith("admin:"):
            attempts = 0
        assert 0 <= attempts <= MAX_ATTEMPTS, "I8: attempts stay within their budget"
    assert submission.attempts == attempts, "I8: attempts are those of the history"


def _check_words(items: Items, submissions: Iterable[Submission]) -> None:
    for submission in submissions:
        assert items.keys() >= {put.key for put in words_of(submission)}, "I14: a submission is found by its name"
    for key in [key for key in items if key.pk.startswith("skill:") and not key.pk.startswith("skill:alias:")]:
        skill = decode_skill(items[key].doc)
        if skill.is_deleted:
            assert "listPk" not in items[key].attrs, "I14: a tombstone is in no list"
        elif skill.unindexed_since:
            assert "duePk" in items[key].attrs, "I14: what cannot be found yet is due"
        else:
            assert items.keys() >= {put.key for put in index_puts(skill)}, "I14: a skill is found by words and facets"
            counted = items.get(counts_key(skill.name))
            if counted is not None:  # tests of single stores make skills without
                order = counted.attrs["listPk"].rpartition("#")[0]
                assert order == installs_order(skill.category.lower()), "I14: and in the order of its category"


def _check_marketplace(
    items: Items,
    submissions: Mapping[str, Submission],
    versions: Mapping[str, list[SkillVersion]],
    histories: Mapping[str, list[HistoryEntry]],
) -> None:
    for key, item in items.items():
        if not key.pk.startswith("skill:") or key.pk.startswith("skill:alias:"):
            continue
        skill = _SKILL.decode(item.doc)
        assert key.pk == f"skill:{skill.name.lower()}", "I4: one skill per name"
        current = [v for v in versions[skill.name.lower()] if v.version == skill.current_version]
        assert [v.content_hash for v in current] == [skill.content_hash], "I4: a skill shows a version that exists"
        owner = submissions.get(skill.submission_id)  # tests of single stores make skills without
        if owner and skill.is_blocked:
            assert owner.state not in CATEGORIES["published"], (
                "I4: a submission is not published while its skill is blocked"
            )
    for of_one_name in versions.values():
        for version in of_one_name:
            named = {
                entry.reason for entry in histories[version.submission_id] if entry.to_state in CATEGORIES["published"]
            }
            assert f"published as version {version.version}" in named, "I4: a version was published by its submission"
        for earlier, later in pairwise(of_one_name):
            assert earlier.content_hash != later.content_hash, "I4: nothing is published twice"


def _check_counters(items: Items, submissions: Mapping[str, Submission]) -> None:
    counted: Counter[str] = Counter()
    for key in counter_keys(100):
        if key in items:
            counted.update({name: n for name, n in items[key].attrs.items() if name in set(State)})
    recount = Counter(submission.state for submission in submissions.values())
    assert +counted == recount, "I5, I14: counters and cards equal a recount"
    assert min(counted.values(), default=0) >= 0, "I5: none negative"


def _check_holders(items: Items, submissions: Mapping[str, Submission]) -> None:
    held = {key.pk.removeprefix("held:"): item.attrs["held"] for key, item in items.items() if key.pk[:5] == "held:"}
    recount = Counter(submission.held_by for submission in submissions.values() if submission.held_by)
    assert +Counter(held) == recount, "I5: what each address holds equals a recount"
    assert min(held.values(), default=0) >= 0, "I5: none negative"
    for submission in submissions.values():
        assert submission.state in ACTIVE_STATES or submission.held_by is None, "I5: only what is active is held"


def _check_skill_counters(items: Items, versions: Mapping[str, list[SkillVersion]]) -> None:
    counted: Counter[str] = Counter()
    for key in SKILL_COUNTER_KEYS:
        if key in items:
            counted.update(items[key].attrs)
    listed = [skill for skill in skills_of(items) if skill.is_listed]
    recount = Counter(skills=len(listed), versions=sum(len(versions[skill.name.lower()]) for skill in listed))
    for skill in listed:
        recount.update(counted_facets(skill))
    assert +counted == +recount, "I5: skills, versions and facets equal a recount"


def skills_of(items: Items) -> list[Skill]:
    keys = [key for key in items if key.pk.startswith("skill:") and not key.pk.startswith("skill:alias:")]
    return [_SKILL.decode(items[key].doc) for key in keys]


def _check_identities(items: Items, submissions: Mapping[str, Submission]) -> None:
    identities = [(submission.source, submission.skill_path) for submission in submissions.values()]
    assert len(set(identities)) == len(identities), "I7: one identity, one submission"
    for (source, path), submission in zip(identities, submissions.values(), strict=True):
        unique = items.get(Key(f"unique:{source}", path))
        if unique is not None:  # tests of single stores make records without one
            assert msgspec.json.decode(unique.doc)["id"] == submission.id, "I7: the identity leads to its submission"


def _check_index(items: Items, submission: Submission) -> None:
    attrs = items[Key(f"sub:{submission.id}")].attrs
    assert attrs["statePk"].partition("#")[0] == submission.state, "I14: the index follows the record"
    assert msgspec.json.decode(attrs["row"])["state"] == submission.state, "I14: the row follows the record"
    assert len(attrs["row"].encode()) <= LARGEST_ROW
    assert ("duePk" in attrs) == (due_at(submission) is not None), "I14: what is due is found"


class Watcher:
    """Remembers. `slack` is how far the clocks of those who act may be apart."""

    def __init__(self) -> None:
        self.slack = timedelta()
        self.violations: list[str] = []
        self.accepted: set[str] = set()
        self._records: dict[str, Submission] = {}
        self._histories: dict[str, list[HistoryEntry]] = {}
        self._may_die: set[str] = set()  # messages that may become a dead letter

    def check(self, kv: Any, quiescent: bool = False) -> None:
        assert not self.violations, self.violations
        check_invariants(kv)
        records, histories = submissions_of(kv.items), histories_of(kv.items)
        assert self.accepted | self._records.keys() <= records.keys(), "I1: nothing accepted disappears"
        for submission_id, before in self._records.items():
            _check_progress(before, records[submission_id])
            known = self._histories[submission_id]
            assert histories[submission_id][: len(known)] == known, "I3: history is never changed"
        self._records, self._histories = records, histories
        letters = {key.pk.removeprefix("dead-letter:") for key in kv.items if key.pk.startswith("dead-letter:")}
        assert letters <= self._may_die, "I15: nothing else is a dead letter"
        if quiescent:
            for submission in records.values():
                assert submission.state not in ACTIVE_STATES, f"I12: at rest it is {submission.state}"
                if submission.state in PARKED_STATES:
                    assert submission.reason, "I12: parked with a reason"

    def wrote(self, actor: Any, key: Key, before: Stored | None, after: Stored | None) -> None:
        """I6 and I16, at the moment of the write itself."""
        if not key.pk.startswith("sub:") or actor is None or after is None:
            return
        new = _SUBMISSION.decode(after.doc)
        old = None if before is None else _SUBMISSION.decode(before.doc)
        if old and actor.kind == "scan" and _is_leased(old, actor.clock()):
            self.violations.append("I16: the scan touched a live lease")
        if old and new.fence == old.fence > actor.claimed.get(new.id, old.fence):
            self.violations.append("I6: the holder of an old fence changed something")
        if old and new.fence > old.fence:
            actor.claimed[new.id] = new.fence

    def answered(self, received: Iterable[str], answer: Mapping[str, Any] | None) -> None:
        assert answer is not None, "I11: None would mean that all is well"
        failed = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
        assert failed <= set(received), "I11: the answer names what was received"

    def died(self, message_id: str) -> None:
        self._may_die.add(message_id)

    def deleted(self, kv: Any, message: Sent, left: Iterable[str], at: datetime) -> None:
        """I9 and the other half of I15. `left` are the bodies still in the queues."""
        others = {named for body in left if (named := _named(body))}
        try:
            submission_id = parse_body(message.body).id
        except Poison:
            assert Key(f"dead-letter:{message.id}") in kv.items, "I15: poison is a dead letter"
            return
        record = submissions_of(kv.items).get(submission_id)
        assert record is not None, "I9: a message without a record was deleted"
        since = message.received_at - 2 * self.slack
        # What was finished since it was received, it did. A reopen after that is sent, or found by the scan, anew.
        finished = [e for e in histories_of(kv.items)[record.id] if e.timestamp >= since]
        if any(state not in ACTIVE_STATES for state in (record.state, *(e.to_state for e in finished))):
            return
        is_there = _is_leased(record, at - 2 * self.slack) or submission_id in others
        assert is_there, f"I9: a message was deleted, {record.state} is left without one"

    def buried(self, kv: Any, message_id: str) -> None:
        assert Key(f"dead-letter:{message_id}") in kv.items, "I15: what died in the queue is a dead letter"


def _named(body: str) -> str | None:
    try:
        return parse_body(body).id
    except Poison:
        return None


def _is_leased(submission: Submission, at: datetime) -> bool:
    """Of its own: a guard that is switched off must not blind its check."""
    return submission.lease_until is not None and at < submission.lease_until


def _check_progress(before: Submission, after: Submission) -> None:
    assert after.version >= before.version, "I3: version rises"
    assert after.version > before.version or after == before, "I3: every change rises the version"
    assert after.fence >= before.fence, "I3: fence never falls"
    assert (after.id, after.source, after.created_at) == (before.id, before.source, before.created_at), "I1: ids stay"
