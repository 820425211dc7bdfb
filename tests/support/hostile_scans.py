"""A scan process whose scan does what its request says, in the place of content that no longer can: burn CPU time, fill
memory, crash, print nonsense. Only tests start it: `ScanProcesses(("tests.support.hostile_scans",))`."""

import ctypes
import os
import signal
import sys
import time

from shared.scanner.scan_process import main, scan_files

ORDER = "order"  # the file that holds the order; without it, the real scan


def scan(files, findings):
    order = files.get(ORDER, b"").decode()
    if not order:
        return scan_files(files, findings)
    result = ORDERS[order]()
    return scan_files(files, findings) if result is None else result


def burn():
    while True:
        pass


def work():
    """For a while."""
    ends = time.process_time() + 0.4
    while time.process_time() < ends:
        pass


def burn_in_c():
    """Python runs no signal handler and no other thread of its own meanwhile."""
    sum(range(10**12))


def hog():
    return [bytearray(1024 * 1024) for _ in range(10_000)]


def fail():
    raise RecursionError("a secret of the skill")


def overflow():
    """As a parser in C that recurses too deep."""
    ctypes.string_at(0)


def die():
    os._exit(0)


def be_killed():
    os.kill(os.getpid(), signal.SIGKILL)


def garbage():
    """Past the messages, into the pipe itself."""
    for descriptor in range(3, 10):
        try:
            os.write(descriptor, b"\x00\x00\x00\x05hello")
        except OSError:
            continue


def flood():
    for descriptor in range(3, 10):
        try:
            os.write(descriptor, b"\xff" * 60_000)
        except OSError:
            continue


def wait():
    """Takes time, and no CPU time."""
    time.sleep(60)


def chatter():
    print("not a message", flush=True)
    os.write(1, b"not a message")


def write_a_file():
    with open(f"/tmp/scan-{os.getpid()}", "wb") as file:
        try:
            file.write(b"x")
            file.flush()
        finally:
            os.unlink(file.name)


def fork():
    """Root is exempt from the limit on processes."""
    if os.getuid() == 0:
        raise BlockingIOError
    os.fork()


def read_environment():
    raise type("_".join(sorted(os.environ)), (Exception,), {})


ORDERS = {order.__name__: order for order in (burn, burn_in_c, hog, fail, overflow, die, be_killed, garbage, flood)}
ORDERS |= {order.__name__: order for order in (work, wait, chatter, write_a_file, fork, read_environment)}

if __name__ == "__main__":
    if sys.argv[2:] == ["does not start"]:
        sys.exit(1)
    main(scan)
