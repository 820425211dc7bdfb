"""What must hold once the faults are over and nothing moves any more, over HTTP and in the store itself.

Each check returns its problems as sentences; an empty list is good.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

from shared.records.submissions import CATEGORIES, PARKED_STATES, TERMINAL_STATES
from shared.submissions.submission_store import history_in
from shared.timing import MAX_ATTEMPTS
from tests.support.faulty_platform import FaultyPlatform
from tests.support.invariants import check_invariants
from tests.support.memory import MemoryKV

Problems = list[str]
READERS = 4


def wrong_at_rest(faulty: FaultyPlatform, accepted: Iterable[str], poison: Iterable[str]) -> Problems:
    stored = faulty.stored()
    before = records_of(stored)
    return [
        *_lost(faulty, before, set(accepted)),
        *_unfinished(before),
        *_broken_invariants(stored),
        *_published_twice(stored, before),
        *_untrue_numbers(faulty, before),
        *_untrue_list(faulty, before),
        *_unaccounted_letters(stored, before, set(poison)),
        *_unfound(stored),
        *_not_at_rest(faulty, before),
    ]


def records_of(stored: MemoryKV) -> dict[str, dict[str, Any]]:
    docs = [json.loads(item.doc) for key, item in stored.items.items() if key.pk.startswith("sub:")]
    return {doc["id"]: doc for doc in docs}


def letters_of(stored: MemoryKV) -> list[dict[str, Any]]:
    return [json.loads(item.doc) for key, item in stored.items.items() if key.pk.startswith("dead-letter:")]


def _lost(faulty: FaultyPlatform, records: dict[str, Any], accepted: set[str]) -> Problems:
    def read(submission_id: str) -> tuple[str, int, Any]:
        return submission_id, *faulty.insist("GET", f"/api/v1/submissions/{submission_id}")

    with ThreadPoolExecutor(READERS) as pool:
        answers = list(pool.map(read, sorted(accepted)))
    problems = [f"I1: {s} was accepted and is answered {status}" for s, status, _ in answers if status != 200]
    problems += [f"I1: {s} was accepted and is not stored" for s in accepted - records.keys()]
    return problems + [
        f"I3: {s} is {answer['state']} over HTTP and {records[s]['state']} in the store"
        for s, status, answer in answers
        if status == 200 and s in records and answer["state"] != records[s]["state"]
    ]


def _unfinished(records: dict[str, Any]) -> Problems:
    problems = []
    for submission_id, record in records.items():
        if record["state"] not in TERMINAL_STATES | PARKED_STATES:
            problems.append(f"I12: {submission_id} is still {record['state']}")
        elif record["state"] not in CATEGORIES["published"] and not record.get("reason"):
            problems.append(f"I12: {submission_id} is {record['state']} without a reason")
        if record.get("attempts", 0) > MAX_ATTEMPTS:
            problems.append(f"I8: {submission_id} had {record['attempts']} attempts")
    return problems


def _broken_invariants(stored: MemoryKV) -> Problems:
    try:
        check_invariants(stored)
    except AssertionError as error:
        return [f"an invariant is broken: {error}"]
    return []


def _published_twice(stored: MemoryKV, records: dict[str, Any]) -> Problems:
    """Every publication names a version of its own, and every version has other content than the one before it."""
    problems = []
    named: Counter[tuple[str, str]] = Counter()
    for key, item in stored.items.items():
        if key.pk.startswith("hist:"):
            record = records.get(key.pk.removeprefix("hist:"))
            for entry in history_in(item.doc) if record else ():
                if entry.to_state not in CATEGORIES["published"]:
                    continue
                version = re.search(r"version (\S+)", entry.reason or "")
                named[record["skillName"].lower(), version[1] if version else ""] += 1
    in_order = [json.loads(stored.items[key].doc) for key in sorted(stored.items) if key.pk.startswith("version:")]
    same = [b["name"] for a, b in pairwise(in_order) if a["name"] == b["name"] and a["contentHash"] == b["contentHash"]]
    there = {(version["name"].lower(), version["version"]) for version in in_order}
    problems += [f"I4: {name} was published {n} times as {version}" for (name, version), n in named.items() if n > 1]
    problems += [f"I4: {name} has two versions in a row with one content" for name in same]
    problems += [f"I4: {name} {version} has no publication" for name, version in there - named.keys()]
    return problems + [f"I4: {name} {version} is not there" for name, version in named.keys() - there]


def _untrue_numbers(faulty: FaultyPlatform, records: dict[str, Any]) -> Problems:
    status, counted = faulty.insist("GET", "/api/v1/submissions/stats")
    recount = Counter(record["state"] for record in records.values())
    shown = {state: n for state, n in (counted.get("byState") or {}).items() if n}
    if status != 200 or shown != dict(recount) or counted["total"] != len(records):
        return [f"I5: the cards say {shown}, a recount {dict(recount)}"]
    return []


def _untrue_list(faulty: FaultyPlatform, records: dict[str, Any]) -> Problems:
    listed: list[str] = []
    cursor = ""
    while cursor is not None:
        status, page = faulty.insist("GET", f"/api/v1/submissions?limit=500{cursor and '&cursor=' + cursor}")
        if status != 200 or page["degraded"]:
            return [f"I14: the list is answered {status} {page}"[:300]]
        listed += [row["id"] for row in page["submissions"]]
        cursor = page["cursor"]
    if sorted(listed) != sorted(records):
        return [f"I14: the list has {len(listed)} rows, {len(set(listed))} of them different; there are {len(records)}"]
    return []


def _unaccounted_letters(stored: MemoryKV, records: dict[str, Any], poison: set[str]) -> Problems:
    letters = {letter["id"]: letter for letter in letters_of(stored)}
    problems = [f"I15: the poison message {m} is no dead letter" for m in poison - letters.keys()]
    for message_id in letters.keys() - poison:
        submission_id = letters[message_id]["submissionId"]
        if submission_id not in records:
            problems.append(f"I15: the dead letter {message_id} is of {submission_id}, which does not exist")
    return problems


def _unfound(stored: MemoryKV) -> Problems:
    """What finds a skill is written after the publication; a worker that died between leaves it to the scan."""
    facets = {key.sk.partition("#")[2] for key in stored.items if key.pk.startswith("facet:")}
    skills = [key.pk.removeprefix("skill:") for key in stored.items if key.pk.startswith("skill:") and key.sk == "."]
    return [f"{name} is published and nothing finds it" for name in skills if name not in facets]


def _not_at_rest(faulty: FaultyPlatform, before: dict[str, Any]) -> Problems:
    """I13: the queues are empty, the scan finds nothing, and a second one changes nothing."""
    problems = [
        f"I13: {n} messages are in {q}" for q in ("queueUrl", "deadLetterQueueUrl") if (n := faulty.messages(q))
    ]
    for _ in range(2):
        report = faulty.scan()
        if report["found"] or report["failed"]:
            problems.append(f"I13: a scan at rest found {report}")
    if records_of(faulty.stored()) != before:
        problems.append("I13: a scan at rest changed records")
    return problems
