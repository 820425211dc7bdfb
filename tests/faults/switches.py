"""Ways to switch a guard off: each takes what has the guard and returns its replacement without it."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any
from unittest.mock import patch

Switch = Callable[[Any], Any]


@contextmanager
def replaced(target: str, switch: Switch) -> Iterator[None]:
    """Within, `module:attribute` is what the switch makes of it."""
    module, _, path = target.partition(":")
    *owners, name = path.split(".")
    owner = import_module(module)
    for step in owners:
        owner = getattr(owner, step)
    original = getattr(owner, name)
    without = property(switch(original.fget)) if isinstance(original, property) else switch(original)
    with patch.object(owner, name, without):
        yield


def value(instead: Any) -> Switch:
    return lambda original: instead


def always(result: Any) -> Switch:
    """A function that always returns the same and refuses nothing."""

    def switch(original):
        async def coroutine(*args, **kwargs):
            return result

        return coroutine if inspect.iscoroutinefunction(original) else lambda *args, **kwargs: result

    return switch


class Equal(str):
    """Equal to everything."""

    __slots__ = ()

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    __hash__ = str.__hash__


def unguarded(*names: str) -> Switch:
    """A write without these conditions, or without any: a function that makes a write, or its `expect` itself."""

    def without(expect):
        return {name: value for name, value in expect.items() if name not in names} if names else None

    def switch(original):
        if not callable(original):
            return without(original)

        def write_of(*args, **kwargs):
            write = original(*args, **kwargs)
            return replace(write, expect=without(write.expect))

        return write_of

    return switch


def no_effect(when: Callable[..., bool] = lambda *args, **kwargs: True) -> Switch:
    """A call that does nothing."""

    def switch(original):
        async def call(*args, **kwargs):
            return None if when(*args, **kwargs) else await original(*args, **kwargs)

        return call

    return switch


def without_argument(name: str) -> Switch:
    def switch(original):
        async def call(*args, **kwargs):
            return await original(*args, **{key: value for key, value in kwargs.items() if key != name})

        return call

    return switch


def blocking(to_thread: Any) -> Any:
    """Work that blocks the event loop instead of running in a thread."""

    async def call(work, *args):
        return work(*args)

    return call


def one_at_a_time(original: Any) -> Any:
    """Each call waits for the one before."""
    turn = asyncio.Lock()

    async def call(*args):
        async with turn:
            return await original(*args)

    return call


def within(**switches: Switch) -> Switch:
    """Single attributes of a module or an object."""
    return lambda original: _Proxy(original, {name: s(getattr(original, name)) for name, s in switches.items()})


class _Proxy:
    def __init__(self, original: Any, changed: dict[str, Any]) -> None:
        self.__dict__.update(changed)
        self._original = original

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


def in_result(switch: Switch) -> Switch:
    return lambda original: lambda *args: switch(original(*args))


def one_try(attempts: Any) -> Any:
    async def first(*args):
        yield 0

    return first


def untimed(timeout: Any) -> Any:
    return lambda *args: timeout(None)


class ModuleLevel:
    """One value for all tasks, where each task had its own. Takes the place of a ContextVar."""

    def __init__(self, own: Any) -> None:
        self.value = None

    def get(self):
        return self.value

    def set(self, value):
        self.value, before = value, self.value
        return before

    def reset(self, before):
        self.value = before
