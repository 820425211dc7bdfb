"""SQS's operations that the platform and its tests use: standard queues with delays, visibility and a dead-letter
queue. Any other operation or parameter is refused by name."""

import asyncio
import hashlib
import json
import sqlite3
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from local.store.database import Database
from local.store.errors import RequestError, unsupported

Params = Mapping[str, Any]
ACCOUNT = "000000000000"
PARAMETERS: dict[str, set[str]] = {
    "CreateQueue": {"QueueName", "Attributes"},
    "DeleteQueue": {"QueueUrl"},
    "GetQueueUrl": {"QueueName"},
    "ListQueues": {"QueueNamePrefix"},
    "GetQueueAttributes": {"QueueUrl", "AttributeNames"},
    "SetQueueAttributes": {"QueueUrl", "Attributes"},
    "SendMessage": {"QueueUrl", "MessageBody", "DelaySeconds"},
    "SendMessageBatch": {"QueueUrl", "Entries"},
    "ReceiveMessage": {
        *("QueueUrl", "MaxNumberOfMessages", "WaitTimeSeconds", "VisibilityTimeout"),
        *("AttributeNames", "MessageSystemAttributeNames", "MessageAttributeNames"),
    },
    "DeleteMessage": {"QueueUrl", "ReceiptHandle"},
    "DeleteMessageBatch": {"QueueUrl", "Entries"},
    "ChangeMessageVisibility": {"QueueUrl", "ReceiptHandle", "VisibilityTimeout"},
}
ATTRIBUTES = {
    "VisibilityTimeout": "30",
    "DelaySeconds": "0",
    "MessageRetentionPeriod": "345600",
    "MaximumMessageSize": "262144",
    "ReceiveMessageWaitTimeSeconds": "0",
}
LONGEST_WAIT = 20.0
MOST_AT_ONCE = 10
_RECEIVED = "id, message_id, body, sent_at, receives, received_at"


class Queue(NamedTuple):
    number: int
    name: str
    attributes: dict[str, str]

    @property
    def arn(self) -> str:
        return f"arn:aws:sqs:us-east-1:{ACCOUNT}:{self.name}"

    @property
    def redrive(self) -> tuple[str, int] | None:
        """The name of the dead-letter queue, and after how many receives a message goes there."""
        if not self.attributes.get("RedrivePolicy"):
            return None
        policy = json.loads(self.attributes["RedrivePolicy"])
        return str(policy["deadLetterTargetArn"]).rpartition(":")[2], int(policy["maxReceiveCount"])

    def seconds(self, name: str) -> float:
        return float(self.attributes.get(name, ATTRIBUTES[name]))


