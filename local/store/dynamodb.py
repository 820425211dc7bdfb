"""DynamoDB's operations that the platform and its tests use. Any other operation or parameter is refused by name."""

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import orjson

from local.store.database import Database
from local.store.definitions import add_indexes, create_table, delete_table, described, set_expiry
from local.store.errors import RequestError, invalid, unsupported
from local.store.expressions import Names, holds, parse_condition, parse_projection, parse_update, updated
from local.store.queries import run_query, run_scan
from local.store.tables import Item, Key, Table, find_table

Params = Mapping[str, Any]
ACTIONS_PER_TRANSACTION = 100
KEYS_PER_BATCH = 100
WRITES_PER_BATCH = 25
BATCH_BYTES = 16 * 1024 * 1024
TOKEN_SECONDS = 600.0
_NAMES = {"ExpressionAttributeNames", "ExpressionAttributeValues"}
_CONDITION = {"TableName", "ConditionExpression", *_NAMES}
_RETURN = {"ReturnValues", "ReturnConsumedCapacity", "ReturnItemCollectionMetrics"}
_READ = {"TableName", "ConsistentRead", "ProjectionExpression", "ExpressionAttributeNames", "ReturnConsumedCapacity"}
_TABLE = {
    "TableName",
    "AttributeDefinitions",
    "KeySchema",
    "GlobalSecondaryIndexes",
    "BillingMode",
    "ProvisionedThroughput",
}
PARAMETERS: dict[str, set[str]] = {
    "GetItem": {"Key"} | _READ,
    "BatchGetItem": {"RequestItems", "ReturnConsumedCapacity"},
    "Query": {"KeyConditionExpression", "ScanIndexForward", "Limit", "IndexName", "ExclusiveStartKey"} | _READ | _NAMES,
    "Scan": {"Limit", "ExclusiveStartKey"} | _READ,
    "PutItem": {"Item"} | _CONDITION | _RETURN,
    "UpdateItem": {"Key", "UpdateExpression"} | _CONDITION | _RETURN,
    "DeleteItem": {"Key"} | _CONDITION | _RETURN,
    "TransactWriteItems": {
        "TransactItems",
        "ClientRequestToken",
        "ReturnConsumedCapacity",
        "ReturnItemCollectionMetrics",
    },
    "BatchWriteItem": {"RequestItems", "ReturnConsumedCapacity", "ReturnItemCollectionMetrics"},
    "CreateTable": _TABLE,
    "UpdateTable": {"TableName", "AttributeDefinitions", "GlobalSecondaryIndexUpdates"},
    "UpdateTimeToLive": {"TableName", "TimeToLiveSpecification"},
    "DescribeTable": {"TableName"},
    "DeleteTable": {"TableName"},
    "ListTables": set(),
}
_OF_ACTIONS = {
    "Put": {"Item"} | _CONDITION,
    "Update": {"Key", "UpdateExpression"} | _CONDITION,
    "Delete": {"Key"} | _CONDITION,
    "ConditionCheck": {"Key"} | _CONDITION,
}


class Action(NamedTuple):
    """One write of a request."""

    kind: str
    table: Table
    key: Key
    params: Params


class Written(NamedTuple):
    before: Item | None
    after: Item | None


