"""Who did what, and why: one entry per action of a person, written in the transaction of the action itself."""

import secrets
from datetime import datetime, timedelta

import msgspec

from shared.db import get_kv, now
from shared.documents import encode, stamp
from shared.kv import Key, Put, Query
from shared.secret_store import AdminToken


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    by: str
    role: str
    action: str
    subject: str
    why: str


def audit_put(by: AdminToken, action: str, subject: str, why: str) -> Put:
    at = now()
    entry = AuditEntry(at=at, by=by.name, role=by.role, action=action, subject=subject, why=why)
    return Put(Key(f"audit:{at:%Y-%m}", f"{stamp(at)}#{secrets.token_hex(4)}"), encode(entry))


async def get_audit(limit: int = 50) -> list[AuditEntry]:
    """The newest entries of this month and the one before it."""
    this_month = now().replace(day=1)
    entries: list[AuditEntry] = []
    for month in (this_month, this_month - timedelta(days=1)):
        if len(entries) < limit:
            query = Query(f"audit:{month:%Y-%m}", descending=True, limit=limit - len(entries))
            entries += [_ENTRY.decode(row.text) for row in (await get_kv().query(query)).rows]
    return entries


_ENTRY = msgspec.json.Decoder(AuditEntry)
