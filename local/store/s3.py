"""S3's operations that the platform and its tests use, with the bucket in the path. Any other is refused by name."""

import hashlib
import sqlite3
import time
from collections.abc import Callable, Mapping
from email.utils import formatdate
from functools import partial
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from local.store.database import Database
from local.store.errors import RequestError
from local.store.http_server import Answer, Request
from local.store.queries import end_of_prefix

MEDIA_TYPE = "application/octet-stream"
DAY = 86_400.0
MOST_IN_ONE_DELETE = 500
# What a signed address may ask for, and the header that this sets.
OVERRIDES = {f"response-{name}": name for name in ("content-type", "content-disposition", "cache-control")}


class _Object(NamedTuple):
    body: bytes
    media_type: str
    modified: float


class S3:
    def __init__(
        self, database: Database, now: Callable[[], float] = time.time, expiry: Mapping[str, int] | None = None
    ) -> None:
        """`expiry`: after how many days objects are deleted whose key begins with this."""
        self._database, self._now, self._expiry = database, now, expiry or {}

    async def handle(self, request: Request) -> Answer:
        path, _, query = request.target.partition("?")
        bucket, _, key = unquote(path).removeprefix("/").partition("/")
        asked = {name.lower(): value for name, value in parse_qsl(query, keep_blank_values=True)}
        unknown = [name for name in asked if name not in OVERRIDES and not name.startswith("x-")]
        if unknown or "aws-chunked" in request.headers.get("content-encoding", ""):
            raise _refused(f"the parameter {unknown[0]}" if unknown else "bodies in signed chunks")
        match request.method, bool(key):
            case ("PUT", False):
                return await self._create_bucket(bucket)
            case ("HEAD", False):
                self._check_bucket(bucket)
                return Answer(200)
            case ("PUT", True):
                return await self._put(bucket, key, request)
            case ("GET" | "HEAD", True):
                return self._get(bucket, key, {OVERRIDES[name]: asked[name] for name in asked if name in OVERRIDES})
            case ("DELETE", True):
                return await self._delete(bucket, key)
        raise _refused(f"{request.method} of {'an object' if key else 'a bucket'}")

    async def delete_expired(self) -> None:
        for prefix, days in self._expiry.items():
            while await self._database.write(partial(_delete_expired, prefix, self._now() - days * DAY)):
                pass

    async def _create_bucket(self, bucket: str) -> Answer:
        query = "INSERT OR IGNORE INTO buckets VALUES (?)"
        await self._database.write(lambda connection: connection.execute(query, (bucket,)))
        return Answer(200, {"location": f"/{bucket}"})

    async def _put(self, bucket: str, key: str, request: Request) -> Answer:
        if "x-amz-copy-source" in request.headers:
            raise _refused("copies of objects")
        self._check_bucket(bucket)
        values = (bucket, key, request.body, request.headers.get("content-type", MEDIA_TYPE), self._now())

        def put(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)", values)

        await self._database.write(put)
        return Answer(200, {"etag": _etag(request.body)})

    def _get(self, bucket: str, key: str, overrides: dict[str, str]) -> Answer:
        self._check_bucket(bucket)
        query = "SELECT body, media_type, modified FROM objects WHERE bucket = ? AND key = ?"
        row = self._database.reader.execute(query, (bucket, key)).fetchone()
        if row is None:
            raise RequestError("NoSuchKey", "The specified key does not exist.", 404)
        found = _Object(*row)
        headers = {
            "content-type": found.media_type,
            "etag": _etag(found.body),
            "last-modified": formatdate(found.modified, usegmt=True),
        }
        return Answer(200, {**headers, **overrides}, found.body)

    async def _delete(self, bucket: str, key: str) -> Answer:
        self._check_bucket(bucket)
        query = "DELETE FROM objects WHERE bucket = ? AND key = ?"
        await self._database.write(lambda connection: connection.execute(query, (bucket, key)))
        return Answer(204)

    def _check_bucket(self, bucket: str) -> None:
        if self._database.reader.execute("SELECT 1 FROM buckets WHERE name = ?", (bucket,)).fetchone() is None:
            raise RequestError("NoSuchBucket", "The specified bucket does not exist.", 404)


def _delete_expired(prefix: str, before: float, connection: sqlite3.Connection) -> bool:
    """A few at a time, so that other writes do not wait. True if there may be more."""
    query = (
        "DELETE FROM objects WHERE rowid IN"
        " (SELECT rowid FROM objects WHERE key >= ? AND key < ? AND modified < ? LIMIT ?)"
    )
    values = (prefix, end_of_prefix(prefix), before, MOST_IN_ONE_DELETE)
    return connection.execute(query, values).rowcount == MOST_IN_ONE_DELETE


def _refused(what: str) -> RequestError:
    return RequestError("NotImplemented", f"The store of one machine does not support {what}.", 501)


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
