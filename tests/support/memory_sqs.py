"""SQS in memory, as far as the platform and its mappings speak it: visibility, delays, receive counts, redrive to a
dead-letter queue, and messages that are delivered twice."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from botocore.exceptions import ClientError

from shared.timing import MAX_RECEIVES, VISIBILITY_TIMEOUT

NO_TIME = timedelta()


@dataclass
class Sent:
    id: str
    body: str
    visible_at: datetime
    receives: int = 0
    received_at: datetime | None = None
    receipt: str | None = None  # of the newest receive: an older one deletes nothing


@dataclass
class MemorySqs:
    """One queue. `now` is the queue's own clock, which no actor's skew changes."""

    now: Callable[[], datetime]
    dead_letters: "MemorySqs | None" = None
    messages: list[Sent] = field(default_factory=list)
    is_down: bool = False
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    async def __call__(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return self.apply(operation, params)

    def apply(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if self.is_down:
            raise _error("QueueDoesNotExist")
        match operation:
            case "SendMessage":
                return {"MessageId": self.send(params["MessageBody"], timedelta(seconds=params["DelaySeconds"])).id}
            case "ChangeMessageVisibility":
                self._of(params["ReceiptHandle"]).visible_at = self.now() + timedelta(
                    seconds=params["VisibilityTimeout"]
                )
                return {}
            case "GetQueueAttributes":
                return {"Attributes": {"ApproximateNumberOfMessages": str(len(self.visible()))}}
        raise AssertionError(f"{operation} is not supported")

    def send(self, body: str, delay: timedelta = NO_TIME) -> Sent:
        message = Sent(f"message-{next(self._numbers)}", body, self.now() + delay)
        self.messages.append(message)
        return message

    def duplicate(self, message: Sent) -> None:
        """Delivered at least once: now and then a message is there a second time, under the same id."""
        self.messages.append(Sent(message.id, message.body, self.now()))

    def visible(self) -> list[Sent]:
        at = self.now()
        return [message for message in self.messages if message.visible_at <= at]

    def receive(self, wanted: list[Sent] | None = None, most: int = 10) -> list[dict[str, Any]]:
        """In the order they were sent, or any other: a standard queue keeps none."""
        received = []
        for message in (self.visible() if wanted is None else wanted)[:most]:
            if self.dead_letters is not None and message.receives >= MAX_RECEIVES:
                self.messages.remove(message)
                self.dead_letters.messages.append(Sent(message.id, message.body, self.dead_letters.now()))
                continue
            message.receives += 1
            message.receipt = f"{message.id}/{next(self._numbers)}"
            message.received_at = self.now()
            message.visible_at = message.received_at + VISIBILITY_TIMEOUT
            received.append(_received(message))
        return received

    def delete(self, receipt: str) -> Sent | None:
        """Says yes whatever happens, like SQS; what is really deleted is returned."""
        found = next((message for message in self.messages if message.receipt == receipt), None)
        if found:
            self.messages.remove(found)
        return found

    def _of(self, receipt: str) -> Sent:
        found = next((message for message in self.messages if message.receipt == receipt), None)
        if found is None or found.visible_at <= self.now():
            raise _error("MessageNotInflight")
        return found


def _received(message: Sent) -> dict[str, Any]:
    return {
        "MessageId": message.id,
        "ReceiptHandle": message.receipt,
        "Body": message.body,
        "MD5OfBody": hashlib.md5(message.body.encode(errors="replace"), usedforsecurity=False).hexdigest(),
        "Attributes": {"ApproximateReceiveCount": str(message.receives)},
    }


def _error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 400}}, "op")
