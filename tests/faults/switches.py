"""What takes the place of a guard that is switched off: made from the original, by name."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import msgspec

from shared.kv import Expect
from shared.submissions import STUCK_STATES, State, move


def always(value):
    return lambda original: lambda *args, **kwargs: value


def instead(value):
    return lambda original: value


def always_later(value):
    def change(original):
        async def call(*args, **kwargs):
            return value

        return call

    return change


def expecting(change: Callable[[Expect], Expect | None]):
    """The guard of a record's write, changed."""

    def put_of(original):
        def record_put(of):
            put = original(of)
            return replace(put, expect=change(put.expect))

        return record_put

    return put_of


def without(name: str):
    return expecting(lambda expect: {key: value for key, value in expect.items() if key != name})


def one_try(original):
    async def attempts(*args, **kwargs):
        yield 0

    return attempts


def silent_queue(original):
    class Silent:
        async def send(self, *args):
            pass

        def __getattr__(self, name):
            return getattr(original(), name)

    return Silent


def same_seq(original):
    """A history entry that takes the place of the one before."""

    def move(submission, *args, **kwargs):
        change = original(submission, *args, **kwargs)
        return change._replace(entries=tuple(msgspec.structs.replace(e, seq=submission.seq) for e in change.entries))

    return move


def keeping_attempts(original):
    async def move(self, to, reason=None, also=None, **set_):
        set_.pop("attempts", None)
        await original(self, to, reason, also, **set_)

    return move


def keeping_all(original):
    return lambda submission, actor, now, reason, **set_: move(submission, State.RECEIVED, actor, now, reason, **set_)


def module_level(original):
    class Env:
        value = None

        def get(self):
            return self.value

        def set(self, value):
            self.value, before = value, self.value
            return before

        def reset(self, before):
            self.value = before

    return Env()


def all_states(original):
    return frozenset(State)


def any_move(original):
    return {state: frozenset(State) for state in State}


def ignoring_not_before(original):
    return lambda submission, pause, at: pause.until if pause and pause.until > at else None


def always_due(original):
    return lambda submission: submission.created_at if submission.state in STUCK_STATES else None


def due_without_lease(original):
    return lambda submission: original(msgspec.structs.replace(submission, lease_until=None))


class Anything(str):
    __slots__ = ()

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    __hash__ = str.__hash__


def untimed(original):
    class Timeout:
        def __init__(self, *_):
            pass

        async def __aenter__(self):
            return self

        async def __aexit__(self, *_):
            pass

    return SimpleNamespace(timeout=Timeout)


def taking_nothing(original):
    """A key that is used, but not taken."""
    from shared.idempotency import Answered

    async def take(idempotency):
        return Answered(body_hash=idempotency.body_hash, expires_at=2**40, is_first=True)

    return take


def keeping_the_newer_origin(original):
    """Whoever sharpens an entry of the blocklist has made it."""
    return lambda old, new: msgspec.structs.replace(original(old, new), origin=new.origin)
