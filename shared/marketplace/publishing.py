"""Publication: whether approved content becomes a version of its skill, under which number, in one transaction."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import msgspec

from shared.db import get_content, get_kv, now
from shared.errors import ConditionFailed, NotFound, Unavailable
from shared.evidence.blocklist import block_keys, block_reason, find_block, latest_block_keys
from shared.evidence.receipt_store import CLONE, LOOK_ALIKE, Receipt, deciding_rules
from shared.marketplace.artifacts import StoredArtifacts, store_artifacts
from shared.marketplace.attestations import store_attestation
from shared.marketplace.diffs import count_files
from shared.marketplace.external_scan_dispatch import configured_scanners, dispatch_external_scans
from shared.marketplace.external_scan_store import scan_requests
from shared.marketplace.manifest_store import manifest_of, manifest_put
from shared.marketplace.near_copies import near_copy_puts
from shared.marketplace.publication_obstacles import NewName, Obstacle, find_obstacle, read_new_name
from shared.marketplace.skill_admin import unblocked
from shared.marketplace.skill_index import (
    first_put,
    index_puts,
    known_owner_puts,
    look_alike_puts,
    owner_puts,
    try_to_index,
)
from shared.marketplace.skill_store import alias_put, counts_put, new_counts, skill_writes, unchanged_check, version_put
from shared.records.manifests import Manifest
from shared.records.skills import (
    Skill,
    SkillVersion,
    VersionMetadata,
    folder_spelled,
    new_permissions,
    next_version,
    set_by_owner,
    version_metadata_of,
)
from shared.records.submissions import Change, State, Submission, in_one, move
from shared.scanner import ScanReport
from shared.scanner.report import permissions_of
from shared.storage.content import Files, content_hash_of
from shared.storage.kv import ABSENT, Check, Put, Write
from shared.submissions.feed_store import names_skill
from shared.submissions.repo_watch import watch_put
from shared.submissions.submission_store import commit
from shared.telemetry import logger
from shared.timing import RECEIVED_AGE


class Approval(NamedTuple):
    """A decision that is stored with what follows from it, and not before."""

    change_at: Callable[[datetime], Change]
    receipt: Put  # that it rests on
    own: Sequence[Put]  # what was found about this skill alone


class _Publication(NamedTuple):
    """What the transaction writes, as far as it is known before."""

    current: Skill | None
    is_new: bool  # else this content is published already
    version: str
    diff_summary: str
    report: ScanReport
    scanners: Sequence[str]
    stored: StoredArtifacts = StoredArtifacts({}, "")  # of a new version
    attestation: str = ""
    manifest: Manifest | None = None
    run: int = 0
    new_name: NewName | None = None  # of the first publication under it
    first_published_at: datetime | None = None  # of the skill
    is_found: bool = False  # what finds it is written already, and the receipt


_EXPIRED = Obstacle(
    State.RESCAN_REQUIRED,
    f"Its files are no longer stored: they are kept for {RECEIVED_AGE.days} days. Requeue it to read its repository"
    " again; an upload has to be uploaded again.",
    "rule",
)


async def publish(
    submission: Submission,
    receipt: Receipt,
    current: Skill | None,
    new_name: NewName | None = None,
    approval: Approval | None = None,
) -> Submission:
    """From the stored bytes, if they are what was scanned. The move, the skill, its version, its short name and the
    requests to external scanners are one transaction: a worker that dies right after it leaves nothing out.
    `approval`: of this submission, if it is not stored yet."""
    assert submission.content_hash  # it was set when the submission was approved
    try:
        files = await get_content().get_files(submission.content_hash)
    except NotFound:
        return await _park(submission, _EXPIRED, approval)
    if current is None and new_name is None:
        new_name = await read_new_name(submission.skill_name)
    transfer = new_name.transfer if current is None and new_name else None
    obstacle = find_obstacle(submission, receipt, current, content_hash_of(files), transfer)
    if obstacle:
        return await _park(submission, obstacle, approval)
    publication = await _prepare(submission, receipt, current, new_name, files)
    publication = await _write_ahead(submission, publication, approval)
    is_first = publication.is_new and submission.copy_of is None
    move_at = partial(_move, submission, approval, publication.version)
    also = _evidence(approval, is_written=publication.is_found)
    for checks, first in _ways(submission, is_first, approval):
        try:
            published = await commit(move_at, partial(_all_writes, publication, [*checks, *first, *also]))
        except ConditionFailed as error:
            refused = error
        else:
            await _follow_up(publication, published)
            return published
        entry = await find_block(submission.skill_name, submission.source, submission.content_hash)
        if entry:
            return await _park(submission, Obstacle(State.BLOCKED, block_reason(entry), "blocklist"), approval)
    raise refused


def _evidence(approval: Approval | None, is_written: bool = False) -> list[Put]:
    return [*([] if is_written else [approval.receipt]), *approval.own] if approval else []


def _ways(submission: Submission, is_first: bool, approval: Approval | None) -> Iterator[tuple[list[Check], list[Put]]]:
    """An entry added during the scan found no skill to block, so the transaction itself checks the blocklist. With an
    approval its entries were read in this attempt, so it is enough that none was added for a name or content like this
    lately. The last way is for content that was published here before, by this skill or, a moment ago, by another."""
    about = submission.skill_name, submission.source, submission.content_hash
    checks = [Check(key, ABSENT) for key in block_keys(*about)]
    first = [first_put(submission.content_hash or "", submission.skill_name, ABSENT)] if is_first else []
    if approval:
        yield [Check(key, ABSENT) for key in latest_block_keys(submission.skill_name, submission.content_hash)], first
    yield checks, first
    if is_first:
        yield checks, []


async def _park(submission: Submission, obstacle: Obstacle, approval: Approval | None) -> Submission:
    state, reason, parked_by = obstacle

    def parked(approved: Submission, at: datetime) -> Change:
        return move(approved, state, "system", at, reason, parked_by=parked_by)

    return await commit(lambda at: _after(approval, submission, at, parked), lambda _: _evidence(approval))


def _after(
    approval: Approval | None, submission: Submission, at: datetime, then: Callable[[Submission, datetime], Change]
) -> Change:
    if approval is None:
        return then(submission, at)
    approved = approval.change_at(at)
    return in_one(approved, then(approved.after, at))


async def _prepare(
    submission: Submission, receipt: Receipt, current: Skill | None, new_name: NewName | None, files: Files
) -> _Publication:
    scanners, report = await configured_scanners(), receipt.report
    if current and current.content_hash == submission.content_hash:
        return _Publication(current, False, current.current_version, "", report, scanners)
    latest = (current.latest_version or current.current_version) if current else None
    version = next_version(latest, report.front_matter.version or None)
    stored = await store_artifacts(submission.skill_name, version, report.front_matter.description, files)
    diff = await _diff_summary(current, files)
    manifest = manifest_of(submission.skill_name, version, files)
    first_published_at = current.published_at if current else now()
    publication = _Publication(
        current,
        True,
        version,
        diff,
        report,
        scanners,
        stored,
        manifest=manifest,
        run=submission.run,
        first_published_at=first_published_at,
    )
    if current is None:
        publication = publication._replace(new_name=new_name)
    return publication._replace(attestation=await _attest(submission, receipt, publication))


async def _write_ahead(submission: Submission, publication: _Publication, approval: Approval | None) -> _Publication:
    """What finds the skill, before it is there: readers drop names without a record, so this needs no transaction, and
    the publication leaves nothing to do. If it fails, or counts must follow to another category, it is done after it.
    A receipt without a judgement is the same whoever scans this content, so it needs no transaction either."""
    if not publication.is_new:
        return publication
    skill = _draft_of(submission, publication)
    if _may_have_moved(publication.current, skill):
        return publication
    try:
        receipt = [approval.receipt] if approval else []
        await get_kv().put_all([*index_puts(skill), *_puts_that_find(skill, publication), *receipt])
    except Unavailable:
        logger.exception("words not written ahead", extra={"skill": skill.name})
        return publication
    return publication._replace(is_found=True)


def _draft_of(submission: Submission, publication: _Publication) -> Skill:
    return _skill_of(msgspec.structs.replace(submission, published_version=publication.version), publication)


def _may_have_moved(current: Skill | None, skill: Skill) -> bool:
    """To another category."""
    return current is not None and (skill.category != current.category or bool(current.unindexed_since))


def _puts_that_find(skill: Skill, publication: _Publication) -> list[Put]:
    """Its text for near-copies, and a new name as people read it. An approved look-alike does not take the place of the
    name that it looks like."""
    is_copy = skill.copy_of or CLONE in {finding.rule for finding in publication.report.findings}
    texts = [] if is_copy else near_copy_puts(skill, publication.report.signature)
    is_alike = LOOK_ALIKE in deciding_rules(publication.report)
    names = look_alike_puts(skill.name) if publication.current is None and not is_alike else []
    is_new_owner = publication.new_name is not None and not publication.new_name.knows_owner
    owners = owner_puts(skill.name) if names and is_new_owner else []
    return [*texts, *names, *owners]


async def _attest(submission: Submission, receipt: Receipt, publication: _Publication) -> str:
    version = _version_of(_draft_of(submission, publication), publication)
    return await store_attestation(
        version, receipt, submission.repo_url, submission.publish_as == State.VENDOR_APPROVED
    )


async def _diff_summary(current: Skill | None, files: Files) -> str:
    """The previous version may be unreadable: that does not prevent a publication."""
    if current is None:
        return "first version"
    try:
        before = await get_content().get_files(current.content_hash)
    except (NotFound, Unavailable):
        return f"changed since {current.current_version}"
    return f"{count_files(before, files)} since {current.current_version}"


def _move(submission: Submission, approval: Approval | None, version: str, at: datetime) -> Change:
    reason = f"published as version {version}"

    def published(approved: Submission, at: datetime) -> Change:
        return move(approved, approved.publish_as, "worker", at, reason, published_version=version)

    return _after(approval, submission, at, published)


def _all_writes(publication: _Publication, also: Sequence[Write], change: Change) -> list[Write]:
    return [*_writes(publication, change.after), *also]


def _writes(publication: _Publication, submission: Submission) -> list[Write]:
    current = publication.current
    if current and not publication.is_new:
        return _lifted(current, submission) if current.is_blocked_by_rule else [unchanged_check(current)]
    skill = _skill_of(submission, publication)
    version = _version_of(skill, publication)
    changes = skill_writes(current, skill, is_in_feed=names_skill(submission))
    writes = [*changes, version_put(version), alias_put(skill.name)]
    writes += [] if publication.is_found else _puts_that_find(skill, publication)
    writes += [manifest_put(publication.manifest)] if publication.manifest else []
    if current is None:
        writes.append(counts_put(new_counts(skill), expect=None))
        if publication.new_name and not publication.new_name.knows_owner:
            writes += known_owner_puts(skill.name)
    writes += [watch_put(submission.source, skill.updated_at, has_published=True)] if submission.repo_url else []
    return [*writes, *scan_requests(skill.name, skill.content_hash, publication.scanners, skill.updated_at)]


async def _follow_up(publication: _Publication, published: Submission) -> None:
    """Best effort: the skill is published, and the stuck scan indexes it if this fails."""
    if not publication.is_new:
        await dispatch_external_scans(published.skill_name, published.content_hash or "", publication.scanners)
        return
    if not publication.is_found:
        skill = _skill_of(published, publication)
        await try_to_index(skill, _may_have_moved(publication.current, skill))


def _lifted(current: Skill, submission: Submission) -> list[Write]:
    """A reviewer approved what a newer rule set had blocked."""
    lifted = unblocked(
        current,
        cert_tier=submission.cert_tier or current.cert_tier,
        verdict=submission.verdict,
        score=submission.score,
        rule_set=submission.rule_set,
        unscanned=submission.unscanned,
    )
    return skill_writes(current, lifted)


def _skill_of(submission: Submission, publication: _Publication) -> Skill:
    current, report = publication.current, publication.report
    transfer = publication.new_name.transfer if publication.new_name else None
    assert submission.content_hash  # what is published was scanned, and what is scanned is stored
    assert submission.published_version
    front_matter = report.front_matter
    return Skill(
        name=submission.skill_name,
        display_name=front_matter.name,
        description=front_matter.description,
        repo_url=submission.repo_url,
        current_version=submission.published_version,
        content_hash=submission.content_hash,
        submission_id=submission.id,
        published_at=publication.first_published_at or submission.updated_at,
        updated_at=submission.updated_at,
        category=front_matter.category,
        tags=front_matter.tags,
        capabilities=tuple(capability.name for capability in report.capabilities),
        permissions=permissions_of(report.capabilities),
        license=front_matter.license,
        compatibility=front_matter.compatibility,
        allowed_tools=front_matter.allowed_tools,
        cert_tier=submission.cert_tier or "SCANNED",
        verdict=submission.verdict,
        score=submission.score,
        judge_score=submission.judge_score,
        commit=submission.commit,
        ref=submission.ref,
        repo_id=submission.repo_id,
        folder=folder_spelled(submission.skill_name, submission.skill_path, submission.repo_url),
        rule_set=submission.rule_set,
        unscanned=submission.unscanned,
        has_own_findings=submission.has_own_findings,
        copy_of=submission.copy_of,
        unindexed_since=None if publication.is_found else submission.updated_at,
        changed_hands=_is_still_held(current, submission),
        **_of_last_version(current),
        **(set_by_owner(current) or {"transferred_from": transfer.from_name if transfer else None}),
    )


def _of_last_version(current: Skill | None) -> dict[str, Any]:
    return {
        "versions": current.versions + 1 if current else 1,
        "record_version": current.record_version + 1 if current else 1,
        "was_blocked": current.was_blocked if current else False,
        "yanked_content": current.yanked_content if current else (),
    }


def _is_still_held(current: Skill | None, submission: Submission) -> bool:
    """Content of the repository that lost its name may be approved after that: this does not restore the name."""
    return current is not None and current.changed_hands and current.repo_id == submission.repo_id


def _version_of(skill: Skill, publication: _Publication) -> SkillVersion:
    return SkillVersion(
        name=skill.name,
        version=skill.current_version,
        content_hash=skill.content_hash,
        submission_id=skill.submission_id,
        created_at=skill.updated_at,
        run=publication.run,
        cert_tier=skill.cert_tier,
        score=skill.score,
        commit=skill.commit,
        diff_summary=publication.diff_summary,
        new_permissions=new_permissions(publication.current, skill),
        metadata=VersionMetadata(**version_metadata_of(skill)),
        artifacts=publication.stored.artifacts,
        unpackaged=publication.stored.unpackaged,
        attestation=publication.attestation,
    )
