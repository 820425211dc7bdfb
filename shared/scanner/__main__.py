"""python -m shared.scanner PATH... [--json | --sarif]: scan skills on disk."""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import orjson

from shared.scanner.folders import find_skills, read_skill
from shared.scanner.report import ScanReport, Verdict
from shared.scanner.sarif import sarif_log
from shared.scanner.scan import scan_skill
from shared.scanner.terminal import Terminal

EXIT_CODES = {Verdict.PASS: 0, Verdict.CONCERNS: 1, Verdict.FAIL: 2}
USAGE_ERROR = 64
DESCRIPTION = (
    "Judge AI agent skills without running them. A PATH is a skill's folder, or a folder that contains skills."
)
EPILOG = "exit code: 0 all PASS, 1 CONCERNS somewhere, 2 FAIL somewhere, 64 the command itself was wrong"


class Scanned(msgspec.Struct, frozen=True):
    path: str
    report: ScanReport
    seconds: float


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise SystemExit(complain(f"{message}. Try --help."))


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    missing = [path for path in options.paths if not Path(path).exists()]
    if missing:
        return complain(f"there is nothing at {', '.join(missing)}.")
    started = time.perf_counter()
    folders = [folder for path in options.paths for folder in find_skills(Path(path))]
    scanned = _with_progress(_scan_each(folders), len(folders))
    if options.json:
        return worst(_print_json(scanned))
    if options.sarif:
        return worst(_print_sarif(list(scanned)))
    return worst(_print_for_people(scanned, started))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(prog="python -m shared.scanner", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="folder (or SKILL.md) to scan")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="one JSON object per skill and line")
    output.add_argument("--sarif", action="store_true", help="one SARIF 2.1.0 log for all skills")
    return parser.parse_args(arguments)


def worst(verdicts: list[Verdict]) -> int:
    return max((EXIT_CODES[verdict] for verdict in verdicts), default=0)


def complain(sentence: str) -> int:
    print(f"scanner: {sentence}", file=sys.stderr)
    return USAGE_ERROR


def _scan_each(folders: list[Path]) -> Iterator[Scanned]:
    for folder in folders:
        started = time.perf_counter()
        skill = read_skill(folder)
        report = scan_skill(skill.files, skill.findings)
        yield Scanned(skill.path, report, time.perf_counter() - started)


def _with_progress(scanned: Iterator[Scanned], total: int) -> Iterator[Scanned]:
    watched = total > 1 and sys.stderr.isatty() and not sys.stdout.isatty()
    for number, one in enumerate(scanned, start=1):
        if watched:
            print(f"\r{number}/{total} {one.path[:70]:<70}", end="\n" if number == total else "", file=sys.stderr)
        yield one


def _print_json(scanned: Iterator[Scanned]) -> list[Verdict]:
    verdicts = []
    for one in scanned:
        line = {"path": one.path, **one.report.as_dict(), "seconds": round(one.seconds, 6)}
        print(orjson.dumps(line).decode(), flush=True)
        verdicts.append(one.report.verdict)
    return verdicts


def _print_sarif(scanned: list[Scanned]) -> list[Verdict]:
    log = sarif_log((str(Path(one.path).parent) if Path(one.path).parent.name else "", one.report) for one in scanned)
    print(orjson.dumps(log, option=orjson.OPT_INDENT_2).decode())
    return [one.report.verdict for one in scanned]


def _print_for_people(scanned: Iterator[Scanned], started: float) -> list[Verdict]:
    terminal = Terminal(colour=sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    verdicts = []
    for one in scanned:
        print(terminal.report(one.path, one.report, one.seconds), flush=True)
        verdicts.append(one.report.verdict)
    print(terminal.summary(verdicts, time.perf_counter() - started))
    return verdicts


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BrokenPipeError:  # `| head` closed the pipe; nothing is wrong
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        sys.exit(complain(f"{error.filename or 'a file'} cannot be read: {error.strerror}."))
