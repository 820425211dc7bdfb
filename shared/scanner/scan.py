"""The entry point: files in, report out. No disk, no network; the clock only limits the CPU time."""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

import msgspec

from shared.scanner import hidden_text
from shared.scanner.calibration import standing_in_place
from shared.scanner.capabilities import find_capabilities
from shared.scanner.composites import find_composites, find_downloads_run_later
from shared.scanner.computed_runs import starts_programs
from shared.scanner.context import PROSE, Excuse
from shared.scanner.directives import find_directives
from shared.scanner.doubts import doubted
from shared.scanner.flow import find_flows, rule_of
from shared.scanner.flow.tracker import Flow
from shared.scanner.front_matter import PYTHON_OBJECTS, TOO_COMPLEX, read_front_matter
from shared.scanner.hosts import SkillIdentity, identity_of
from shared.scanner.inventory import Inventory, take_inventory
from shared.scanner.languages import find_unread_prose, pages_followed
from shared.scanner.leaked_secrets import find_leaks
from shared.scanner.matching import (
    Deadline,
    Hit,
    OutOfTime,
    TextFile,
    TooManyMatches,
    excerpt_of,
    find_disguised,
    find_hits,
)
from shared.scanner.missing_scripts import find_missing_on_pages
from shared.scanner.near_duplicates import signature_of
from shared.scanner.opened_files import find_opened
from shared.scanner.pack import Rule, load_pack, rule_set_version
from shared.scanner.package_names import find_imitations
from shared.scanner.remote_runs import find_remote_runs
from shared.scanner.report import (
    SCANNER_VERSION,
    Action,
    Finding,
    FlowStep,
    FrontMatter,
    ScanManifest,
    ScanReport,
    Standing,
    decide,
    deciding_findings,
    most_serious_first,
)
from shared.scanner.used_files import files_run_as_commands
from shared.scanner.vouched_installers import SAVED, tell_vouched_apart
from shared.timing import SCAN_CPU_DEADLINE

CPU_SECONDS = SCAN_CPU_DEADLINE.total_seconds()
MAX_FINDINGS = 200
_BY_WORDS = (Excuse.WORDS, Excuse.HEADING)
MAX_PER_RULE_AND_FILE = 5
MAX_DESCRIPTION = 1_000  # characters of the way a value took
SECRET_CANDIDATE = "SIG-KEY-PREFIX"  # noqa: S105 - the name of a signal
SECRET_RULE = "SECRET-LEAKED"  # noqa: S105 - the name of a rule


def scan_skill(files: Mapping[str, bytes], source_findings: Sequence[Finding] = ()) -> ScanReport:
    """Scan a skill, given as a mapping of paths to raw bytes.

    `source_findings` are findings that only the source can see (a symlink in the archive), made with `finding_for`.
    """
    report = gather_evidence(files, source_findings)
    return msgspec.structs.replace(report, findings=_weighed(report))


def gather_evidence(files: Mapping[str, bytes], source_findings: Sequence[Finding] = ()) -> ScanReport:
    """The report before its findings are weighed: each has the action of its rule and its place."""
    inventory = take_inventory(files)
    texts = _text_files(inventory)
    front_matter = _front_matter(texts)
    deadline = Deadline(time.thread_time() + CPU_SECONDS)
    hits, incomplete, unfinished = _find_all_hits(texts, deadline)
    identity = identity_of(front_matter.name, front_matter.description)
    hits = doubted(tell_vouched_apart(hits, identity, texts), texts)
    flows, unfollowed = _find_all_flows(texts, deadline, identity)
    incomplete += [reason for reason in unfollowed if not unfinished]
    unfinished = unfinished or "".join(unfollowed)
    findings = [
        *source_findings,
        *_from_inventory(inventory),
        *_from_hits([*hits, *find_opened(texts, identity)]),
        *_from_directives(hits, texts, identity),
        *_from_missing_scripts(inventory, texts),
        *_from_composites(hits, identity, texts),
        *_from_flows(flows, texts),
        *_from_package_names(hits),
        *_from_unicode(texts, front_matter, hits),
        *_from_secrets(hits, texts),
        *_from_front_matter(front_matter),
    ]
    unread = find_unread_prose(texts)
    reasons = (*inventory.incomplete, *incomplete, *unread)
    report = _report(inventory, _bounded(findings), reasons, front_matter, hits, texts)
    return msgspec.structs.replace(report, unfinished=unfinished, unread_languages=tuple(unread))


