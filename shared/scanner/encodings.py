"""Encodings beyond base64, hex and base85 in one piece. What they say is matched like any decoded text.

Ciphers that only exchange letters are looked for by what an order or a command cannot do without.
"""

import base64
import binascii
import re
import string
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache

MAX_ENCODED = 200_000
MIN_LETTERS, MIN_HEX, MIN_NUMBERS = 24, 32, 45  # with what stands between the pieces
_SPACE = " \t\r\n\"',\\"
_BETWEEN_PIECES = str.maketrans("", "", _SPACE)


def letters_of(letters: str) -> bytes:
    """A table that turns these letters into one letter and all others into spaces."""
    return bytes(ord("a") if chr(code) in letters else 32 for code in range(256))


_PIECES = letters_of(f"{string.ascii_letters}{string.digits}/_=+-{_SPACE}")
_HEX = letters_of(f"{string.hexdigits}xu=%&#;:-{_SPACE}")
_NUMBERS = letters_of(f"{string.digits};{_SPACE}")
_READABLE_RUN = re.compile(rb"[\t\n\r -~]{20,}")
# Six groups of four letters that stand for characters below 128: any 20 readable ones have such, wherever they begin.
_PLAIN_IN_BASE64 = re.compile(r"(?:[CDI-Za-f][A-HQ-Xg-nw-z0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_-]){6}")
_COMPRESSED_IN_BASE64 = re.compile(r".{0,3}(?:H4[s-v]|Qlpo|[/_]Td6WF)")  # gzip, bzip2, xz
_HEX_PAIRS = re.compile(r"(?:(?:0x|\\x|=|%|\\u00|&#x)?[0-9a-fA-F]{2}[\s,;:\"'-]{0,3}){16,}")
_NO_HEX = re.compile(r"0x|\\x|\\u00|&#x|[^0-9a-fA-F]")
_DUMP = re.compile(r"(?m)^[ \t>]{0,8}[0-9a-fA-F]{4,8}(?::|[ \t])[ \t]{0,4}((?:[0-9a-fA-F]{2,4} {1,2}){2,16})")
_DECIMALS = re.compile(r"(?:\d{2,3}[\s,;]{1,3}){15,}\d{2,3}")
_OCTALS = re.compile(r"(?:[01][0-7]{2}[\s,;]{1,3}){15,}[01][0-7]{2}")
_BITS = re.compile(r"(?:[01]{8}[\s,;]{0,3}){16,}")
_BASE32 = re.compile(r"[A-Z2-7]{32,}")
_UUENCODED = re.compile(r"(?m)^begin [0-7]{3} [^\n]{1,80}\n((?:[!-`][^\n]{0,61}\n){1,5000})")
_LEET_WORD = re.compile(r"[i1!]gn[o0]r[e3]|pr[e3]v[i1!][o0]u[s5$]|[i1!]n[s5$][t7]ruc[t7][i1!][o0]n")
_LEET = str.maketrans("01345!$@7", "oieasisat")
ANCHORS = ("https://", "instructions")


def encoded_texts(text: str) -> Iterator[tuple[int, str, bytes]]:
    """Where it begins, how it is encoded, what it decodes to."""
    data = text.encode("latin-1", "replace")  # one byte for each character
    for start, end in runs(data.translate(_PIECES), MIN_LETTERS):
        yield from _pieces_of_base64(text[start:end], start)
    for table, least, kinds in ((_HEX, MIN_HEX, _HEX_KINDS), (_NUMBERS, MIN_NUMBERS, _NUMBER_KINDS)):
        for start, end in runs(data.translate(table), least):
            yield from _matches(kinds, text, start, end)
    yield from _matches(_OTHER_KINDS, text, 0, len(text))
    yield from _dumps(list(_DUMP.finditer(text)))
    yield from _ascii85(text)


def runs(letters: bytes, least: int) -> Iterator[tuple[int, int]]:
    """Where at least so many letters stand without a space. Searching for a long word reads few of its letters."""
    word, start = b"a" * least, 0
    while (start := letters.find(word, start)) >= 0:
        end = letters.find(b" ", start)
        end = len(letters) if end < 0 else end
        yield start, end
        start = end


def _matches(kinds: "tuple[_Kind, ...]", text: str, start: int, end: int) -> Iterator[tuple[int, str, bytes]]:
    for name, pattern, decode in kinds:
        for match in pattern.finditer(text, start, end):
            yield match.start(), name, decode(match.group()[:MAX_ENCODED])


def exchanged_letters(text: str) -> Iterator[tuple[int, str, str]]:
    """The lines around what only an exchange of letters explains: where, how, and what they say."""
    lowered = text.lower()
    for anchor, name in _written_otherwise().items():
        at = lowered.find(anchor)
        if at >= 0:
            start, end = _paragraph(text, at)
            yield start, name, _exchange(text[start:end], name)
    for match in _LEET_WORD.finditer(lowered):
        if not match.group().isalpha():
            start, end = _paragraph(text, match.start())
            yield start, "digits for letters", lowered[start:end].translate(_LEET)
            return


