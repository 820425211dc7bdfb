"""Undoes obfuscation: text that is written so that a reader or a pattern misses it.

Evasion is countered by decoding, not by more patterns: quotes inside a command, concatenated strings, escapes, and
blobs of base64 or hex are turned into what they run as, and then scanned like any other text.
"""

import base64
import binascii
import bz2
import lzma
import re
import string
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from urllib.parse import unquote

import msgspec

from shared.scanner.encodings import encoded_texts, exchanged_letters, runs

MAX_BLOBS = 200
MAX_LAYERS = 3
MAX_BLOB = 200_000
MAX_DECODED = 2_000_000
XZ_MEMORY = 24 * 1024 * 1024

_ENTITY = re.compile(r"&(?:#0{0,6}(3[2-9]|[4-9]\d|1[01]\d|12[0-6])|#[xX]0{0,6}([2-7][0-9a-fA-F])|(?:verbar|vert));")
_PERCENT = re.compile(r"(?:%[2-7][0-9a-fA-F]){8,2000}")
# Marks that are drawn as nothing inside a word: `ig**no**re`, `ig<b></b>nore`.
_INSIDE_WORD = re.compile(r"(?:\*\*|<(\w{1,9})></\1>|<!--[^<>\n]{0,40}-->)(?=[A-Za-z])(?<=[A-Za-z*>])")
_SPELLED = re.compile(r"(?<!\S)(?:[A-Za-z,.](?: {1,3}|-)){16,4000}[A-Za-z.]?")
# Each begins with a literal, which is fast to search for; what must stand before it is looked at last.
_EMPTY_QUOTES = [re.compile(rf"{two}(?=[a-z])(?<=[a-z]{two})", re.IGNORECASE) for two in ("''", '""', "``")]
_QUOTED_LETTER = [
    re.compile(rf"{mark}([a-z]){mark}(?=[a-z])(?<=[a-z]{mark}[a-z]{mark})", re.IGNORECASE) for mark in "'\""
]
_BACKSLASHED = re.compile(r"\\(?=[ac-mo-qsu-wyz])(?=[a-z]{1,6}[\s\\'\"-])(?<=[a-z]\\)")
_FIELD_SEPARATOR = re.compile(r"\$\{?IFS(?:%\?\?)?\}?(?:\$\d)?")
_CONCATENATED_STRINGS = re.compile(r"(['\"])\s*(?:\+|\.(?=\s*['\"]))\s*(['\"])")
_PATH_PIECES = re.compile(r"['\"]\s*/\s*['\"]")
_JOINED_PATH = re.compile(r"join\((?<=\bjoin\()([^()\n]{1,200}(?:\([^()\n]{0,60}\))?[^()\n]{0,120})\)")
_HEX_ESCAPE = re.compile(r"\\x([2-7][0-9a-fA-F])|\\(?:u00|U000000)([2-7][0-9a-fA-F])|\\0?([1-3]?[0-7]{2})(?![0-9])")
_CHARACTER_CALLS = re.compile(r"(?:chr\(\s*\d{2,3}\s*\)\s*[+.]\s*){3,}chr\(\s*\d{2,3}\s*\)")
_CHARACTER_LIST = re.compile(
    r"(?:fromCharCode\(|\[char\[\]\]\s*\(|bytes\(\[|bytearray\(\[)\s*((?:\d{2,3}\s*,\s*){5,}\d{2,3})", re.I
)
_POWERSHELL_TICK = re.compile(r"`(?=[A-Za-z])(?<=[A-Za-z]`)")
# Bytes as they are looked at for joints: one kind of quotes, no white space, and nothing beyond ASCII, where more is.
_JOINTS = bytes.maketrans(b"'.", b'"+')
_NO_JOINTS = bytes([*range(9, 14), *range(28, 33), *range(128, 256)])
# The same for letters with gaps between them, as _SPELLED has them.
_SINGLE_LETTERS = bytes(
    ord("a") if chr(code) in f"{string.ascii_letters},." else 32 if chr(code) in " -" else ord("x")
    for code in range(256)
)
_BASE64_PADDING = re.compile(r"={0,2}")
_BASE85_BLOB = re.compile(r"['\"]([!-~]{40,})['\"]")
_BASE85_LETTERS = f"{string.ascii_letters}{string.digits}!#$%&()*+-;<=>?@^_`{{|}}~".encode()
_READABLE = bytes([9, 10, 13, *range(32, 127)])
MIN_BASE64, MIN_HEX, MIN_BASE85 = 24, 40, 42