def finding_for(
    rule_id: str, path: str, excerpt: str = "", line: int = 1, column: int = 1, context: str = "file"
) -> Finding:
    """A finding for a rule in the pack that the pattern matcher does not detect."""
    return _finding(load_pack().rules[rule_id], path, line, column, excerpt, context)


def _weighed(report: ScanReport) -> tuple[Finding, ...]:
    """What decides nothing is shown as a note, and nothing as a block where the skill is not blocked."""
    deciding = set(deciding_findings(report.findings))
    weighed = [
        _as_decided(f, report.action) if f in deciding else msgspec.structs.replace(f, action=Action.NOTE)
        for f in report.findings
    ]
    return tuple(sorted(weighed, key=most_serious_first))


def _as_decided(finding: Finding, action: Action) -> Finding:
    is_question = finding.action is Action.BLOCK and action is not Action.BLOCK
    return msgspec.structs.replace(finding, action=Action.REVIEW) if is_question else finding


def _report(
    inventory: Inventory,
    findings: tuple[Finding, ...],
    incomplete: tuple[str, ...],
    front_matter: FrontMatter,
    hits: list[Hit],
    texts: list[TextFile],
) -> ScanReport:
    decision = decide(findings, incomplete)
    return ScanReport(
        verdict=decision.verdict,
        action=decision.action,
        certain=decision.certain,
        score=decision.score,
        incomplete=incomplete,
        findings=findings,
        capabilities=find_capabilities(front_matter, hits),
        front_matter=front_matter,
        signature=signature_of("\n".join(file.text for file in texts)),
        receipt=ScanManifest(
            scanner_version=SCANNER_VERSION,
            rule_set_version=rule_set_version(),
            content_hash=inventory.content_hash,
            files=tuple(item.record for item in inventory.items if not item.in_archive),
        ),
    )


def _find_all_hits(texts: list[TextFile], deadline: Deadline) -> tuple[list[Hit], list[str], str]:
    """The hits, what was not read, and the same for the file that time ran out on."""
    hits: list[Hit] = []
    incomplete = []
    unfinished = ""
    for file in texts:
        try:
            hits += find_hits(file, deadline)
        except TooManyMatches as many:
            hits += many.hits
            incomplete.append(f"{file.path}: too many matches to evaluate")
        except OutOfTime:
            unfinished = f"{file.path}: not finished within {CPU_SECONDS:.0f} s of processor time"
            incomplete.append(unfinished)
            break
    try:
        hits += [] if unfinished else find_remote_runs(texts, hits, deadline)
    except OutOfTime:
        unfinished = f"its commands: not finished within {CPU_SECONDS:.0f} s of processor time"
        incomplete.append(unfinished)
    return hits, incomplete, unfinished


def _find_all_flows(texts: list[TextFile], deadline: Deadline, skill: SkillIdentity) -> tuple[list[Flow], list[str]]:
    try:
        return find_flows(texts, deadline, skill), []
    except OutOfTime:
        return [], [f"its flows of data: not finished within {CPU_SECONDS:.0f} s of processor time"]


def _from_inventory(inventory: Inventory) -> list[Finding]:
    return [finding_for(item.rule_id, item.record.path, item.detail) for item in inventory.items if item.rule_id]


