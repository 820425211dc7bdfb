"""What a person sees of findings: every path of a value, and no more than three sentences of reasons."""

import msgspec
import pytest

from shared.scanner import scan_skill
from shared.scanner.report import FlowStep, Severity, first_sentences
from shared.scanner.sarif import sarif_log
from shared.scanner.scan import finding_for
from shared.scanner.terminal import Terminal

REPORT = scan_skill({"SKILL.md": b"---\nname: notes\ndescription: Keeps notes.\n---\n\n# Notes\n"})
STEPS = (FlowStep("run.sh", 3, "reads `API_TOKEN`"), FlowStep("run.sh", 9, "sent to host"))


def test_the_path_of_a_flow_is_drawn_though_a_more_severe_finding_stands_on_its_line() -> None:
    first = finding_for("RC-PIPE-SHELL-ODD", "run.sh", line=9)
    flow = msgspec.structs.replace(finding_for("FLOW-DATA-SENT", "run.sh", line=9), steps=STEPS)
    shown = Terminal(colour=False).report("notes", msgspec.structs.replace(REPORT, findings=(first, flow)), 0.1)
    assert first.severity is Severity.CRITICAL
    assert [line.split()[0] for line in shown.splitlines() if "(run.sh:" in line] == ["from", "→"]
    assert shown.index("also") < shown.index("reads `API_TOKEN`")


@pytest.mark.parametrize(
    ("why", "shown"),
    [
        ("One. Two. Three. Four.", "One. Two. Three."),
        ("reads a key " * 200, "reads a key " * 41 + "reads a …"),
        ("Short.", "Short."),
    ],
)
def test_reasons_have_three_sentences_at_most_and_the_log_has_no_more(why: str, shown: str) -> None:
    assert first_sentences(why) == shown
    finding = msgspec.structs.replace(finding_for("RC-PIPE-SHELL-ODD", "SKILL.md"), why=why)
    log = sarif_log([("", msgspec.structs.replace(REPORT, findings=(finding,)))])
    message = log["runs"][0]["results"][0]["message"]["text"]
    assert message == f"{finding.title}. {first_sentences(why)} {finding.fix}"
