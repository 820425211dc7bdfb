"""The verdict on one skill: fetch it, scan it, weigh it, decide, publish. The decision itself is shared/decision.py."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from shared.archive import Odd
from shared.blocklist import BlockEntry, block_keys, find_alike, worst_entry
from shared.content import content_hash_of
from shared.db import get_content, get_kv, get_settings, now
from shared.decision import Judged, Outcome, asks_judge, decide, is_vendor
from shared.documents import encode
from shared.errors import Blocked, ConditionFailed, Duplicate, Refused, Unavailable
from shared.judge import Judgement, NotJudged, judge_skill
from shared.kv import ABSENT, Put
from shared.receipt_store import (
    Clearance,
    Receipt,
    clearance_key,
    read_clearance,
    read_receipt,
    receipt_key,
    receipt_put,
)
from shared.scanner import RULE_SET_VERSION, ScanReport, finding_for, scan_skill
from shared.skill_source import UPLOADS, Fetched, fetch_skill
from shared.skill_store import publish_stored, skill_key
from shared.skills import Skill
from shared.submission_store import commit, find_by_identity, unique_key
from shared.submissions import State, Submission, move, touch


class Held:
    """A submission this worker holds the lease of. Each move is refused once the lease is lost."""

    def __init__(self, submission: Submission) -> None:
        self.submission = submission

    async def move(self, to: State, reason: str | None = None, also: Put | None = None, **set_: Any) -> None:
        before = self.submission
        self.submission = await commit(
            lambda at: move(before, to, "worker", at, reason, **set_), lambda _: [also] if also else []
        )


async def verify(held: Held) -> None:
    """Fetch, scan, weigh, decide, publish. Each step writes what it found before the next one starts."""
    fetched = await fetch_skill(held.submission)
    await _take_identity(held, fetched)
    content_hash = await _store(held.submission, fetched)
    known = await _read_known(held.submission, content_hash)
    if known.block:
        raise Blocked(f"{known.block.reason} (blocklist, {known.block.severity})", parked_by="blocklist")
    _refuse_taken_name(held.submission, known.skill)
    scanned = known.receipt or await _scan(fetched, content_hash)
    outcome, receipt = await _weigh(held, fetched, scanned, known.clearance)
    facts = _facts(fetched, content_hash, receipt, outcome)
    await held.move(outcome.state, outcome.reason, also=receipt_put(receipt), parked_by=outcome.parked_by, **facts)
    if outcome.state is State.AUTO_APPROVED:
        held.submission = await publish_stored(held.submission, receipt, known.skill)


class _Known(NamedTuple):
    """What the store already knows of this skill and this content, read at once."""

    block: BlockEntry | None
    receipt: Receipt | None
    clearance: Clearance | None
    skill: Skill | None


async def _read_known(submission: Submission, content_hash: str) -> _Known:
    blocks = block_keys(submission.skill_name, submission.source, content_hash)
    receipt, clearance = receipt_key(content_hash, RULE_SET_VERSION), clearance_key(content_hash)
    skill = skill_key(submission.skill_name)
    read = await get_kv().get_many([*blocks, receipt, clearance, skill])
    if read.failed:
        raise Unavailable("The store did not give everything that is known of this skill.")
    docs = read.found
    return _Known(
        block=worst_entry(docs[key] for key in blocks if key in docs),
        receipt=read_receipt(docs[receipt]) if receipt in docs else None,
        clearance=read_clearance(docs[clearance]) if clearance in docs else None,
        skill=msgspec.json.decode(docs[skill], type=Skill) if skill in docs else None,
    )


async def _take_identity(held: Held, fetched: Fetched) -> None:
    """What was submitted by name or branch gets the identity it really has, unless another submission has it."""
    submission = held.submission
    facts: dict[str, Any] = {}
    if fetched.repo and fetched.pinned:
        facts = {"repo_id": fetched.repo.id, "commit": fetched.pinned.commit, "ref": fetched.pinned.ref}
    if fetched.path == submission.skill_path and submission.repo_id == facts.get("repo_id"):
        return
    facts |= {"skill_path": fetched.path, "skill_name": fetched.skill_name}
    unique = []
    if fetched.path != submission.skill_path:
        unique = [Put(unique_key(submission.source, fetched.path), encode({"id": submission.id}), expect=ABSENT)]
    try:
        held.submission = await commit(lambda _: touch(submission, **facts), lambda _: unique)
    except ConditionFailed:
        other = await find_by_identity(submission.source, fetched.path)
        raise Duplicate(f"The same skill is submission {other.id if other else 'unknown'}.") from None


async def _store(submission: Submission, fetched: Fetched) -> str:
    if submission.source == UPLOADS:
        return content_hash_of(fetched.files)
    return await get_content().put_files(fetched.files)


def _refuse_taken_name(submission: Submission, skill: Skill | None) -> None:
    if skill and skill.submission_id != submission.id:
        raise Refused(f"The name {skill.name} is taken by another skill of this repository. Rename the folder.")


async def _scan(fetched: Fetched, content_hash: str) -> Receipt:
    started_at = now()
    report = await asyncio.to_thread(scan_fetched, fetched)
    if report.front_matter.errors:
        raise Refused(_unusable(report.front_matter.errors))
    alike = await find_alike(report.signature)
    if alike:
        excerpt = f"{alike[1]:.0%} in common with blocked content {alike[0][:12]}"
        report = report.adding([finding_for("KNOWN-NEAR-DUPLICATE", "SKILL.md", excerpt)])
    return Receipt(
        content_hash=content_hash, rule_set=RULE_SET_VERSION, started_at=started_at, ended_at=now(), report=report
    )


def scan_fetched(fetched: Fetched) -> ScanReport:
    links = [oddity for oddity in fetched.oddities if oddity.kind in (Odd.SYMLINK, Odd.HARDLINK)]
    paths = [oddity for oddity in fetched.oddities if oddity.kind in (Odd.UNSAFE_PATH, Odd.DEVICE)]
    findings = [finding_for("FILE-SYMLINK", oddity.path, oddity.why) for oddity in links]
    findings += [finding_for("FILE-UNSAFE-PATH", oddity.path, oddity.why) for oddity in paths]
    report = scan_skill(fetched.files, findings)
    unseen = tuple(f"{oddity.path}: {oddity.why}" for oddity in fetched.oddities if oddity.hides_content)
    return report.adding(incomplete=unseen)


async def _weigh(
    held: Held, fetched: Fetched, receipt: Receipt, clearance: Clearance | None
) -> tuple[Outcome, Receipt]:
    report = receipt.report
    vendor = _is_vendor(fetched)
    cleared = clearance is not None and clearance.covers(report)
    judged: Judged | None = None
    because = summary_of(report)
    if asks_judge(report.verdict, vendor, cleared):
        judgement = receipt.judgement or await _ask_judge(held, fetched, because)
        judged = judgement.judged
        if isinstance(judgement, Judgement):
            receipt = msgspec.structs.replace(receipt, judgement=judgement)
        if judged in (Judged.FAIL, Judged.CONCERNS, Judged.UNDECIDED):
            because = judgement.reason
    outcome = decide(report.verdict, report.certain, bool(report.incomplete), judged, vendor, cleared, because)
    return outcome, receipt


def _is_vendor(fetched: Fetched) -> bool:
    if fetched.repo is None or fetched.pinned is None:
        return False
    return is_vendor(fetched.repo.owner, fetched.repo.owner_id, fetched.pinned.ref, get_settings().vendors)


async def _ask_judge(held: Held, fetched: Fetched, because: str) -> Judgement | NotJudged:
    if get_settings().judge != "none":
        await held.move(State.TIER2_SCANNING)
    return await judge_skill(fetched.files, because)


def _facts(fetched: Fetched, content_hash: str, receipt: Receipt, outcome: Outcome) -> dict[str, Any]:
    judgement = receipt.judgement
    return {
        "content_hash": content_hash,
        "rule_set": receipt.rule_set,
        "verdict": receipt.report.verdict,
        "score": receipt.report.score,
        "judged": judgement.judged if judgement else "not_judged",
        "judge_score": judgement.score if judgement else None,
        "cert_tier": outcome.cert_tier,
        "publish_as": outcome.publish_as or State.PUBLISHED,
    }


def summary_of(report: ScanReport) -> str:
    """The one finding that decided, in a sentence; the page shows the others."""
    deciding = [finding for finding in report.findings if finding.action in ("block", "review")]
    if deciding:
        first = deciding[0]
        more = f" (and {len(deciding) - 1} more)" if len(deciding) > 1 else ""
        return f"{first.path}:{first.line}: {first.title}{more}"
    return report.incomplete[0] if report.incomplete else ""


def _unusable(problems: Sequence[str]) -> str:
    return f"SKILL.md cannot be used: {'; '.join(problems)}. Start it with `---`, `name:`, `description:`, `---`."
