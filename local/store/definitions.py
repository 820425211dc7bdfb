"""Tables of DynamoDB as they are created and changed: the keys, the indexes and the attribute of expiry."""

import sqlite3
from collections.abc import Mapping
from typing import Any

import orjson

from local.store.errors import RequestError, unsupported
from local.store.tables import Table, find_table

Params = Mapping[str, Any]


def create_table(connection: sqlite3.Connection, params: Params) -> Params:
    name = params["TableName"]
    if connection.execute("SELECT 1 FROM tables WHERE name = ?", (name,)).fetchone():
        raise RequestError("ResourceInUseException", f"Table already exists: {name}")
    Table(0, params)
    connection.execute("INSERT INTO tables (name, definition) VALUES (?, ?)", (name, orjson.dumps(params).decode()))
    return params


def add_indexes(connection: sqlite3.Connection, params: Params) -> Params:
    table = find_table(connection, params["TableName"])
    updates = params.get("GlobalSecondaryIndexUpdates") or []
    if not all(update.keys() == {"Create"} for update in updates):
        raise unsupported("anything but Create in GlobalSecondaryIndexUpdates")
    added = [update["Create"] for update in updates]
    known = {d["AttributeName"]: d for d in table.definition.get("AttributeDefinitions", [])}
    known |= {d["AttributeName"]: d for d in params.get("AttributeDefinitions", [])}
    changed = {
        **table.definition,
        "AttributeDefinitions": list(known.values()),
        "GlobalSecondaryIndexes": [*(table.definition.get("GlobalSecondaryIndexes") or []), *added],
    }
    Table(table.number, changed).fill_indexes(connection, [index["IndexName"] for index in added])
    return _store_definition(connection, table, changed)


def set_expiry(connection: sqlite3.Connection, params: Params) -> Params:
    table = find_table(connection, params["TableName"])
    changed = {**table.definition, "TimeToLiveSpecification": params["TimeToLiveSpecification"]}
    return _store_definition(connection, table, changed)


def _store_definition(connection: sqlite3.Connection, table: Table, changed: dict[str, Any]) -> Params:
    text = orjson.dumps(changed).decode()
    connection.execute("UPDATE tables SET definition = ? WHERE id = ?", (text, table.number))
    return changed


def delete_table(connection: sqlite3.Connection, params: Params) -> Params:
    table = find_table(connection, params["TableName"])
    connection.execute("DELETE FROM items WHERE tbl = ?", (table.number,))
    for index in table.indexes:
        connection.execute("DELETE FROM entries WHERE idx = ?", (index.number,))
    connection.execute("DELETE FROM tables WHERE id = ?", (table.number,))
    return table.definition


def described(definition: Params) -> dict[str, Any]:
    indexes = [{**index, "IndexStatus": "ACTIVE"} for index in definition.get("GlobalSecondaryIndexes") or []]
    known = {name: definition[name] for name in ("TableName", "AttributeDefinitions", "KeySchema")}
    return {**known, "TableStatus": "ACTIVE", **({"GlobalSecondaryIndexes": indexes} if indexes else {})}