def _from_hits(hits: list[Hit]) -> list[Finding]:
    """A match that is only described is kept as a note and does not count against the skill."""
    commands = (hit for hit in hits if hit.rule.action is Action.BLOCK and not hit.rule.is_sentence)
    in_code = {(hit.rule.id, _command_of(hit)) for hit in commands if _is_in_code(hit)}
    return [
        _finding(
            hit.rule,
            hit.path,
            hit.line,
            hit.column,
            hit.excerpt,
            hit.place.label,
            _action_of(hit, in_code),
            hit.is_described and not _is_repeated(hit, in_code),
        )
        for hit in hits
        if hit.rule.action is not Action.NONE and not hit.rule.all_of and not hit.rule.is_directive
    ]


def _action_of(hit: Hit, in_code: set[tuple[str, str]]) -> Action:
    """Words excuse a command in prose only as long as it stands in prose alone."""
    return Action.REVIEW if _is_repeated(hit, in_code) and hit.action is Action.NOTE else hit.action


def _is_repeated(hit: Hit, in_code: set[tuple[str, str]]) -> bool:
    return hit.place.excuse in _BY_WORDS and (hit.rule.id, _command_of(hit)) in in_code


def _is_in_code(hit: Hit) -> bool:
    """In a script, in a block of code, or in a sentence that has the reader run it."""
    return hit.place.is_instructed or (hit.place.excuse not in _BY_WORDS and hit.place.kinds != PROSE)


def _command_of(hit: Hit) -> str:
    return " ".join(hit.text.partition("`")[0].split()).rstrip("\"').,;:")


def _from_directives(hits: list[Hit], texts: list[TextFile], identity: SkillIdentity) -> list[Finding]:
    return [
        _finding(hit.rule, hit.path, hit.line, hit.column, hit.excerpt, hit.place.label)
        for hit in find_directives(hits, texts, identity)
    ]


def _from_missing_scripts(inventory: Inventory, texts: list[TextFile]) -> list[Finding]:
    pages = [(page.path, page.text) for page in pages_followed(texts)]
    missing = find_missing_on_pages(pages, [item.record.path for item in inventory.items])
    return [finding_for(one.rule, path, one.name, one.line) for path, one in missing]


def _from_composites(hits: list[Hit], identity: SkillIdentity, texts: list[TextFile]) -> list[Finding]:
    rules = load_pack().rules
    found = find_composites([rule for rule in rules.values() if rule.all_of], hits)
    later = [msgspec.structs.replace(hit, rule=rules[SAVED]) for hit in find_downloads_run_later(hits)]
    found += [(hit.rule, hit) for hit in tell_vouched_apart(later, identity, texts)]
    return [
        _finding(
            rule,
            hit.path,
            hit.line,
            hit.column,
            hit.excerpt,
            hit.place.label,
            _softened(rule, hit),
            hit.place.excuse is Excuse.LESSON,
        )
        for rule, hit in found
    ]


def _from_flows(flows: list[Flow], texts: list[TextFile]) -> list[Finding]:
    """The excerpt is the place where the value leaves; the way it took is in the reason."""
    paths = {flow.sink.path for flow in flows}
    lines = {file.path: file.layout.lines for file in texts if file.path in paths}
    return [
        msgspec.structs.replace(
            finding_for(
                rule_of(flow), flow.sink.path, excerpt_of(_line(lines, flow.sink), 1), flow.sink.line, 1, "flow"
            ),
            why=f"{flow.description[:MAX_DESCRIPTION]}.",
            steps=flow.steps,
        )
        for flow in flows
    ]


def _line(lines: dict[str, list[str]], step: FlowStep) -> str:
    text = lines.get(step.path, [])
    return text[step.line - 1] if 0 < step.line <= len(text) else ""


def _softened(rule: Rule, hit: Hit) -> Action:
    """A combination that begins in a block of code that its page calls bad is a question."""
    return Action.REVIEW if rule.action is Action.BLOCK and hit.place.excuse is Excuse.LESSON else rule.action


def _from_package_names(hits: list[Hit]) -> list[Finding]:
    return [
        finding_for("SC-TYPOSQUAT", hit.path, shown, hit.line, hit.column, hit.place.label)
        for hit, shown in find_imitations(hits)
    ]


