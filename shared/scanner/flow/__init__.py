"""Follows values from what must not leave (a secret, a credential file, the environment) to where they leave.

`find_flows` is the one call. It is gated: a skill without both a word that names a source and a word that names a sink
costs a few substring searches. What cannot be parsed yields no flow, and the patterns of the rules still apply.

**The contract of a front end** `follow(script: Script, tracker: Tracker) -> Value`, one per language, in FRONT_ENDS:

* It reads `script.text` (line 1 of it is line `script.first_line` of `script.path`) as the interpreter would, with
  `script.arguments` and `script.stdin` as given by the caller, and returns what the program prints (or UNKNOWN).
* Each expression becomes a `Value`: `constant(text)`, `joined(parts)` for concatenation and formatting (unknown parts
  are HOLE), `either(values)` where two are possible, `value.through(at.step("base64"))` for an encoding or a copy.
  Constants are folded as far as they are cheap: joins, replacements, base64 of a constant.
* Sources: `tracker.variable(name, at)` for an environment variable; `from_source(ENVIRONMENT, at)` for all of them and
  `from_source(command_source(words), at)` for the output of a command. Every spelling of the home folder folds to `~`.
* Files go through `tracker.read_file(path, at)` and `tracker.write_file(path, content, at)`, so that a script in
  another language finds what this one wrote. A variable that the program itself set is not the environment's.
* Sinks: `tracker.send(content, address, channel, at)`, once for each part that leaves: body, each header (whole, as
  `Name: value`), uploaded file. A source inside the address itself is found by `send`; pass EMPTY as the content.
* Other programs: `tracker.runs(path)` names the shipped file, `tracker.run(path, arguments, stdin)` follows it and
  returns what it prints. Code in a string: `tracker.interpret(Script(path, text, first_line, language="shell"))`.
* It calls `tracker.check()` once per statement, is linear in the length of the text (loops and functions are followed a
  fixed number of times), and raises nothing but OutOfTime: a text it cannot parse yields UNKNOWN.
"""

from collections.abc import Iterable

from shared.scanner.context import MarkdownLayout
from shared.scanner.flow.anchors import PAGES, files_to_follow
from shared.scanner.flow.javascript import follow_javascript
from shared.scanner.flow.notebooks import follow_notebook
from shared.scanner.flow.pages import follow_page
from shared.scanner.flow.powershell import follow_powershell
from shared.scanner.flow.project_files import follow_project_file, is_project_file
from shared.scanner.flow.python import follow_python
from shared.scanner.flow.shell import follow_shell
from shared.scanner.flow.tracker import Flow, FrontEnd, Script, Tracker
from shared.scanner.flow.values import UNKNOWN, SourceKind, Value
from shared.scanner.hosts import NOBODY, SkillIdentity
from shared.scanner.matching import Deadline, TextFile
from shared.scanner.syntax import language_of_file

# By the language names of syntax.LANGUAGES; "page" is Markdown, "project" a file that lists commands.
FRONT_ENDS: dict[str, FrontEnd] = {
    "notebook": follow_notebook,
    "page": follow_page,
    "project": follow_project_file,
    "powershell": follow_powershell,
    "python": follow_python,
    "script": follow_javascript,
    "shell": follow_shell,
}
RULES = {
    SourceKind.CREDENTIAL: "FLOW-CREDENTIAL-SENT",
    SourceKind.ENVIRONMENT: "FLOW-CREDENTIAL-SENT",
    SourceKind.HISTORY: "FLOW-CREDENTIAL-SENT",
    SourceKind.SECRET: "FLOW-SECRET-SENT",
    SourceKind.AGENT: "FLOW-DATA-SENT",
    SourceKind.FILES: "FLOW-DATA-SENT",
    SourceKind.WORKSPACE: "FLOW-DATA-SENT",
    SourceKind.FACTS: "FLOW-DATA-SENT",
}


def find_flows(texts: Iterable[TextFile], deadline: Deadline, skill: SkillIdentity = NOBODY) -> list[Flow]:
    """Flows to a destination that has no claim to them. Raises OutOfTime."""
    texts = list(texts)
    shipped = {file.path: file.text for file in texts}
    languages = {
        path: language for path, text in shipped.items() if (language := _language_of(path, text)) in FRONT_ENDS
    }
    settings = [text for path, text in shipped.items() if path.endswith(".json") and path not in languages]
    relevant = files_to_follow({path: shipped[path] for path in languages}, skill, settings)
    if not relevant:
        return []
    tracker = Tracker(shipped, deadline, skill)
    tracker.layouts |= {f.path: f.layout for f in texts if isinstance(f.layout, MarkdownLayout) and _is_page(f.path)}
    tracker.uses(follow)
    for path in _in_order(languages):
        if not tracker.was_run(path) and (path in relevant or languages[path] == "shell"):
            tracker.run(path)
    return tracker.flows


def rule_of(flow: Flow) -> str:
    return RULES[flow.source.kind]


def follow(script: Script, tracker: Tracker) -> Value:
    front_end = FRONT_ENDS.get(script.language or _language_of(script.path, script.text))
    try:
        return front_end(script, tracker) if front_end else UNKNOWN
    except RecursionError:  # nested deeper than the interpreter allows: unparsable, whatever the language
        return UNKNOWN


def _in_order(shipped: Iterable[str]) -> list[str]:
    """Pages first, SKILL.md before others: they run the scripts, with the arguments and files that these work on."""
    return sorted(shipped, key=lambda path: (not path.lower().endswith("skill.md"), not _is_page(path), path))


def _language_of(path: str, text: str) -> str:
    if _is_page(path):
        return "page"
    if path.lower().endswith(".ipynb"):
        return "notebook"
    return "project" if is_project_file(path, text) else language_of_file(path, text)


def _is_page(path: str) -> bool:
    return path.lower().endswith(PAGES)
