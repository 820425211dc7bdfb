"""The audit log: one entry per action of an operator or an owner, written in the same transaction as the action."""

import re
import secrets
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

import msgspec

from shared.db import get_kv, now
from shared.errors import InvalidRequest
from shared.storage.documents import encode, stamp
from shared.storage.kv import Key, Put, Query

MAX_REASON = 500
# Control characters, and those that change the direction of text: clients print reasons of owners in terminals.
_UNSAFE_CHARACTERS = r"\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNSAFE = re.compile(rf"[{_UNSAFE_CHARACTERS}\ud800-\udfff]")
VISIBLE = rf"[^\s{_UNSAFE_CHARACTERS}]"  # a reason has at least one of these


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    by: str
    role: str
    action: str
    subject: str
    why: str


class Actor(Protocol):
    """Who acts: the token of an operator, or an owner."""

    @property
    def name(self) -> str: ...

    @property
    def role(self) -> str: ...


def audit_put(by: Actor, action: str, subject: str, why: str) -> Put:
    at = now()
    entry = AuditEntry(at=at, by=by.name, role=by.role, action=action, subject=subject, why=why)
    return Put(Key(f"audit:{at:%Y-%m}", f"{stamp(at)}#{secrets.token_hex(4)}"), encode(entry))


class AuditPage(NamedTuple):
    entries: list[AuditEntry]
    next_position: str | None
    sorts: tuple[str, ...] = ()  # the position of each entry

    def positions(self) -> list[tuple[str, AuditEntry]]:
        return list(zip(self.sorts, self.entries, strict=True))


def plain_line(text: str) -> str:
    """On one line, as plain text."""
    return " ".join(_UNSAFE.sub(" ", text).split())


def reason_of(why: str) -> str:
    """Every action requires one."""
    reason = plain_line(why)
    if not reason:
        raise InvalidRequest(
            "A reason is required: it is shown to the author and kept in the audit log.", code="reason_required"
        )
    if len(reason) > MAX_REASON:
        raise InvalidRequest(f"A reason must have at most {MAX_REASON} characters.", code="reason_too_long")
    return reason


async def get_audit_of(month: str, limit: int, before: str | None = None) -> AuditPage:
    """A month, newest first; `month` like 2026-01."""
    page = await get_kv().query(Query(f"audit:{month}", before=before, descending=True, limit=limit))
    entries = [_ENTRY.decode(row.text) for row in page.rows]
    return AuditPage(entries, page.rows[-1].sort if page.more else None, tuple(row.sort for row in page.rows))


async def get_audit(limit: int = 50) -> list[AuditEntry]:
    """The newest entries of this month and the one before it."""
    this_month = now().replace(day=1)
    entries: list[AuditEntry] = []
    for month in (this_month, this_month - timedelta(days=1)):
        if len(entries) < limit:
            entries += (await get_audit_of(f"{month:%Y-%m}", limit - len(entries))).entries
    return entries


_ENTRY = msgspec.json.Decoder(AuditEntry)
