"""Just enough of DynamoDB to time reads and to break them: GetItem and BatchGetItem over HTTP, on a free port.

It answers after `latency` seconds, keeps the keys of every request, and honours ProjectionExpression like the real one.
Tests hold answers at a `gate`, leave keys `unprocessed` and `throttle` requests; no emulator does any of these.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson
from aiohttp import web

from shared.storage.kv import Key

TABLE = "stub"
Attributes = Mapping[str, Any]  # as on the wire: {"doc": {"S": "…"}}


class StubDynamo:
    def __init__(self, latency: float = 0) -> None:
        self.items: dict[Key, Attributes] = {}
        self.url = ""
        self._encoded: dict[tuple[Key, str], bytes] = {}
        self.behave(latency)

    def behave(self, latency: float = 0) -> None:
        """No faults, and nothing asked so far."""
        self.latency = latency
        self.requests: list[list[Key]] = []
        self.gate: asyncio.Barrier | None = None
        self.unprocessed: Callable[[list[Key]], Iterable[Key]] = lambda keys: ()
        self.throttle: Callable[[list[Key]], bool] = lambda keys: False

    def put(self, key: Key, doc: str, **attributes: Any) -> None:
        self.items[key] = {"pk": {"S": key.pk}, "sk": {"S": key.sk}, "doc": {"S": doc}, **attributes}

    async def __aenter__(self) -> "StubDynamo":
        app = web.Application(client_max_size=16 * 1024 * 1024)
        app.router.add_post("/", self._answer)
        app.router.add_get("/requests", self._count)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        operation = request.headers["X-Amz-Target"].rpartition(".")[2]
        params = orjson.loads(await request.read())
        ask = params if operation == "GetItem" else params["RequestItems"][TABLE]
        keys = [_key(key) for key in ([params["Key"]] if operation == "GetItem" else ask["Keys"])]
        self.requests.append(keys)
        if self.gate:
            await self.gate.wait()
        await asyncio.sleep(self.latency)
        refusal = self._refusal(operation, keys)
        return refusal or _json(self._get_item(keys[0], ask) if operation == "GetItem" else self._batch(keys, ask))

    async def _count(self, _: web.Request) -> web.Response:
        return web.json_response(len(self.requests))

    def _refusal(self, operation: str, keys: list[Key]) -> web.Response | None:
        if self.throttle(keys):
            return _error("ProvisionedThroughputExceededException", "Too fast.")
        if len(keys) > 100 or len(set(keys)) != len(keys) or not all(key.pk and key.sk for key in keys):
            return _error("ValidationException", f"{operation} takes up to 100 keys, each once, none empty.")
        return None

    def _get_item(self, key: Key, ask: Attributes) -> bytes:
        item = self._encode(key, ask)
        return b'{"Item":%b}' % item if item else b"{}"

    def _batch(self, keys: list[Key], ask: Attributes) -> bytes:
        left = set(self.unprocessed(keys))
        found = [item for key in keys if key not in left and (item := self._encode(key, ask))]
        again = {TABLE: {**ask, "Keys": [{"pk": {"S": k.pk}, "sk": {"S": k.sk}} for k in keys if k in left]}}
        unprocessed = orjson.dumps(again if left else {})
        return b'{"Responses":{"%b":[%b]},"UnprocessedKeys":%b}' % (TABLE.encode(), b",".join(found), unprocessed)

    def _encode(self, key: Key, ask: Attributes) -> bytes:
        """Encoded once per projection, so that a benchmark times its client and not this."""
        projection = ask.get("ProjectionExpression", "")
        if (key, projection) not in self._encoded:
            item = self.items.get(key)
            self._encoded[key, projection] = b"" if item is None else orjson.dumps(_projected(item, ask))
        return self._encoded[key, projection]


def _projected(item: Attributes, ask: Attributes) -> Attributes:
    if "ProjectionExpression" not in ask:
        return item
    names = ask.get("ExpressionAttributeNames", {})
    wanted = [name.strip() for name in ask["ProjectionExpression"].split(",")]
    return {name: item[name] for name in (names.get(name, name) for name in wanted) if name in item}


def _key(key: Attributes) -> Key:
    return Key(key["pk"]["S"], key["sk"]["S"])


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/x-amz-json-1.0")


def _error(code: str, message: str) -> web.Response:
    body = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message}
    return web.json_response(body, status=400, content_type="application/x-amz-json-1.0")
