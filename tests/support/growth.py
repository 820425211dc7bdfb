"""Whether work grows faster than its size: the CPU time of one size against that of four times as much."""

import gc
import time
from collections.abc import Callable
from typing import Any

GROWTH = 4
# Four times the text may take this much longer: twice what a line would, half of what a square would.
MOST = 2 * GROWTH


def grows_too_fast(
    work: Callable[[int], Any], large: int, floor: float, growth: int = GROWTH, most: float = MOST
) -> bool:
    """Is fast enough what takes less than `floor` seconds at the large size. Half the size with a quarter of the floor
    finds the same squares in less time. Measured again before it is believed: another process may have been in the way.
    """
    for _ in range(3):
        much = cpu_seconds(work, large)
        if much < floor or much <= most * cpu_seconds(work, large // growth):
            return False
    return True


def cpu_seconds(work: Callable[[int], Any], size: int) -> float:
    """Without the collector: the more is alive the longer it takes, and in steps."""
    gc.collect(0)
    gc.disable()
    started = time.process_time()
    try:
        work(size)
        return time.process_time() - started
    finally:
        gc.enable()
