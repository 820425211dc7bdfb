"""Atom feeds (RFC 4287). Everything that people wrote is escaped; entries have ids that never change."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

MEDIA_TYPE = "application/atom+xml; charset=utf-8"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CONTROL = dict.fromkeys([*range(0x20), 0xFFFE, 0xFFFF, *range(0xD800, 0xE000)], " ")


class FeedEntry(NamedTuple):
    id: str  # unique in its feed, and the same for ever
    title: str
    updated: datetime
    path: str  # of its page
    summary: str
    author: str = "vskill-platform"


def atom_feed(site: str, path: str, title: str, entries: Sequence[FeedEntry]) -> bytes:
    """Without entries the time is that of no change at all, so that the bytes stay the same."""
    updated = max((entry.updated for entry in entries), default=EPOCH)
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        '<feed xmlns="http://www.w3.org/2005/Atom">',
        f"<title>{_text(title)}</title>",
        f"<id>{_text(site + path)}</id>",
        f"<updated>{_time(updated)}</updated>",
        f'<link rel="self" type="application/atom+xml" href={_attribute(site + path)}/>',
        "<author><name>vskill-platform</name></author>",
        *(line for entry in entries for line in _lines(site, path, entry)),
        "</feed>",
    ]
    return "\n".join(lines).encode()


def _lines(site: str, path: str, entry: FeedEntry) -> list[str]:
    return [
        "<entry>",
        f"<id>{_text(f'{site}{path}#{entry.id}')}</id>",
        f"<title>{_text(entry.title)}</title>",
        f"<updated>{_time(entry.updated)}</updated>",
        f"<author><name>{_text(entry.author)}</name></author>",
        f"<link href={_attribute(site + entry.path)}/>",
        f"<summary>{_text(entry.summary)}</summary>",
        "</entry>",
    ]


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _text(text: str) -> str:
    return escape(text.translate(_CONTROL))


def _attribute(text: str) -> str:
    return quoteattr(text.translate(_CONTROL))