class DynamoDb:
    def __init__(self, database: Database, now: Callable[[], float] = time.time) -> None:
        self._database, self._now = database, now

    async def handle(self, operation: str, params: Params) -> dict[str, Any]:
        if operation not in PARAMETERS:
            raise unsupported(f"the operation {operation} of DynamoDB")
        _check_parameters(operation, params, PARAMETERS[operation])
        match operation:
            case "GetItem" | "BatchGetItem" | "Query" | "Scan" | "DescribeTable" | "ListTables":
                answer: dict[str, Any] = getattr(self, f"_{operation}")(params)
                return answer
            case "PutItem" | "UpdateItem" | "DeleteItem":
                return await self._write_one(operation.removesuffix("Item"), params)
            case "TransactWriteItems":
                return await self._transact(params)
            case "BatchWriteItem":
                return await self._batch_write(params)
        return await self._change_table(operation, params)

    async def delete_expired(self, most: int = 500) -> None:
        """DynamoDB deletes expired items within days; until then they are there, and readers skip them."""

        def delete_some(connection: sqlite3.Connection) -> int:
            query = "SELECT name, pk, sk, item FROM items JOIN tables ON tables.id = tbl WHERE expires < ? LIMIT ?"
            rows = connection.execute(query, (int(self._now()), most)).fetchall()
            for name, pk, sk, item in rows:
                find_table(connection, name).delete(connection, Key(pk, sk), orjson.loads(item))
            connection.execute("DELETE FROM transactions WHERE at < ?", (self._now() - TOKEN_SECONDS,))
            return len(rows)

        while await self._database.write(delete_some) == most:
            pass

    def _table(self, name: Any) -> Table:
        return find_table(self._database.reader, str(name))

    # --- reads ---

    def _GetItem(self, params: Params) -> dict[str, Any]:  # noqa: N802 named like the operation
        table = self._table(params["TableName"])
        names = Names(params)
        item = table.get(self._database.reader, _key(table, params["Key"]))
        projected = _project(params, names)
        names.check_all_used()
        return {} if item is None else {"Item": projected(item)}

    def _BatchGetItem(self, params: Params) -> dict[str, Any]:  # noqa: N802
        if sum(len(asked["Keys"]) for asked in params["RequestItems"].values()) > KEYS_PER_BATCH:
            raise invalid(f"Too many items requested for the BatchGetItem call: at most {KEYS_PER_BATCH}")
        responses: dict[str, list[Item]] = {}
        unprocessed: dict[str, Any] = {}
        room = BATCH_BYTES
        for name, asked in params["RequestItems"].items():
            _check_parameters("BatchGetItem", asked, {"Keys"} | _READ)
            table, names = self._table(name), Names(asked)
            projected = _project(asked, names)
            names.check_all_used()
            keys = [_key(table, key) for key in asked["Keys"]]
            if len(set(keys)) < len(keys):
                raise invalid("Provided list of item keys contains duplicates")
            responses[name] = []
            for key, wire_key in zip(keys, asked["Keys"], strict=True):
                if room < 0:
                    unprocessed.setdefault(name, {**asked, "Keys": []})["Keys"].append(wire_key)
                elif item := table.get(self._database.reader, key):
                    responses[name].append(projected(item))
                    room -= sum(len(str(value)) for value in item.values())
        return {"Responses": responses, "UnprocessedKeys": unprocessed}

    def _Query(self, params: Params) -> dict[str, Any]:  # noqa: N802
        names = Names(params)
        return run_query(
            self._database.reader, self._table(params["TableName"]), params, names, _project(params, names)
        )

    def _Scan(self, params: Params) -> dict[str, Any]:  # noqa: N802
        names = Names(params)
        return run_scan(self._database.reader, self._table(params["TableName"]), params, names, _project(params, names))

    def _DescribeTable(self, params: Params) -> dict[str, Any]:  # noqa: N802
        return {"Table": described(self._table(params["TableName"]).definition)}

    def _ListTables(self, params: Params) -> dict[str, Any]:  # noqa: N802
        rows = self._database.reader.execute("SELECT name FROM tables ORDER BY name").fetchall()
        return {"TableNames": [name for (name,) in rows]}

    # --- writes ---

    async def _write_one(self, kind: str, params: Params) -> dict[str, Any]:
        wanted = params.get("ReturnValues", "NONE")
        action = _action(kind, params, self._table)

        def write(connection: sqlite3.Connection) -> Written:
            before, failed = _checked(connection, action)
            if failed:
                raise RequestError("ConditionalCheckFailedException", "The conditional request failed")
            return _apply(connection, action, before)

        written = await self._database.write(write)
        values = _returned(wanted, action, written)
        return {} if values is None else {"Attributes": values}

    async def _transact(self, params: Params) -> dict[str, Any]:
        given = params["TransactItems"]
        if not 1 <= len(given) <= ACTIONS_PER_TRANSACTION:
            raise invalid(f"A transaction has 1 to {ACTIONS_PER_TRANSACTION} actions; this one has {len(given)}.")
        table_of = cache(self._table)
        actions = [_transaction_action(one, table_of) for one in given]
        if len({(action.table.name, action.key) for action in actions}) < len(actions):
            raise invalid("Transaction request cannot include multiple operations on one item")
        token = params.get("ClientRequestToken")

        def write(connection: sqlite3.Connection) -> None:
            if token and self._is_repeated(connection, token, orjson.dumps(given)):
                return
            checked = [_checked(connection, action) for action in actions]
            if any(failed for _, failed in checked):
                raise _cancelled([failed for _, failed in checked])
            for action, (before, _) in zip(actions, checked, strict=True):
                _apply(connection, action, before)

        await self._database.write(write)
        return {}

    def _is_repeated(self, connection: sqlite3.Connection, token: str, request: bytes) -> bool:
        """The same request within ten minutes changes nothing."""
        at = self._now()
        row = connection.execute("SELECT request, at FROM transactions WHERE token = ?", (token,)).fetchone()
        if row and row[1] > at - TOKEN_SECONDS:
            if row[0] != request:
                raise RequestError("IdempotentParameterMismatchException", "This token was used for another request.")
            return True
        connection.execute("INSERT OR REPLACE INTO transactions VALUES (?, ?, ?)", (token, request, at))
        return False

    async def _batch_write(self, params: Params) -> dict[str, Any]:
        given = [(name, next(iter(one.items()))) for name, ones in params["RequestItems"].items() for one in ones]
        if not 1 <= len(given) <= WRITES_PER_BATCH:
            raise invalid(f"A batch has 1 to {WRITES_PER_BATCH} writes; this one has {len(given)}.")
        table_of = cache(self._table)
        actions = [
            _action(kind.removesuffix("Request"), {"TableName": name, **one}, table_of) for name, (kind, one) in given
        ]
        if len({(action.table.name, action.key) for action in actions}) < len(actions):
            raise invalid("Provided list of item keys contains duplicates")

        def write(connection: sqlite3.Connection) -> None:
            for action in actions:
                _apply(connection, action, action.table.get(connection, action.key))

        await self._database.write(write)
        return {"UnprocessedItems": {}}

    # --- tables ---

    async def _change_table(self, operation: str, params: Params) -> dict[str, Any]:
        change = {
            "CreateTable": create_table,
            "UpdateTable": add_indexes,
            "UpdateTimeToLive": set_expiry,
            "DeleteTable": delete_table,
        }[operation]
        definition = await self._database.write(lambda connection: change(connection, params))
        name = "Table" if operation == "UpdateTable" else "TableDescription"
        if operation == "UpdateTimeToLive":
            return {"TimeToLiveSpecification": params["TimeToLiveSpecification"]}
        return {name: described(definition)}


