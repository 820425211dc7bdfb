"""Runs scans in processes of their own, and keeps the processes for the next scans.

A scan that is stopped by a limit, or whose process crashes, has an unfinished report. A process that has served other
scans may have suffered from them, so its failure does not count: the scan is tried once more in a fresh one, with what
is left of its CPU time.
"""

import asyncio
import hashlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import msgspec

from shared.errors import TakesLong, Unavailable
from shared.scanner.report import SCANNER_VERSION, Finding, FrontMatter, ScanManifest, ScannedFile, ScanReport, decide
from shared.scanner.scan_process import (
    MAX_ANSWER,
    MAX_MEMORY,
    MB,
    OUT_OF_MEMORY,
    READY,
    ScanAnswer,
    ScanRequest,
    read_message,
    write_message,
)
from shared.telemetry import logger
from shared.timing import SCAN_CPU_LIMIT, SCAN_WALL_LIMIT, TEXTS_CPU_LIMIT, seconds_to_wait

PROGRAM = "shared.scanner.scan_process"
MAX_PROCESSES = 3  # a batch has three messages
# A start takes as much CPU time as twenty short scans: so a scan waits a little for a process that starts or scans.
MAX_WAIT = timedelta(seconds=0.2)
MAX_START = timedelta(seconds=5)  # many start at once on a machine that was idle
LEAST_CPU = 0.5  # seconds; less is not worth a second try
LARGE = 100_000  # bytes of a skill whose scan is taken for a long one before it starts
LONG = 0.4  # seconds of CPU time after which a scan is a long one, which gives way to others
LOW_PRIORITY = 10  # about a tenth of the share of others; lower, and on a busy machine it would not end in time
TICK = 0.02  # seconds between looks at a scan that is under way
NOT_READ = "not read: the scan was stopped"


class Scans(Protocol):
    async def scan(
        self, files: Mapping[str, bytes], source_findings: Sequence[Finding] = (), is_patient: bool = True
    ) -> ScanReport:
        """Raises Unavailable if the scan could not be carried out; what the skill itself causes is in its report.
        An impatient caller gets TakesLong instead of a report that others would have to wait for."""
        ...

    async def texts(self, files: Mapping[str, bytes], most: int) -> dict[str, str] | None:
        """What the files say, by path, also those in archives. None: more than so many bytes, or unknown."""
        ...

    def close(self) -> None: ...


class ScanStopped(Exception):
    """A scan ended without a report. The text says why, for the author of the skill."""

    def __init__(self, reason: str, is_fault: bool = False) -> None:
        super().__init__(reason)
        self.is_fault = is_fault  # of this machine, not of the skill


