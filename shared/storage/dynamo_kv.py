"""The KV store on DynamoDB: one table, three indexes.

A document is one string attribute (`doc`); only keys, index fields and what conditions test are native, because
native maps cost four to six times the CPU to read.
"""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from shared.errors import ConditionFailed, Unavailable
from shared.storage.kv import ABSENT, Add, Delete, Expect, Key, Page, Put, Query, Read, Row, Write, ids_of, is_usable
from shared.telemetry import Watched, count, logger
from shared.timing import STORE_BUDGET, attempts_within, seconds_left

KEYS_PER_BATCH = 100  # the most that DynamoDB accepts
WRITES_PER_BATCH = 25
BATCHES_IN_FLIGHT = 16

T = TypeVar("T")
Wire = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]


class DynamoKV:
    """One table. `wire(operation, params)` is all it knows of AWS."""

    def __init__(self, wire: Wire, table: str, now: Callable[[], float] = time.time) -> None:
        self._wire = wire
        self._table = table
        self._now = now
        self._batches = asyncio.Semaphore(BATCHES_IN_FLIGHT)

    async def get(self, key: Key) -> str | None:
        if not is_usable(key):
            return None
        answer = await self._call(
            "GetItem",
            {"TableName": self._table, "Key": _wire_key(key), "ConsistentRead": True, **_DOC},
        )
        item = answer.get("Item")
        return item["doc"]["S"] if item and self._is_alive(item) else None

    async def get_many(self, keys: Iterable[Key]) -> Read[str]:
        # A row without a document counts as an empty one: reported as malformed, without affecting other rows.
        return await self._read(keys, _DOC, lambda item: item.get("doc", _EMPTY).get("S", ""))

    async def get_counts(self, keys: Iterable[Key]) -> Read[dict[str, int]]:
        return await self._read(keys, {}, _counts)

    async def query(self, query: Query) -> Page:
        params = _query_params(self._table, query)
        sort_key, text_key = (f"{query.index}Sk", "row") if query.index else ("sk", "doc")
        while True:
            answer = await self._call("Query", params)
            rows = [
                Row(Key(item["pk"]["S"], item["sk"]["S"]), item[sort_key]["S"], item.get(text_key, _EMPTY)["S"])
                for item in answer["Items"]
                if self._is_alive(item) and item[sort_key]["S"] not in (query.after, query.before)
            ]
            more = answer.get("LastEvaluatedKey")
            if rows or not more:
                return Page(rows, more=bool(more))
            params["ExclusiveStartKey"] = more  # a page of nothing but expired rows is not the end

    async def ids(self, prefix: str) -> list[str]:
        return await ids_of(self, prefix)

    async def put(self, put: Put) -> None:
        token = uuid.uuid4().hex
        params = {"TableName": self._table, **self._wire_write(put, token)[1]}
        try:
            await self._call("PutItem", params)
        except ClientError as error:
            if _code(error) != "ConditionalCheckFailedException":
                raise
            if await self._token_of(put.key) != token:
                raise ConditionFailed([0]) from error

    async def put_all(self, puts: Iterable[Put]) -> None:
        by_key = {put.key: _wire_item(put.key, put.doc, put.attrs) for put in puts}
        await asyncio.gather(*(self._put_chunk(chunk) for chunk in _chunks(list(by_key.values()), WRITES_PER_BATCH)))

    async def _put_chunk(self, items: Sequence[Mapping[str, Any]]) -> None:
        """Writes until nothing is left or time is up: the SDK does not retry UnprocessedItems."""
        left = [{"PutRequest": {"Item": item}} for item in items]
        async for _ in attempts_within(STORE_BUDGET):
            try:
                async with self._batches:
                    answer = await self._once("BatchWriteItem", {"RequestItems": {self._table: left}})
            except _Transient:
                continue
            left = answer.get("UnprocessedItems", {}).get(self._table, [])
            if not left:
                return
        raise Unavailable("The store did not accept the writes in time.")

    async def take(self, key: Key, most: int, expires_at: int, amount: int = 1) -> int | None:
        if amount > most:
            return None
        params = {
            "TableName": self._table,
            "Key": _wire_key(key),
            "UpdateExpression": "ADD #n :amount SET #x = :x",
            "ConditionExpression": "attribute_not_exists(#n) OR #n <= :free",
            "ExpressionAttributeNames": {"#n": "taken", "#x": "expiresAt"},
            "ExpressionAttributeValues": {
                ":amount": _wire_value(amount),
                ":x": _wire_value(expires_at),
                ":free": _wire_value(most - amount),
            },
            "ReturnValues": "UPDATED_NEW",
        }
        try:
            answer = await self._call("UpdateItem", params)
        except ClientError as error:
            if _code(error) != "ConditionalCheckFailedException":
                raise
            return None
        return int(answer["Attributes"]["taken"]["N"])

    async def transact(self, build: Callable[[], Sequence[Write]]) -> Sequence[Write]:
        token = uuid.uuid4().hex
        tried: list[Sequence[Write]] = []
        last: Exception | None = None
        async for attempt in attempts_within(STORE_BUDGET):
            tried.append(build())
            try:
                await self._send_transaction(tried[-1], f"{token}.{attempt}")
                return tried[-1]
            except ConditionFailed:
                # After a lost response, our own write looks like a conflict: the stored token shows which it is.
                stored = await self._stored_attempt(tried[-1], token)
                if stored is None:
                    raise
                return tried[stored]
            except _Transient as error:
                last = error
        raise Unavailable("The store did not accept the write in time.") from last

    async def _send_transaction(self, writes: Sequence[Write], token: str) -> None:
        actions = [self._wire_write(write, token) for write in writes]
        params = {"TransactItems": [{kind: {"TableName": self._table, **action}} for kind, action in actions]}
        try:
            await self._once("TransactWriteItems", params)
        except ClientError as error:
            reasons = [reason.get("Code") for reason in error.response.get("CancellationReasons", [])]
            failed = [i for i, code in enumerate(reasons) if code == "ConditionalCheckFailed"]
            if failed:
                raise ConditionFailed(failed) from error
            if _TRANSIENT.issuperset(set(reasons) - {"None", None}) and reasons:
                raise _Transient from error
            raise

    async def _stored_attempt(self, writes: Sequence[Write], token: str) -> int | None:
        guarded = next((w.key for w in writes if isinstance(w, Put) and w.expect is not None), None)
        stored = await self._token_of(guarded) if guarded else None
        if stored is None or not stored.startswith(token):
            return None
        return int(stored.rpartition(".")[2])

    async def _token_of(self, key: Key) -> str | None:
        params = {"TableName": self._table, "Key": _wire_key(key), "ConsistentRead": True}
        answer = await self._call("GetItem", params)
        token: str = answer.get("Item", {}).get("token", _EMPTY)["S"]
        return token or None

    async def _read(self, keys: Iterable[Key], projection: Mapping[str, Any], parse: Callable[[Any], T]) -> Read[T]:
        unique = list(dict.fromkeys(keys))
        readable = [key for key in unique if is_usable(key)]
        reads = await asyncio.gather(
            *(self._read_chunk(chunk, projection, parse) for chunk in _chunks(readable, KEYS_PER_BATCH))
        )
        found = {key: value for chunk_found, _ in reads for key, value in chunk_found.items()}
        if len(found) == len(unique):
            return Read(found, [], [])
        unread = {key for _, chunk_failed in reads for key in chunk_failed}
        failed = [key for key in unique if key in unread or not is_usable(key)]
        missing = [key for key in readable if key not in found and key not in unread]
        if unread:  # never silently: an unnoticed skip turns "stuck" into "lost"
            logger.warning("records not read", extra={"records": len(unread)})
            count(Watched.READS_FAILED, len(unread))
        return Read(found, missing, failed)

    async def _read_chunk(
        self, keys: Sequence[Key], projection: Mapping[str, Any], parse: Callable[[Any], T]
    ) -> tuple[dict[Key, T], list[Key]]:
        """Reads until nothing is left or time is up: the SDK does not retry UnprocessedKeys."""
        found: dict[Key, T] = {}
        left = [_wire_key(key) for key in keys]
        async for _ in attempts_within(STORE_BUDGET):
            request = {self._table: {"Keys": left, "ConsistentRead": True, **projection}}
            try:
                async with self._batches:
                    answer = await self._once("BatchGetItem", {"RequestItems": request})
            except _Transient:
                continue
            for item in answer["Responses"].get(self._table, ()):
                if "expiresAt" not in item or self._is_alive(item):
                    found[Key(item["pk"]["S"], item["sk"]["S"])] = parse(item)
            left = answer.get("UnprocessedKeys", {}).get(self._table, {}).get("Keys", [])
            if not left:
                return found, []
        return found, [Key(key["pk"]["S"], key["sk"]["S"]) for key in left]

    async def _call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        last: Exception | None = None
        async for _ in attempts_within(STORE_BUDGET):
            try:
                return await self._once(operation, params)
            except _Transient as error:
                last = error
        if operation in _READS:
            count(Watched.READS_FAILED)
        raise Unavailable("The store did not respond in time.") from last

    async def _once(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """One request, within the time that is left. Raises _Transient for transient failures."""
        try:
            async with asyncio.timeout(seconds_left(STORE_BUDGET)):
                return await self._wire(operation, params)
        except ClientError as error:
            if _code(error) in _TRANSIENT or error.response["ResponseMetadata"]["HTTPStatusCode"] >= 500:
                raise _Transient from error
            raise
        except (BotoCoreError, TimeoutError) as error:
            raise _Transient from error

    def _wire_write(self, write: Write, token: str) -> tuple[str, dict[str, Any]]:
        if isinstance(write, Put):
            guard = self._condition(write.expect)
            stamped = {**write.attrs, "token": token} if guard else write.attrs
            return "Put", {"Item": _wire_item(write.key, write.doc, stamped), **guard}
        if isinstance(write, Add):
            return "Update", {"Key": _wire_key(write.key), **_addition(write)}
        kind = "Delete" if isinstance(write, Delete) else "ConditionCheck"
        return kind, {"Key": _wire_key(write.key), **self._condition(write.expect)}

    def _condition(self, expect: Expect | None) -> dict[str, Any]:
        if expect is None:
            return {}
        names = {f"#e{i}": name for i, name in enumerate(expect)}
        values = {f":e{i}": _wire_value(value) for i, value in enumerate(expect.values()) if value is not None}
        tests = [
            f"attribute_not_exists(#e{i})" if value is None else f"#e{i} = :e{i}"
            for i, value in enumerate(expect.values())
        ]
        condition = " AND ".join(tests)
        if expect == ABSENT:  # DynamoDB deletes expired rows late: until then they count as absent
            condition += " OR #x <= :now"
            names["#x"] = "expiresAt"
            values[":now"] = _wire_value(int(self._now()))
        return {
            "ConditionExpression": condition,
            "ExpressionAttributeNames": names,
            **({"ExpressionAttributeValues": values} if values else {}),
        }

    def _is_alive(self, item: Mapping[str, Any]) -> bool:
        return "expiresAt" not in item or int(item["expiresAt"]["N"]) > self._now()


class _Transient(Exception):
    """A throttled, failed or conflicting request that is worth a retry."""


_TRANSIENT = frozenset(
    {
        "InternalServerError",
        "ProvisionedThroughputExceeded",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ServiceUnavailable",
        "ThrottlingError",
        "ThrottlingException",
        "TransactionConflict",
        "TransactionConflictException",
        "TransactionInProgressException",
    }
)
_DOC = {
    "ProjectionExpression": "pk, sk, #d, #x",
    "ExpressionAttributeNames": {"#d": "doc", "#x": "expiresAt"},
}
_EMPTY = {"S": ""}
_READS = ("GetItem", "Query")
_NOT_COUNTS = ("pk", "sk", "expiresAt")


def _code(error: ClientError) -> str:
    return str(error.response["Error"]["Code"])


def _chunks(given: Sequence[T], most: int) -> list[Sequence[T]]:
    return [given[i : i + most] for i in range(0, len(given), most)]


def _wire_key(key: Key) -> dict[str, dict[str, str]]:
    return {"pk": {"S": key.pk}, "sk": {"S": key.sk}}


def _wire_value(value: str | int) -> dict[str, str]:
    return {"S": value} if isinstance(value, str) else {"N": str(value)}


def _wire_item(key: Key, doc: str, attrs: Mapping[str, str | int]) -> dict[str, dict[str, str]]:
    return {**_wire_key(key), "doc": {"S": doc}, **{name: _wire_value(value) for name, value in attrs.items()}}


def _addition(add: Add) -> dict[str, Any]:
    names = {f"#c{i}": name for i, name in enumerate(add.counts)}
    expression = "ADD " + ", ".join(f"{name} :c{i}" for i, name in enumerate(names)) if names else ""
    values = {f":c{i}": _wire_value(n) for i, n in enumerate(add.counts.values())}
    condition: dict[str, str] = {}
    if add.expires_at is not None:
        expression += " SET #x = :x"
        names["#x"], values[":x"] = "expiresAt", _wire_value(add.expires_at)
    if add.remove:
        removed = {f"#r{i}": name for i, name in enumerate(add.remove)}
        expression += " REMOVE " + ", ".join(removed)
        names |= removed
    if add.most is not None:
        condition = {"ConditionExpression": "attribute_not_exists(#c0) OR #c0 < :most"}
        values[":most"] = _wire_value(add.most)
    return {
        "UpdateExpression": expression.strip(),
        "ExpressionAttributeNames": names,
        **({"ExpressionAttributeValues": values} if values else {}),
        **condition,
    }


def _counts(item: Mapping[str, Any]) -> dict[str, int]:
    return {name: int(value["N"]) for name, value in item.items() if name not in _NOT_COUNTS}


def _query_params(table: str, query: Query) -> dict[str, Any]:
    pk_name, sk_name = (f"{query.index}Pk", f"{query.index}Sk") if query.index else ("pk", "sk")
    names, values = {"#p": pk_name}, {":p": _wire_value(query.pk)}
    condition = "#p = :p"
    if query.after is not None and query.before is not None:  # DynamoDB takes one condition on a key, and this includes
        condition += " AND #s BETWEEN :s AND :t"  # both ends: `query` leaves them out
        names["#s"] = sk_name
        values |= {":s": _wire_value(query.after), ":t": _wire_value(query.before)}
    else:
        condition += _bound(query, sk_name, names, values)
    return {
        "TableName": table,
        "KeyConditionExpression": condition,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
        "ScanIndexForward": not query.descending,
        **({"Limit": query.limit} if query.limit else {}),
        **({"IndexName": query.index} if query.index else {"ConsistentRead": True}),
    }


def _bound(query: Query, sk_name: str, names: dict[str, str], values: dict[str, dict[str, str]]) -> str:
    tests = ((query.after, "#s > :s"), (query.before, "#s < :s"), (query.prefix, "begins_with(#s, :s)"))
    for value, test in tests:
        if value is not None:
            names["#s"] = sk_name
            values[":s"] = _wire_value(value)
            return f" AND {test}"
    return ""
