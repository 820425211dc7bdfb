"""The verdict on one skill: fetch it, scan it, weigh it. records/decision.py decides, the pipeline commits."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from shared.db import get_content, get_kv, get_scans, get_settings, now
from shared.errors import ConditionFailed, NeedsPerson, Refused, Unavailable
from shared.evidence.blocklist import BlockEntry, block_keys, block_reason, worst_entry
from shared.evidence.receipt_store import (
    LOOK_ALIKE,
    Clearance,
    Receipt,
    about_content,
    own_findings,
    read_receipt,
    receipt_key,
)
from shared.github.archive import AnomalyKind
from shared.marketplace.publication_obstacles import (
    NewName,
    deleted_reason,
    new_name_keys,
    new_name_of,
    transferred_reason,
)
from shared.marketplace.skill_index import (
    decode_name,
    first_key,
    has_look_alike_owner,
    is_confusable,
    known_owner_key,
    look_alike_keys,
    owner_keys,
)
from shared.marketplace.skill_store import decode_skill, skill_key
from shared.records.decision import Judged, Ruling, decide, is_vendor, needs_judge
from shared.records.judgement import Judgement, NotJudged, Why
from shared.records.skills import Skill
from shared.records.submissions import State, Submission, move, touch
from shared.scanner import ScanReport, finding_for, rule_set_version
from shared.scanner.report import DECISIVE, deciding_findings
from shared.storage.content import content_hash_of
from shared.storage.kv import Key, Put
from shared.submissions.skill_source import (
    UPLOADS,
    Fetched,
    fetch_skill,
    fetch_upload,
    pin_repo,
    source_today,
    unusable,
)
from shared.submissions.submission_store import commit, find_by_identity, find_submission, identity_put, words_of
from shared.verification.clearances import clearance_keys, find_clearance
from shared.verification.likeness import Newcomer, with_likeness

MAX_NOTES = 100  # of a kind, for the judge
SOURCE_RULES = ("FILE-SYMLINK", "FILE-UNSAFE-PATH")  # for what only the source of a skill can see


class LeasedSubmission:
    """A submission whose lease this worker holds. Each move is refused once the lease is lost."""

    def __init__(self, submission: Submission, is_patient: bool = True) -> None:
        self.submission = submission
        self.is_patient = is_patient  # whether this worker may wait for a long scan

    async def move(self, to: State, reason: str | None = None, also: Sequence[Put] = (), **set_: Any) -> None:
        before = self.submission
        self.submission = await commit(lambda at: move(before, to, "worker", at, reason, **set_), lambda _: also)

    def learn(self, **facts: Any) -> None:
        """Stored with the next move, whichever it is."""
        self.submission = msgspec.structs.replace(self.submission, **facts)


class Outcome(NamedTuple):
    """Where a submission goes and why. With a receipt, its content was scanned."""

    state: State
    reason: str | None = None
    parked_by: str | None = None
    facts: Mapping[str, Any] = MappingProxyType({})  # for the record
    receipt: Receipt | None = None
    skill: Skill | None = None  # published under this name before
    new_name: NewName | None = None  # None: not looked up


async def verify(held: LeasedSubmission) -> Outcome:
    """Raises only for faults, Deferred for what is down, and TakesLong for what other workers scan."""
    try:
        fetched = await _fetch(held)
    except Refused as refusal:
        return Outcome(State.REJECTED, str(refusal))
    except NeedsPerson as hold:
        return Outcome(State.ON_HOLD, str(hold), hold.parked_by)
    if other := await _claim_identity(held, fetched):
        return Outcome(State.DEQUEUED, f"The same skill is submission {other}.")
    content_hash = content_hash_of(fetched.files)
    known = await _read_known(held.submission, content_hash, fetched.unscanned)
    if known.block:
        return Outcome(State.BLOCKED, block_reason(known.block), "blocklist")
    if refusal_reason := await _find_name_conflict(held.submission, known.skill, content_hash):
        return Outcome(State.REJECTED, refusal_reason)
    await _store(held.submission, fetched)
    receipt = await _reuse_or_scan(known.receipt, fetched, content_hash, held.is_patient)
    newcomer = Newcomer(held.submission.skill_name, fetched.files)
    receipt = await _with_own_findings(receipt, known, newcomer, _is_vendor(fetched))
    ruling, receipt = await _weigh(held, fetched, receipt, known.clearance)
    facts = _facts(receipt, ruling) | {"scanned_commit": held.submission.commit, "copy_of": known.copy_of}
    return Outcome(ruling.state, ruling.reason, ruling.parked_by, facts, receipt, known.skill, known.new_name)


class _Known(NamedTuple):
    """What the store already knows of this skill and this content, read at once."""

    block: BlockEntry | None
    receipt: Receipt | None
    clearance: Clearance | None
    skill: Skill | None
    confused_with: str | None  # a published name that people take this new one for
    copy_of: str | None  # another skill that published this content first
    new_name: NewName


async def _fetch(held: LeasedSubmission) -> Fetched:
    if held.submission.source == UPLOADS:
        return await fetch_upload(held.submission)
    place = await pin_repo(held.submission)
    # Known before anything can be refused: the same commit again is the same verdict again.
    held.learn(repo_id=place.repo.id, commit=place.pinned.commit)
    return await fetch_skill(held.submission, place)


async def _read_known(submission: Submission, content_hash: str, unscanned: str) -> _Known:
    blocks = block_keys(submission.skill_name, submission.source, content_hash)
    name = submission.skill_name
    receipt, cleared = receipt_key(content_hash, rule_set_version(), unscanned), clearance_keys(name, content_hash)
    skill, first = skill_key(name), first_key(content_hash)
    alike = [*look_alike_keys(name), *owner_keys(name)]
    read = await get_kv().get_many([*blocks, receipt, *cleared, skill, *new_name_keys(name), first, *alike])
    if read.failed:
        raise Unavailable("Some data about this skill could not be read.")
    docs = read.found
    return _Known(
        block=worst_entry(docs[key] for key in blocks if key in docs),
        receipt=read_receipt(docs[receipt]) if receipt in docs else None,
        clearance=await find_clearance(docs, name, content_hash, submission.id),
        skill=decode_skill(docs[skill]) if skill in docs else None,
        confused_with=None if skill in docs else _confused_with(name, docs),
        copy_of=_copied(name, docs.get(first)),
        new_name=new_name_of(name, docs),
    )


def _confused_with(name: str, docs: Mapping[Key, str]) -> str | None:
    """Checked only for a new name: an approved one was reviewed with this finding. So is an owner, with its first."""
    named = [decode_name(docs[key]) for key in look_alike_keys(name) if key in docs]
    if other := next((other for other in named if is_confusable(name, other)), None):
        return other
    owned = [] if known_owner_key(name) in docs else [decode_name(docs[key]) for key in owner_keys(name) if key in docs]
    return next((other for other in owned if has_look_alike_owner(name, other)), None)


def _copied(name: str, first: str | None) -> str | None:
    other = None if first is None else decode_name(first)
    return other if other and other.lower() != name.lower() else None


async def _claim_identity(held: LeasedSubmission, fetched: Fetched) -> str | None:
    """What was submitted by name or branch gets its real identity. If another submission has it, returns that one."""
    submission = held.submission
    if fetched.place is None:
        return None
    facts: dict[str, Any] = {}
    if submission.skill_path != fetched.path or submission.content_hash is None:  # later a rename changes no name
        facts = {"skill_path": fetched.path, "skill_name": fetched.skill_name, "ref": fetched.place.pinned.ref}
    sources = {submission.source, source_today(submission, fetched.place.repo)}
    places = sorted({(source, fetched.path) for source in sources} - {(submission.source, submission.skill_path)})
    also = [identity_put(*place, submission.id) for place in places]
    if facts.get("skill_name", submission.skill_name).lower() != submission.skill_name.lower():
        also += words_of(msgspec.structs.replace(submission, **facts))
    if also:
        try:
            held.submission = await commit(lambda _: touch(submission, **facts), lambda _: also)
        except ConditionFailed:
            if other := await _find_other(submission, places):
                return other
    held.learn(**facts)
    return None


async def _find_other(submission: Submission, places: Sequence[tuple[str, str]]) -> str | None:
    holders = await asyncio.gather(*(find_by_identity(*place) for place in places))
    return next((holder.id for holder in holders if holder and holder.id != submission.id), None)


async def _store(submission: Submission, fetched: Fetched) -> None:
    """Before the transaction that refers to it, and after all that needs no content refused it. An upload is there."""
    if submission.source != UPLOADS:
        await get_content().put_files(fetched.files)


async def _find_name_conflict(submission: Submission, skill: Skill | None, content_hash: str) -> str | None:
    """Why this content cannot be published under its name."""
    if skill is None:
        return None
    if skill.is_deleted:
        return deleted_reason(skill)
    if skill.transferred_to:
        return transferred_reason(skill)
    if content_hash in skill.yanked_content:
        return f"A version of {skill.name} with exactly this content was yanked. Submit it with the problem fixed."
    if skill.submission_id == submission.id:
        return None
    first = await find_submission(skill.submission_id)
    where = f" in {first.skill_path!r}" if first else ""
    return (
        f"The name {skill.name} is taken by the skill{where} (submission {skill.submission_id})."
        " Rename the folder of this one."
    )


async def _reuse_or_scan(stored: Receipt | None, fetched: Fetched, content_hash: str, is_patient: bool) -> Receipt:
    if stored and stored.is_reusable:
        return stored
    scanned = await _scan(fetched, content_hash, is_patient)
    # The judge read the same content, whatever stopped the scan.
    return msgspec.structs.replace(scanned, judgement=stored.judgement) if stored else scanned


async def _with_own_findings(receipt: Receipt, known: _Known, newcomer: Newcomer, is_vendor: bool) -> Receipt:
    """Made each time: a receipt may come from another skill with this content, and what is blocked changes. A vendor is
    never held for its name, nor for text that others copied from it first, and an exact copy adds nothing."""
    is_own_text = is_vendor or known.copy_of is not None
    report = await with_likeness(about_content(receipt.report), known.skill, None if is_own_text else newcomer)
    confused_with = None if is_vendor else known.confused_with
    about_name = [finding_for(LOOK_ALIKE, "SKILL.md", confused_with)] if confused_with else []
    return msgspec.structs.replace(receipt, report=report.adding(about_name) if about_name else report)


async def _scan(fetched: Fetched, content_hash: str, is_patient: bool) -> Receipt:
    started_at = now()
    report = await scan_fetched(fetched, is_patient)
    return Receipt(
        content_hash=content_hash,
        rule_set=rule_set_version(),
        started_at=started_at,
        ended_at=now(),
        report=report,
        commit=fetched.place.pinned.commit if fetched.place else None,
        unscanned=fetched.unscanned,
    )


async def scan_fetched(fetched: Fetched, is_patient: bool) -> ScanReport:
    links = [anomaly for anomaly in fetched.anomalies if anomaly.kind in (AnomalyKind.SYMLINK, AnomalyKind.HARDLINK)]
    paths = [anomaly for anomaly in fetched.anomalies if anomaly.kind in (AnomalyKind.UNSAFE_PATH, AnomalyKind.DEVICE)]
    findings = [finding_for("FILE-SYMLINK", anomaly.path, anomaly.why) for anomaly in links]
    findings += [finding_for("FILE-UNSAFE-PATH", anomaly.path, anomaly.why) for anomaly in paths]
    report = await get_scans().scan(fetched.files, findings, is_patient)
    unscanned = tuple(f"{anomaly.path}: {anomaly.why}" for anomaly in fetched.anomalies if anomaly.hides_content)
    return report.adding(incomplete=unscanned)


async def _weigh(
    held: LeasedSubmission, fetched: Fetched, receipt: Receipt, clearance: Clearance | None
) -> tuple[Ruling, Receipt]:
    report = receipt.report
    if report.front_matter.errors:  # no person or judge could approve it: it has no name
        return Ruling(State.REJECTED, reason=unusable(report.front_matter.errors)), receipt
    vendor = _is_vendor(fetched)
    cleared = clearance is not None and clearance.covers(receipt)
    judged: Judged | None = None
    because = summary_of(report)
    if needs_judge(report.verdict, vendor, cleared):
        judgement = receipt.judgement or await _ask_judge(held, fetched, report)
        judged = judgement.judged
        if isinstance(judgement, Judgement):
            receipt = msgspec.structs.replace(receipt, judgement=judgement)
        if judged in (Judged.FAIL, Judged.CONCERNS, Judged.UNDECIDED):
            because = judgement.reason
    # The judge reads what the rules cannot; without one, its language is a reason for a person to look.
    unscanned = set(report.incomplete).difference(report.unread_languages if judged is Judged.PASS else ())
    ruling = decide(report.verdict, report.certain, bool(unscanned), judged, vendor, cleared, because)
    return ruling, receipt


def _is_vendor(fetched: Fetched) -> bool:
    if fetched.place is None:
        return False
    repo, pinned = fetched.place
    return is_vendor(repo.owner, repo.owner_id, pinned.ref, get_settings().vendors)


async def _ask_judge(held: LeasedSubmission, fetched: Fetched, report: ScanReport) -> Judgement | NotJudged:
    """No other step reads what stopped the scan: a person decides, and the next attempt scans again."""
    if report.unfinished:
        return NotJudged(Why.NOT_SCANNED, summary_of(report))
    if get_settings().judge != "none":
        await held.move(State.TIER2_SCANNING)
    from shared.evidence.judge import judge_skill  # with the first skill that needs it, not at every cold start

    return await judge_skill(fetched.files, notes_of(report))


def _facts(receipt: Receipt, ruling: Ruling) -> dict[str, Any]:
    judgement = receipt.judgement
    is_usable = not receipt.report.front_matter.errors  # else there is no score: 100 beside "rejected" misleads
    return {
        "content_hash": receipt.content_hash,
        "unscanned": receipt.unscanned,
        "has_own_findings": bool(own_findings(receipt.report)),
        "has_own_receipt": not receipt.is_reusable,
        "rule_set": receipt.rule_set,
        "verdict": receipt.report.verdict,
        "score": receipt.report.score if is_usable else None,
        "judged": judgement.judged if judgement else "not_judged",
        "judge_score": judgement.score if judgement else None,
        "cert_tier": ruling.cert_tier,
        "publish_as": ruling.publish_as or State.PUBLISHED,
    }


def summary_of(report: ScanReport) -> str:
    """The one finding that decided, and where; the page shows the others."""
    deciding = [finding for finding in deciding_findings(report.findings) if finding.action in DECISIVE]
    if not deciding:
        return report.incomplete[0] if report.incomplete else ""
    first, *others = deciding
    place = f", {first.path}:{first.line}" if first.line else f", {first.path}" * bool(first.path)
    return f"{first.title}{place}" + (f" (and {len(others)} more)" if others else "")


def notes_of(report: ScanReport) -> str:
    """All that the scan says, for the judge: findings, what was not read, and why. Names and excerpts are JSON, because
    they are the author's words."""
    findings = [f"{f.action}: {f.title}, {json.dumps([f.path, f.line, f.excerpt])}" for f in report.findings]
    unread = [f"not read: {json.dumps([file.path, file.skipped])}" for file in report.receipt.files if file.skipped]
    lines = [
        *findings[:MAX_NOTES],
        *(f"incomplete: {json.dumps(why)}" for why in report.incomplete),
        *unread[:MAX_NOTES],
    ]
    return "\n".join(lines) or "nothing"