class ScanProcesses:
    """Processes are started and ended in the thread of the event loop: the kernel ends a process with the thread that
    started it, and other threads come and go."""

    def __init__(self, program: Sequence[str] = (PROGRAM,), cpu_limit: timedelta = SCAN_CPU_LIMIT) -> None:
        self._program = program
        self._cpu_limit = cpu_limit.total_seconds()
        self._texts_limit = min(self._cpu_limit, TEXTS_CPU_LIMIT.total_seconds())
        self._idle: list[ScanProcess] = []
        self._busy: set[ScanProcess] = set()
        self._waiting: list[asyncio.Future[None]] = []

    async def scan(
        self, files: Mapping[str, bytes], source_findings: Sequence[Finding] = (), is_patient: bool = True
    ) -> ScanReport:
        if is_large(files) and not is_patient:
            raise TakesLong
        try:
            answer = await self._answer(files, source_findings, is_patient=is_patient)
        except ScanStopped as stopped:
            return _stopped_report(files, source_findings, stopped)
        assert answer.report  # else its process had stopped
        return answer.report

    async def texts(self, files: Mapping[str, bytes], most: int) -> dict[str, str] | None:
        try:
            answer = await self._answer(files, (), most, self._texts_limit)
        except ScanStopped as stopped:
            _log_or_raise(stopped)
            return None
        if answer.texts is None:
            return None
        return {path.decode("utf-8", "surrogatepass"): text for path, text in answer.texts}

    def close(self) -> None:
        while self._idle:
            self._idle.pop().end()

    async def _answer(
        self,
        files: Mapping[str, bytes],
        findings: Sequence[Finding],
        most_text: int | None = None,
        cpu_limit: float | None = None,
        is_patient: bool = True,
    ) -> ScanAnswer:
        cpu_left = cpu_limit or self._cpu_limit
        has_low_priority = is_large(files)
        if used := await self._take_idle_soon(has_low_priority):
            try:
                return await self._answer_of(used, files, findings, cpu_left, most_text, is_patient)
            except ScanStopped:
                cpu_left -= used.cpu_seconds
                if cpu_left < LEAST_CPU:
                    raise
        self._end_idle(MAX_PROCESSES - 1)
        fresh = ScanProcess(self._program, self._cpu_limit, has_low_priority)
        return await self._answer_of(fresh, files, findings, cpu_left, most_text, is_patient)

    async def _answer_of(self, process: "ScanProcess", *request: Any) -> ScanAnswer:
        self._busy.add(process)
        try:
            async with asyncio.timeout(seconds_to_wait(SCAN_WALL_LIMIT)):
                answer = await asyncio.to_thread(process.scan, *request)
        except BaseException as error:  # cancelled too: its caller no longer waits for this scan
            process.end()
            if isinstance(error, TimeoutError):
                raise Unavailable("The scan took too long.") from error
            raise
        finally:
            self._busy.remove(process)
            self._wake_all()
        self._idle.append(process)
        self._end_idle(MAX_PROCESSES)
        return answer

    async def _take_idle_soon(self, has_low_priority: bool) -> "ScanProcess | None":
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds_to_wait(MAX_START)
        while loop.time() < ends and not _of_priority(self._idle, has_low_priority):
            busy = _of_priority(self._busy, has_low_priority)
            if not busy:
                break
            freed = loop.create_future()
            self._waiting.append(freed)
            done, _ = await asyncio.wait([freed], timeout=seconds_to_wait(MAX_WAIT))
            if not done and all(process.is_ready for process in busy):
                break
        return self._take_idle(has_low_priority)

    def _wake_all(self) -> None:
        while self._waiting:
            self._waiting.pop().set_result(None)

    def _take_idle(self, has_low_priority: bool) -> "ScanProcess | None":
        for process in _of_priority(self._idle, has_low_priority):
            self._idle.remove(process)
            if process.is_alive:
                return process
            process.end()
        return None

    def _end_idle(self, most: int) -> None:
        """Until there are so many processes at most, the busy ones included."""
        while self._idle and len(self._busy) + len(self._idle) > most:
            self._idle.pop(0).end()


