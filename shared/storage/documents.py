"""Documents to and from JSON, and times as sort keys. A malformed document costs its own row, never the page."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec

from shared.storage.kv import Key
from shared.telemetry import count, logger

T = TypeVar("T")


def encode(document: Any) -> str:
    return msgspec.json.encode(document).decode()


def stamp(time: datetime) -> str:
    """Fixed width, so that text order is time order."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def minutes_between(since: datetime, until: datetime) -> list[datetime]:
    """The first moment of every minute that overlaps the range."""
    first = since.replace(second=0, microsecond=0)
    return [first + timedelta(minutes=n) for n in range((until - first) // timedelta(minutes=1) + 1)]


def parse_each(found: Mapping[Key, str], decoder: msgspec.json.Decoder[T]) -> tuple[list[T], list[Key]]:
    """The documents that could be read, and the keys of those that could not: logged, counted, never hidden."""
    parsed: list[T] = []
    malformed: list[Key] = []
    for key, doc in found.items():
        try:
            parsed.append(decoder.decode(doc))
        except msgspec.MsgspecError as error:
            malformed.append(key)
            logger.error("malformed document", extra={"key": key.pk, "problem": str(error)})
            count("MalformedDocuments")
    return parsed, malformed
