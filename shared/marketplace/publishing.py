"""Publication: whether approved content becomes a version of its skill, under which number, in one transaction."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import msgspec

from shared.db import get_content, get_kv
from shared.errors import ConditionFailed, NotFound, Unavailable
from shared.evidence.blocklist import block_keys, block_reason, find_block
from shared.evidence.receipt_store import CLONE, LOOK_ALIKE, Receipt, deciding_rules
from shared.marketplace.artifacts import StoredArtifacts, store_artifacts
from shared.marketplace.attestations import store_attestation
from shared.marketplace.diffs import count_files
from shared.marketplace.external_scan_dispatch import configured_scanners, dispatch_external_scans
from shared.marketplace.external_scan_store import scan_requests
from shared.marketplace.manifest_store import manifest_of, manifest_put
from shared.marketplace.near_copies import near_copy_puts
from shared.marketplace.owner_marks import Transfer, decode_transfer, transfer_key
from shared.marketplace.skill_admin import unblocked
from shared.marketplace.skill_index import (
    first_put,
    known_owner_key,
    known_owner_put,
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
from shared.records.submissions import Change, State, Submission, move
from shared.scanner import ScanReport
from shared.scanner.report import permissions_of
from shared.storage.content import Files, content_hash_of
from shared.storage.kv import ABSENT, Check, Key, Write
from shared.submissions.repo_watch import watch_put
from shared.submissions.submission_store import commit, move_submission
from shared.timing import RECEIVED_AGE


class NewName(NamedTuple):
    """What is known of a name under which nothing was published yet."""

    knows_owner: bool  # from another skill of the same owner
    transfer: Transfer | None  # of a skill to it


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


class _Obstacle(NamedTuple):
    state: State
    reason: str
    parked_by: str


_EXPIRED = _Obstacle(
    State.RESCAN_REQUIRED,
    f"Its files are no longer stored: they are kept for {RECEIVED_AGE.days} days. Requeue it to read its repository"
    " again; an upload has to be uploaded again.",
    "rule",
)


async def publish(
    submission: Submission, receipt: Receipt, current: Skill | None, new_name: NewName | None = None
) -> Submission:
    """From the stored bytes, if they are what was scanned. The move, the skill, its version, its short name and the
    requests to external scanners are one transaction: a worker that dies right after it leaves nothing out."""
    assert submission.content_hash  # it was set when the submission was approved
    try:
        files = await get_content().get_files(submission.content_hash)
    except NotFound:
        return await _park(submission, _EXPIRED)
    if current is None and new_name is None:
        new_name = await _read_new_name(submission.skill_name)
    transfer = new_name.transfer if current is None and new_name else None
    obstacle = _find_obstacle(submission, receipt, current, content_hash_of(files), transfer)
    if obstacle:
        return await _park(submission, obstacle)
    publication = await _prepare(submission, receipt, current, new_name, files)
    is_first = publication.is_new and submission.copy_of is None
    move_at, writes = partial(_move, submission, publication.version), partial(_all_writes, publication)
    try:
        published = await commit(move_at, partial(writes, is_first))
    except ConditionFailed:
        entry = await find_block(submission.skill_name, submission.source, submission.content_hash)
        if entry:
            return await _park(submission, _Obstacle(State.BLOCKED, block_reason(entry), "blocklist"))
        if not is_first:
            raise
        # This content was published here before, by this skill or, a moment ago, by another one.
        published = await commit(move_at, partial(writes, False))
    await _follow_up(publication, published)
    return published


def new_name_keys(name: str) -> list[Key]:
    return [known_owner_key(name), transfer_key(name)]


def new_name_of(name: str, docs: Mapping[Key, str]) -> NewName:
    transfer = docs.get(transfer_key(name))
    return NewName(known_owner_key(name) in docs, decode_transfer(transfer) if transfer else None)


async def _read_new_name(name: str) -> NewName:
    read = await get_kv().get_many(new_name_keys(name))
    if read.failed:
        raise Unavailable("Some data about this name could not be read.")
    return new_name_of(name, read.found)


def deleted_reason(skill: Skill) -> str:
    return (
        f"The skill {skill.name} was deleted ({skill.delete_reason}). Its name is not used again: choose another one."
    )


def transferred_reason(skill: Skill) -> str:
    return (
        f"The skill {skill.name} was transferred to {skill.transferred_to}: new versions are published under that name."
        " Submit the repository it was transferred to."
    )


def _foreign_reason(transfer: Transfer) -> str:
    return (
        f"The skill {transfer.from_name} was transferred to this name when it was the name of another repository."
        " It is not used for anything else: choose another one."
    )


def _find_obstacle(
    submission: Submission, receipt: Receipt, current: Skill | None, stored_hash: str, transfer: Transfer | None
) -> _Obstacle | None:
    if stored_hash != receipt.content_hash:
        return _Obstacle(State.RESCAN_REQUIRED, "The stored content is not the content that was scanned.", "rule")
    if transfer and not _is_target(transfer, submission):
        return _Obstacle(State.ON_HOLD, _foreign_reason(transfer), "person")
    if current is None:
        return None
    if current.is_deleted:
        return _Obstacle(State.BLOCKED, deleted_reason(current), "person")
    if current.transferred_to:
        return _Obstacle(State.ON_HOLD, transferred_reason(current), "person")
    if current.submission_id != submission.id:
        reason = f"The name {current.name} is taken by the skill of submission {current.submission_id}."
        return _Obstacle(State.ON_HOLD, reason, "person")
    if current.is_blocked and not current.is_blocked_by_rule:
        # A person decided, and only a person lifts it: neither new content does, nor removing the entry.
        return _Obstacle(State.BLOCKED, f"The skill {current.name} is blocked: {current.block_reason}", "person")
    return None


def _is_target(transfer: Transfer, submission: Submission) -> bool:
    return transfer.repo_id in (None, submission.repo_id)


async def _park(submission: Submission, obstacle: _Obstacle) -> Submission:
    state, reason, parked_by = obstacle
    return await move_submission(submission, state, "system", reason, parked_by=parked_by)


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
    publication = _Publication(
        current, True, version, diff, report, scanners, stored, manifest=manifest, run=submission.run
    )
    if current is None:
        publication = publication._replace(new_name=new_name)
    return publication._replace(attestation=await _attest(submission, receipt, publication))


async def _attest(submission: Submission, receipt: Receipt, publication: _Publication) -> str:
    draft = msgspec.structs.replace(submission, published_version=publication.version)
    version = _version_of(_skill_of(draft, publication), publication)
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


def _move(submission: Submission, version: str, at: datetime) -> Change:
    reason = f"published as version {version}"
    return move(submission, submission.publish_as, "worker", at, reason, published_version=version)


def _all_writes(publication: _Publication, is_first: bool, change: Change) -> list[Write]:
    submission = change.after
    # An entry added during the scan found no skill to block, so the transaction itself checks the blocklist.
    keys = block_keys(submission.skill_name, submission.source, submission.content_hash)
    first = [first_put(submission.content_hash or "", submission.skill_name, ABSENT)] if is_first else []
    return [*_writes(publication, submission), *(Check(key, ABSENT) for key in keys), *first]


def _writes(publication: _Publication, submission: Submission) -> list[Write]:
    current = publication.current
    if current and not publication.is_new:
        return _lifted(current, submission) if current.is_blocked_by_rule else [unchanged_check(current)]
    skill = _skill_of(submission, publication)
    version = _version_of(skill, publication)
    writes = [*skill_writes(current, skill), version_put(version), alias_put(skill.name)]
    writes += [manifest_put(publication.manifest)] if publication.manifest else []
    if not skill.copy_of and CLONE not in {finding.rule for finding in publication.report.findings}:
        writes += near_copy_puts(skill, publication.report.signature)
    if current is None:
        writes.append(counts_put(new_counts(skill), expect=None))
        # An approved look-alike does not take the place of the name that it looks like.
        is_alike = LOOK_ALIKE in deciding_rules(publication.report)
        writes += [] if is_alike else look_alike_puts(skill.name)
        if publication.new_name and not publication.new_name.knows_owner:
            writes += [known_owner_put(skill.name), *([] if is_alike else owner_puts(skill.name))]
    writes += [watch_put(submission.source, skill.updated_at, has_published=True)] if submission.repo_url else []
    return [*writes, *scan_requests(skill.name, skill.content_hash, publication.scanners, skill.updated_at)]


async def _follow_up(publication: _Publication, published: Submission) -> None:
    """Best effort: the skill is published, and the stuck scan indexes it if this fails."""
    current = publication.current
    if not publication.is_new:
        await dispatch_external_scans(published.skill_name, published.content_hash or "", publication.scanners)
        return
    skill = _skill_of(published, publication)
    may_have_moved = current is not None and (skill.category != current.category or bool(current.unindexed_since))
    await try_to_index(skill, may_have_moved)


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
        published_at=current.published_at if current else submission.updated_at,
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
        unindexed_since=submission.updated_at,
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
