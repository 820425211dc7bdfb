"""A pytest plugin for a process of its own: the guard that GUARD_OFF names is off while tests run."""

import os

from tests.faults.attack_guards import ATTACK_GUARDS
from tests.faults.guards import GUARDS


def pytest_collection_finish(session):
    [guard] = [guard for guard in (*GUARDS, *ATTACK_GUARDS) if guard.name == os.environ["GUARD_OFF"]]
    off = guard.switched_off()
    off.__enter__()
    session.config.add_cleanup(lambda: off.__exit__(None, None, None))
