"""The one decoder: what bytes say, for the scanner, the judge, diffs and pages.

Every reader sees its own text in the same bytes: a shell skips NULs, an editor believes a byte order mark, an agent's
tool replaces what is not UTF-8. So nothing is refused here; the text holds what any of them would see.
"""

import codecs
import re
from itertools import accumulate

BOM_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
MAX_ODD = 0.02
_ODD = re.compile("[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd]")  # hardly ever in text
_USUAL = bytes([9, 10, *range(32, 127)])
# Bytes that are not UTF-8 arrive as surrogates; they are shown as Latin-1, which is what most of them are.
_LATIN_1 = {0xDC00 + byte: byte for byte in range(128, 256)}
_JAVASCRIPT = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx", ".jsx", ".html", ".svg")
_CR_ENDS_LINE = (
    *_JAVASCRIPT,
    ".py",
    ".pyw",
    ".md",
    ".mdx",
    ".mdc",
    ".markdown",
    ".txt",
    ".rb",
    ".json",
    ".yaml",
    ".yml",
)
_WORD = re.compile(r"[!-~]{2,}")
_RUN = re.compile(r"[\t -~]{4}")
_SHORT_RUN = re.compile(r"[\t\n\r -~]{6,}")
_TWO_LETTERS = re.compile(r"[A-Za-z]{2}")
_BYTE = re.compile("[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]|[\x7f-\xff\ufffd]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ufffd]")
DENSE, CONTROLS, WITHIN = 24, 6, 80  # so many bytes beyond ASCII, and controls among them, in so many characters


def text_of(content: bytes) -> str:
    """UTF-8, UTF-16 (with or without a mark, or only in parts) or Latin-1. NULs are dropped, as shells drop them."""
    narrow = _narrow(content)
    encoding = _wide_encoding(content, narrow)
    if not encoding:
        return narrow
    wide = content.decode(encoding, "replace").replace("\0", "").removeprefix("\ufeff")
    return "\n".join([wide, *_lines_only_in(narrow, wide)])


def unix_lines(text: str, path: str) -> str:
    """Lines as the program that runs the file counts them: a lone carriage return ends one for all but shells."""
    name = path.lower()
    if "\r" in text:
        text = text.replace("\r\n", "\n")
        text = text.replace("\r", "\n") if name.endswith(_CR_ENDS_LINE) else text
    if not text.isascii() and name.endswith(_JAVASCRIPT):
        text = text.replace("\u2028", "\n").replace("\u2029", "\n")
    return text


def is_readable(text: str) -> bool:
    """Whether all of it is text. Data decoded as text has far more control characters than text ever has."""
    odd = unusual(text)
    return not odd or (len(_ODD.findall(odd)) <= MAX_ODD * len(text) and not _holds_data(text, odd))


def _holds_data(text: str, odd: str) -> bool:
    """A packed file in the middle of a long text is a small part of it."""
    if len(_ODD.findall(odd)) < CONTROLS:
        return False
    found = [(match.start(), _CONTROL.match(match.group()) is not None) for match in _BYTE.finditer(text)]
    controls = list(accumulate((is_control for _, is_control in found), initial=0))
    return any(
        last - first < WITHIN and controls[at + DENSE] - controls[at] >= CONTROLS
        for at, ((first, _), (last, _)) in enumerate(zip(found, found[DENSE - 1 :], strict=False))
    )


def unusual(text: str) -> str:
    """Its characters that are neither printable ASCII nor a tab or a line end: few, so they are quick to look at."""
    return text.encode("utf-8", "surrogatepass").translate(None, _USUAL).decode("utf-8", "surrogatepass")


def strings_in(content: bytes) -> str:
    """What a program that reads lines could make sense of in a picture, a font or the headers of an archive. Shells and
    UTF-16 alike make NULs disappear."""
    return commands_in(content.replace(b"\0", b"").decode("latin-1"))


def commands_in(text: str) -> str:
    """What an interpreter that is given data could make sense of. The rest of it is noise to every reader."""
    return "\n".join(run for run in _SHORT_RUN.findall(text) if _TWO_LETTERS.search(run))


def _narrow(content: bytes) -> str:
    data = content.replace(b"\0", b"")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("utf-8", "surrogateescape").translate(_LATIN_1)


def _wide_encoding(content: bytes, narrow: str) -> str:
    """The form of UTF-16 it is in. Without a mark only where NULs tell, and dropping them leaves no clean text."""
    if content[:2] in BOM_16:
        return "utf-16-le" if content[:2] == BOM_16[0] else "utf-16-be"
    if b"\0" not in content:
        return ""
    odd, even = content[1::2].count(0), content[0::2].count(0)
    if max(odd, even) * 10 < len(content) or min(odd, even) * 20 > max(odd, even) or not _ODD.search(narrow):
        return ""
    return "utf-16-le" if odd >= even else "utf-16-be"


def _lines_only_in(narrow: str, wide: str) -> list[str]:
    """What a reader that goes byte by byte sees and a reader of UTF-16 does not: text that changes its encoding."""
    known = {_words(line) for line in wide.split("\n")}
    return [line for line in narrow.split("\n") if _RUN.search(line) and _words(line) not in known]


def _words(line: str) -> str:
    return " ".join(_WORD.findall(line))