class Sqs:
    def __init__(self, database: Database, endpoint: str, now: Callable[[], float] = time.time) -> None:
        self._database, self._endpoint, self._now = database, endpoint, now
        self._arrived = asyncio.Event()  # renewed with every message that may be visible now

    async def handle(self, operation: str, params: Params) -> dict[str, Any]:
        if operation not in PARAMETERS:
            raise unsupported(f"the operation {operation} of SQS")
        for name in params.keys() - PARAMETERS[operation]:
            if params[name]:
                raise unsupported(f"{name} of {operation}")
        answer: dict[str, Any] = await getattr(self, f"_{operation}")(params)
        return answer

    async def delete_expired(self) -> None:
        """Messages beyond the retention period of their queue."""

        def delete(connection: sqlite3.Connection) -> None:
            for queue in _queues(connection):
                oldest = self._now() - queue.seconds("MessageRetentionPeriod")
                connection.execute("DELETE FROM messages WHERE queue = ? AND sent_at < ?", (queue.number, oldest))

        await self._database.write(delete)

    # --- queues ---

    async def _CreateQueue(self, params: Params) -> dict[str, Any]:  # noqa: N802 named like the operation
        name, attributes = params["QueueName"], _attributes(params.get("Attributes") or {})

        def create(connection: sqlite3.Connection) -> None:
            row = connection.execute("SELECT attributes FROM queues WHERE name = ?", (name,)).fetchone()
            if row is None:
                text = json.dumps(attributes)
                connection.execute("INSERT INTO queues (name, attributes) VALUES (?, ?)", (name, text))
            elif any(json.loads(row[0]).get(key) != value for key, value in attributes.items()):
                raise RequestError("QueueNameExists", "A queue with this name and other attributes exists.")

        await self._database.write(create)
        return {"QueueUrl": self._url(name)}

    async def _DeleteQueue(self, params: Params) -> dict[str, Any]:  # noqa: N802
        queue = self._queue(params)

        def delete(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM messages WHERE queue = ?", (queue.number,))
            connection.execute("DELETE FROM queues WHERE id = ?", (queue.number,))

        await self._database.write(delete)
        return {}

    async def _GetQueueUrl(self, params: Params) -> dict[str, Any]:  # noqa: N802
        return {"QueueUrl": self._url(self._find(params["QueueName"]).name)}

    async def _ListQueues(self, params: Params) -> dict[str, Any]:  # noqa: N802
        names = [queue.name for queue in _queues(self._database.reader)]
        return {"QueueUrls": [self._url(n) for n in names if n.startswith(params.get("QueueNamePrefix") or "")]}

    async def _GetQueueAttributes(self, params: Params) -> dict[str, Any]:  # noqa: N802
        queue = self._queue(params)
        known = {**ATTRIBUTES, **queue.attributes, "QueueArn": queue.arn, **self._depth(queue)}
        asked = set(params.get("AttributeNames") or [])
        return {"Attributes": {name: value for name, value in known.items() if name in asked or "All" in asked}}

    async def _SetQueueAttributes(self, params: Params) -> dict[str, Any]:  # noqa: N802
        queue, changed = self._queue(params), _attributes(params["Attributes"])
        text = json.dumps({**queue.attributes, **changed})
        await self._database.write(
            lambda connection: connection.execute("UPDATE queues SET attributes = ? WHERE id = ?", (text, queue.number))
        )
        return {}

    def _depth(self, queue: Queue) -> dict[str, str]:
        counted = self._database.reader.execute(
            "SELECT SUM(visible_at <= :now), SUM(visible_at > :now AND receives > 0),"
            " SUM(visible_at > :now AND receives = 0) FROM messages WHERE queue = :queue",
            {"now": self._now(), "queue": queue.number},
        ).fetchone()
        names = ("", "NotVisible", "Delayed")
        return {f"ApproximateNumberOfMessages{n}": str(c or 0) for n, c in zip(names, counted, strict=True)}

    # --- messages ---

    async def _SendMessage(self, params: Params) -> dict[str, Any]:  # noqa: N802
        return (await self._send(self._queue(params), [params]))[0]

    async def _SendMessageBatch(self, params: Params) -> dict[str, Any]:  # noqa: N802
        entries = _batch(params)
        for entry in entries:
            for name in entry.keys() - {"Id", "MessageBody", "DelaySeconds"}:
                raise unsupported(f"{name} of SendMessageBatch")
        sent = await self._send(self._queue(params), entries)
        return {"Successful": [{"Id": entry["Id"], **one} for entry, one in zip(entries, sent, strict=True)]}

    async def _send(self, queue: Queue, entries: list[Params]) -> list[dict[str, Any]]:
        at = self._now()
        rows = []
        for entry in entries:
            body = entry["MessageBody"]
            if not 0 < len(body.encode()) <= queue.seconds("MaximumMessageSize"):
                raise RequestError("InvalidMessageContents", "The body is empty, or larger than the queue accepts.")
            delay = float(entry.get("DelaySeconds") or queue.seconds("DelaySeconds"))
            rows.append((queue.number, str(uuid.uuid4()), body, at, at + delay))
        await self._database.write(
            lambda connection: connection.executemany(
                "INSERT INTO messages (queue, message_id, body, sent_at, visible_at) VALUES (?, ?, ?, ?, ?)", rows
            )
        )
        self._wake()
        return [{"MessageId": row[1], "MD5OfMessageBody": _md5(row[2])} for row in rows]

    async def _ReceiveMessage(self, params: Params) -> dict[str, Any]:  # noqa: N802
        queue = self._queue(params)
        most = int(params.get("MaxNumberOfMessages") or 1)
        if not 1 <= most <= MOST_AT_ONCE:
            raise RequestError("ReadCountOutOfRange", f"MaxNumberOfMessages must be 1 to {MOST_AT_ONCE}.")
        wait = params.get("WaitTimeSeconds")
        ends = self._now() + min(LONGEST_WAIT, queue.seconds("ReceiveMessageWaitTimeSeconds") if wait is None else wait)
        hidden = params.get("VisibilityTimeout")
        hidden = queue.seconds("VisibilityTimeout") if hidden is None else float(hidden)
        while True:
            arrived, due = self._arrived, self._next_due(queue)
            if due is not None and due <= self._now():
                messages = await self._database.write(lambda c: self._take(c, queue, most, hidden))
                if messages:
                    return {"Messages": messages}
                self._wake()  # what was visible became dead letters, or another receiver's
                continue
            left = min(ends, due or ends) - self._now()
            if self._now() >= ends:
                return {}
            try:
                async with asyncio.timeout(max(0.001, left)):
                    await arrived.wait()
            except TimeoutError:
                continue

    def _next_due(self, queue: Queue) -> float | None:
        row = self._database.reader.execute(
            "SELECT MIN(visible_at) FROM messages WHERE queue = ?", (queue.number,)
        ).fetchone()
        return row[0] if row else None

    def _take(self, connection: sqlite3.Connection, queue: Queue, most: int, hidden: float) -> list[dict[str, Any]]:
        at = self._now()
        _bury(connection, queue, at)
        rows = connection.execute(
            f"SELECT {_RECEIVED} FROM messages WHERE queue = ? AND visible_at <= ? ORDER BY visible_at, id LIMIT ?",  # noqa: S608
            (queue.number, at, most),
        ).fetchall()
        return [self._received(connection, row, at, hidden) for row in rows]

    def _received(
        self, connection: sqlite3.Connection, row: tuple[Any, ...], at: float, hidden: float
    ) -> dict[str, Any]:
        number, message_id, body, sent_at, receives, received_at = row
        receipt = f"{number}.{uuid.uuid4().hex}"
        connection.execute(
            "UPDATE messages SET receives = receives + 1, received_at = ?, receipt = ?, visible_at = ? WHERE id = ?",
            (received_at or at, receipt, at + hidden, number),
        )
        return {
            "MessageId": message_id,
            "ReceiptHandle": receipt,
            "Body": body,
            "MD5OfBody": _md5(body),
            "Attributes": {
                "ApproximateReceiveCount": str(receives + 1),
                "SentTimestamp": str(int(sent_at * 1000)),
                "ApproximateFirstReceiveTimestamp": str(int((received_at or at) * 1000)),
                "SenderId": ACCOUNT,
            },
        }

    async def _DeleteMessage(self, params: Params) -> dict[str, Any]:  # noqa: N802
        await self._delete(self._queue(params), [params["ReceiptHandle"]])
        return {}

    async def _DeleteMessageBatch(self, params: Params) -> dict[str, Any]:  # noqa: N802
        entries = _batch(params)
        await self._delete(self._queue(params), [entry["ReceiptHandle"] for entry in entries])
        return {"Successful": [{"Id": entry["Id"]} for entry in entries]}

    async def _delete(self, queue: Queue, receipts: list[str]) -> None:
        """Only the newest receipt of a message deletes it. One that is gone already is no error."""
        rows = [(_number_in(receipt), receipt, queue.number) for receipt in receipts]
        query = "DELETE FROM messages WHERE id = ? AND receipt = ? AND queue = ?"
        await self._database.write(lambda connection: connection.executemany(query, rows))

    async def _ChangeMessageVisibility(self, params: Params) -> dict[str, Any]:  # noqa: N802
        queue, receipt, at = self._queue(params), params["ReceiptHandle"], self._now()
        values = (at + float(params["VisibilityTimeout"]), _number_in(receipt), receipt, queue.number, at)
        query = "UPDATE messages SET visible_at = ? WHERE id = ? AND receipt = ? AND queue = ? AND visible_at > ?"
        if not await self._database.write(lambda connection: connection.execute(query, values).rowcount):
            raise RequestError("MessageNotInflight", "The message is not in flight.")
        self._wake()
        return {}

    # --- names and waiting ---

    def _queue(self, params: Params) -> Queue:
        return self._find(str(params["QueueUrl"]).rstrip("/").rpartition("/")[2])

    def _find(self, name: str) -> Queue:
        query = "SELECT id, name, attributes FROM queues WHERE name = ?"
        row = self._database.reader.execute(query, (name,)).fetchone()
        if row is None:
            raise RequestError("QueueDoesNotExist", "The specified queue does not exist.")
        return _queue_of(row)

    def _url(self, name: str) -> str:
        return f"{self._endpoint}/{ACCOUNT}/{name}"

    def _wake(self) -> None:
        self._arrived.set()
        self._arrived = asyncio.Event()


def _queues(connection: sqlite3.Connection) -> list[Queue]:
    return [_queue_of(row) for row in connection.execute("SELECT id, name, attributes FROM queues ORDER BY id")]


def _queue_of(row: tuple[int, str, str]) -> Queue:
    return Queue(row[0], row[1], json.loads(row[2]))


def _bury(connection: sqlite3.Connection, queue: Queue, at: float) -> None:
    """Moves messages that were received too often to the dead-letter queue, if that exists."""
    if queue.redrive is None:
        return
    name, most = queue.redrive
    if row := connection.execute("SELECT id FROM queues WHERE name = ?", (name,)).fetchone():
        connection.execute(
            "UPDATE messages SET queue = ?, visible_at = ?, receives = 0, received_at = NULL, receipt = NULL"
            " WHERE queue = ? AND visible_at <= ? AND receives >= ?",
            (row[0], at, queue.number, at, most),
        )


def _attributes(given: Mapping[str, Any]) -> dict[str, str]:
    for name in given.keys() - ATTRIBUTES.keys() - {"RedrivePolicy"}:
        raise unsupported(f"the queue attribute {name}")
    return {name: str(value) for name, value in given.items()}


def _batch(params: Params) -> list[Params]:
    entries: list[Params] = params["Entries"]
    if not 1 <= len(entries) <= MOST_AT_ONCE or len({entry["Id"] for entry in entries}) < len(entries):
        raise RequestError(
            "BatchEntryIdsNotDistinct", f"A batch has 1 to {MOST_AT_ONCE} entries with ids of their own."
        )
    return entries


def _number_in(receipt: str) -> int:
    number = str(receipt).partition(".")[0]
    if not (number.isascii() and number.isdigit()) or len(number) > 15:
        raise RequestError("ReceiptHandleIsInvalid", "The input receipt handle is invalid.")
    return int(number)


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