class ScanProcess:
    """A long scan lowers its priority for good: there is no way back without rights that a worker does not have. Such a
    process is used again for scans that begin with a low one."""

    def __init__(self, program: Sequence[str], cpu_limit: float, has_low_priority: bool = False) -> None:
        self._cpu_limit = cpu_limit
        module, *arguments = program
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-P", "-m", module, str(os.getpid()), *arguments],
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # it has a share of the processor of its own, which can be lowered
        )
        assert self._process.stdin
        assert self._process.stdout
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._cpu_before = 0.0
        self.is_ready = False
        self.has_low_priority = False
        if has_low_priority:
            self._lower_priority()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def cpu_seconds(self) -> float:
        """Of the current or last scan."""
        return self._cpu_now - self._cpu_before

    def scan(
        self,
        files: Mapping[str, bytes],
        findings: Sequence[Finding],
        cpu_left: float,
        most_text: int | None,
        is_patient: bool = True,
    ) -> ScanAnswer:
        """Blocks until the answer is there or the process has ended."""
        self._await_start()
        self._cpu_before = self._read_cpu()
        paths = [(path.encode("utf-8", "surrogatepass"), content) for path, content in files.items()]
        request = msgspec.msgpack.encode(ScanRequest(paths, tuple(findings), cpu_left, most_text))
        try:
            write_message(self._requests, request)
            self._await_answer(is_patient)
            message = read_message(self._answers, MAX_ANSWER)
            answer = None if message is None else msgspec.msgpack.decode(message, type=ScanAnswer)
        except (ValueError, msgspec.MsgspecError) as error:
            raise ScanStopped("the scan was stopped: its result is too large or not readable") from error
        except BrokenPipeError:
            answer = None
        if answer is None:
            raise self._why_it_ended()
        if answer.report is None and (answer.error or most_text is None):
            raise _why_it_failed(answer.error)
        return answer

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._requests, self._answers):
            with suppress(OSError):  # what was not sent stays unsent
                pipe.close()

    def _await_start(self) -> None:
        if not self.is_ready and read_message(self._answers, len(READY)) != READY:
            raise ScanStopped("the scanner could not be started", is_fault=True)
        self.is_ready = True

    def _await_answer(self, is_patient: bool) -> None:
        waiting = select.poll()
        waiting.register(self._answers, select.POLLIN)
        while not waiting.poll(TICK * 1000):
            if self._read_cpu() - self._cpu_before <= LONG or self.has_low_priority:
                continue
            if not is_patient:
                raise TakesLong
            self._lower_priority()
        self._read_cpu()

    def _lower_priority(self) -> None:
        """Most scans take milliseconds: a long one must not make others wait."""
        self.has_low_priority = True
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self.pid, LOW_PRIORITY)
            Path(f"/proc/{self.pid}/autogroup").write_text(str(LOW_PRIORITY))

    def _read_cpu(self) -> float:
        """Its CPU time since it started; clock_getcpuclockid(3) makes a clock of a process id like this."""
        self._cpu_now = time.clock_gettime((~self.pid << 3) | 2)
        return self._cpu_now

    def _why_it_ended(self) -> ScanStopped:
        status = self._process.wait()
        if status == -signal.SIGXCPU:
            return ScanStopped(f"the scan was stopped: it needs more than {self._cpu_limit:.0f} s of processor time")
        if status == -signal.SIGKILL:
            return ScanStopped("the scan process was killed", is_fault=True)
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return ScanStopped(f"the scan was stopped: its process crashed ({how})")


def _of_priority(processes: Iterable["ScanProcess"], has_low_priority: bool) -> list["ScanProcess"]:
    return [process for process in processes if process.has_low_priority is has_low_priority]


def is_large(files: Mapping[str, bytes]) -> bool:
    return sum(map(len, files.values())) > LARGE


def unfinished_report(files: Mapping[str, bytes], findings: Sequence[Finding], reason: str) -> ScanReport:
    """What is known without reading the files."""
    from shared.scanner.inventory import content_hash  # here: the API imports this module and reads no skill
    from shared.scanner.pack import rule_set_version

    digests = {path: hashlib.sha256(content).hexdigest() for path, content in sorted(files.items())}
    records = tuple(ScannedFile(path, digest, len(files[path]), NOT_READ) for path, digest in digests.items())
    return ScanReport(
        **decide(findings, [reason]).as_dict(),
        incomplete=(reason,),
        unfinished=reason,
        findings=tuple(findings),
        capabilities=(),
        front_matter=FrontMatter(),
        signature=(),
        receipt=ScanManifest(
            scanner_version=SCANNER_VERSION,
            rule_set_version=rule_set_version(),
            content_hash=content_hash(records),
            files=records,
        ),
    )


def _stopped_report(files: Mapping[str, bytes], findings: Sequence[Finding], stopped: ScanStopped) -> ScanReport:
    _log_or_raise(stopped)
    return unfinished_report(files, findings, str(stopped))


def _log_or_raise(stopped: ScanStopped) -> None:
    logger.warning("scan stopped", extra={"why": str(stopped)})
    if stopped.is_fault:
        raise Unavailable(f"{stopped}.") from stopped


def _why_it_failed(error: str) -> ScanStopped:
    if error == OUT_OF_MEMORY:
        return ScanStopped(f"the scan was stopped: it needs more than {MAX_MEMORY // MB} MB of memory")
    return ScanStopped(f"the scan was stopped by an error ({error[:80]})")


def _environment() -> dict[str, str]:
    """None of the worker's variables, which hold credentials, but the one that Lambda's interpreter needs to start."""
    modules = os.pathsep.join(os.path.abspath(path) for path in sys.path)
    libraries = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return {"PYTHONPATH": modules, "LANG": "C.UTF-8", **libraries}
