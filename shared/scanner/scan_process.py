"""The process that scans. It reads a request from its input, scans, writes the answer and waits for the next request.

What it reads was written by strangers, so it has limits that the kernel enforces: a scan that exceeds one ends with
this process and nothing else. It has no secrets, writes no file, and ends with the process that started it.
"""

import ctypes
import gc
import math
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO

import msgspec

from shared.scanner.report import Finding, ScanReport

MB = 1024 * 1024
MAX_MEMORY = 180 * MB  # what a process may allocate: three of them and their worker stay below 700 MB
MAX_REQUEST = 200 * MB
MAX_ANSWER = 8 * MB
MAX_OPEN_FILES = 32  # for modules that are loaded at their first use
LENGTH = 4  # bytes that say how long the message after them is
PARENT_DEATH_SIGNAL = 1  # prctl's PR_SET_PDEATHSIG
OUT_OF_MEMORY = "MemoryError"
READY = b"ready"
WARM_UP = {"SKILL.md": b"---\nname: first\ndescription: Loads what every scan uses.\n---\n\n```bash\nls\n```\n"}

Scan = Callable[[Mapping[str, bytes], Sequence[Finding]], ScanReport]


class ScanRequest(msgspec.Struct, frozen=True, array_like=True):
    files: list[tuple[bytes, bytes]]  # a path may be no valid Unicode, so it is sent as bytes
    source_findings: tuple[Finding, ...]
    cpu_seconds: float
    most_text: int | None = None  # bytes: what the files say is wanted, instead of a report


class ScanAnswer(msgspec.Struct, frozen=True, array_like=True):
    """The report, or the kind of error instead of it. Or the texts; None: they are larger than wanted."""

    report: ScanReport | None
    error: str = ""
    texts: list[tuple[bytes, str]] | None = None


def scan_files(files: Mapping[str, bytes], source_findings: Sequence[Finding]) -> ScanReport:
    from shared.scanner.scan import scan_skill  # here: the parent reads this module too, and does not scan

    return scan_skill(files, source_findings)


def read_texts(files: Mapping[str, bytes], most: int) -> list[tuple[bytes, str]] | None:
    from shared.scanner.inventory import texts_of  # here: for the same reason

    texts = [(path.encode("utf-8", "surrogatepass"), text) for path, text in texts_of(files).items()]
    return texts if sum(len(path) + len(text.encode()) for path, text in texts) <= most else None


def main(scan: Scan = scan_files) -> None:
    """Only tests pass another `scan`, from programs of their own."""
    end_with_parent(int(sys.argv[1]))
    requests, answers = take_pipes()
    scan(WARM_UP, ())
    gc.freeze()  # what is loaded stays: looking through it again and again took as long as one scan in ten
    limit_process()
    write_message(answers, READY)
    serve(requests, answers, scan)


def serve(requests: IO[bytes], answers: IO[bytes], scan: Scan) -> None:
    """Until the input ends, or a scan fails: whatever made it fail may still be in memory."""
    while (message := read_message(requests, MAX_REQUEST)) is not None:
        request = msgspec.msgpack.decode(message, type=ScanRequest)
        del message
        limit_cpu(request.cpu_seconds)
        answer, failed = answer_to(request, scan)
        limit_cpu(None)
        write_message(answers, answer)
        if failed:
            return


def answer_to(request: ScanRequest, scan: Scan) -> tuple[bytes, bool]:
    """The answer, and whether the scan failed."""
    files = {path.decode("utf-8", "surrogatepass"): content for path, content in request.files}
    try:
        if request.most_text is not None:
            return msgspec.msgpack.encode(ScanAnswer(None, texts=read_texts(files, request.most_text))), False
        return msgspec.msgpack.encode(ScanAnswer(scan(files, request.source_findings))), False
    except Exception as error:  # noqa: BLE001 - any error of a scan is its result, and the worker goes on
        return msgspec.msgpack.encode(ScanAnswer(None, type(error).__name__)), True


def end_with_parent(parent: int) -> None:
    ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the line above
        os._exit(1)


def take_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """For messages alone: nothing that is printed may get between them."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return requests, answers


def limit_process() -> None:
    """RLIMIT_DATA instead of RLIMIT_AS: the matcher reserves addresses that it never uses."""
    limits = {
        resource.RLIMIT_DATA: MAX_MEMORY,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: 0,
        resource.RLIMIT_NOFILE: MAX_OPEN_FILES,
    }
    for limit, value in limits.items():
        resource.setrlimit(limit, (value, value))


def limit_cpu(seconds: float | None) -> None:
    """From now on. The kernel counts whole seconds since the process started and kills it with SIGXCPU."""
    ends = resource.RLIM_INFINITY if seconds is None else math.ceil(time.process_time() + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (ends, resource.RLIM_INFINITY))


def write_message(stream: IO[bytes], message: bytes) -> None:
    stream.write(len(message).to_bytes(LENGTH, "big"))
    stream.write(message)
    stream.flush()


def read_message(stream: IO[bytes], longest: int) -> bytes | None:
    """None at the end of the stream. Raises ValueError for what is no message."""
    header = stream.read(LENGTH)
    if not header:
        return None
    length = int.from_bytes(header, "big")
    if len(header) < LENGTH or length > longest:
        raise ValueError(f"a message of {length} bytes")
    message = stream.read(length)
    if len(message) < length:
        raise ValueError("a message that ends too early")
    return message


if __name__ == "__main__":
    main()
