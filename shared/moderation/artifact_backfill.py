"""Artifacts and signed receipts for versions that an older release published: page by page, from what is stored."""

from typing import NamedTuple

import msgspec

from shared.db import get_kv
from shared.errors import ConditionFailed, Unavailable
from shared.evidence.receipt_store import find_version_receipt, with_own_findings
from shared.marketplace.artifacts import store_artifacts
from shared.marketplace.attestations import store_attestation
from shared.marketplace.manifest_store import manifest_of, manifest_put
from shared.marketplace.published_content import get_published_files
from shared.marketplace.runs import SubmissionRun, get_runs
from shared.marketplace.skill_store import get_page_of_names, get_versions, read_skills, skill_put, version_update
from shared.records.skills import Skill, SkillVersion
from shared.records.submissions import State
from shared.submissions.submission_store import find_submission
from shared.telemetry import logger
from shared.timing import API_TIMEOUT, seconds_left

SKILLS_PER_PAGE = 20
TIME_FOR_ONE = API_TIMEOUT / 2  # to package and store the largest version
_START = "skill:"


class BackfillProgress(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    checked: int  # versions
    built: int
    failed: list[str]  # name@version, or a skill that could not be read; run it again for these
    next_position: str | None  # None: finished


class _Built(NamedTuple):
    checked: int = 0
    built: int = 0
    failed: tuple[str, ...] = ()
    is_late: bool = False

    def plus(self, other: "_Built") -> "_Built":
        return _Built(self.checked + other.checked, self.built + other.built, self.failed + other.failed, other.is_late)


async def build_artifacts(after: str | None = None, limit: int = SKILLS_PER_PAGE) -> BackfillProgress:
    """One page, or as much of it as the time allows. Continue with `next_position`, also after a crash: what is built
    is not built again."""
    begin = (after or _START).removeprefix(_START)
    names, end = await get_page_of_names(begin or None, limit)
    read = await read_skills(names, with_counts=False)
    done = _Built(failed=tuple(read.failed))
    for skill in (read.skills[name] for name in names if name in read.skills):
        done = done.plus(await _build_missing(skill, is_first=not done.built))
        if done.is_late:
            end = begin
            break
    position = None if end is None else f"{_START}{end}"
    return BackfillProgress(checked=done.checked, built=done.built, failed=list(done.failed), next_position=position)


async def _build_missing(skill: Skill, is_first: bool) -> _Built:
    """At least one version in a call, so that every call gets further."""
    versions = await get_versions(skill.name)
    done = _Built(checked=len(versions))
    for version in versions:
        if (version.artifacts or version.unpackaged) and version.attestation:
            continue
        if not (is_first and not done.built) and seconds_left(API_TIMEOUT) < TIME_FOR_ONE.total_seconds():
            return done._replace(is_late=True)
        try:
            after = await _build(skill, version)
            done = done._replace(built=done.built + (after is not skill))
            skill = after
        except (Unavailable, ConditionFailed):
            facts = {"skill": skill.name, "version": version.version}
            logger.warning("artifacts not built", exc_info=True, extra=facts)
            done = done._replace(failed=(*done.failed, f"{skill.name}@{version.version}"))
    return done


async def _build(skill: Skill, version: SkillVersion) -> Skill:
    """The skill's version guards its versions: a yank at the same moment wins, or is repeated with the new record."""
    packaged = version if version.artifacts or version.unpackaged else await _package(skill, version)
    packaged = msgspec.structs.replace(packaged, attestation=await _attest(skill, packaged))
    if packaged == version:
        return skill
    after = msgspec.structs.replace(skill, record_version=skill.record_version + 1)
    writes = [skill_put(after, {"recordVersion": skill.record_version}), version_update(packaged)]
    await get_kv().transact(lambda: writes)
    return after


async def _package(skill: Skill, version: SkillVersion) -> SkillVersion:
    files = await get_published_files(version.content_hash)
    description = version.metadata.description if version.metadata else skill.description
    stored = await store_artifacts(version.name, version.version, description, files)
    await get_kv().put(manifest_put(manifest_of(version.name, version.version, files)))  # again: the same
    return msgspec.structs.replace(version, artifacts=stored.artifacts, unpackaged=stored.unpackaged)


async def _attest(skill: Skill, version: SkillVersion) -> str:
    """Empty where the scan of this version is no longer known."""
    receipt = await find_version_receipt(version)
    if receipt is None:
        return ""
    run = await _find_run(version)
    if run and run.submission.has_own_findings:
        receipt = await with_own_findings(receipt, run.submission)
    is_vendor = run is not None and any(entry.to_state is State.VENDOR_APPROVED for entry in run.history.entries)
    return await store_attestation(version, receipt, skill.repo_url, is_vendor)


async def _find_run(version: SkillVersion) -> SubmissionRun | None:
    """The run that published this version: a later one of the same submission may have been another person's."""
    submission = await find_submission(version.submission_id)
    runs = await get_runs(submission) if submission else []
    return next((run for run in runs if run.submission.published_version == version.version), None)