def _transaction_action(given: Params, table_of: Callable[[str], Table]) -> Action:
    [(kind, params)] = given.items()
    if kind not in _OF_ACTIONS:
        raise unsupported(f"{kind} in a transaction")
    _check_parameters(f"{kind} in a transaction", params, _OF_ACTIONS[kind])
    return _action(kind, params, table_of)


def _action(kind: str, params: Params, table_of: Callable[[str], Table]) -> Action:
    table = table_of(params["TableName"])
    key = table.keys.key_of(params["Item"]) if kind == "Put" else _key(table, params["Key"])
    _check_names(params)
    return Action(kind, table, key, params)


def _check_parameters(operation: str, params: Params, known: set[str]) -> None:
    for name in params.keys() - known:
        raise unsupported(f"{name} of {operation}")


def _key(table: Table, given: Mapping[str, Any]) -> Key:
    if given.keys() != set(table.keys.names):
        raise invalid("The provided key element does not match the schema")
    return table.keys.key_of(given)


def _project(params: Params, names: Names) -> Callable[[Item], Item]:
    if "ProjectionExpression" not in params:
        return lambda item: item
    wanted = {names.path(path) for path in parse_projection(params["ProjectionExpression"])}
    return lambda item: {name: value for name, value in item.items() if name in wanted}


def _checked(connection: sqlite3.Connection, action: Action) -> tuple[Item | None, bool]:
    """What is stored, and whether the condition fails on it."""
    before = action.table.get(connection, action.key)
    expression = action.params.get("ConditionExpression")
    return before, expression is not None and not holds(parse_condition(expression), before or {}, Names(action.params))


def _apply(connection: sqlite3.Connection, action: Action, before: Item | None) -> Written:
    table, key, params = action.table, action.key, action.params
    if action.kind == "ConditionCheck":
        return Written(before, before)
    if action.kind == "Delete":
        table.delete(connection, key, before)
        return Written(before, None)
    after: Item = params["Item"] if action.kind == "Put" else _updated(table, params, before)
    table.put(connection, key, after, before)
    return Written(before, after)


def _check_names(params: Params) -> None:
    placeholders = (tuple(params.get(name) or ()) for name in ("ExpressionAttributeNames", "ExpressionAttributeValues"))
    _check_expressions(params.get("ConditionExpression"), params.get("UpdateExpression"), *placeholders)


@lru_cache(maxsize=2000)
def _check_expressions(
    condition: str | None, update: str | None, given_names: tuple[str, ...], given_values: tuple[str, ...]
) -> None:
    """The same few, again and again: whether they parse and use what is given does not depend on the values."""
    values = {name: {"S": ""} for name in given_values}
    names = Names({"ExpressionAttributeNames": dict.fromkeys(given_names, "-"), "ExpressionAttributeValues": values})
    if condition is not None:
        holds(parse_condition(condition), {}, names)
    for one in parse_update(update) if update is not None else ():
        names.path(one.path)
        if one.value:
            names.value(one.value)
    names.check_all_used()


def _updated(table: Table, params: Params, before: Item | None) -> Item:
    updates = parse_update(params["UpdateExpression"])
    names = Names(params)
    for update in updates:
        if names.path(update.path) in table.keys.names:
            raise invalid("One or more parameter values were invalid: a key attribute cannot be updated")
    return updated(updates, before or dict(params["Key"]), names)


def _returned(wanted: str, action: Action, written: Written) -> Item | None:
    match wanted:
        case "NONE":
            return None
        case "ALL_OLD":
            return written.before
        case "ALL_NEW":
            return written.after
        case "UPDATED_NEW":
            names = Names(action.params)
            paths = {names.path(update.path) for update in parse_update(action.params["UpdateExpression"])}
            return {name: value for name, value in (written.after or {}).items() if name in paths}
    raise unsupported(f"ReturnValues {wanted}")


def _cancelled(failed: Sequence[bool]) -> RequestError:
    code = "ConditionalCheckFailed"
    reasons = [{"Code": code, "Message": "The conditional request failed"} if f else {"Code": "None"} for f in failed]
    listed = ", ".join(reason["Code"] for reason in reasons)
    message = f"Transaction cancelled, please refer cancellation reasons for specific reasons [{listed}]"
    return RequestError("TransactionCanceledException", message, CancellationReasons=reasons)
