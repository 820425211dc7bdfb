"""How a guard is switched off, and how it is seen to matter.

A switch makes two things of the original: what takes its place when the guard is off, and a version that does what
the original does and tells whenever it would have gone otherwise without the guard. No guard is without the second.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, NamedTuple

from shared.storage.kv import Expect
from tests.support.refusals import Compared

Tell = Callable[[], None]
_is_asking: ContextVar[bool] = ContextVar("is_asking", default=False)


@contextmanager
def _asking() -> Iterator[None]:
    """Within, nothing is told: it is only asked what would be without a guard."""
    token = _is_asking.set(True)
    try:
        yield
    finally:
        _is_asking.reset(token)


def unless_asking(tell: Tell) -> Tell:
    return lambda: None if _is_asking.get() else tell()


class Switch(ABC):
    @abstractmethod
    def off(self, original: Any) -> Any: ...

    @abstractmethod
    def telling(self, original: Any, tell: Tell) -> Any: ...


@dataclass(frozen=True)
class Answer(Switch):
    """A function, or a property, that answers otherwise. Told are the answers that differ, so what stands instead is
    asked beside the original and must not change anything."""

    instead: Callable[[Any], Callable[..., Any]]  # made from the original

    def off(self, original: Any) -> Any:
        return property(self.instead(original.fget)) if isinstance(original, property) else self.instead(original)

    def telling(self, original: Any, tell: Tell) -> Any:
        if isinstance(original, property):
            return property(self.telling(original.fget, tell))
        instead = self.instead(original)

        @wraps(original)
        def call(*args, **kwargs):
            outcome = _outcome(original, args, kwargs)
            with _asking():
                other = _outcome(instead, args, kwargs)
            return outcome.beside(other, tell)

        @wraps(original)
        async def call_later(*args, **kwargs):
            outcome = await _later(original, args, kwargs)
            with _asking():
                other = await _later(instead, args, kwargs)
            return outcome.beside(other, tell)

        return call_later if inspect.iscoroutinefunction(original) else call


def always(value: Any) -> Answer:
    def instead(original):
        async def later(*args, **kwargs):
            return value

        return later if inspect.iscoroutinefunction(original) else lambda *args, **kwargs: value

    return Answer(instead)


class _Outcome(NamedTuple):
    value: Any = None
    error: Exception | None = None

    def beside(self, other: "_Outcome", tell: Tell) -> Any:
        if (self.value, *_said(self.error)) != (other.value, *_said(other.error)):
            tell()
        if self.error:
            raise self.error
        return self.value


def _said(error: Exception | None) -> tuple[Any, ...]:
    return (type(error), *error.args) if error else ()


def _outcome(function, args, kwargs) -> _Outcome:
    try:
        return _Outcome(function(*args, **kwargs))
    except Exception as error:  # noqa: BLE001 - whoever asked gets it
        return _Outcome(error=error)


async def _later(function, args, kwargs) -> _Outcome:
    try:
        return _Outcome(await function(*args, **kwargs))
    except Exception as error:  # noqa: BLE001 - whoever asked gets it
        return _Outcome(error=error)


@dataclass(frozen=True)
class Refusal(Switch):
    """A check that always gives the same answer and refuses nobody. Told are the refusals."""

    answer: Any = None

    def off(self, original: Any) -> Any:
        return always(self.answer).off(original)

    def telling(self, original: Any, tell: Tell) -> Any:
        async def check(*args):
            outcome = await _later(original, args, {})
            return outcome.beside(outcome._replace(error=None), tell)

        return check


@dataclass(frozen=True)
class Value(Switch):
    """A constant with another value. Told are the comparisons that would come out otherwise."""

    instead: Any

    def off(self, original: Any) -> Any:
        return self.instead

    def telling(self, original: Any, tell: Tell) -> Any:
        return _telling_value(original, self.instead, tell)


@dataclass(frozen=True)
class AnsweredValue(Switch):
    """A function whose answer is compared with something."""

    instead: Any

    def off(self, original: Any) -> Any:
        return lambda *args: self.instead

    def telling(self, original: Any, tell: Tell) -> Any:
        return lambda *args: _telling_value(original(*args), self.instead, tell)


_QUESTIONS = ("__contains__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")


def _telling_value(value: Any, instead: Any, tell: Tell) -> Any:
    if isinstance(value, dict):
        return {key: _telling_value(part, instead[key], tell) for key, part in value.items()}
    kind = type(value)

    def asked(question: str) -> Callable[[Any, Any], Any]:
        def ask(self, other):
            answer = getattr(value, question)(other)
            if getattr(instead, question)(other) != answer:
                tell()
            return answer

        return ask

    questions = {question: asked(question) for question in _QUESTIONS if hasattr(kind, question)}
    return type(kind.__name__, (kind,), {**questions, "__hash__": kind.__hash__})(value)


class Equal(str):
    """The same as everything."""

    __slots__ = ()

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    __hash__ = str.__hash__


@dataclass(frozen=True)
class Unguarded(Switch):
    """A write without (some of) its conditions. Told are the writes that the store refused for these alone."""

    names: tuple[str, ...] | None = None  # None: all of them

    def off(self, original: Any) -> Any:
        return self._changed(original, self._without)

    def telling(self, original: Any, tell: Tell) -> Any:
        return self._changed(original, lambda expect: self._marked(expect, tell))

    def _changed(self, original: Any, change: Callable[[Expect], Expect | None]) -> Any:
        if not callable(original):
            return change(original)

        def put_of(*args, **kwargs):
            put = original(*args, **kwargs)
            return replace(put, expect=change(put.expect))

        return put_of

    def _without(self, expect: Expect) -> Expect | None:
        return {name: value for name, value in expect.items() if name not in self.names} if self.names else None

    def _marked(self, expect: Expect, tell: Tell) -> Expect:
        names = self.names or tuple(expect)
        return {Compared(name, tell) if name in names else name: value for name, value in expect.items()}


@dataclass(frozen=True)
class Effect(Switch):
    """A call that comes to nothing. Told are the calls."""

    when: Callable[..., bool] = lambda *args, **kwargs: True

    def off(self, original: Any) -> Any:
        async def call(*args, **kwargs):
            return None if self.when(*args, **kwargs) else await original(*args, **kwargs)

        return call

    def telling(self, original: Any, tell: Tell) -> Any:
        async def call(*args, **kwargs):
            if self.when(*args, **kwargs):
                tell()
            return await original(*args, **kwargs)

        return call


@dataclass(frozen=True)
class Forgotten(Switch):
    """An argument that is left out. Told are the calls that have it."""

    argument: str

    def off(self, original: Any) -> Any:
        async def call(*args, **kwargs):
            return await original(*args, **{name: value for name, value in kwargs.items() if name != self.argument})

        return call

    def telling(self, original: Any, tell: Tell) -> Any:
        async def call(*args, **kwargs):
            if self.argument in kwargs:
                tell()
            return await original(*args, **kwargs)

        return call


class InTurn(Switch):
    """Work that holds up everybody else, instead of being done in a thread. Told is all such work."""

    def off(self, original: Any) -> Any:
        async def to_thread(work, *args):
            return work(*args)

        return to_thread

    def telling(self, original: Any, tell: Tell) -> Any:
        async def to_thread(work, *args):
            tell()
            return await original(work, *args)

        return to_thread


class Within(Switch):
    """Single names of a module or an object."""

    def __init__(self, **switches: Switch) -> None:
        self._switches = switches

    def off(self, original: Any) -> Any:
        return _Proxy(original, {name: s.off(getattr(original, name)) for name, s in self._switches.items()})

    def telling(self, original: Any, tell: Tell) -> Any:
        return _Proxy(original, {name: s.telling(getattr(original, name), tell) for name, s in self._switches.items()})


class _Proxy:
    def __init__(self, original: Any, changed: dict[str, Any]) -> None:
        self.__dict__.update(changed)
        self._original = original

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


@dataclass(frozen=True)
class Returned(Switch):
    """What a function returns."""

    switch: Switch

    def off(self, original: Any) -> Any:
        return lambda *args: self.switch.off(original(*args))

    def telling(self, original: Any, tell: Tell) -> Any:
        return lambda *args: self.switch.telling(original(*args), tell)


class OneTry(Switch):
    """Attempts that end after the first. Told are all others."""

    def off(self, original: Any) -> Any:
        async def attempts(*args):
            yield 0

        return attempts

    def telling(self, original: Any, tell: Tell) -> Any:
        async def attempts(*args):
            async for attempt in original(*args):
                if attempt:
                    tell()
                yield attempt

        return attempts


class Untimed(Switch):
    """A timeout that never comes. Told are those that came."""

    def off(self, original: Any) -> Any:
        return lambda *args: original(None)

    def telling(self, original: Any, tell: Tell) -> Any:
        @asynccontextmanager
        async def timeout(*args):
            limit = original(*args)
            try:
                async with limit:
                    yield limit
            finally:
                if limit.expired():
                    tell()

        return timeout


class ModuleLevel(Switch):
    """One value for everybody, where everybody had their own. Told are the reads that would have found another."""

    def off(self, original: Any) -> Any:
        return _Shared()

    def telling(self, original: Any, tell: Tell) -> Any:
        return _OwnBesideShared(original, tell)


class _Shared:
    value = None

    def get(self):
        return self.value

    def set(self, value):
        self.value, before = value, self.value
        return before

    def reset(self, before):
        self.value = before


class _OwnBesideShared:
    def __init__(self, own: ContextVar, tell: Tell) -> None:
        self._own, self._shared, self._tell = own, _Shared(), tell

    def get(self):
        if self._shared.get() is not self._own.get():
            self._tell()
        return self._own.get()

    def set(self, value):
        return self._own.set(value), self._shared.set(value)

    def reset(self, tokens):
        own, shared = tokens
        self._own.reset(own)
        self._shared.reset(shared)
