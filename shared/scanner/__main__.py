"""python -m shared.scanner PATH... [--json | --sarif]: scan skills on disk.

python -m shared.scanner verify ARTIFACT RECEIPT --keys FILE [--rescan]: check what was downloaded."""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import orjson

from shared.scanner.folders import find_skills, read_skill
from shared.scanner.pack import load_pack, read_calibration
from shared.scanner.report import Action, ScanReport, Verdict
from shared.scanner.sarif import sarif_log
from shared.scanner.scan import scan_skill
from shared.scanner.terminal import Terminal, explanation

EXIT_CODES = {Verdict.PASS: 0, Verdict.CONCERNS: 1, Verdict.FAIL: 2}
USAGE_ERROR = 64
DESCRIPTION = (
    "Scan AI agent skills without running them. PATH is the folder of a skill, or a folder that contains skills."
)
EPILOG = "exit code: 0 all PASS, 1 at least one CONCERNS, 2 at least one FAIL, 64 usage error"


class ScannedFolder(msgspec.Struct, frozen=True):
    path: str
    report: ScanReport
    seconds: float


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise SystemExit(print_error(f"{message}. Try --help."))


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["verify"]:
        from shared.scanner import verify  # here: only it reads archives and signatures

        return verify.main(arguments[1:])
    options = parse(arguments)
    if options.explain:
        return _explain(options.explain)
    missing = [path for path in options.paths if not Path(path).exists()]
    if missing:
        return print_error(f"no such file or folder: {', '.join(missing)}.")
    started = time.perf_counter()
    folders = [folder for path in options.paths for folder in find_skills(Path(path))]
    results = _with_progress(_scan_each(folders), len(folders))
    if options.json:
        return exit_code(_print_json(results))
    if options.sarif:
        return exit_code(_print_sarif(list(results)))
    return exit_code(_print_text(results, started))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(prog="python -m shared.scanner", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="folder (or SKILL.md) to scan")
    parser.add_argument("--explain", metavar="RULE", help="print what a rule finds, why, and what it decides")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="one JSON object per line and skill")
    output.add_argument("--sarif", action="store_true", help="one SARIF 2.1.0 log for all skills")
    options = parser.parse_args(arguments)
    if not options.paths and not options.explain:
        parser.error("the following arguments are required: PATH")
    return options


def _explain(rule_id: str) -> int:
    rule = load_pack().rules.get(rule_id.upper())
    if rule is None or rule.action is Action.NONE:
        return print_error(f"there is no rule {rule_id}.")
    print(explanation(rule, load_pack().standings[rule.id], read_calibration()))
    return 0


def exit_code(verdicts: list[Verdict]) -> int:
    return max((EXIT_CODES[verdict] for verdict in verdicts), default=0)


def print_error(message: str) -> int:
    print(f"scanner: {message}", file=sys.stderr)
    return USAGE_ERROR


def _scan_each(folders: list[Path]) -> Iterator[ScannedFolder]:
    for folder in folders:
        started = time.perf_counter()
        skill = read_skill(folder)
        report = scan_skill(skill.files, skill.findings)
        yield ScannedFolder(skill.path, report, time.perf_counter() - started)


def _with_progress(results: Iterator[ScannedFolder], total: int) -> Iterator[ScannedFolder]:
    show_progress = total > 1 and sys.stderr.isatty() and not sys.stdout.isatty()
    for number, result in enumerate(results, start=1):
        if show_progress:
            print(f"\r{number}/{total} {result.path[:70]:<70}", end="\n" if number == total else "", file=sys.stderr)
        yield result


def _print_json(results: Iterator[ScannedFolder]) -> list[Verdict]:
    verdicts = []
    for result in results:
        line = {"path": result.path, **result.report.as_dict(), "seconds": round(result.seconds, 6)}
        print(orjson.dumps(line).decode(), flush=True)
        verdicts.append(result.report.verdict)
    return verdicts


def _print_sarif(results: list[ScannedFolder]) -> list[Verdict]:
    log = sarif_log((_parent_folder(result.path), result.report) for result in results)
    print(orjson.dumps(log, option=orjson.OPT_INDENT_2).decode())
    return [result.report.verdict for result in results]


def _parent_folder(path: str) -> str:
    parent = Path(path).parent
    return str(parent) if parent.name else ""


def _print_text(results: Iterator[ScannedFolder], started: float) -> list[Verdict]:
    terminal = Terminal(colour=sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    verdicts = []
    for result in results:
        print(terminal.report(result.path, result.report, result.seconds), flush=True)
        verdicts.append(result.report.verdict)
    print(terminal.summary(verdicts, time.perf_counter() - started))
    return verdicts


def run() -> None:
    try:
        sys.exit(main(sys.argv[1:]))
    except BrokenPipeError:  # `| head` closed the pipe, which is not an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        sys.exit(print_error(f"cannot read {error.filename or 'a file'}: {error.strerror}."))


if __name__ == "__main__":
    run()