@cache
def _written_otherwise() -> dict[str, str]:
    names = ["backwards", "Atbash", "ROT47", *(f"letters moved by {n}" for n in range(1, 26))]
    return {_exchange(anchor, name).lower(): name for name in names for anchor in ANCHORS}


def _exchange(text: str, name: str) -> str:
    """Applied to the encoded text it gives the text, for those that undo themselves; else the tables are opposite."""
    if name == "backwards":
        return text[::-1]
    return text.translate(_table(name))


@cache
def _table(name: str) -> dict[int, int]:
    small, large = string.ascii_lowercase, string.ascii_uppercase
    if name == "ROT47":
        return {code: 33 + (code + 14) % 94 for code in range(33, 127)}
    if name == "Atbash":
        return str.maketrans(small + large, small[::-1] + large[::-1])
    by = int(name.rpartition(" ")[2])
    return str.maketrans(small + large, small[by:] + small[:by] + large[by:] + large[:by])


def _paragraph(text: str, at: int) -> tuple[int, int]:
    """Without the lines around it that are far away."""
    start = max(text.rfind("\n\n", 0, at) + 1, at - 4_000, 0)
    end = text.find("\n\n", at)
    return start, min(len(text) if end < 0 else end, at + 4_000)


def _pieces_of_base64(written: str, at: int) -> Iterator[tuple[int, str, bytes]]:
    """In short lines, in a list of strings, or with words before it: from each of four letters on."""
    letters = written[:MAX_ENCODED].translate(_BETWEEN_PIECES).replace("=", "")
    if len(letters) < MIN_LETTERS or letters.isalpha() or letters.islower() or not _may_say_something(letters):
        return
    for first in range(4):
        if (said := _readable_runs(letters[first:])) is not None:
            yield at + len(written) - len(written.lstrip(_SPACE)), "base64", said
            return


def _may_say_something(letters: str) -> bool:
    """Prose has as many letters as base64, and is decoded four times where this does not rule it out."""
    return (
        _PLAIN_IN_BASE64.search(letters) is not None
        or _COMPRESSED_IN_BASE64.match(letters) is not None
        or letters.count("A", 0, 60) >= 4  # two bytes a letter: every other one is 0
    )


def _readable_runs(letters: str) -> bytes | None:
    body = letters.replace("-", "+").replace("_", "/")
    body = body[:-1] if len(body) % 4 == 1 else body
    try:
        raw = binascii.a2b_base64(body + "=" * (-len(body) % 4))
    except (binascii.Error, ValueError):
        return None
    if raw.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ")):
        return raw
    if raw[:40].count(0) >= 12:  # two bytes a letter
        raw = raw.replace(b"\0", b"")
    runs = _READABLE_RUN.findall(raw)
    return b"\n".join(runs) if runs else None


def _from_hex(text: str) -> bytes:
    digits = _NO_HEX.sub("", text)
    return binascii.unhexlify(digits[: len(digits) // 2 * 2])


def _dumps(lines: list[re.Match[str]]) -> Iterator[tuple[int, str, bytes]]:
    if lines:
        digits = "".join(line.group(1) for line in lines)[:MAX_ENCODED].replace(" ", "")
        yield lines[0].start(), "a hex dump", binascii.unhexlify(digits[: len(digits) // 2 * 2])


def _from_decimals(text: str) -> bytes:
    return bytes(value for number in re.findall(r"\d+", text) if (value := int(number)) < 256)


def _from_octals(text: str) -> bytes:
    return bytes(int(number, 8) for number in re.findall(r"[0-7]{3}", text))


def _from_bits(text: str) -> bytes:
    return bytes(int(number, 2) for number in re.findall(r"[01]{8}", text))


def _from_base32(text: str) -> bytes:
    return base64.b32decode(text[: len(text) // 8 * 8])


def _from_uuencode(text: str) -> bytes:
    said = b""
    for line in filter(None, text.split("\n")[1:]):
        try:
            said += binascii.a2b_uu(line)
        except (binascii.Error, ValueError):
            break
    return said


def _ascii85(text: str) -> Iterator[tuple[int, str, bytes]]:
    start = 0
    while (start := text.find("<~", start)) >= 0:
        end = text.find("~>", start)
        if end < 0:
            return
        with suppress(ValueError):
            yield start, "Ascii85", base64.a85decode(text[start : end + 2][:MAX_ENCODED], adobe=True)
        start += 2


_Kind = tuple[str, re.Pattern[str], Callable[[str], bytes]]
_HEX_KINDS: tuple[_Kind, ...] = (("hex", _HEX_PAIRS, _from_hex),)
_NUMBER_KINDS: tuple[_Kind, ...] = (
    ("decimal numbers", _DECIMALS, _from_decimals),
    ("octal numbers", _OCTALS, _from_octals),
    ("binary numbers", _BITS, _from_bits),
)
_OTHER_KINDS: tuple[_Kind, ...] = (("base32", _BASE32, _from_base32), ("uuencode", _UUENCODED, _from_uuencode))
