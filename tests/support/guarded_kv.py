"""A store that notes what it is asked, and whether the policy of the function that asks would allow it on AWS."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from local.cloudformation import load
from shared.storage.kv import Add, Check, Delete, Key, Put, Query, Write
from tests.support.iam import Simulator
from tests.support.template_checks import ROOT, functions_of

VERBS = {Put: "PutItem", Add: "UpdateItem", Check: "ConditionCheckItem", Delete: "DeleteItem"}


class GuardedKV:
    def __init__(self, kv: Any, module: str) -> None:
        self._kv = kv
        self._module = module
        self.refused: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kv, name)

    async def get(self, key: Key) -> Any:
        self._note("GetItem", key.pk)
        return await self._kv.get(key)

    async def get_many(self, keys: Iterable[Key]) -> Any:
        return await self._kv.get_many(self._batch(keys))

    async def get_counts(self, keys: Iterable[Key]) -> Any:
        return await self._kv.get_counts(self._batch(keys))

    async def query(self, query: Query) -> Any:
        self._note("Query", query.pk, f"Table/index/{query.index}" if query.index else "Table")
        return await self._kv.query(query)

    async def put(self, put: Put) -> None:
        self._note("PutItem", put.key.pk)
        await self._kv.put(put)

    async def put_all(self, puts: Iterable[Put]) -> None:
        noted = list(puts)
        for put in noted:
            self._note("BatchWriteItem", put.key.pk)
        await self._kv.put_all(noted)

    async def take(self, key: Key, *args: Any, **kwargs: Any) -> Any:
        self._note("UpdateItem", key.pk)
        return await self._kv.take(key, *args, **kwargs)

    async def transact(self, build: Callable[[], Sequence[Write]]) -> Any:
        def noted() -> Sequence[Write]:
            writes = build()
            for write in writes:
                self._note(VERBS[type(write)], write.key.pk)
            return writes

        return await self._kv.transact(noted)

    def _batch(self, keys: Iterable[Key]) -> list[Key]:
        asked = list(keys)
        for key in asked:
            self._note("BatchGetItem", key.pk)
        return asked

    def _note(self, verb: str, pk: str, resource: str = "Table") -> None:
        if not _policy_of(self._module).may(f"dynamodb:{verb}", resource, [pk]):
            self.refused.add(f"{self._module} may not {verb} {pk} of {resource}")


@cache
def _policy_of(module: str) -> Simulator:
    template = _template()
    handler = f"{module}.handler"
    return Simulator(template, next(name for name, f in functions_of(template) if f["Handler"] == handler))


@cache
def _template() -> Any:
    return load(ROOT / "template.yaml")
