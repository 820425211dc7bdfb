"""The marketplace pages: search with filters in the URL, and a skill with its evidence."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from markupsafe import Markup

from functions.api.skill_versions import get_diffs
from functions.html import paging
from functions.html.file_pages import files_url, parse_file_path, show_version_files, version_links
from functions.html.responses import page, reject_cross_site_form, see_other
from functions.http.answer import STATUS, Answer
from functions.http.request import Request
from shared.access.cursor import make_cursor, read_cursor
from shared.access.limits import take_from_limit
from shared.db import now
from shared.errors import InvalidRequest, NotFound, TooManyRequests, Unavailable
from shared.evidence.blocklist import find_bans
from shared.evidence.receipt_store import find_receipt_for
from shared.marketplace.changelog import get_changes
from shared.marketplace.client_names import find_name_rival
from shared.marketplace.community import add_report
from shared.marketplace.diffs import summary_of
from shared.marketplace.external_scan_store import get_security
from shared.marketplace.manifest_store import find_manifest
from shared.marketplace.published_content import find_downloadable_files
from shared.marketplace.repo_health_store import RepoHealth, get_repo_health
from shared.marketplace.similar import find_similar
from shared.marketplace.skill_search import SkillQuery, list_skills
from shared.marketplace.skill_signals import get_skill_signals
from shared.marketplace.skill_store import get_skill, get_skill_with_counts, get_version, get_versions
from shared.records.skills import Skill, run_url
from shared.records.submissions import ACTIVE_STATES
from shared.scanner import ScanReport
from shared.submissions.counters import get_facet_counts
from shared.submissions.submission_store import find_submission
from shared.web import skill_views, version_views
from shared.web.charts import daily_installs
from shared.web.form_words import in_form_words
from shared.web.install_tabs import InstallTab, install_tabs
from shared.web.skill_text import render_skill_md
from shared.web.source_files import TreeRow, file_tree, resolve_link

SHOWN = 30
HEALTH_TIME = timedelta(seconds=2)
LONGEST_FILTER = 200
FILTERS = ("q", "category", "tier", "author", "license", "tool", "sort")
TIERS = ("", *skill_views.TIERS)
SORTS = ("", "newest", "installs", "trending")


async def search(request: Request) -> Answer:
    query = _read_query(request)
    bound_to = f"skills {query}"
    after = await read_cursor(request.query.get("cursor"), bound_to)
    found, facet_counts = await asyncio.gather(list_skills(query._replace(after=after)), get_facet_counts())
    cursor = await make_cursor(found.next_position, bound_to)
    at = now()
    return page(
        request,
        "skills.html",
        at,
        skills=[skill_views.skill_view(skill, found.counts_of(skill), at) for skill in found.skills],
        degraded=bool(found.failed),
        query=query,
        facets=skill_views.facet_views(query, facet_counts, found.skills),
        summary=skill_views.skills_summary(
            query, len(found.skills), has_more=bool(cursor), is_later_page=after is not None
        ),
        is_filtered=bool(query.q or query.facets),
        previous_url=paging.previous_url(request, SHOWN),
        next_url=paging.next_url(request, cursor, len(found.skills)),
    )


async def show(request: Request) -> Answer:
    if file_path := parse_file_path(request.path["proxy"]):
        return await show_version_files(request, file_path)
    request.allow_query("from", "to", "reported")
    return await _skill_page(request, request.path["proxy"], ReportForm(is_reported="reported" in request.query))


async def report(request: Request) -> Answer:
    """A visitor's report for reviewers, with or without JavaScript."""
    name = request.path["proxy"].removesuffix("/reports")
    if name == request.path["proxy"]:
        raise NotFound("There is no page at this URL.")
    reject_cross_site_form(request)
    form = request.form()
    try:
        await take_from_limit("reports", request.source_ip)
        skill = await get_skill(name)  # 404 for a name that no skill can have
        await add_report(skill.name, form.get("type", ""), form.get("description", ""), now())
    except (InvalidRequest, TooManyRequests) as error:
        field = "type" if error.code == "invalid_report_type" else "description"
        report_form = ReportForm(problems={field: in_form_words(error)}, typed=form, status=STATUS[type(error)])
        return await _skill_page(request, name, report_form)
    return see_other(f"/skills/{skill.name}?reported=1#report")


class Document(NamedTuple):
    """SKILL.md as HTML, and the files beside it."""

    html: Markup
    files: Mapping[str, bytes]

    def tree(self, report: ScanReport | None) -> list[TreeRow]:
        return file_tree(self.files, report.receipt.files, report.findings) if report else file_tree(self.files, (), ())


class ReportForm(NamedTuple):
    """State of the report form."""

    is_reported: bool = False
    problems: Mapping[str, str] = {}
    typed: Mapping[str, str] = {}
    status: int = 200


