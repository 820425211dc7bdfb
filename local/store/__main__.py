"""python -m local.store: DynamoDB, SQS and S3 of one machine, on a socket that the runner opened."""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import sqlite3
import sys
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

import orjson

from local.store.database import Database
from local.store.dynamodb import DynamoDb
from local.store.errors import RequestError
from local.store.http_server import Answer, Connection, Request
from local.store.ministack_state import import_state
from local.store.s3 import S3
from local.store.sqs import Sqs

SWEEP_SECONDS = 600.0
JSON = "application/x-amz-json-1.0"


class Services:
    def __init__(self, database: Database, endpoint: str, expiry: Mapping[str, int]) -> None:
        self._dynamodb, self._sqs = DynamoDb(database), Sqs(database, endpoint)
        self._s3 = S3(database, expiry=expiry)

    async def answer(self, request: Request) -> Answer:
        target = request.headers.get("x-amz-target")
        try:
            return await (self._answer_json(target, request.body) if target else self._answer_rest(request))
        except RequestError as error:
            return _error_json(error) if target else _error_xml(error)
        except Exception as error:  # noqa: BLE001 one bad request must not end the connection without an answer
            sys.stderr.write(f"{target or request.method}: {error!r}\n")
            failed = RequestError("InternalFailure", f"The store failed: {error!r}", 500)
            return _error_json(failed) if target else _error_xml(failed)

    async def sweep_regularly(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self._dynamodb.delete_expired()
            await self._sqs.delete_expired()
            await self._s3.delete_expired()

    async def _answer_json(self, target: str, body: bytes) -> Answer:
        service, _, operation = target.partition(".")
        handlers = {"DynamoDB_20120810": self._dynamodb.handle, "AmazonSQS": self._sqs.handle}
        if service not in handlers:
            raise RequestError("UnknownOperationException", f"The store of one machine has no service {service}.")
        try:
            params = orjson.loads(body)
            answer = await handlers[service](operation, params)
        except orjson.JSONDecodeError as error:
            raise RequestError("SerializationException", f"The request is not JSON: {error}") from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = f"The request of {operation} is not complete or has a wrong type: {error!r}"
            raise RequestError("ValidationException", message) from error
        return Answer(200, {"content-type": JSON, "x-amzn-requestid": os.urandom(16).hex()}, orjson.dumps(answer))

    async def _answer_rest(self, request: Request) -> Answer:
        if request.target == "/_health":
            return Answer(200)
        return await self._s3.handle(request)


def _error_json(error: RequestError) -> Answer:
    body = orjson.dumps({"__type": f"com.amazonaws#{error.code}", "message": error.message, **error.more})
    return Answer(error.status, {"content-type": JSON}, body)


def _error_xml(error: RequestError) -> Answer:
    text = f"<Error><Code>{escape(error.code)}</Code><Message>{escape(error.message)}</Message></Error>"
    return Answer(error.status, {"content-type": "application/xml"}, text.encode())


async def serve(listener: socket.socket, database: Database, expiry: Mapping[str, int]) -> None:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    services = Services(database, f"http://127.0.0.1:{listener.getsockname()[1]}", expiry)
    server = await loop.create_server(lambda: Connection(services.answer), sock=listener, backlog=512)
    sweeping = asyncio.create_task(services.sweep_regularly())
    await stopping.wait()
    server.close()
    sweeping.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await sweeping


def main() -> int:
    parser = argparse.ArgumentParser("local.store", description=__doc__)
    parser.add_argument("--socket", type=int, required=True, help="file descriptor of a listening socket")
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--expiry", type=json.loads, default={}, help="days by the beginning of the key, as JSON")
    options = parser.parse_args()
    file = options.directory / "platform.db"
    try:
        database = Database(file, lambda connection: import_state(connection, options.directory))
    except (sqlite3.Error, OSError, ValueError) as error:
        print(f"{file} cannot be opened: {error}. Restore a backup: make restore FILE=...")
        return 1
    if database.opened.cut_bytes:
        print(f"cut {database.opened.cut_bytes} bytes of unanswered writes from the end of the log", flush=True)
    asyncio.run(serve(socket.socket(fileno=options.socket), database, options.expiry))
    database.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
