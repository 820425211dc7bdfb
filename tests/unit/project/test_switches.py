"""Every way to switch a guard off also tells when the guard mattered, and only then."""

import asyncio
from contextvars import ContextVar

import pytest

from shared.errors import ConditionFailed, Refused
from shared.storage.kv import ABSENT, Key, Put
from tests.faults.attack_guards import ATTACK_GUARDS
from tests.faults.guards import GUARDS
from tests.faults.switches import (
    AnsweredValue,
    Effect,
    Equal,
    Forgotten,
    InTurn,
    ModuleLevel,
    OneTry,
    Refusal,
    Returned,
    Switch,
    Unguarded,
    Untimed,
    Value,
    Within,
    always,
)
from tests.support.memory import memory_env


@pytest.mark.parametrize("guard", [*GUARDS, *ATTACK_GUARDS], ids=lambda guard: guard.name)
def test_a_guard_has_switches_and_each_can_tell(guard):
    assert guard.switches
    assert all(isinstance(switch, Switch) for switch in guard.switches.values())


def test_a_switch_that_cannot_tell_cannot_be_made():
    class Mute(Switch):
        def off(self, original):
            return None

    with pytest.raises(TypeError):
        Mute()


async def even(n: int) -> bool:
    await asyncio.sleep(0)
    if n < 0:
        raise Refused("below zero")
    return n % 2 == 0


async def attempts():
    for n in range(3):
        yield n


async def seen(agen) -> int:
    return len([n async for n in agen])


async def in_time(limit, seconds: float) -> bool:
    try:
        async with limit(seconds):
            await asyncio.sleep(0 if seconds else 1)
    except TimeoutError:
        return False
    return True


# a switch and its original, a use of it where the guard does not matter, one where it does
CASES = {
    "an answer": (always(True), even, lambda f: f(2), lambda f: f(1)),
    "an answer that is a refusal": (always(True), even, lambda f: f(2), lambda f: f(-1)),
    "a refusal": (Refusal(True), even, lambda f: f(1), lambda f: f(-1)),
    "a number": (Value(9), 3, lambda n: n > 2, lambda n: n > 3),
    "a set": (Value(frozenset("ab")), frozenset("a"), lambda s: "a" in s, lambda s: "b" in s),
    "a table": (Value({1: {2, 3}}), {1: {2}}, lambda t: 2 in t[1], lambda t: 3 in t[1]),
    "an answer that is compared": (AnsweredValue(Equal()), str, lambda f: f(1) == "1", lambda f: f(1) == "2"),
    "an effect": (Effect(lambda n: n > 1), even, lambda f: f(1), lambda f: f(2)),
    "an argument": (Forgotten("n"), even, lambda f: f(2), lambda f: f(n=2)),
    "work in a thread": (InTurn(), asyncio.to_thread, lambda f: None, lambda f: f(int)),
    "a name within": (Within(run=always(1)), type("T", (), {"run": staticmethod(int)}), id, lambda t: t.run()),
    "what is returned": (Returned(Value(9)), lambda: 3, lambda f: f() > 2, lambda f: f() > 3),
    "a second attempt": (OneTry(), attempts, lambda f: anext(f()), lambda f: seen(f())),
    "a timeout": (Untimed(), asyncio.timeout, lambda f: in_time(f, 60), lambda f: in_time(f, 0)),
}


@pytest.mark.parametrize("case", CASES)
async def test_a_switch_tells_when_its_guard_matters_and_only_then(case):
    switch, original, other_use, use = CASES[case]
    told = []
    telling = switch.telling(original, lambda: told.append(case))
    await _done(other_use, telling)
    assert not told
    assert await _done(use, telling) == await _done(use, original)
    assert told


async def _done(use, with_):
    """What comes of it, waited for where it has to be."""
    try:
        outcome = use(with_)
        return await outcome if asyncio.iscoroutine(outcome) or hasattr(outcome, "__await__") else outcome
    except Refused as refused:
        return str(refused)


async def test_a_write_tells_who_refused_it():
    """Both conditions fail, so neither alone decided; then one does."""
    told = []
    env = memory_env()
    await env.kv.put(Put(Key("a"), "{}", {"version": 2, "state": "new"}))

    def put_of(version, state):
        return Put(Key("a"), "{}", {"version": 3, "state": "new"}, {"version": version, "state": state})

    for name in ("version", "state"):
        put_of = Unguarded((name,)).telling(put_of, lambda name=name: told.append(name))
    for version, state, by in ((1, "old", []), (1, "new", ["version"]), (2, "old", ["version", "state"])):
        with pytest.raises(ConditionFailed):
            await env.kv.put(put_of(version, state))
        assert told == by
    await env.kv.put(put_of(2, "new"))
    with pytest.raises(ConditionFailed):
        await env.kv.put(Put(Key("a"), "{}", {}, Unguarded().telling(ABSENT, lambda: told.append("absent"))))
    assert told == ["version", "state", "absent"]


async def test_an_env_of_ones_own_tells_who_would_have_seen_anothers():
    told = []
    own = ModuleLevel().telling(ContextVar("own", default=None), lambda: told.append("seen"))
    first_is_in = asyncio.Event()

    async def first():
        own.set("first")
        assert own.get() == "first"
        assert not told
        first_is_in.set()
        await asyncio.sleep(0)
        return own.get()

    async def second():
        await first_is_in.wait()
        own.set("second")

    seen, _ = await asyncio.gather(first(), second())
    assert (seen, told) == ("first", ["seen"])
