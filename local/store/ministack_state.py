"""Reads the state folder of earlier releases, whose store was an emulator: a JSON snapshot per service, and the files
of S3. It is read once, by the first start of this release, and kept as it is."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from local.store.tables import Key, Table

SERVICES = ("dynamodb", "sqs", "s3")
KEPT = ("TableName", "AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes")


def import_state(connection: sqlite3.Connection, directory: Path) -> None:
    snapshot = newest_complete_snapshot(directory / "state")
    if snapshot is None:
        return
    payloads = {service: json.loads((snapshot / f"{service}.json").read_bytes())["payload"] for service in SERVICES}
    _import_tables(connection, payloads["dynamodb"])
    _import_queues(connection, payloads["sqs"])
    _import_objects(connection, payloads["s3"], directory / "content")
    tables, messages, objects = (
        connection.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0]  # noqa: S608 constants
        for name in ("items", "messages", "objects")
    )
    print(f"imported {tables} items, {messages} messages and {objects} objects from {snapshot}", flush=True)


def newest_complete_snapshot(states: Path) -> Path | None:
    named = sorted((path for path in states.glob("*") if path.name.isdigit()), key=lambda path: -int(path.name))
    return next(filter(_is_complete, named), None)


def _is_complete(snapshot: Path) -> bool:
    try:
        return all("payload" in json.loads((snapshot / f"{service}.json").read_bytes()) for service in SERVICES)
    except (OSError, ValueError, TypeError):
        return False


def _import_tables(connection: sqlite3.Connection, payload: dict[str, Any]) -> None:
    expiry = dict(_scoped(payload["ttl_settings"]))
    for scoped_name, given in _scoped(payload["tables"]):
        definition = {name: given[name] for name in KEPT if given.get(name)}
        if ttl := expiry.get(scoped_name):
            enabled = ttl.get("TimeToLiveStatus") == "ENABLED"
            definition["TimeToLiveSpecification"] = {"AttributeName": ttl.get("AttributeName"), "Enabled": enabled}
        values = (given["TableName"], json.dumps(definition))
        number = connection.execute("INSERT INTO tables (name, definition) VALUES (?, ?)", values).lastrowid
        table = Table(int(number or 0), definition)
        for item in (item for partition in given["items"].values() for item in partition.values()):
            table.put(connection, Key(*table.keys.key_of(item)), item, None)


def _import_queues(connection: sqlite3.Connection, payload: dict[str, Any]) -> None:
    """Their attributes come from the template, at every start."""
    for _, queue in _scoped(payload["queues"]):
        values = (queue["name"], "{}")
        number = connection.execute("INSERT INTO queues (name, attributes) VALUES (?, ?)", values).lastrowid
        for message in queue["messages"]:
            connection.execute(
                "INSERT INTO messages (queue, message_id, body, sent_at, visible_at, receives, received_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (number, *(message[name] for name in ("id", "body", "sent_at", "visible_at")), *_receives(message)),
            )


def _receives(message: dict[str, Any]) -> tuple[int, float | None]:
    return message.get("receive_count") or 0, message.get("first_receive_at")


def _import_objects(connection: sqlite3.Connection, payload: dict[str, Any], content: Path) -> None:
    for scoped_name, _ in _scoped(payload["buckets_meta"]):
        account, _, quoted = scoped_name.partition("\x00")
        bucket = quoted.strip("'")
        connection.execute("INSERT INTO buckets VALUES (?)", (bucket,))
        for about in (content / account / bucket).rglob("*.meta.json"):
            values = json.loads(about.read_bytes())
            body = about.with_name(about.name.removesuffix(".meta.json"))
            connection.execute(
                "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)",
                (bucket, values["key"], body.read_bytes(), values["content_type"], body.stat().st_mtime),
            )


def _scoped(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Keys have the account, and for most services the region, in front of the name."""
    yield from values["data"].items()
