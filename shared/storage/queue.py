"""The submission queue. A message carries only the id of a submission: the record is the source of truth."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, Protocol

import msgspec
from botocore.exceptions import BotoCoreError, ClientError

from shared.errors import PlatformError, Unavailable
from shared.records.submissions import is_id
from shared.timing import STORE_BUDGET, seconds_left

SCHEMA = 1


class Poison(PlatformError):
    """A message body without a valid submission id: retrying cannot help."""


class Message(msgspec.Struct, frozen=True):
    """Fields added by newer senders are ignored."""

    id: str
    schema: int
    generation: int = msgspec.field(default=0, name="turn")  # of the record when this was sent


class Depth(msgspec.Struct, frozen=True, rename="camel"):
    """Numbers of messages, as estimated by SQS."""

    waiting: int
    in_flight: int
    delayed: int


class Queue(Protocol):
    async def send(self, submission_id: str, delay: timedelta = timedelta(), generation: int = 0) -> None: ...

    async def retry_in(self, receipt: str, delay: timedelta) -> None:
        """Makes a received message visible again after the delay instead of the queue's visibility timeout."""
        ...

    async def depth(self) -> Depth: ...

    async def check(self) -> None:
        """Raises Unavailable if the queue is not reachable."""
        ...


class BodyQueue(Protocol):
    """A queue whose messages are up to its users."""

    async def send_body(self, body: str) -> None: ...


def body_of(submission_id: str, generation: int = 0) -> str:
    later = {"turn": generation} if generation else {}
    return msgspec.json.encode({"schema": SCHEMA, "id": submission_id, **later}).decode()


def parse_body(body: str) -> Message:
    try:
        message = msgspec.json.decode(body, type=Message)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise Poison(f"The message names no submission: {error}") from error
    if not is_id(message.id):
        raise Poison("The message names no submission: its id is not one.")
    return message


_DEPTH = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)


class SqsQueue:
    def __init__(self, wire: Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]], url: str) -> None:
        self._wire = wire
        self._url = url

    async def send(self, submission_id: str, delay: timedelta = timedelta(), generation: int = 0) -> None:
        await self.send_body(body_of(submission_id, generation), delay)

    async def send_body(self, body: str, delay: timedelta = timedelta()) -> None:
        await self._call("SendMessage", {"MessageBody": body, "DelaySeconds": whole_seconds(delay)})

    async def retry_in(self, receipt: str, delay: timedelta) -> None:
        params = {"ReceiptHandle": receipt, "VisibilityTimeout": whole_seconds(delay)}
        await self._call("ChangeMessageVisibility", params)

    async def depth(self) -> Depth:
        answer = await self._call("GetQueueAttributes", {"AttributeNames": list(_DEPTH)})
        return Depth(*(int(answer["Attributes"][name]) for name in _DEPTH))

    async def check(self) -> None:
        await self._call("GetQueueAttributes", {"AttributeNames": ["ApproximateNumberOfMessages"]})

    async def _call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Within the time that is left: the response to an accepted submission must still be sent."""
        try:
            async with asyncio.timeout(seconds_left(STORE_BUDGET)):
                return await self._wire(operation, {"QueueUrl": self._url, **params})
        except (BotoCoreError, ClientError, TimeoutError) as error:
            raise Unavailable("The queue is not reachable.") from error


def whole_seconds(delay: timedelta) -> int:
    return min(900, max(0, math.ceil(delay.total_seconds())))
