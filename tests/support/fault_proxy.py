"""A proxy on loopback in front of an AWS emulator: none of them throttles, loses replies or is ever slow by itself.

with FaultProxy(ministack_url, seed=7) as proxy:
    proxy.add("throttle", "GetItem", times=2)
    proxy.add("drop after", "TransactWriteItems", having=["sub_0…"], times=1)      # it took effect, its reply is lost
    proxy.add("unprocessed", "BatchGetItem", chance=0.5)
    held = proxy.hold("PutObject", having=["content/"])                            # until released or dropped
    held.wait(); kill(pid_of(held.ports[0])); held.drop()

A fault hits requests of its action (of all, without one; objects have `s3:GET`, `s3:PUT`, `s3:HEAD`) whose address or
body has every text of `having`: with its chance, at most so many times. The first that fits wins, in the order in which
they were added. `injected` counts what was done.
"""

import asyncio
import json
import os
import random
import re
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import aiohttp
from aiohttp import web
from yarl import URL

from tests.support.loopback import LoopbackServer

KINDS = (
    "throttle",
    "conflict",  # of a transaction with another one
    "broken",  # 500
    "denied",
    "unprocessed",  # a share of the keys of a BatchGetItem is left over
    "drop before",  # the connection ends before the request was passed on
    "drop after",  # it was, and its reply is lost
    "truncate",  # the reply breaks off in the middle
    "delay",
    "hold",
)
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "host", "content-length", "expect"}
PATIENCE = 60.0


@dataclass
class Fault:
    kind: str
    action: str | None = None
    having: Sequence[str] = ()
    times: float = float("inf")
    chance: float = 1.0
    seconds: float = 0.0  # of a delay
    share: float = 1.0  # of the keys, for `unprocessed`
    reason: str = "TransactionConflict"  # of a conflict
    hits: int = 0

    def fits(self, asked: "Asked", dice: random.Random) -> bool:
        if self.hits >= self.times or self.action not in (None, asked.action):
            return False
        return all(text in asked.text for text in self.having) and dice.random() < self.chance


class Asked(NamedTuple):
    action: str
    text: str  # address and body
    port: int  # of the client: it identifies the process


@dataclass
class Hold(Fault):
    """Requests wait here. `after`: they took effect already, only their replies wait."""

    after: bool = False
    held: list[Asked] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)  # of the store to what was held, in the order of their coming
    _let_go: threading.Event = field(default_factory=threading.Event)
    _pass_on: bool = True

    @property
    def ports(self) -> list[int]:
        return [asked.port for asked in self.held]

    def wait(self, count: int = 1, seconds: float = PATIENCE) -> None:
        """Until so many clients are held; a client that asks again on a new connection counts again."""
        from tests.support.platform import eventually

        eventually(lambda: len(self.held) >= count, seconds)

    def release(self) -> None:
        """Continues what is held, even when its client gave up long ago: a late packet."""
        self.times = 0
        self._let_go.set()

    def drop(self) -> None:
        """What waits is never passed on."""
        self._pass_on = False
        self.release()

    async def stay(self, asked: Asked) -> bool:
        self.held.append(asked)
        while not self._let_go.is_set():  # noqa: ASYNC110 - another thread sets it
            await asyncio.sleep(0.01)
        return self._pass_on