def _letters(pattern: str) -> bytes:
    """A table that turns the letters of a blob into one letter and all others into spaces."""
    letter = re.compile(pattern)
    return bytes(ord("a") if letter.match(chr(code)) else 32 for code in range(256))


_BASE64_LETTERS, _HEX_LETTERS, _PRINTED = map(_letters, (r"[A-Za-z0-9+/_-]", "[0-9a-fA-F]", "[!-~]"))


class Decoded(msgspec.Struct, frozen=True):
    line: int
    text: str
    encoding: str


def deobfuscate(text: str) -> str | None:
    """The text with strings joined and escapes resolved, or None if nothing changed. Line numbers stay the same."""
    plain = text
    for may_match, pattern, replacement in _steps():
        if may_match(plain):
            plain = pattern.sub(replacement, plain)
    return plain if plain != text else None


def _with(*needles: str) -> Callable[[str], bool]:
    if len(needles) == 1:
        return lambda text: needles[0] in text
    return lambda text: any(needle in text for needle in needles)


def _with_joint(joint: bytes) -> Callable[[str], bool]:
    """Two strings with a mark between them, which is a plus for a dot, and optional white space."""
    return lambda text: joint in text.encode("utf-8", "surrogatepass").translate(_JOINTS, _NO_JOINTS)


def _with_single_letters(text: str) -> bool:
    """Two in a row, with a gap on each side."""
    letters = text.encode("utf-8", "surrogatepass").translate(_SINGLE_LETTERS)
    return any(gap in letters for gap in (b" a a ", b" a  a ", b" a   a "))


