"""The actors of the model: a worker, a scan, a person. Each has its own env and clock, and a plan of what goes wrong.

Everything an actor asks of the outside passes `Actor.call`, which is a point before and a point after the effect. At
a point it can be killed (nothing of it runs any more), held (and resumed later, possibly as a zombie), throttled, or
its reply lost after the effect.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec
from botocore.exceptions import EndpointConnectionError

from shared.errors import Deferred, Unavailable
from shared.github.client import GitHub
from shared.github.repo_cache import RepoCache
from shared.scanner.inventory import texts_of
from shared.storage.dynamo_kv import DynamoKV
from shared.storage.queue import SqsQueue
from shared.worker_context import Env, get_worker_env
from tests.support.memory_dynamo import throttled

# No reply of the bucket is lost: its client asks again by itself, and the same object twice is one.
WRITES = {"PutItem", "BatchWriteItem", "TransactWriteItems", "SendMessage", "ChangeMessageVisibility"}
PATIENT = {"queue", "content", "scan"}  # one refusal never gets through retries: the SDK's own, or in a fresh process
KINDS = ("crash", "pause", "lose", "throttle", "down")


@dataclass(frozen=True)
class Plan:
    """`at` counts points: the n-th call is point 2n before its effect and 2n + 1 after it. `on` counts calls of one
    operation alone, so that a plan says what it means however many reads come before."""

    kind: str = "none"
    at: int = 0
    on: str | None = None


SMOOTH = Plan()


@dataclass
class Actor:
    name: str
    kind: str  # worker | scan | dead letters | client | admin | rescan
    world: Any
    plan: Plan = SMOOTH
    skew: timedelta = timedelta()
    calls: int = 0
    claimed: dict[str, int] = field(default_factory=dict)  # submission -> the fence this actor took
    is_dead: bool = False
    gate: asyncio.Event | None = None
    task: asyncio.Task | None = None
    down: str | None = None

    def __post_init__(self) -> None:
        self.stopped = asyncio.Event()
        self.env = _env_of(self)
        self._spent = False  # lose and throttle happen once

    def clock(self) -> datetime:
        return self.world.clock() + self.skew

    @property
    def is_held(self) -> bool:
        return self.gate is not None and not self.is_dead

    async def call(self, service: str, operation: str, effect: Callable[[], Any]) -> Any:
        if get_worker_env() is not self.env:
            self.world.violations.append(f"I10: {operation} of {self.name} saw the env of another actor")
        n = self._number(operation)
        await self._point(2 * n)
        self._refuse(service, operation, n)
        answer = effect()
        await self._point(2 * n + 1)
        if self.plan.kind == "lose" and operation in WRITES and self._comes_now(n):
            raise _unanswered(service, self)
        return answer

    def _number(self, operation: str) -> int:
        """Of this call, as its plan counts; of no interest: before all others."""
        if self.plan.on not in (None, operation):
            return -1
        self.calls += 1
        return self.calls - 1

    def _refuse(self, service: str, operation: str, n: int) -> None:
        if self.plan.kind == "down" and n >= self.plan.at // 2 and self.down is None:
            self.down = service
            self.world.injected["down"] += 1
        if self.down == service:
            raise _unanswered(service, self)
        if self.plan.kind == "throttle" and service not in PATIENT and self._comes_now(n):
            raise throttled() if service == "kv" else _unanswered(service, self)

    def _comes_now(self, n: int) -> bool:
        if self._spent or n < self.plan.at // 2:
            return False
        self._spent = True
        self.world.injected[self.plan.kind] += 1
        return True

    async def _point(self, point: int) -> None:
        if point % 2 == 0:
            await asyncio.sleep(0)  # the siblings' turn
        if point == self.plan.at and self.plan.kind in ("crash", "pause"):
            self.world.injected[self.plan.kind] += 1
            if self.plan.kind == "crash":
                self.is_dead = True
            else:
                self.gate = asyncio.Event()
        if self.gate and not self.is_dead:
            self.stopped.set()
            await self.gate.wait()
        if self.is_dead:
            self.stopped.set()
            await asyncio.get_running_loop().create_future()  # for ever

    def go_on(self) -> None:
        gate, self.gate = self.gate, None
        self.stopped = asyncio.Event()
        gate.set()


def _unanswered(service: str, actor: Actor) -> Exception:
    if service == "github":
        return Deferred("We could not reach GitHub.", "GitHub", actor.clock() + timedelta(minutes=2), "github_down")
    if service == "content":
        return Unavailable("The content store does not answer.")
    if service == "scan":
        return Unavailable("The scanner could not be started.")
    return EndpointConnectionError(endpoint_url="no answer")


def _env_of(actor: Actor) -> Env:
    world = actor.world
    wires = {
        "kv": lambda operation, params: world.dynamo.apply(operation, params, by=actor),
        "queue": world.sqs.apply,
        "judge": world.sources.judge,
    }

    async def wire(service: str, operation: str, params: Any) -> Any:
        return await actor.call(service, operation, lambda: wires[service](operation, params))

    kv = DynamoKV(partial(wire, "kv"), "t", lambda: actor.clock().timestamp())
    content = _Content(actor)
    return Env(
        kv=kv,
        content=content,
        queue=SqsQueue(partial(wire, "queue"), "q"),
        secrets=world.secrets,
        github=_github_of(actor, kv, content),
        bedrock=partial(wire, "judge"),
        scans=_Scans(actor),
        settings=world.settings,
        clock=actor.clock,
    )


class _Content:
    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    async def put_files(self, files):
        return await self._actor.call("content", "put_files", lambda: self._actor.world.content.put(files))

    async def keep_files(self, files):
        await self._actor.call("content", "keep_files", lambda: self._actor.world.content.put(files))

    async def get_files(self, content_hash):
        return await self._actor.call("content", "get_files", lambda: self._actor.world.content.get(content_hash))

    async def put_body(self, key, body):
        bodies = self._actor.world.content.bodies
        await self._actor.call("content", "put_body", lambda: bodies.update({key: body}))

    async def get_body(self, key):
        return await self._actor.call("content", "get_body", lambda: self._actor.world.content.get_body(key))


class _Scans:
    """A scan is over at once, and its report is known; what stops it is set in the world."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    async def scan(self, files, source_findings=(), is_patient=True):
        return await self._actor.call("scan", "scan", lambda: self._actor.world.scan_files(files, source_findings))

    async def texts(self, files, most):
        return texts_of(files)

    def close(self) -> None:
        pass


class _GitHubHttp:
    """In place of the network: the client above it is the real one, with the cache that workers share."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    def yield_quota_to_workers(self) -> None:
        """The quota is never low here."""

    def down(self, how: str) -> Deferred:
        return _unanswered("github", self._actor)

    async def get_json(self, path, type_, missing):
        answer = await self._ask("get_json", path)
        if answer is None:
            raise missing
        return msgspec.convert(answer, type_)

    async def download(self, path, feed, missing):
        await feed(await self._ask("download", path))

    async def _ask(self, operation: str, path: str):
        sources = self._actor.world.sources

        def answer():
            if sources.github_is_down:
                raise _unanswered("github", self._actor)
            return getattr(sources, operation)(path)

        return await self._actor.call("github", operation, answer)


def _github_of(actor: Actor, kv: DynamoKV, content: _Content) -> GitHub:
    github = GitHub("https://github.example", actor.world.secrets, actor.clock, RepoCache(kv, content, actor.clock))
    github._http = _GitHubHttp(actor)
    github._get_json = github._http.get_json
    return github
