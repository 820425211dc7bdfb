"""Computes with constants what a program would compute with them: decodings, above all, because they hide addresses."""

import base64
import binascii
import bz2
import codecs
import lzma
import re
import zlib
from collections.abc import Callable
from urllib.parse import unquote

from shared.scanner.flow.objects import MAX_CONSTANTS, MAX_TEXT, Constant, Obj, origins_in, texts_of
from shared.scanner.flow.values import Location

_ROTATED = {"rot13", "rot_13", "rot-13"}
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/_=-]")


def computed(value: Obj, compute: Callable[[bytes], bytes | str], at: Location | None = None, step: str = "") -> Obj:
    """The result for every string it may be; a value from a source keeps its origins, with the step it took."""
    results = tuple(result for constant in value.constants if (result := _safely(compute, constant)) is not None)
    origins = origins_in(value)
    if at is not None and step:
        origins = tuple(origin.then(at.step(step)) for origin in origins)
    return Obj(results[:MAX_CONSTANTS], origins)


def _safely(compute: Callable[[bytes], bytes | str], constant: Constant) -> Constant:
    if not isinstance(constant, str | bytes):
        return None
    data = constant.encode("utf-8", "surrogatepass") if isinstance(constant, str) else constant
    try:
        return compute(data)[:MAX_TEXT]
    except (ValueError, EOFError, OSError, zlib.error, lzma.LZMAError):
        return None


def whole_numbers(value: Obj, base: Obj) -> Obj:
    """`int(text, base)` for every string it may be."""
    known = base.constants[0] if base.constants else None
    numbers = []
    for text in texts_of(value)[:MAX_CONSTANTS]:
        try:
            numbers.append(int(text[:40], known if isinstance(known, int) else 10))
        except ValueError:
            continue
    return Obj(tuple(numbers), origins_in(value))


def from_base64(data: bytes) -> bytes:
    clean = _NOT_BASE64.sub(b"", data).replace(b"-", b"+").replace(b"_", b"/").rstrip(b"=")
    return base64.b64decode(clean + b"=" * (-len(clean) % 4))


def from_hex(data: bytes) -> bytes:
    return binascii.unhexlify(re.sub(rb"\s", b"", data))


def inflated(data: bytes) -> bytes:
    """Zlib, gzip or raw deflate, whichever it is; no more than a string may be long."""
    for kind in (47, -15):
        try:
            return zlib.decompressobj(kind).decompress(data, MAX_TEXT)
        except zlib.error:
            continue
    return b""


def from_bz2(data: bytes) -> bytes:
    return bz2.BZ2Decompressor().decompress(data, MAX_TEXT)


def from_lzma(data: bytes) -> bytes:
    return lzma.LZMADecompressor().decompress(data, MAX_TEXT)


def decoded_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def unquoted(data: bytes) -> str:
    return unquote(data.decode("utf-8", "replace"))


def rotated(data: bytes) -> str:
    return codecs.decode(data.decode("utf-8", "replace"), "rot13")


def decoder_named(encoding: str) -> Callable[[bytes], bytes | str]:
    """For `codecs.decode` and `bytes.decode`."""
    name = encoding.lower().replace("_codec", "")
    if name in _ROTATED:
        return rotated
    if name in ("hex", "base64", "zlib", "zip", "bz2"):
        return {"hex": from_hex, "base64": from_base64, "bz2": from_bz2}.get(name, inflated)
    return decoded_text
