"""The entry point: files in, report out. No disk, no network; the clock only limits the CPU time."""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

import msgspec

from shared.scanner import hidden_text
from shared.scanner.capabilities import find_capabilities
from shared.scanner.composites import find_composites, find_downloads_run_later
from shared.scanner.context import MARKDOWN, Excuse
from shared.scanner.cues import LOADS_STARTER, STARTS_PROGRAMS
from shared.scanner.front_matter import PYTHON_OBJECTS, TOO_COMPLEX, read_front_matter
from shared.scanner.inventory import Inventory, take_inventory
from shared.scanner.leaked_secrets import find_leaks
from shared.scanner.matching import Deadline, Hit, OutOfTime, TextFile, TooManyMatches, excerpt_of, find_hits
from shared.scanner.near_duplicates import signature_of
from shared.scanner.pack import Rule, load_pack, rule_set_version
from shared.scanner.package_names import find_imitations
from shared.scanner.report import (
    SCANNER_VERSION,
    Action,
    Finding,
    FrontMatter,
    ScanManifest,
    ScanReport,
    decide,
    most_serious_first,
)
from shared.scanner.syntax import language_of_file, without_literals
from shared.scanner.used_files import files_run_as_commands
from shared.timing import SCAN_CPU_DEADLINE

CPU_SECONDS = SCAN_CPU_DEADLINE.total_seconds()
MAX_FINDINGS = 200
MAX_PER_RULE_AND_FILE = 5
SECRET_CANDIDATE = "SIG-KEY-PREFIX"  # noqa: S105 - the name of a signal
SECRET_RULE = "SECRET-LEAKED"  # noqa: S105 - the name of a rule


def scan_skill(files: Mapping[str, bytes], source_findings: Sequence[Finding] = ()) -> ScanReport:
    """Scan a skill, given as a mapping of paths to raw bytes.

    `source_findings` are findings that only the source can see (a symlink in the archive), made with `finding_for`.
    """
    inventory = take_inventory(files)
    texts = _text_files(inventory)
    front_matter = _front_matter(texts)
    hits, incomplete, unfinished = _find_all_hits(texts, Deadline(time.thread_time() + CPU_SECONDS))
    findings = [
        *source_findings,
        *_from_inventory(inventory),
        *_from_hits(hits),
        *_from_composites(hits),
        *_from_package_names(hits),
        *_from_unicode(texts, front_matter),
        *_from_secrets(hits, texts),
        *_from_front_matter(front_matter),
    ]
    reasons = (*inventory.incomplete, *incomplete)
    report = _report(inventory, _bounded(findings), reasons, front_matter, hits, texts)
    return msgspec.structs.replace(report, unfinished=unfinished)


def finding_for(
    rule_id: str, path: str, excerpt: str = "", line: int = 1, column: int = 1, context: str = "file"
) -> Finding:
    """A finding for a rule in the pack that the pattern matcher does not detect."""
    return _finding(load_pack().rules[rule_id], path, line, column, excerpt, context)


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
        except TooManyMatches:
            incomplete.append(f"{file.path}: too many matches to evaluate")
        except OutOfTime:
            unfinished = f"{file.path}: not finished within {CPU_SECONDS:.0f} s of processor time"
            incomplete.append(unfinished)
            break
    return hits, incomplete, unfinished


def _from_inventory(inventory: Inventory) -> list[Finding]:
    return [finding_for(item.rule_id, item.record.path, item.detail) for item in inventory.items if item.rule_id]


def _from_hits(hits: list[Hit]) -> list[Finding]:
    """A match that is only described is kept as a note and does not count against the skill."""
    return [
        _finding(hit.rule, hit.path, hit.line, hit.column, hit.excerpt, hit.place.label, hit.action)
        for hit in hits
        if hit.rule.action is not Action.NONE and not hit.rule.all_of
    ]


def _from_composites(hits: list[Hit]) -> list[Finding]:
    rules = load_pack().rules
    found = find_composites([rule for rule in rules.values() if rule.all_of], hits)
    found += [(rules["RC-DOWNLOAD-RUN-LATER"], hit) for hit in find_downloads_run_later(hits)]
    return [
        _finding(rule, hit.path, hit.line, hit.column, hit.excerpt, hit.place.label, _softened(rule, hit))
        for rule, hit in found
    ]


def _softened(rule: Rule, hit: Hit) -> Action:
    """A combination that begins in a block of code that its page calls bad is a question."""
    return Action.REVIEW if rule.action is Action.BLOCK and hit.place.excuse is Excuse.LESSON else rule.action


def _from_package_names(hits: list[Hit]) -> list[Finding]:
    return [
        finding_for("SC-TYPOSQUAT", hit.path, shown, hit.line, hit.column, hit.place.label)
        for hit, shown in find_imitations(hits)
    ]


def _from_unicode(texts: list[TextFile], front_matter: FrontMatter) -> list[Finding]:
    findings = []
    for file in texts:
        if not file.original.isascii():
            findings += [
                _hidden_text_finding(file, rule, start, shown)
                for rule, start, shown in hidden_text.find_hidden(file.original)
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
        leaks = find_leaks(candidates, file.text.split("\n")) if candidates else []
        findings += [finding_for(SECRET_RULE, file.path, f"{k.kind}: {k.excerpt}", k.line, 1, "secret") for k in leaks]
    return findings


def _from_front_matter(front_matter: FrontMatter) -> list[Finding]:
    unsafe = {TOO_COMPLEX, PYTHON_OBJECTS}.intersection(front_matter.errors)
    return [finding_for("FRONT-MATTER-UNSAFE", "SKILL.md", error) for error in unsafe]


def _front_matter(texts: list[TextFile]) -> FrontMatter:
    page = next((file for file in texts if PurePosixPath(file.path).name.lower() == "skill.md"), None)
    return read_front_matter(page.original if page else None, PurePosixPath(page.path).parent.name if page else "")


def _text_files(inventory: Inventory) -> list[TextFile]:
    items = [(item.record.path, item.text) for item in inventory.items if item.text is not None]
    starts_programs = any(_starts_programs(path, text) for path, text in items)
    run = files_run_as_commands(text for _, text in items) if len(items) > 1 else set()
    return [
        TextFile(path, hidden_text.plain(text), text, starts_programs, PurePosixPath(path).name.lower() in run)
        for path, text in items
    ]


def _starts_programs(path: str, text: str) -> bool:
    """Whether the code outside strings and comments can run a command. A list of dangerous commands cannot."""
    if path.lower().endswith(MARKDOWN) or not (STARTS_PROGRAMS.search(text) or LOADS_STARTER.search(text)):
        return False
    code = without_literals(text, language_of_file(path, text))
    return bool(STARTS_PROGRAMS.search(code) or LOADS_STARTER.search(text))


def _finding(
    rule: Rule, path: str, line: int, column: int, excerpt: str, context: str, action: Action | None = None
) -> Finding:
    """`action` is what the place of a match leaves of the rule's own."""
    return Finding(
        rule=rule.id,
        title=rule.title,
        category=rule.category,
        severity=rule.severity,
        action=action or rule.action,
        certain=rule.certain and action in (None, rule.action),
        path=path,
        line=line,
        column=column,
        excerpt=excerpt,
        context=context,
        why=rule.why,
        fix=rule.fix,
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
