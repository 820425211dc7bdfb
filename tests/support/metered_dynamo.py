"""DynamoDB in memory that says what AWS would charge: read and write units by the published rules, from real requests.

Assumed: a strong read takes a unit per 4 KB of an item and one for a missing one; a query a unit per 4 KB of its page,
at least one, half of that in an index; a write a unit per KB, twice in a transaction, and in an index one for a new or
changed row, two where its key changes."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from shared.storage.kv import Key
from tests.support.memory import Stored
from tests.support.memory_dynamo import MemoryDynamo

INDEXES = {"list": True, "state": True, "due": False}  # whether it carries `row`


class MeteredDynamo(MemoryDynamo):
    def __init__(self) -> None:
        super().__init__()
        self.read = 0.0
        self.written = 0.0
        self.requests: Counter[str] = Counter()
        self.reads_by_family: dict[str, float] = defaultdict(float)
        self.writes_by_family: dict[str, float] = defaultdict(float)
        self.factor = 1
        self.on_write = self._count_write

    def forget(self) -> None:
        self.read = self.written = 0.0
        for counter in (self.requests, self.reads_by_family, self.writes_by_family):
            counter.clear()

    def apply(self, operation: str, params: Mapping[str, Any], by: Any = None) -> dict[str, Any]:
        self.factor = 2 if operation == "TransactWriteItems" else 1
        self.requests[operation] += 1
        answer = super().apply(operation, params, by)
        if operation == "GetItem":
            self._count_read(params["Key"]["pk"]["S"], _units(_size(answer.get("Item", {})), 4096))
        elif operation == "BatchGetItem":
            self._count_batch(params, answer)
        elif operation == "Query":
            self._count_query(params, answer)
        return answer

    def _count_batch(self, params: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        [(table, ask)] = params["RequestItems"].items()
        found = {(item["pk"]["S"], item["sk"]["S"]): item for item in answer["Responses"][table]}
        for key in ask["Keys"]:
            item = found.get((key["pk"]["S"], key["sk"]["S"]), {})
            self._count_read(key["pk"]["S"], _units(_size(item), 4096))

    def _count_query(self, params: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        units = _units(sum(map(_size, answer["Items"])), 4096)
        share = 1.0 if params.get("ConsistentRead") else 0.5
        self._count_read(params["ExpressionAttributeValues"][":p"]["S"], units * share)

    def _count_read(self, pk: str, units: float) -> None:
        self.read += units
        self.reads_by_family[family_of(pk)] += units

    def _count_write(self, by: Any, key: Key, before: Stored | None, after: Stored | None) -> None:
        units = write_units(self.factor, key, before, after)
        units += sum(index_units(index, before, after) for index in INDEXES)
        self.written += units
        self.writes_by_family[family_of(key.pk)] += units


def write_units(factor: int, key: Key, before: Stored | None, after: Stored | None) -> int:
    return factor * _units(max(_stored_size(key, stored) for stored in (before, after)), 1024)


def index_units(index: str, before: Stored | None, after: Stored | None) -> int:
    old, new = (_index_row(index, stored) for stored in (before, after))
    if old == new:
        return 0
    changed_key = old is not None and new is not None and old[:2] != new[:2]
    return 2 if changed_key else 1


def _index_row(index: str, stored: Stored | None) -> tuple[Any, ...] | None:
    if stored is None or f"{index}Pk" not in stored.attrs:
        return None
    carried = stored.attrs.get("row") if INDEXES[index] else None
    return stored.attrs[f"{index}Pk"], stored.attrs[f"{index}Sk"], carried


def _stored_size(key: Key, stored: Stored | None) -> int:
    if stored is None:
        return 0
    attrs = sum(len(name) + len(str(value).encode()) for name, value in stored.attrs.items())
    counts = sum(len(name) + 8 for name in getattr(stored, "counts", {}))
    return len(key.pk) + len(key.sk) + 4 + len(stored.doc.encode()) + 3 + attrs + counts


def _size(item: Mapping[str, Any]) -> int:
    return sum(len(name) + len(next(iter(value.values())).encode()) for name, value in item.items())


def _units(size: int, step: int) -> int:
    return max(1, math.ceil(size / step))


def family_of(pk: str) -> str:
    """`stats:hour` and `stats:day` are families of their own."""
    parts = pk.split(":")
    return ":".join(parts[:2]) if parts[0] == "stats" and len(parts) > 2 else parts[0]
