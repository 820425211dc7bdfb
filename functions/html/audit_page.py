"""/admin/audit: one month of the audit log, page by page, by user and action, with the names of skills; and as CSV."""

import csv
import io
import re
from datetime import datetime, timedelta
from typing import NamedTuple

from functions.html import paging
from functions.html.admin_session import Flash, section_page, skill_names
from functions.html.responses import url_with
from functions.http.answer import Answer
from functions.http.request import Request
from shared.access.audit import AuditEntry, AuditPage, get_audit_of
from shared.access.cursor import make_cursor, read_cursor
from shared.access.sessions import Session
from shared.db import now
from shared.errors import InvalidRequest

PATH = "/admin/audit"
PARAMETERS = ("month", "by", "action", "format", *paging.PARAMETERS)
ROWS = 50
READ_AT_ONCE = 500
MONTHS = 24
LARGEST_EXPORT = 20  # reads of READ_AT_ONCE entries
_MONTH = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class AuditFilter(NamedTuple):
    month: str
    by: str
    action: str

    def allows(self, entry: AuditEntry) -> bool:
        return self.by.lower() in entry.by.lower() and self.action.lower() in entry.action.lower()


async def show_audit(request: Request, session: Session, flash: Flash) -> Answer:
    wanted = _read_filter(request)
    if request.one_of("format", ("html", "csv"), "html") == "csv":
        return await _export(wanted)
    bound_to = f"audit page {wanted}"
    found = await _page(wanted, await read_cursor(request.query.get("cursor"), bound_to))
    cursor = await make_cursor(found.next_position, bound_to)
    return await section_page(
        request,
        session,
        flash,
        PATH,
        "admin_audit.html",
        0,
        wanted=wanted,
        months=_months(now()),
        entries=found.entries,
        names=await skill_names(entry.subject for entry in found.entries),
        csv_url=url_with(request, format="csv", cursor=None, back=None, done=None, **{"from": None}),
        previous_url=paging.previous_url(request, ROWS),
        next_url=paging.next_url(request, cursor, len(found.entries)),
    )


def _read_filter(request: Request) -> AuditFilter:
    month = request.query.get("month") or f"{now():%Y-%m}"
    if not _MONTH.fullmatch(month):
        raise InvalidRequest("`month` must be a month like 2026-01.", code="invalid_month")
    return AuditFilter(month, *(request.query.get(name, "").strip()[:100] for name in ("by", "action")))


async def _page(wanted: AuditFilter, before: str | None) -> AuditPage:
    """Reads READ_AT_ONCE entries at most, so a page of a rare action may be short; it continues."""
    if not (wanted.by or wanted.action):
        return await get_audit_of(wanted.month, ROWS, before)
    read = await get_audit_of(wanted.month, READ_AT_ONCE, before)
    matching = [(position, entry) for position, entry in read.positions() if wanted.allows(entry)]
    if len(matching) > ROWS:
        return AuditPage([entry for _, entry in matching[:ROWS]], matching[ROWS - 1][0])
    return AuditPage([entry for _, entry in matching], read.next_position)


def _months(at: datetime) -> list[str]:
    months = [at.replace(day=1)]
    while len(months) < MONTHS:
        months.append((months[-1] - timedelta(days=1)).replace(day=1))
    return [f"{month:%Y-%m}" for month in months]


async def _export(wanted: AuditFilter) -> Answer:
    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow(["time", "user", "role", "action", "subject", "skill", "reason"])
    before = None
    for _ in range(LARGEST_EXPORT):
        read = await get_audit_of(wanted.month, READ_AT_ONCE, before)
        entries = [entry for entry in read.entries if wanted.allows(entry)]
        names = await skill_names(entry.subject for entry in entries)
        rows.writerows(_cells(entry, names.get(entry.subject, "")) for entry in entries)
        before = read.next_position
        if before is None:
            break
    else:
        rows.writerow(["", "", "", "More entries follow: narrow the filter.", "", "", ""])
    headers = {
        "content-type": "text/csv; charset=utf-8",
        "content-disposition": f'attachment; filename="audit-{wanted.month}.csv"',
    }
    return Answer(out.getvalue().encode(), headers=headers)


def _cells(entry: AuditEntry, skill: str) -> list[str]:
    cells = [entry.at.isoformat(), entry.by, entry.role, entry.action, entry.subject, skill, entry.why]
    return [_as_text(cell) for cell in cells]


def _as_text(cell: str) -> str:
    """What a spreadsheet would run as a formula is text for it."""
    return f"'{cell}" if cell.startswith(_FORMULA) else cell
