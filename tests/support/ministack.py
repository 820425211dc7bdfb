"""A ministack of its own, driven from a thread with a loop of its own because its callers are not async."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def ministack(directory: Path) -> Iterator[str]:
    """Gives its address."""
    from local.emulator import Emulator

    for folder in ("content", "tmp"):
        (directory / folder).mkdir()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> Emulator:
        emulator = Emulator(directory, interval=3600)
        await emulator.start()
        return emulator

    emulator = asyncio.run_coroutine_threadsafe(start(), loop).result(60)
    try:
        yield emulator.endpoint
    finally:
        asyncio.run_coroutine_threadsafe(emulator.stop(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