class FaultProxy(LoopbackServer):
    def __init__(self, upstream: str, seed: int = 0) -> None:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{tail:.*}", self._answer, expect_handler=_go_on)
        app.cleanup_ctx.append(self._client)
        super().__init__(app)
        self._upstream = upstream.rstrip("/")
        self._dice = random.Random(seed)
        self.faults: list[Fault] = []
        self.injected: Counter[str] = Counter()
        self.asked: list[Asked] | None = None  # set to [] to keep what is asked
        self.under_way: dict[int, Asked] = {}
        self._number = 0

    def add(self, kind: str, action: str | None = None, **more: Any) -> Fault:
        assert kind in KINDS, kind
        fault = Fault(kind, action, **more)
        self.faults.append(fault)
        return fault

    def hold(self, action: str | None = None, having: Sequence[str] = (), after: bool = False) -> Hold:
        hold = Hold("hold", action, having, after=after)
        self.faults.append(hold)
        return hold

    def clear(self) -> None:
        """No more faults; what is held continues."""
        faults, self.faults = self.faults, []
        for fault in faults:
            if isinstance(fault, Hold):
                fault.release()

    async def _client(self, _: web.Application):
        connector = aiohttp.TCPConnector(limit=0)
        options = {"auto_decompress": False, "timeout": aiohttp.ClientTimeout(total=60)}
        async with aiohttp.ClientSession(connector=connector, **options) as self._session:
            yield

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        asked = Asked(_action(request), f"{request.raw_path}\n{body.decode(errors='replace')}", _port(request))
        if self.asked is not None:
            self.asked.append(asked)
        self._number += 1
        number = self._number
        self.under_way[number] = asked
        try:
            return await self._handle(asked, request, body)
        finally:
            del self.under_way[number]

    async def _handle(self, asked: Asked, request: web.Request, body: bytes) -> web.StreamResponse:
        fault = next((fault for fault in list(self.faults) if fault.fits(asked, self._dice)), None)
        if fault is None:
            return await self._forward(request, body)
        fault.hits += 1
        self.injected[fault.kind] += 1
        # In a task of its own: what was held is passed on though its client is gone.
        spoiling = asyncio.create_task(self._spoil(fault, asked, request, body))
        spoiling.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(spoiling)

    async def _spoil(self, fault: Fault, asked: Asked, request: web.Request, body: bytes) -> web.StreamResponse:
        if fault.kind in REFUSALS:
            return _refusal(fault, asked.action)
        if fault.kind == "drop before":
            return _hang_up(request)
        if isinstance(fault, Hold) and not fault.after and not await fault.stay(asked):
            return _hang_up(request)
        if fault.kind == "delay":
            await asyncio.sleep(fault.seconds)
        whole = await self._forward(request, body)
        if isinstance(fault, Hold):
            fault.answers.append(_body(whole).decode(errors="replace"))
        if isinstance(fault, Hold) and fault.after and not await fault.stay(asked):
            return _hang_up(request)
        if fault.kind == "drop after":
            return _hang_up(request)
        if fault.kind == "truncate":
            return await _broken_off(request, whole)
        if fault.kind == "unprocessed" and whole.status == 200:
            return self._left_over(whole, json.loads(body)["RequestItems"], fault.share)
        return whole

    async def _forward(self, request: web.Request, body: bytes) -> web.Response:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        url = URL(self._upstream + request.raw_path, encoded=True)
        async with self._session.request(request.method, url, data=body, headers=headers) as answer:
            kept = [(name, value) for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP]
            return web.Response(status=answer.status, headers=kept, body=await answer.read())

    def _left_over(self, whole: web.Response, asked: dict[str, Any], share: float) -> web.Response:
        answer = json.loads(_body(whole))
        for table, ask in asked.items():
            count = max(1, round(len(ask["Keys"]) * share))
            left = self._dice.sample(ask["Keys"], count)
            names = {_name(key) for key in left}
            answer["Responses"][table] = [i for i in answer["Responses"].get(table, []) if _name(i) not in names]
            answer.setdefault("UnprocessedKeys", {})[table] = {**ask, "Keys": left}
        return web.json_response(answer, content_type="application/x-amz-json-1.0")


def pid_of(port: int, candidates: Iterable[int]) -> int | None:
    """Which of these processes has the socket with this local port."""
    inode = _inode_of(port)
    for pid in candidates:
        with suppress(OSError):
            for descriptor in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    if os.readlink(f"/proc/{pid}/fd/{descriptor}") == f"socket:[{inode}]":
                        return pid
    return None


REFUSALS = {
    "throttle": (400, "ProvisionedThroughputExceededException"),
    "conflict": (400, "TransactionCanceledException"),
    "broken": (500, "InternalServerError"),
    "denied": (400, "AccessDeniedException"),
}


def _refusal(fault: Fault, action: str) -> web.Response:
    kind = fault.kind
    status, code = REFUSALS[kind]
    if action.startswith("s3:"):
        body = f"<Error><Code>{'SlowDown' if kind == 'throttle' else 'InternalError'}</Code></Error>"
        return web.Response(status=503 if kind == "throttle" else 500, text=body, content_type="application/xml")
    if kind == "throttle" and not action.endswith(("Item", "Items", "Query")):
        code = "ThrottlingException"  # as the queue says it
    error: dict[str, Any] = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "No."}
    if kind == "conflict":
        error["CancellationReasons"] = [{"Code": "None"}, {"Code": fault.reason}]
    return web.json_response(error, status=status, content_type="application/x-amz-json-1.0")


def _action(request: web.Request) -> str:
    target = request.headers.get("X-Amz-Target")
    if target:
        return target.rpartition(".")[2]
    return f"s3:{request.method}"


async def _go_on(request: web.Request) -> None:
    """For a client that asks before it sends its body, and may be gone by now."""
    with suppress(ConnectionError):
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0


def _port(request: web.Request) -> int:
    peer = request.transport.get_extra_info("peername") if request.transport else None
    return peer[1] if peer else 0


def _hang_up(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def _broken_off(request: web.Request, whole: web.Response) -> web.StreamResponse:
    body = _body(whole)
    headers = {name: value for name, value in whole.headers.items() if name.lower() not in HOP_BY_HOP}
    response = web.StreamResponse(status=whole.status, headers=headers)
    response.content_length = len(body)
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    if request.transport is not None:
        request.transport.close()
    return response


def _body(response: web.Response) -> bytes:
    assert isinstance(response.body, bytes)
    return response.body


def _name(item: dict[str, Any]) -> tuple[str, str]:
    return item["pk"]["S"], item["sk"]["S"]


def _inode_of(port: int) -> str | None:
    with open("/proc/net/tcp") as connections:
        for line in connections:
            fields = line.split()
            if re.fullmatch(rf"[0-9A-F]+:{port:04X}", fields[1]):
                return fields[9]
    return None
