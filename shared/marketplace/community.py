"""What readers do with a skill: install it, report it. One record per skill counts both, under a condition, so that
the counts equal the requests that were answered with yes. Nothing is added without a guard: a reply that got lost and
is asked for again would count twice.
"""

import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

import msgspec

from shared.db import get_kv
from shared.errors import ConditionFailed, Conflict, InvalidRequest, NotFound, Unavailable
from shared.marketplace.skill_index import ReadSkills, counts_put, facet_of, read_skills
from shared.records.decision import Community, Trust, trust
from shared.records.skills import Skill, SkillCounts
from shared.storage.documents import encode, parse_each, stamp
from shared.storage.kv import ABSENT, LISTS, Expect, Key, Put, Query, Write, query_shards, shard_of
from shared.timing import STORE_BUDGET, attempts_within

MAX_NAMES = 90  # in one request: with room for what else its transaction writes, which takes 100
REPORT_TYPES = ("malicious", "misleading", "broken", "spam", "license", "other")
MAX_DESCRIPTION = 2000


class ReaderReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A reader's word about a skill, for reviewers."""

    id: str
    skill_name: str
    type: str
    description: str
    created_at: datetime
    is_open: bool = True
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
    unknown: list[str]  # names that no skill has, or that is no longer to be installed


async def count_installs(names: Iterable[str]) -> Installed:
    """All of them or none. A name that is sent twice counts twice."""
    asked = Counter(name.lower() for name in names)
    if len(asked) > MAX_NAMES:
        raise InvalidRequest(f"At most {MAX_NAMES} skills are counted at once.", code="too_many_skills")
    counted: list[str] = []

    async def build() -> list[Write]:
        read = await read_skills(asked)
        if read.failed or len(read.counts) < len(asked):
            raise Unavailable("The store did not give everything that is known of these skills.")
        known = {name: skill for name, skill in read.skills.items() if skill.is_listed}
        counted[:] = sorted(known)
        return [_counted(skill, read.counts[name], installs=asked[name]) for name, skill in known.items()]

    await _write_when_unchanged(build)
    return Installed(counted, sorted(asked.keys() - set(counted)))


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
            raise NotFound(f"There is no skill {name[:80]!r} here.", code="skill_not_found")
        added[:] = [msgspec.structs.replace(report, skill_name=skill.name)]
        return [_report_put(added[0], ABSENT), _counted(skill, read.counts[name.lower()], open_reports=1)]

    await _write_when_unchanged(build)
    return added[0]


async def settle_report(
    report_id: str, outcome: str, by: str, at: datetime, also: Sequence[Write] = ()
) -> ReaderReport:
    """Closed, with what came of it; it no longer costs the skill any trust."""
    settled: list[ReaderReport] = []

    async def build() -> list[Write]:
        report = await get_report(report_id)
        if not report.is_open:
            raise Conflict("Somebody settled this report before.", code="already_settled")
        closed = msgspec.structs.replace(
            report,
            is_open=False,
            settled_by=by,
            settled_at=at,
            outcome=outcome,
            record_version=report.record_version + 1,
        )
        settled[:] = [closed]
        name = report.skill_name.lower()
        read = await _read_one(name)
        put = _report_put(closed, {"recordVersion": report.record_version})
        return [put, _counted(read.skills.get(name), read.counts[name], open_reports=-1), *also]

    await _write_when_unchanged(build)
    return settled[0]


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


def trust_of(skill: Skill, counts: SkillCounts | None, at: datetime) -> Trust:
    """What a skill has earned by now."""
    community = community_of(skill, counts, at)
    is_certified = skill.cert_tier == "CERTIFIED"
    return trust(skill.verdict, skill.judge_score, skill.has_provenance, community, is_certified, skill.is_blocked)


def community_of(skill: Skill, counts: SkillCounts | None, at: datetime) -> Community:
    """Counts that could not be read earn nothing and cost nothing."""
    return Community(
        age=at - skill.published_at,
        installs=counts.installs if counts else 0,
        has_open_report=bool(counts and counts.open_reports),
        was_ever_blocked=skill.was_blocked,
    )


_REPORT = msgspec.json.Decoder(ReaderReport)
_OPEN = "report-open"


async def _write_when_unchanged(build: Callable[[], Awaitable[list[Write]]]) -> None:
    """Reads and writes again while others count the same skills, with growing pauses, as long as a store call lasts."""
    async for _ in attempts_within(STORE_BUDGET):
        writes = await build()
        if not writes:
            return
        try:
            await get_kv().transact(partial(list, writes))
        except ConditionFailed:
            continue
        return
    raise Unavailable("Too many others count the same skill at this moment.")


async def _read_one(name: str) -> ReadSkills:
    read = await read_skills([name])
    if read.failed or not read.counts:
        raise Unavailable("The store did not give this skill.")
    return read


def _counted(skill: Skill | None, counts: SkillCounts, installs: int = 0, open_reports: int = 0) -> Put:
    is_stored = counts.record_version > 0
    after = SkillCounts(
        name=skill.name if skill else counts.name,
        installs=counts.installs + installs,
        open_reports=max(0, counts.open_reports + open_reports),
        category=facet_of(skill, "category") if skill else counts.category,
        record_version=counts.record_version + 1,
    )
    return counts_put(after, {"recordVersion": counts.record_version} if is_stored else ABSENT)


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
