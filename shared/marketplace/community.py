"""What readers do with a skill: install it, report it. One record per skill counts both, under a condition, so that the
counts equal the requests that succeeded. Nothing is added without a guard: a lost reply that is retried would count
twice.
"""

import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from shared.db import get_kv, now
from shared.errors import Conflict, InvalidRequest, NotFound, Unavailable
from shared.marketplace.skill_store import (
    ReadSkills,
    counts_put,
    read_skills,
    skill_not_found,
    unread_skill,
    write_counts,
)
from shared.records.decision import Community, Trust, trust
from shared.records.facets import facet_of
from shared.records.installs import with_installs
from shared.records.skills import Skill, SkillCounts
from shared.storage.documents import encode, parse_each, stamp
from shared.storage.kv import ABSENT, LISTS, Expect, Key, Put, Query, Write, query_shards, shard_of

MAX_NAMES = 90  # in one request: with room for what else its transaction writes, which takes 100
REPORT_TYPES = ("malicious", "misleading", "broken", "spam", "license", "other")
MAX_DESCRIPTION = 2000


class ReaderReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a reader reports about a skill, for reviewers."""

    id: str
    skill_name: str
    type: str
    description: str
    created_at: datetime
    is_open: bool = True
    confirmed_by: str | None = None  # a reviewer: until then it costs the skill no trust
    confirmed_at: datetime | None = None
    settled_by: str | None = None
    settled_at: datetime | None = None
    outcome: str | None = None
    record_version: int = 1


class ReportPage(NamedTuple):
    reports: list[ReaderReport]
    next_position: str | None  # None: this was the last page
    failed: list[str]


class Installed(NamedTuple):
    counted: list[str]
    unknown: list[str]  # no such skill, or it can no longer be installed


async def count_installs(names: Iterable[str]) -> Installed:
    """All of them or none. A name that is sent twice counts twice."""
    requested = Counter(name.lower() for name in names)
    if len(requested) > MAX_NAMES:
        raise InvalidRequest(f"At most {MAX_NAMES} skills are counted at once.", code="too_many_skills")
    counted: list[str] = []

    async def build() -> list[Write]:
        read = await read_skills(requested)
        if read.failed or len(read.counts) < len(requested):
            raise Unavailable("The store did not return all of these skills.")
        known = {name: skill for name, skill in read.skills.items() if skill.is_listed}
        counted[:] = sorted(known)
        return [counted_put(skill, read.counts[name], installs=requested[name]) for name, skill in known.items()]

    await write_counts(build)
    return Installed(counted, sorted(requested.keys() - set(counted)))


async def add_report(name: str, type_: str, description: str, at: datetime) -> ReaderReport:
    if type_ not in REPORT_TYPES:
        raise InvalidRequest(f"`type` must be one of {', '.join(REPORT_TYPES)}.", code="invalid_report_type")
    text = description.strip()
    if not text or len(text) > MAX_DESCRIPTION:
        raise InvalidRequest(
            f"`description` says in 1 to {MAX_DESCRIPTION} characters what is wrong.", code="invalid_description"
        )
    report = ReaderReport(
        id=f"{stamp(at)}-{secrets.token_hex(4)}", skill_name=name, type=type_, description=text, created_at=at
    )

    added: list[ReaderReport] = []

    async def build() -> list[Write]:
        read = await _read_one(name)
        skill = read.skills.get(name.lower())
        if skill is None or skill.is_deleted:
            raise skill_not_found(name)
        added[:] = [msgspec.structs.replace(report, skill_name=skill.name)]
        return [_report_put(added[0], ABSENT), counted_put(skill, read.counts[name.lower()], open_reports=1)]

    await write_counts(build)
    return added[0]


async def confirm_report(report_id: str, by: str, at: datetime, also: Sequence[Write] = ()) -> ReaderReport:
    """From now on it costs the skill trust, until it is resolved."""
    return await _change_report(report_id, also, confirmed_by=by, confirmed_at=at)


async def resolve_report(
    report_id: str, outcome: str, by: str, at: datetime, also: Sequence[Write] = ()
) -> ReaderReport:
    """Closed with its outcome; it no longer costs the skill any trust."""
    return await _change_report(report_id, also, is_open=False, settled_by=by, settled_at=at, outcome=outcome)


async def _change_report(report_id: str, also: Sequence[Write], **set_: object) -> ReaderReport:
    changed: list[ReaderReport] = []

    async def build() -> list[Write]:
        report = await get_report(report_id)
        if not report.is_open:
            raise Conflict("This report is already resolved.", code="already_settled")
        if report.confirmed_by and "confirmed_by" in set_:
            raise Conflict("This report is already confirmed.", code="nothing_to_change")
        after = msgspec.structs.replace(report, record_version=report.record_version + 1, **set_)
        changed[:] = [after]
        name = report.skill_name.lower()
        read = await _read_one(name)
        put = _report_put(after, {"recordVersion": report.record_version})
        counted = counted_put(
            read.skills.get(name),
            read.counts[name],
            open_reports=after.is_open - report.is_open,
            confirmed_reports=_is_counted(after) - _is_counted(report),
        )
        return [put, counted, *also]

    await write_counts(build)
    return changed[0]


def _is_counted(report: ReaderReport) -> bool:
    return report.is_open and report.confirmed_by is not None


async def get_report(report_id: str) -> ReaderReport:
    doc = await get_kv().get(_report_key(report_id))
    if doc is None:
        raise NotFound("There is no such report.")
    return _REPORT.decode(doc)


async def list_reports(limit: int = 50, after: str | None = None, only_open: bool = True) -> ReportPage:
    """Newest first. The index names candidates, their records decide."""
    name, index = (_OPEN, "state") if only_open else (LISTS["report:"], "list")
    found = await query_shards(get_kv(), Query(name, index, before=after, descending=True, limit=limit + 1))
    rows, end = found.page(limit)
    read = await get_kv().get_many(row.key for row in rows)
    reports, malformed = parse_each(read.found, _REPORT)
    shown = [report for report in reports if report.is_open or not only_open]
    newest_first = sorted(shown, key=lambda report: report.id, reverse=True)
    failed = [key.pk.removeprefix("report:") for key in [*read.failed, *malformed]]
    return ReportPage(newest_first, end, failed)


def counted_put(
    skill: Skill | None, counts: SkillCounts, installs: int = 0, open_reports: int = 0, confirmed_reports: int = 0
) -> Put:
    is_stored = counts.record_version > 0
    after = msgspec.structs.replace(
        with_installs(counts, installs, now().date()),
        name=skill.name if skill else counts.name,
        open_reports=max(0, counts.open_reports + open_reports),
        confirmed_reports=max(0, counts.confirmed_reports + confirmed_reports),
        category=facet_of(skill, "category") if skill else counts.category,
        record_version=counts.record_version + 1,
    )
    return counts_put(after, {"recordVersion": counts.record_version} if is_stored else ABSENT)


def trust_of(skill: Skill, counts: SkillCounts | None, at: datetime) -> Trust:
    community = community_of(skill, counts, at)
    is_certified = skill.cert_tier == "CERTIFIED"
    return trust(skill.verdict, skill.judge_score, skill.has_provenance, community, is_certified, skill.is_blocked)


def community_of(skill: Skill, counts: SkillCounts | None, at: datetime) -> Community:
    """Counts that could not be read earn nothing and cost nothing."""
    return Community(
        age=at - skill.published_at,
        installs=counts.installs if counts else 0,
        has_confirmed_report=bool(counts and counts.confirmed_reports),
        was_ever_blocked=skill.was_blocked,
    )


_REPORT = msgspec.json.Decoder(ReaderReport)
_OPEN = "report-open"


async def _read_one(name: str) -> ReadSkills:
    read = await read_skills([name])
    if read.failed or not read.counts:
        raise unread_skill()
    return read


def _report_put(report: ReaderReport, expect: Expect) -> Put:
    shard = shard_of(report.id)
    attrs: dict[str, str | int] = {
        "recordVersion": report.record_version,
        "row": encode({"id": report.id}),
        "listPk": f"{LISTS['report:']}#{shard}",
        "listSk": report.id,
    }
    if report.is_open:
        attrs |= {"statePk": f"{_OPEN}#{shard}", "stateSk": report.id}
    return Put(_report_key(report.id), encode(report), attrs, expect)


def _report_key(report_id: str) -> Key:
    return Key(f"report:{report_id}")
