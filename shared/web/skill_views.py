"""View models of skills for the templates: text and structure, no HTML."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import NamedTuple

from shared.marketplace.community import community_of, trust_of
from shared.marketplace.skill_search import SkillPage, SkillQuery
from shared.records.decision import (
    MOST_POINTS,
    OFTEN_INSTALLED,
    OLD_ENOUGH,
    Community,
    Trust,
    TrustTier,
    points_of,
)
from shared.records.facets import FACET_COUNTERS, facet_counter, facets_of
from shared.records.installs import trend_of
from shared.records.skills import Skill, SkillCounts, split_name
from shared.scanner.report import Capability, PermissionUse
from shared.web import labels

TIERS = {
    "CERTIFIED": labels.Look("Certified", "published", "check"),
    "VERIFIED": labels.Look("Verified", "published", "check"),
    "SCANNED": labels.Look("Scanned", "active", "scan"),
}


TRUST = {
    TrustTier.T0: "Blocked",
    TrustTier.T1: "Limited evidence",
    TrustTier.T2: "Scanned",
    TrustTier.T3: "Scanned and judged",
    TrustTier.T4: "Approved by a reviewer",
}
ICONS = {"shell": "terminal", "network": "network", "credentials": "key", "persistence": "lock"}
ORDERS = {
    None: "newest first",
    "newest": "newest first",
    "installs": "most installed first",
    "trending": "most installed in the last 7 days first",
}
FACET_LABELS = {"category": "Category", "tier": "Tier", "license": "License", "tool": "Tool"}


class Tick(NamedTuple):
    icon: str
    text: str
    points: str | None = None  # its share of the trust score, and the most it can be
    advice: str = ""  # how to earn the rest


class PermissionView(NamedTuple):
    """What a skill can do: as its author declares it, and as the scan observed it."""

    icon: str
    text: str
    is_declared: bool
    is_observed: bool
    uses: Sequence[PermissionUse] = ()


class SkillView(NamedTuple):
    name: str
    owner: str
    repo: str
    slug: str
    address: str  # its path on GitHub, as a client installs it
    description: str
    repo_url: str | None
    version: str
    tier: labels.Look | None
    trust: Trust
    trust_label: str
    trust_factors: list[Tick]
    permissions: list[PermissionView]
    installs: int | None  # None: temporarily unknown
    license: str
    compatibility: str
    allowed_tools: Sequence[str]
    category: str
    tags: Sequence[str]
    published_at: datetime
    updated_at: datetime
    content_hash: str
    submission_id: str
    is_blocked: bool
    is_tainted: bool
    copy_of: str | None
    is_yanked: bool
    block_reason: str | None
    changed_hands: bool
    is_source_gone: bool
    withdrawn: str | None
    notice: str | None
    successor: str | None
    transferred_from: str | None


class OwnerTotals(NamedTuple):
    """None: unknown."""

    skills: int | None
    versions: int | None
    installs: int | None
    this_week: int | None
    is_more: bool  # than were added up


class FacetOption(NamedTuple):
    value: str
    label: str


class FacetView(NamedTuple):
    """A filter of the marketplace."""

    key: str
    label: str
    chosen: str  # in lower case; blank: any
    options: list[FacetOption]


def owner_totals(page: SkillPage, today: date) -> OwnerTotals:
    """What could not be read makes a sum unknown."""
    is_whole = not page.failed and all(page.counts_of(skill) for skill in page.skills)
    counts = [counts for skill in page.skills if (counts := page.counts_of(skill))]
    return OwnerTotals(
        None if page.failed else len(page.skills),
        None if page.failed else sum(skill.versions for skill in page.skills),
        sum(each.installs for each in counts) if is_whole else None,
        sum(trend_of(each, today) for each in counts) if is_whole else None,
        is_more=page.next_position is not None,
    )


def skills_summary(query: SkillQuery, shown: int, *, has_more: bool, is_later_page: bool) -> str:
    order = "best match first" if query.q and query.sort is None else ORDERS[query.sort]
    counted = labels.counted(shown, "result" if query.facets or query.q else "skill")
    if has_more or is_later_page:
        return f"Showing {counted}, {order}"
    return counted + (f", {order}" if shown > 1 else "")


def facet_views(
    query: SkillQuery, counts: Mapping[str, Mapping[str, int]] | None, shown: Iterable[Skill]
) -> list[FacetView]:
    """Values that skills have, most first; then those that are not counted: of this page, and the one that is chosen.
    `counts` are of all listed skills; None: unknown."""
    known: dict[str, Mapping[str, int | None]] = dict(counts or {})
    known["tier"] = {tier: known["tier"].get(tier, 0) if counts else None for tier in TIERS}  # there are no others
    on_page = {value for skill in shown for value in facets_of(skill, "category")}
    views = []
    for key, label in FACET_LABELS.items():
        chosen = query.facets.get(key, "")
        options = [_facet_option(key, value, labels.number(n)) for value, n in _most_first(known.get(key, {}))]
        listed = {option.value.lower() for option in options}
        others = {chosen} | (on_page if key == "category" else set())
        unlisted = sorted(others - listed - {""})
        options += [_facet_option(key, value, _count_of_unlisted(key, value, counts, chosen)) for value in unlisted]
        views.append(FacetView(key, label, chosen, options))
    return views


def _most_first(counts: Mapping[str, int | None]) -> list[tuple[str, int | None]]:
    return sorted(counts.items(), key=lambda pair: (-(pair[1] or 0), pair[0]))


def _count_of_unlisted(key: str, value: str, counts: Mapping[str, Mapping[str, int]] | None, chosen: str) -> str:
    """A value without a number says why, unless it is the chosen one: its results are on the page."""
    if counts is None:
        return labels.UNKNOWN
    if facet_counter(key, value) in FACET_COUNTERS:
        return "0"
    return "" if value == chosen else "not counted"


def _facet_option(key: str, value: str, count: str) -> FacetOption:
    if key == "tier":
        value = value.upper()
    label = TIERS[value].label if key == "tier" else value
    return FacetOption(value, f"{label} ({count})" if count else label)


def skill_view(skill: Skill, counts: SkillCounts | None, at: datetime, is_tainted: bool = False) -> SkillView:
    name = split_name(skill.name)
    earned = trust_of(skill, counts, at)
    return SkillView(
        name=skill.name,
        owner=name.owner,
        repo=name.repo,
        slug=name.slug,
        address=f"{name.owner}/{name.repo}/{skill.folder or name.slug}",
        description=skill.description,
        repo_url=skill.repo_url,
        version=skill.current_version,
        tier=TIERS.get(skill.cert_tier),
        trust=earned,
        trust_label=TRUST[earned.tier],
        trust_factors=_trust_factors(skill, counts, at),
        permissions=permission_views(skill, None),
        installs=counts.installs if counts else None,
        license=skill.license,
        compatibility=skill.compatibility,
        allowed_tools=skill.allowed_tools,
        category=skill.category,
        tags=skill.tags,
        published_at=skill.published_at,
        updated_at=skill.updated_at,
        content_hash=skill.content_hash,
        submission_id=skill.submission_id,
        is_blocked=skill.is_blocked,
        is_tainted=is_tainted,
        copy_of=skill.copy_of,
        is_yanked=skill.is_yanked,
        block_reason=skill.block_reason,
        changed_hands=skill.changed_hands,
        is_source_gone=skill.is_source_gone,
        withdrawn=skill.withdrawn,
        notice=skill.notice,
        successor=skill.successor,
        transferred_from=skill.transferred_from,
    )


def _trust_factors(skill: Skill, counts: SkillCounts | None, at: datetime) -> list[Tick]:
    community = community_of(skill, counts, at)
    points = points_of(skill.verdict, skill.judge_score, skill.has_provenance, community)
    judged = f"{skill.judge_score} of 100" if skill.judge_score is not None else "not run"
    score = "" if skill.score is None else f", {skill.score} of 100"
    scan = f"{labels.scan_label(skill.verdict).lower()}{score}"
    ticks = [
        Tick("check" if skill.verdict == "PASS" else "alert", f"Tier 1 scan: {scan}", advice=_scan_advice(skill)),
        Tick(
            "check" if skill.judge_score is not None else "clock", f"LLM judge: {judged}", advice=_judge_advice(skill)
        ),
        _origin(skill),
        Tick(
            "check" if points.community >= 15 else "clock",
            _community_text(skill, community, counts is not None),
            advice=_community_advice(community, counts is not None),
        ),
    ]
    earned = [
        tick._replace(points=f"{n:g} of {most}") for tick, n, most in zip(ticks, points, MOST_POINTS, strict=True)
    ]
    certified = [Tick("check", "Approved by a reviewer, or from a trusted vendor")]
    return earned + (certified if skill.cert_tier == "CERTIFIED" else [])


def _scan_advice(skill: Skill) -> str:
    return "" if skill.verdict == "PASS" else "Fix the findings of its scan and submit it again."


def _judge_advice(skill: Skill) -> str:
    if skill.judge_score is None:
        return "Submit it again once the platform has a judge: no judge has read this version."
    return "" if skill.judge_score == 100 else "Each point of the judge's score counts 0.3."


def _community_advice(community: Community, is_known: bool) -> str:
    """Each is worth five points. What was once blocked, and what is reported, only people change."""
    days = (OLD_ENOUGH - community.age).days + 1
    missing = [
        f"over {OLD_ENOUGH.days} days old (in {labels.counted(days, 'day')})" if community.age <= OLD_ENOUGH else "",
        f"over {OFTEN_INSTALLED} installs" if is_known and community.installs <= OFTEN_INSTALLED else "",
        "when its reports are resolved" if community.has_confirmed_report else "",
    ]
    parts = ", ".join(filter(None, missing))
    return f"5 more points each: {parts}." if parts else ""


def _community_text(skill: Skill, community: Community, is_known: bool) -> str:
    reports = "has confirmed reports" if community.has_confirmed_report else "no confirmed reports"
    facts = [
        "blocked" if skill.is_blocked else "previously blocked" if community.was_ever_blocked else "never blocked",
        reports if is_known else "reports unknown",
        f"{'over' if community.age > OLD_ENOUGH else 'under'} {OLD_ENOUGH.days} days old",
        labels.counted(community.installs, "install") if is_known else "installs unknown",
    ]
    return f"Community: {', '.join(facts)}"


def _origin(skill: Skill) -> Tick:
    if skill.repo_url is None:
        return Tick("alert", "Uploaded: origin not verified", advice="Submit its public repository instead.")
    if skill.has_provenance:
        return Tick("check", f"Public repository, commit {(skill.commit or '')[:12]}")
    if skill.ref:
        return Tick("alert", "From a branch or tag", advice="Submit the default branch.")
    return Tick("alert", "Origin not verified", advice="Submit its repository again while it is public.")


def permission_views(skill: Skill, capabilities: Sequence[Capability] | None) -> list[PermissionView]:
    """Without the scan's record only the names are known, which the skill itself has."""
    if capabilities is None:
        capabilities = [Capability(name, "", declared=False) for name in skill.capabilities]
    return [_permission(name, capabilities) for name in dict.fromkeys(each.name for each in capabilities)]


def _permission(name: str, capabilities: Sequence[Capability]) -> PermissionView:
    own = [each for each in capabilities if each.name == name]
    return PermissionView(
        ICONS.get(name, "file"),
        labels.CAPABILITIES.get(name, name),
        is_declared=any(each.declared for each in own),
        is_observed=any(not each.declared for each in own),
        uses=[use for each in own for use in each.uses],
    )