def _from_unicode(texts: list[TextFile], front_matter: FrontMatter, hits: list[Hit]) -> list[Finding]:
    findings = []
    for file in texts:
        if not file.original.isascii():
            findings += [
                _hidden_text_finding(file, rule, start, shown)
                for rule, start, shown in hidden_text.find_hidden(file.original)
            ]
    findings += [
        finding_for("UNICODE-DISGUISED", hit.path, hit.excerpt, hit.line, hit.column, "hidden")
        for hit in find_disguised(hits, texts)
    ]
    if hidden_text.mixed_script_words(front_matter.name):
        findings.append(finding_for("UNICODE-MIXED-NAME", "SKILL.md", front_matter.name[:80]))
    return findings


def _hidden_text_finding(file: TextFile, rule: str, start: int, shown: str) -> Finding:
    line_start = file.original.rfind("\n", 0, start) + 1
    line = file.original.count("\n", 0, start) + 1
    return finding_for(rule, file.path, excerpt_of(shown, 1), line, start - line_start + 1, "hidden")


def _from_secrets(hits: list[Hit], texts: list[TextFile]) -> list[Finding]:
    findings = []
    by_path: dict[str, list[Hit]] = {}
    for hit in hits:
        if hit.rule.id == SECRET_CANDIDATE:
            by_path.setdefault(hit.path, []).append(hit)
    for file in texts:
        candidates = by_path.get(file.path)
        leaks = find_leaks(candidates, file.layout.lines) if candidates else []
        findings += [finding_for(SECRET_RULE, file.path, f"{k.kind}: {k.excerpt}", k.line, 1, "secret") for k in leaks]
    return findings


def _from_front_matter(front_matter: FrontMatter) -> list[Finding]:
    unsafe = {TOO_COMPLEX, PYTHON_OBJECTS}.intersection(front_matter.errors)
    return [finding_for("FRONT-MATTER-UNSAFE", "SKILL.md", error) for error in unsafe]


def _front_matter(texts: list[TextFile]) -> FrontMatter:
    page = _skill_page(texts)
    return read_front_matter(page.original if page else None, PurePosixPath(page.path).parent.name if page else "")


def _skill_page(texts: list[TextFile]) -> TextFile | None:
    return next((file for file in texts if PurePosixPath(file.path).name.lower() == "skill.md"), None)


def _text_files(inventory: Inventory) -> list[TextFile]:
    items = [(item.record.path, item.text) for item in inventory.items if item.text is not None]
    any_starts = any(starts_programs(path, text) for path, text in items)
    run = files_run_as_commands(text for _, text in items) if len(items) > 1 else set()
    return [
        TextFile(path, hidden_text.plain(text), text, any_starts, PurePosixPath(path).name.lower() in run)
        for path, text in items
    ]


def _finding(
    rule: Rule,
    path: str,
    line: int,
    column: int,
    excerpt: str,
    context: str,
    action: Action | None = None,
    is_described: bool = False,
) -> Finding:
    """`action` is what the place of a match leaves of the rule's own."""
    standing = standing_in_place(
        load_pack().standings[rule.id],
        claims_certainty=rule.certain,
        is_policy=bool(rule.policy),
        is_described=is_described,
    )
    return Finding(
        rule=rule.id,
        title=rule.title,
        category=rule.category,
        severity=rule.severity,
        action=action or rule.action,
        certain=rule.certain and action in (None, rule.action) and standing in (Standing.CERTAIN, Standing.POLICY),
        path=path,
        line=line,
        column=column,
        excerpt=excerpt,
        context=context,
        why=rule.why,
        fix=rule.fix,
        standing=standing,
        is_described=is_described,
    )


def _bounded(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The most serious first, and only a few of the same rule per file: repetitions help no reader."""
    kept: list[Finding] = []
    counts: dict[tuple[str, str], int] = {}
    for finding in sorted(dict.fromkeys(findings), key=most_serious_first):
        key = (finding.rule, finding.path)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= MAX_PER_RULE_AND_FILE:
            kept.append(finding)
    return tuple(kept[:MAX_FINDINGS])
