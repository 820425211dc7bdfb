"""Console output of the runner: one line per invocation, and the logs of the functions, shortened."""

import json
import os
import sys
from datetime import UTC, datetime
from logging import makeLogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

MAX_LINE_LENGTH = 4000
LOG_BYTES, LOGS_KEPT = 10_000_000, 4  # and the one that is written
# Fields that every log record repeats; the prefix and the invocation line show the important ones.
REPEATED = {
    "level", "log_level", "message", "timestamp", "location", "service", "cold_start", "function_name",
    "function_memory_size", "function_arn", "function_request_id", "requestId", "xray_trace_id", "logger",
    "function", "functionRequest",
    "exception", "exception_name", "stack_trace", "stackTrace", "errorMessage", "errorType", "sampling_rate",
}  # fmt: skip
# The runtime client prints a paragraph about managed runtimes before every error of a handler that does not load.
RUNTIME_UPDATE_ADVICE = "LAMBDA_WARNING: Unhandled exception."
RANKS = {"DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}


class Console:
    def __init__(self, level: str, file: Path | None = None) -> None:
        self._rank = RANKS[level]
        self._file = file and RotatingFileHandler(file, maxBytes=LOG_BYTES, backupCount=LOGS_KEPT, encoding="utf-8")

    @property
    def is_terminal(self) -> bool:
        """A log is kept, and read by more people than the terminal."""
        return self._file is None and sys.stdout.isatty()

    def say(self, text: str = "") -> None:
        if self._file:
            self._file.emit(makeLogRecord({"msg": text}))
            return
        try:
            print(text, flush=True)
        except BrokenPipeError:  # the reader of the pipe is gone; the platform keeps running
            sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 open until exit

    def warn(self, text: str) -> None:
        self.say(f"! {text}")

    def invocation(self, function: str, trigger: str, milliseconds: float, *, cold: bool, failure: str | None) -> None:
        if self._rank > RANKS["INFO"] and failure is None:
            return
        mark = "  cold" if cold else ""
        problem = f"  FAILED {failure}" if failure else ""
        self.say(f"{_clock()}  {function:<16} {trigger}  {milliseconds:.0f} ms{mark}{problem}")

    def function_output(self, function: str, line: str) -> None:
        shown = readable(line, self._rank)
        if shown is not None:
            self.say("\n".join(f"          {function:<16} | {part}" for part in shown.splitlines()))


def readable(line: str, rank: int = 0) -> str | None:
    """A JSON log record as `LEVEL message key=value`; other lines unchanged. None hides the line."""
    record = _record(line)
    if not line.strip() or RUNTIME_UPDATE_ADVICE in line:
        return None
    if record is None:
        return line[:MAX_LINE_LENGTH].replace("\r", "\n")
    if "_aws" in record:  # a metric in CloudWatch's embedded format
        return line[:MAX_LINE_LENGTH] if rank <= RANKS["DEBUG"] else None
    level = str(record.get("level") or record.get("log_level") or "INFO")
    if RANKS.get(level, RANKS["CRITICAL"]) < rank:
        return None
    facts = [f"{key}={value}" for key, value in record.items() if key not in REPEATED]
    return "\n".join([" ".join([level, _message(record), *facts])[:MAX_LINE_LENGTH], *_trace(record)])


def printable(text: str) -> str:
    """Untrusted text must not send control sequences to the terminal."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _record(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) and not value.keys().isdisjoint(REPEATED | {"_aws"}) else None


def _message(record: dict[str, Any]) -> str:
    if "message" in record:
        return str(record["message"])
    return f"{record.get('errorType', '')}: {record.get('errorMessage', '')}"


def _trace(record: dict[str, Any]) -> list[str]:
    trace = record.get("exception") or record.get("stackTrace") or []
    lines = (
        trace.splitlines() if isinstance(trace, str) else [part for item in trace for part in str(item).splitlines()]
    )
    return [f"  {line}" for line in lines]


def _clock() -> str:
    return datetime.now(UTC).strftime("%H:%M:%S")
