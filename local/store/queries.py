"""Query and Scan: a range of one index, read in its order and cut into pages."""

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, NamedTuple

import orjson

from local.store.errors import invalid, unsupported
from local.store.expressions import Names, Test, parse_condition
from local.store.tables import Index, Item, KeySchema, Table

PAGE_BYTES = 1024 * 1024
Project = Callable[[Item], Item]


class _Range(NamedTuple):
    """The rows of a query: `where` with its arguments, and the columns that order them."""

    source: str
    order: tuple[str, ...]
    where: list[str]
    arguments: list[Any]


def run_query(
    reader: sqlite3.Connection, table: Table, params: Mapping[str, Any], names: Names, project: Project
) -> dict[str, Any]:
    index = table.index(params["IndexName"]) if "IndexName" in params else None
    if index and params.get("ConsistentRead"):
        raise invalid("Consistent reads are not supported on global secondary indexes")
    found = _range_of_index(index) if index else _range_of_table(table)
    _add_key_condition(found, params["KeyConditionExpression"], (index or table).keys, names)
    names.check_all_used()
    return _page(reader, table, index, found, params, project, backwards=params.get("ScanIndexForward") is False)


def run_scan(
    reader: sqlite3.Connection, table: Table, params: Mapping[str, Any], names: Names, project: Project
) -> dict[str, Any]:
    names.check_all_used()
    found = _Range("items", ("pk", "sk"), ["tbl = ?"], [table.number])
    return _page(reader, table, None, found, params, project, backwards=False)


def _range_of_table(table: Table) -> _Range:
    return _Range("items", ("sk",), ["tbl = ?"], [table.number])


def _range_of_index(index: Index) -> _Range:
    return _Range("entries", ("sk", "item_pk", "item_sk"), ["idx = ?"], [index.number])


def _add_key_condition(found: _Range, text: str, keys: KeySchema, names: Names) -> None:
    test = parse_condition(text)
    parts = list(test.parts) if test.kind == "AND" else [test]
    by_name = {names.path(part.parts[0]): part for part in parts if isinstance(part.parts[0], str)}
    if len(by_name) < len(parts) or not by_name.keys() <= set(keys.names) or len(parts) > 2:
        raise invalid("KeyConditionExpressions must have one condition per key, on keys only")
    equal = by_name.pop(keys.pk, None)
    if equal is None or equal.kind != "=":
        raise invalid(f"Query condition missed key schema element: {keys.pk}")
    found.where.append("pk = ?")
    found.arguments.append(_text(names, equal.parts[1]))
    for part in by_name.values():
        _add_bounds(found, part, names)


def _add_bounds(found: _Range, part: Test, names: Names) -> None:
    values = [_text(names, value) for value in part.parts[1:]]
    match part.kind:
        case "=" | "<" | "<=" | ">" | ">=":
            found.where.append(f"sk {part.kind} ?")
            found.arguments.append(values[0])
        case "BETWEEN":
            found.where.append("sk >= ? AND sk <= ?")
            found.arguments.extend(values)
        case "begins_with":
            end = end_of_prefix(values[0])
            found.where.append("sk >= ?" if end is None else "sk >= ? AND sk < ?")
            found.arguments.extend([values[0]] if end is None else [values[0], end])
        case _:
            raise unsupported(f"{part.kind} on a sort key")


def end_of_prefix(prefix: str) -> str | None:
    """The smallest text above all that begin with this one. None: there is none."""
    stem = prefix.rstrip("\U0010ffff")
    if not stem:
        return None
    following = ord(stem[-1]) + 1
    return stem[:-1] + chr(0xE000 if 0xD800 <= following < 0xE000 else following)


def _page(
    reader: sqlite3.Connection,
    table: Table,
    index: Index | None,
    found: _Range,
    params: Mapping[str, Any],
    project: Project,
    *,
    backwards: bool,
) -> dict[str, Any]:
    if start := params.get("ExclusiveStartKey"):
        columns, marks = ", ".join(found.order), ", ".join("?" * len(found.order))
        found.where.append(f"({columns}) {'<' if backwards else '>'} ({marks})")
        found.arguments.extend(_position(table, index, start, found.order))
    order = ", ".join(f"{column} DESC" if backwards else column for column in found.order)
    limit = params.get("Limit")
    if limit is not None and not 1 <= limit <= 1_000_000:
        raise invalid("Limit must be at least 1")
    # All parts are constants of this module; what a request names is an argument.
    query = f"SELECT item FROM {found.source} WHERE {' AND '.join(found.where)} ORDER BY {order} LIMIT ?"  # noqa: S608
    items: list[Item] = []
    room, cut = PAGE_BYTES, False
    # Closed at once: an open cursor would hold the reader at what was committed when it began.
    with closing(reader.execute(query, [*found.arguments, -1 if limit is None else limit])) as rows:
        for (text,) in rows:
            items.append(orjson.loads(text))
            room -= len(text)
            if room <= 0 or len(items) == limit:
                cut = True  # like DynamoDB: what follows may be nothing
                break
    answer: dict[str, Any] = {"Items": list(map(project, items)), "Count": len(items), "ScannedCount": len(items)}
    return {**answer, "LastEvaluatedKey": _key_of(table, index, items[-1])} if cut else answer


def _position(table: Table, index: Index | None, start: Item, order: tuple[str, ...]) -> list[str]:
    key = table.keys.key_of(start)
    if index:
        return [index.keys.key_of(start).sk, *key]
    return [*key] if len(order) == 2 else [key.sk]


def _key_of(table: Table, index: Index | None, item: Item) -> Item:
    names = {*table.keys.names, *(index.keys.names if index else ())}
    return {name: item[name] for name in names}


def _text(names: Names, value: str) -> str:
    text = names.value(value).get("S")
    if not isinstance(text, str):
        raise invalid("Keys are of type S, and so are the values that they are compared with")
    return text
