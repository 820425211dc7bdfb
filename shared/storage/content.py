"""The files of a skill, stored by their content hash as one gzip archive in the bucket."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from shared.errors import NotFound, Unavailable
from shared.timing import SIGNED_URL_AGE

Files = Mapping[str, bytes]
SignUrl = Callable[[str, Mapping[str, Any], int], Awaitable[str]]


class AccessRefused(Unavailable):
    """By the policy; or what is asked for is missing, and who asks may not list the bucket."""


class Content(Protocol):
    async def put_files(self, files: Files) -> str:
        """Stores what was submitted and returns its content hash. It expires RECEIVED_AGE after it was stored last."""
        ...

    async def keep_files(self, files: Files) -> None:
        """Stores what is going to be published: it never expires."""
        ...

    async def get_files(self, content_hash: str) -> dict[str, bytes]: ...

    async def put_body(self, key: str, body: bytes) -> None: ...

    async def get_body(self, key: str) -> bytes: ...

    async def sign_url(self, key: str, media_type: str, disposition: str) -> str:
        """An address that returns this body for a minute, to a client without credentials."""
        ...

    async def check(self) -> None:
        """Raises Unavailable if the bucket is not reachable."""
        ...


def content_hash_of(files: Files) -> str:
    """sha256 over the sorted lines `sha256(content) SP size SP path LF` of the raw bytes."""
    lines = sorted(f"{hashlib.sha256(data).hexdigest()} {len(data)} {path}\n" for path, data in files.items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def pack(files: Files) -> bytes:
    """Deterministic: the same files give the same bytes."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(files):
            member = tarfile.TarInfo(path)
            member.size = len(files[path])
            archive.addfile(member, io.BytesIO(files[path]))
    return gzip.compress(raw.getvalue(), mtime=0)


def unpack(packed: bytes) -> dict[str, bytes]:
    files = {}
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(packed))) as archive:
        for member in archive:
            body = archive.extractfile(member)  # in memory: nothing is ever written to disk
            if body is not None:
                files[member.name] = body.read()
    return files


class S3Content:
    def __init__(
        self,
        wire: Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]],
        bucket: str,
        sign_url: SignUrl | None = None,
    ) -> None:
        self._wire = wire
        self._bucket = bucket
        self._sign_url = sign_url

    async def put_files(self, files: Files) -> str:
        content_hash = content_hash_of(files)
        await self.put_body(f"received/{content_hash}", pack(files))
        return content_hash

    async def keep_files(self, files: Files) -> None:
        await self.put_body(f"content/{content_hash_of(files)}", pack(files))

    async def get_files(self, content_hash: str) -> dict[str, bytes]:
        try:
            return unpack(await self.get_body(f"content/{content_hash}"))
        except (NotFound, AccessRefused):
            return unpack(await self.get_body(f"received/{content_hash}"))

    async def put_body(self, key: str, body: bytes) -> None:
        await self._call("PutObject", {"Key": key, "Body": body})

    async def get_body(self, key: str) -> bytes:
        body: bytes = (await self._call("GetObject", {"Key": key}))["Body"]
        return body

    async def sign_url(self, key: str, media_type: str, disposition: str) -> str:
        if self._sign_url is None:
            raise Unavailable("This function cannot sign addresses of the content store.")
        wanted = {
            "Bucket": self._bucket,
            "Key": key,
            "ResponseContentType": media_type,
            "ResponseContentDisposition": disposition,
            "ResponseCacheControl": "no-store",
        }
        try:
            return await self._sign_url("GetObject", wanted, int(SIGNED_URL_AGE.total_seconds()))
        except BotoCoreError as error:
            raise Unavailable("The address of the content could not be signed.") from error

    async def check(self) -> None:
        await self._call("HeadBucket", {})

    async def _call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return await self._wire(operation, {"Bucket": self._bucket, **params})
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code == "NoSuchKey":
                raise NotFound("This content is not stored.") from error
            if code == "AccessDenied":
                raise AccessRefused("The content store refused access.") from error
            raise Unavailable("The content store refused the request.") from error
        except BotoCoreError as error:
            raise Unavailable("The content store is not reachable.") from error
