"""An event loop whose time is not the machine's: when every task waits, it jumps to the next timer. Backoffs and
timeouts cost nothing, and every run of the same steps is the same run."""

import asyncio
import selectors


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._elapsed = 0.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self._elapsed

    def jump(self, seconds: float) -> None:
        self._elapsed += seconds

    def run_in_executor(self, executor, func, *args):
        """At once, in this thread: a thread would bring the machine's time back in."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - the awaiting task gets it
            future.set_exception(error)
        return future


class _Jumping(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout=None):
        if timeout is None:
            raise AssertionError("every task waits for another one")
        if timeout > 0:
            self._loop.jump(timeout)
        return super().select(0)
