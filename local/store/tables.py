"""Tables with their indexes: what an item's keys are, and the rows that it has in the file."""

import sqlite3
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import orjson

from local.store.errors import RequestError, invalid, unsupported
from local.store.expressions import number

MAX_ITEM_BYTES = 400 * 1024
MAX_PK_BYTES, MAX_SK_BYTES = 2048, 1024
INDEXES_PER_TABLE = 100  # in the numbering of index entries
TYPES = {"S", "N", "B", "BOOL", "NULL", "M", "L", "SS", "NS", "BS"}
Item = dict[str, Any]


class Key(NamedTuple):
    pk: str
    sk: str


class KeySchema(NamedTuple):
    pk: str
    sk: str | None

    @property
    def names(self) -> tuple[str, ...]:
        return (self.pk,) if self.sk is None else (self.pk, self.sk)

    def key_of(self, item: Mapping[str, Any]) -> Key:
        sk = _key_text(item, self.sk, MAX_SK_BYTES) if self.sk is not None else ""
        return Key(_key_text(item, self.pk, MAX_PK_BYTES), sk)


class Index(NamedTuple):
    number: int
    name: str
    keys: KeySchema
    kept: frozenset[str] | None  # attributes of an entry; None: all

    def entry(self, item: Item | None) -> tuple[Key, bytes] | None:
        """None where the item is not in this index."""
        if item is None or any(name not in item for name in self.keys.names):
            return None
        kept = item if self.kept is None else {name: item[name] for name in item if name in self.kept}
        return self.keys.key_of(item), orjson.dumps(kept)


class Table:
    def __init__(self, number: int, definition: Mapping[str, Any]) -> None:
        self.number, self.definition = number, definition
        self.name: str = definition["TableName"]
        self.keys = _key_schema(definition["KeySchema"])
        self.indexes = [self._index(n, given) for n, given in enumerate(definition.get("GlobalSecondaryIndexes") or [])]
        self._check_definitions()

    @cached_property
    def expiry(self) -> str | None:
        ttl = self.definition.get("TimeToLiveSpecification") or {}
        return ttl.get("AttributeName") if ttl.get("Enabled") else None

    def index(self, name: str) -> Index:
        found = next((index for index in self.indexes if index.name == name), None)
        if found is None:
            raise invalid(f"The table does not have the specified index: {name}")
        return found

    def get(self, connection: sqlite3.Connection, key: Key) -> Item | None:
        row = connection.execute(
            "SELECT item FROM items WHERE tbl = ? AND pk = ? AND sk = ?", (self.number, *key)
        ).fetchone()
        return orjson.loads(row[0]) if row else None

    def put(self, connection: sqlite3.Connection, key: Key, item: Item, before: Item | None) -> None:
        text = checked_item(item)
        connection.execute(
            "INSERT INTO items (tbl, pk, sk, item, expires) VALUES (?, ?, ?, ?, ?) ON CONFLICT (tbl, pk, sk)"
            " DO UPDATE SET item = excluded.item, expires = excluded.expires",
            (self.number, *key, text, self._expires(item)),
        )
        self._write_entries(connection, self.indexes, key, before, item)

    def delete(self, connection: sqlite3.Connection, key: Key, before: Item | None) -> None:
        connection.execute("DELETE FROM items WHERE tbl = ? AND pk = ? AND sk = ?", (self.number, *key))
        self._write_entries(connection, self.indexes, key, before, None)

    def fill_indexes(self, connection: sqlite3.Connection, names: Iterable[str]) -> None:
        """Of items that were there before the index."""
        indexes = [index for index in self.indexes if index.name in set(names)]
        rows = connection.execute("SELECT pk, sk, item FROM items WHERE tbl = ?", (self.number,)).fetchall()
        for pk, sk, item in rows:
            self._write_entries(connection, indexes, Key(pk, sk), None, orjson.loads(item))

    def _write_entries(
        self,
        connection: sqlite3.Connection,
        indexes: Iterable[Index],
        key: Key,
        before: Item | None,
        after: Item | None,
    ) -> None:
        for index in indexes:
            old, new = index.entry(before), index.entry(after)
            if old == new:
                continue
            if old is not None and (new is None or new[0] != old[0]):
                connection.execute(
                    "DELETE FROM entries WHERE idx = ? AND pk = ? AND sk = ? AND item_pk = ? AND item_sk = ?",
                    (index.number, *old[0], *key),
                )
            if new is not None:
                connection.execute(
                    "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?)", (index.number, *new[0], *key, new[1])
                )

    def _expires(self, item: Item) -> int | None:
        value = item.get(self.expiry) if self.expiry else None
        return int(number(value)) if value and "N" in value else None

    def _index(self, place: int, given: Mapping[str, Any]) -> Index:
        keys, projection = _key_schema(given["KeySchema"]), given.get("Projection") or {}
        kept = {*self.keys.names, *keys.names, *projection.get("NonKeyAttributes", [])}
        is_all = projection.get("ProjectionType") == "ALL"
        return Index(
            self.number * INDEXES_PER_TABLE + place, given["IndexName"], keys, None if is_all else frozenset(kept)
        )

    def _check_definitions(self) -> None:
        types = {d["AttributeName"]: d["AttributeType"] for d in self.definition.get("AttributeDefinitions", [])}
        for keys in (self.keys, *(index.keys for index in self.indexes)):
            for name in keys.names:
                if types.get(name) != "S":
                    raise unsupported(f"the key {name} of a type other than S")


def find_table(connection: sqlite3.Connection, name: str) -> Table:
    row = connection.execute("SELECT id, definition FROM tables WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise RequestError("ResourceNotFoundException", f"Requested resource not found: Table: {name} not found")
    return _table_of(*row)


@lru_cache(maxsize=500)
def _table_of(number: int, definition: str) -> Table:
    return Table(number, orjson.loads(definition))


def checked_item(item: Item) -> bytes:
    for name, value in item.items():
        if not isinstance(value, dict) or len(value) != 1 or not value.keys() <= TYPES:
            raise invalid(f"The attribute {name[:60]} must have one value of a supported type.")
        if "N" in value:
            number(value)
        elif "S" in value and not isinstance(value["S"], str):
            raise invalid(f"The attribute {name[:60]} is no string.")
    text = orjson.dumps(item)
    if len(text) > MAX_ITEM_BYTES and sum(len(name.encode()) + _size(v) for name, v in item.items()) > MAX_ITEM_BYTES:
        raise invalid("Item size has exceeded the maximum allowed size")
    return text


def _size(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, dict):
        return sum(_size(part) for part in value.values())
    return sum(map(_size, value)) if isinstance(value, list) else 1


def _key_schema(given: list[dict[str, str]]) -> KeySchema:
    names = {part["KeyType"]: part["AttributeName"] for part in given}
    return KeySchema(names["HASH"], names.get("RANGE"))


def _key_text(item: Mapping[str, Any], name: str, longest: int) -> str:
    value = item.get(name)
    if not isinstance(value, dict) or not isinstance(value.get("S"), str):
        raise invalid(f"The key {name} is missing, or is not of type S.")
    text: str = value["S"]
    if not text or (4 * len(text) > longest and len(text.encode()) > longest):  # a character has up to 4 bytes
        raise invalid(f"The key {name} must have 1 to {longest} bytes.")
    return text
