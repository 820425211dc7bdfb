"""A scan report as text for a terminal: location, finding, reason and fix."""

import textwrap

from shared.scanner.calibration import Calibration, RuleFigures
from shared.scanner.pack import Rule
from shared.scanner.report import Action, Finding, ScanReport, Standing, Verdict, by_line, first_sentences

COLOURS = {
    "PASS": "32",
    "CONCERNS": "33",
    "FAIL": "31",
    "block": "31",
    "review": "33",
    "note": "2",
    "dim": "2",
    "bold": "1",
}
WIDTH = 100
MAX_NOTES = 3
STANDINGS = {
    Standing.POLICY: "decides by its action: it is about what may be published at all",
    Standing.CERTAIN: "certain: it fired on no benign skill and on attacks of several sources, so it blocks",
    Standing.ALONE: "decides alone: a reviewer looks at the skill",
    Standing.SUPPORTING: "supporting: it decides only beside a finding of another category, or beside a flow",
}


class Terminal:
    def __init__(self, colour: bool) -> None:
        self.colour = colour

    def report(self, path: str, report: ScanReport, seconds: float) -> str:
        lines = [self._headline(path, report, seconds), *self._front_matter(report), *self._incomplete(report)]
        shown = [f for f in report.findings if f.action is not Action.NOTE]
        notes = [f for f in report.findings if f.action is Action.NOTE]
        for group in by_line(shown):
            lines += self._finding(group[0])
            for other in group[1:]:
                lines += [self._paint("dim", f"          also {other.title}  {other.rule}"), *_path(other)]
        lines += [self._paint("dim", f"  note    {_place(f)}  {f.title} ({f.context})") for f in notes[:MAX_NOTES]]
        if len(notes) > MAX_NOTES:
            lines.append(self._paint("dim", f"  note    and {len(notes) - MAX_NOTES} more"))
        return "\n".join([*lines, ""] if len(lines) > 1 else lines)

    def summary(self, verdicts: list[Verdict], seconds: float) -> str:
        counts = [f"{verdicts.count(v)} {v}" for v in Verdict if verdicts.count(v)]
        skills = "1 skill" if len(verdicts) == 1 else f"{len(verdicts)} skills"
        return self._paint("bold", f"{skills} scanned in {seconds:.1f} s: {', '.join(counts)}")

    def _headline(self, path: str, report: ScanReport, seconds: float) -> str:
        certain = ", certain" if report.certain else ""
        capabilities = ", ".join(dict.fromkeys(c.name for c in report.capabilities)) or "none"
        verdict = self._paint(report.verdict, f"{report.verdict}{certain}")
        facts = f"score {report.score} · capabilities: {capabilities} · {seconds * 1000:.0f} ms"
        return f"{verdict}  {self._paint('bold', path)}  {self._paint('dim', facts)}"

    def _front_matter(self, report: ScanReport) -> list[str]:
        errors = [self._paint("FAIL", f"  error   {error}") for error in report.front_matter.errors]
        return errors + [self._paint("dim", f"  hint    {warning}") for warning in report.front_matter.warnings]

    def _incomplete(self, report: ScanReport) -> list[str]:
        return [self._paint("CONCERNS", f"  partial {reason}") for reason in report.incomplete]

    def _finding(self, finding: Finding) -> list[str]:
        label = self._paint(finding.action, f"{finding.action:<7}")
        rule = self._paint("dim", f"{finding.rule}, {finding.severity}")
        return [
            f"  {label} {self._paint('bold', finding.title)}  {rule}",
            f"          {_place(finding)}  {_printable(finding.excerpt)}",
            *_path(finding),
            *_wrapped("why ", first_sentences(finding.why)),
            *_wrapped("fix ", finding.fix),
        ]

    def _paint(self, name: str, text: str) -> str:
        return f"\x1b[{COLOURS[name]}m{text}\x1b[0m" if self.colour else text


def explanation(rule: Rule, standing: Standing, measured: Calibration) -> str:
    figures = measured.figures.get(rule.id, RuleFigures())
    facts = (
        f"{rule.id}: {rule.title}\n  {rule.category}, {rule.severity}, {rule.action}\n  {STANDINGS[standing]}\n"
        f"  fired on {figures.benign} of {measured.benign} benign skills, {figures.teaching} of {measured.teaching}"
        f" that teach security, and {figures.attacks} of {measured.attacks} attacks (from {figures.sources} sources)"
    )
    return "\n".join([facts, *_wrapped("why ", rule.why), *_wrapped("fix ", rule.fix)])


def _path(finding: Finding) -> list[str]:
    """The way of a value, one step per line."""
    marks = ["from", *["→"] * (len(finding.steps) - 1)]
    return [
        f"          {mark:<4} {_printable(step.what)}  ({_printable(step.path)}:{step.line})"
        for mark, step in zip(marks, finding.steps, strict=False)
    ]


def _place(finding: Finding) -> str:
    return f"{_printable(finding.path)}:{finding.line}:{finding.column}"


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=f"          {label} ", subsequent_indent=" " * 15)


def _printable(text: str) -> str:
    """A skill must not be able to write control sequences to the reader's terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)