async def _skill_page(request: Request, name: str, report_form: ReportForm) -> Answer:
    found, counts = await get_skill_with_counts(name)
    if name != found.name:
        return see_other(f"/skills/{found.name}")  # a short name redirects to the full one
    signals, versions, security, health, document, diff, (report, similar), tabs = await asyncio.gather(
        get_skill_signals([found], {found.name.lower(): counts} if counts else {}),
        get_version_views(found),
        get_security(found.name),
        _health((found.repo_url or "").lower()),
        _document(found),
        _diff(found, request.query.get("from"), request.query.get("to")),
        _report_and_similar(found),
        _install_tabs(found, request.site),
    )
    newer = await _find_unscanned(found, health)
    return page(
        request,
        "skill.html",
        now(),
        report_form.status,
        installs_chart=daily_installs(counts, now().date()),
        skill=skill_views.skill_view(found, counts, now(), is_tainted=bool(signals[found.name].is_tainted)),
        permissions=skill_views.permission_views(found, report and report.capabilities),
        similar=[skill_views.skill_view(each, None, now()) for each in similar],
        warnings=report.front_matter.warnings if report else (),
        versions=versions,
        released_at=_released_at(found, versions),
        security=security,
        health=health,
        newer=newer,
        document=document,
        tree=document.tree(report) if document else (),
        diff=diff,
        report_form=report_form,
        tabs=tabs,
        open_tab=next((tab.id for tab in tabs if tab.commands), None),
        files_url=files_url(found.name, found.current_version),
        badge_url=f"/api/v1/skills/{quote(found.name)}/badge",
        site=request.site,
    )


def _released_at(skill: Skill, versions: Sequence[version_views.VersionView]) -> datetime:
    return next((each.created_at for each in versions if each.version == skill.current_version), skill.updated_at)


def _read_query(request: Request) -> SkillQuery:
    """Without JavaScript the form sends every field; blank ones are dropped."""
    request.allow_query(*FILTERS, *paging.PARAMETERS)
    given = {name: request.query.get(name, "").strip() or None for name in FILTERS}
    too_long = [name for name, value in given.items() if value and len(value) > LONGEST_FILTER]
    if too_long:
        raise InvalidRequest(
            f"`{too_long[0]}` must have at most {LONGEST_FILTER} characters.", code=f"invalid_{too_long[0]}"
        )
    request.one_of("tier", TIERS, "")
    request.one_of("sort", SORTS, "")
    return SkillQuery(**given, limit=SHOWN)


async def get_version_views(skill: Skill) -> list[version_views.VersionView]:
    versions = await get_versions(skill.name)
    bans = await find_bans(version.content_hash for version in versions)
    shown = [each for each in versions if not skill.is_blocked and each.content_hash not in bans]
    links = {
        each.version: {
            "Files": files_url(skill.name, each.version),
            "Scan": run_url(each),
            **version_links(skill.name, each),
        }
        for each in shown
    }
    changes = {} if skill.is_blocked else await get_changes(skill.name, versions)
    return version_views.version_views(versions, skill.current_version, bans, links, changes)


class Unscanned(NamedTuple):
    """A commit of its repository that no run of the skill has read, and the folder to submit."""

    commit: str | None = None
    path: str = ""


async def _find_unscanned(skill: Skill, health: RepoHealth) -> Unscanned:
    """A newer commit with the same content makes no version, so its submission is asked too. An active one is on it."""
    is_same_repo = health.repo_id is not None and health.repo_id == skill.repo_id
    if skill.ref or not is_same_repo or health.head in (None, skill.commit):
        return Unscanned()
    submission = await find_submission(skill.submission_id)
    if submission is None or submission.state in ACTIVE_STATES or submission.commit == health.head:
        return Unscanned()
    return Unscanned(health.head, submission.skill_path)


async def _health(source: str) -> RepoHealth:
    """Refreshed now and then; the page does not wait for a slow GitHub."""
    try:
        async with asyncio.timeout(HEALTH_TIME.total_seconds()):
            return await get_repo_health(source)
    except TimeoutError:
        return RepoHealth(source=source)


async def _document(skill: Skill) -> Document | None:
    """None if the bucket is unavailable, or the content is blocked and not served."""
    try:
        files = await find_downloadable_files(skill, skill.content_hash)
    except Unavailable:
        return None
    return None if files is None else Document(_rendered(skill, files), files)


def _rendered(skill: Skill, files: Mapping[str, bytes]) -> Markup:
    def page_for(link: str) -> str | None:
        path = resolve_link(unquote(link), "SKILL.md", files)
        return path and files_url(skill.name, skill.current_version) + quote(path)

    return render_skill_md(files.get("SKILL.md", b""), page_for)


async def _report_and_similar(skill: Skill) -> tuple[ScanReport | None, list[Skill]]:
    """The scan that the published version rests on, and skills with words or text in common."""
    receipt = await find_receipt_for(skill.content_hash, skill.rule_set or "", skill.unscanned)
    report = receipt.report if receipt else None
    similar = [] if skill.is_blocked else await find_similar(skill, report.signature if report else ())
    return report, similar


async def _install_tabs(skill: Skill, site: str) -> list[InstallTab]:
    """None for a skill of an older release without a record of its version."""
    if not skill.is_listed:
        return []
    try:
        version, manifest = await asyncio.gather(
            get_version(skill.name, skill.current_version), find_manifest(skill.name, skill.current_version)
        )
    except NotFound:
        return []
    return install_tabs(skill, version, manifest, site, await find_name_rival(skill))


async def _diff(skill: Skill, from_version: str | None, to_version: str | None) -> Any:
    if from_version is None or to_version is None or skill.is_blocked:
        return None
    files = await get_diffs(skill, from_version, to_version)
    return version_views.diff_view(from_version, to_version, summary_of(files), files)