@cache
def _steps() -> tuple[tuple[Callable[[str], bool], re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]:
    """The steps in order: a quick look whether one may match, its pattern, its replacement."""
    return (
        (_with("&#", "&v"), _ENTITY, _named_character),
        (_with("%"), _PERCENT, lambda match: unquote(match.group())),
        (_with("**", "></", "<!--"), _INSIDE_WORD, _within_word),
        (_with_single_letters, _SPELLED, _spelled_out),
        *((_with(two), pattern, "") for two, pattern in zip(("''", '""', "``"), _EMPTY_QUOTES, strict=True)),
        *((_with(mark), pattern, r"\1") for mark, pattern in zip("'\"", _QUOTED_LETTER, strict=True)),
        (_with("IFS"), _FIELD_SEPARATOR, " "),
        (_with("\\"), _HEX_ESCAPE, _escaped_character),
        (_with("chr("), _CHARACTER_CALLS, _called_characters),
        (_with("CharCode(", "[char", "bytes([", "bytearray(["), _CHARACTER_LIST, _listed_characters),
        (_with("\\"), _BACKSLASHED, ""),
        (_with("`"), _POWERSHELL_TICK, ""),
        (_with_joint(b'"+"'), _CONCATENATED_STRINGS, _keep_newlines),
        (_with("join("), _JOINED_PATH, _joined_path),
        (_with_joint(b'"/"'), _PATH_PIECES, "/"),
    )


def _within_word(match: re.Match[str]) -> str:
    before = match.string[match.start() - 1 : match.start()]
    return "" if before.isalpha() else match.group()


def _spelled_out(match: re.Match[str]) -> str:
    """Letters with a gap between each two, and a wider one between words."""
    text = match.group()
    return text.replace("-", "") if "-" in text else text.replace("   ", "\0").replace(" ", "").replace("\0", " ")


def _named_character(match: re.Match[str]) -> str:
    decimal, hexadecimal = match.groups()
    return chr(int(decimal)) if decimal else chr(int(hexadecimal, 16)) if hexadecimal else "|"


def decoded_blobs(text: str) -> list[Decoded]:
    """What is encoded in the text and decodes to readable text, and what is encoded in that again."""
    found = [Decoded(text.count("\n", 0, start) + 1, said, how) for start, how, said in exchanged_letters(text)]
    layer = [Decoded(1, text, "")]
    for _ in range(MAX_LAYERS):
        layer = [inner for outer in layer for inner in _decoded_in(outer, MAX_BLOBS - len(found))]
        found += layer
    return found


def are_cut(blobs: list[Decoded]) -> bool:
    """There may be more, which was not decoded."""
    return len(blobs) >= MAX_BLOBS or sum(len(blob.text) for blob in blobs) >= MAX_DECODED


def _decoded_in(outer: Decoded, most: int) -> list[Decoded]:
    found: dict[str, Decoded] = {}
    budget = MAX_DECODED
    for start, encoding, raw in (*_candidates(outer.text), *encoded_texts(outer.text)):
        if len(found) >= most or budget <= 0:
            break
        if (readable := _readable(raw)) is not None and readable not in found:
            budget -= len(readable)
            line = outer.line if outer.encoding else outer.text.count("\n", 0, start) + 1
            found[readable] = Decoded(line, readable, f"{outer.encoding} of {encoding}" if outer.encoding else encoding)
    return list(found.values())


def _candidates(text: str) -> Iterator[tuple[int, str, bytes]]:
    data = text.encode("latin-1", "replace")  # one byte for each character
    for start, end in runs(data.translate(_BASE64_LETTERS), MIN_BASE64):
        padding = _BASE64_PADDING.match(text, end)
        blob = text[start : padding.end() if padding else end]
        if (raw := _from_base64(blob[:MAX_BLOB])) is not None:
            yield start, "base64", raw
    for start, end in runs(data.translate(_HEX_LETTERS), MIN_HEX):
        if (end - start) % 2 == 0:
            yield start, "hex", binascii.unhexlify(text[start : min(end, start + MAX_BLOB // 2 * 2)])
    for start, end in runs(data.translate(_PRINTED), MIN_BASE85):
        for match in _BASE85_BLOB.finditer(text, start, end):
            for raw in _from_base85(match.group(1)[:MAX_BLOB].replace("\\\\", "\\")):
                yield match.start(), "base85", raw


def _from_base64(blob: str) -> bytes | None:
    # Without a mix of cases and digits it is an identifier or a path, not base64.
    if blob.islower() or blob.isupper() or blob.isdigit():
        return None
    body = blob.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return binascii.a2b_base64(body + "=" * (-len(body) % 4))
    except (binascii.Error, ValueError):
        return None


def _from_base85(blob: str) -> Iterator[bytes]:
    """In either alphabet."""
    decoders: list[Callable[[str], bytes]] = [base64.a85decode]
    if not blob.encode("latin-1", "replace").translate(None, _BASE85_LETTERS):
        decoders.append(base64.b85decode)
    for decode in decoders:
        with suppress(ValueError):
            yield decode(blob)


def _readable(raw: bytes) -> str | None:
    if raw.startswith((b"\x1f\x8b", b"x\x9c", b"x\xda", b"BZh", b"\xfd7zXZ")):
        raw = _inflated(raw)
    if raw[1:2] == b"\0" and raw[3:4] == b"\0":  # PowerShell encodes its commands as UTF-16
        raw = raw.replace(b"\0", b"")
    if len(raw) < 12 or not raw.isascii():
        return None
    odd = len(raw[:2000].translate(None, _READABLE))
    return raw.decode("ascii") if min(len(raw), 2000) - odd >= 0.97 * min(len(raw), 2000) else None


def _inflated(raw: bytes) -> bytes:
    try:
        if raw.startswith(b"BZh"):
            return bz2.BZ2Decompressor().decompress(raw, MAX_BLOB)
        if raw.startswith(b"\xfd7zXZ"):
            return lzma.LZMADecompressor(memlimit=XZ_MEMORY).decompress(raw, MAX_BLOB)
        return zlib.decompressobj(wbits=47).decompress(raw, MAX_BLOB)
    except (zlib.error, lzma.LZMAError, OSError, ValueError):
        return b""


def _escaped_character(match: re.Match[str]) -> str:
    code = match.group(1) or match.group(2)
    value = int(code, 16) if code else int(match.group(3), 8)
    return chr(value) if 32 <= value < 127 else match.group()


def _called_characters(match: re.Match[str]) -> str:
    return _spell(re.findall(r"\d{2,3}", match.group()))


def _listed_characters(match: re.Match[str]) -> str:
    return _spell(match.group(1).split(",")) + "\n" * match.group().count("\n")


def _spell(codes: list[str]) -> str:
    values = [int(code) for code in codes]
    return "".join(chr(value) for value in values if 32 <= value < 127)


def _joined_path(match: re.Match[str]) -> str:
    return re.sub(r"['\"]\)?\s*,\s*['\"]", "/", match.group())


def _keep_newlines(match: re.Match[str]) -> str:
    return "\n" * match.group().count("\n")
