"""Tasks in separate processes, a few at a time: isolated from each other, and ended when they take too long."""

import multiprocessing
import multiprocessing.connection
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

FORK = multiprocessing.get_context("fork")  # all that is imported is there at once


class TookTooLong(Exception):
    """The task did not end by its time."""


def in_processes(
    tasks: Mapping[str, Callable[[], Any]], longest: Mapping[str, float], at_once: int = os.cpu_count() or 1
) -> Iterator[tuple[str, Any]]:
    """Name and result, or the exception, of each task as it ends."""
    waiting, running = list(tasks), []
    while waiting or running:
        while waiting and len(running) < at_once:
            name = waiting.pop(0)
            running.append(_Running.start(name, tasks[name], longest[name]))
        soonest = min(task.ends_at for task in running)
        multiprocessing.connection.wait([task.answer for task in running], max(0, soonest - time.monotonic()))
        for task in [task for task in running if task.is_over()]:
            running.remove(task)
            yield task.name, task.result()


@dataclass
class _Running:
    name: str
    process: Any
    answer: Connection
    ends_at: float

    @classmethod
    def start(cls, name: str, task: Callable[[], Any], longest: float) -> "_Running":
        answer, ours = FORK.Pipe(duplex=False)
        process = FORK.Process(target=_run, args=(task, ours))
        process.start()
        ours.close()
        return cls(name, process, answer, time.monotonic() + longest)

    def is_over(self) -> bool:
        return self.answer.poll() or time.monotonic() >= self.ends_at

    def result(self) -> Any:
        try:
            return self.answer.recv() if self.answer.poll() else TookTooLong(self.name)
        except EOFError:
            return RuntimeError(f"{self.name} ended without an answer.")
        finally:
            self.process.kill()
            self.process.join()
            self.answer.close()


def _run(task: Callable[[], Any], answer: Connection) -> None:
    try:
        answer.send(task())
    except Exception as error:  # noqa: BLE001 - the caller gets it
        answer.send(RuntimeError(f"{type(error).__name__}: {error}"))
