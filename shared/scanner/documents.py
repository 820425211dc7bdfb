"""The text inside documents: Office files, notebooks and PDF."""

import base64
import binascii
import html
import json
import re
import struct
import zlib
from collections.abc import Iterator
from itertools import repeat
from typing import Any

from shared.scanner.archives import Budget, Member, inflate

OFFICE = (
    *(".docx", ".xlsx", ".pptx", ".odt", ".ods", ".odp", ".odg", ".dotx", ".potx", ".ppsx", ".xltx", ".epub", ".vsdx"),
    *(".docm", ".xlsm", ".pptm", ".dotm", ".xltm", ".potm", ".xlam", ".ppam", ".key", ".numbers", ".pages"),
)
MAX_CELLS = 2000
PAGES = (".xhtml", ".html", ".htm", ".svg")
# `on…=` inside a tag, so that text which mentions it is none.
ACTIVE = re.compile(
    r"<script\b|<(?:iframe|embed|object)\b|<[a-z][^<>]{0,400}\son[a-z]{3,20}\s{0,9}=\s{0,9}[\"']"
    r"|=\s{0,9}[\"']\s{0,9}javascript:|<!entity\b",
    re.IGNORECASE,
)
WORDS_OF_SENTENCE = 3  # spaces in the value of an attribute
_PARAGRAPH = re.compile(r"</(?:w:p|a:p|text:p|text:h|si|row|c|p|li|h\d|div|tr)>|<(?:w:br|a:br|text:line-break)\b")
_TAG = re.compile(r"<[^<>]*>")
_SHOWN_ATTRIBUTE = re.compile(r"\b(?:descr|title|alt|tooltip)=\"([^\"<>]{4,})\"")
_PRINTER_SETTINGS = re.compile(r"printersettings\d*\.bin\Z")
_LOADED = re.compile(r"attachedTemplate|/oleObject|/frame\b|/subDocument")
_EXTERNAL = re.compile(r"TargetMode=[\"']External")
_FORMULA = re.compile(
    r"<(?:\w{1,9}:)?f\b[^<>]{0,200}>[^<]{0,8000}?(?:WEBSERVICE|\bEXEC|\bCALL|REGISTER)\(|<f>[^<|]{1,40}\|",
    re.IGNORECASE,
)
_SHELL_LINE = re.compile(r"^\s*(?:!|%%?(?:bash|sh|system|script)\b)", re.MULTILINE)

_PDF_END = re.compile(rb"%%EOF[\s\0]*\Z")
_PDF_STREAM = re.compile(rb"stream\r?\n")
_PDF_TEXT = re.compile(rb"\(((?:[^()\\]|\\.)*+)\)?|<([0-9A-Fa-f\s]*+)>|(-?\d+)|\b(T[dDmj*J]|ET)\b", re.DOTALL)
_PDF_PAIR = re.compile(rb"<([0-9A-Fa-f]{2,8})>\s{0,8}<([0-9A-Fa-f]{4,64})>")
_PDF_RANGE = re.compile(
    rb"<([0-9A-Fa-f]{2,8})>\s{0,8}<([0-9A-Fa-f]{2,8})>\s{0,8}(?:<([0-9A-Fa-f]{4,64})>|\[([0-9A-Fa-f<>\s]{0,20000})\])"
)
_HEX = re.compile(rb"[0-9A-Fa-f]{4,64}")
_PDF_MAP = re.compile(rb"begin(bfchar|bfrange)\b")
_PDF_FONT = re.compile(rb"/Subtype\s{0,9}/Type0\b")
MAX_MAPS = 16  # fonts of a document that say which letters their numbers are
_PDF_ESCAPED = re.compile(rb"#([0-9A-Fa-f]{2})")
_PDF_ACTIVE = re.compile(rb"/(?:JavaScript|JS|Launch|RichMedia)\b")
_PDF_FLATE = re.compile(rb"/(?:FlateDecode|Fl)\b")
_PDF_UNREAD_FILTER = re.compile(rb"/(?:LZWDecode|LZW|RunLengthDecode|RL|ASCIIHexDecode|AHx|Crypt)\b")
_PDF_PICTURE = (b"/DCTDecode", b"/JPXDecode", b"/CCITTFaxDecode", b"/JBIG2Decode", b"/FontFile", b"/Length1")
_GLYPH_NUMBER = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_WIDE_GAP = -150  # thousandths of the size of a letter


def document_parts(path: str, content: bytes, budget: Budget) -> list[Member] | None:
    """The parts of a notebook or a PDF; None if it is neither, or not as a whole."""
    name = path.lower()
    if name.endswith(".ipynb"):
        return _notebook(content)
    if name.endswith(".pdf") and content.startswith(b"%PDF-") and _PDF_END.search(content[-1024:]):
        return list(_pdf(content, budget))
    return None


def office_text(name: str, content: bytes) -> str | None:
    """What a reader of the document sees, without its markup; None for a part that is no page."""
    if not name.lower().endswith((".xml", ".xhtml", ".htm", ".html", ".opf", ".ncx", ".vml")):
        return None
    markup = content.decode("utf-8", "replace").replace("\0", "")
    shown = "\n".join([*_SHOWN_ATTRIBUTE.findall(markup), *filter(_may_be_read_as_text, _TAG.findall(markup))])
    # Unpacking the document shows its comments, and what CDATA holds is text.
    for mark in ("<!--", "-->", "<![CDATA[", "]]>"):
        markup = markup.replace(mark, "\n" if "--" in mark else "")
    text = html.unescape(_TAG.sub("", _PARAGRAPH.sub("\n", markup)))
    return f"{text}\n{html.unescape(shown)}".strip("\n")


def _may_be_read_as_text(tag: str) -> bool:
    """A program that is given the part itself finds lines inside its tags, and an agent finds sentences."""
    return "\n" in tag or any(value.count(" ") >= WORDS_OF_SENTENCE for value in re.split("[\"']", tag)[1::2])


def office_problem(name: str, content: bytes) -> str:
    """What a part of a document does when it is opened."""
    lowered = name.lower()
    if lowered.endswith("vbaproject.bin") or "/macrosheets/" in lowered:
        return "macros"
    if lowered.endswith(PAGES) and ACTIVE.search(content.decode("utf-8", "replace")):
        return "a page that runs a script"
    text = content.decode("utf-8", "replace") if lowered.endswith((".rels", ".xml")) else ""
    if lowered.endswith(".rels") and _EXTERNAL.search(text) and _LOADED.search(text):
        return "a part that is loaded from another place"
    return "a formula that runs or fetches something" if "sheet" in lowered and _FORMULA.search(text) else ""


def is_opaque_part(name: str, content: bytes) -> bool:
    """Fonts, settings of printers and pictures of kinds that only Office has, if their bytes agree with the name."""
    lowered = name.lower()
    if _PRINTER_SETTINGS.search(lowered):  # a DEVMODE: its version, and the sizes of its two parts
        return content[64:66] == b"\1\4" and sum(struct.unpack_from("<HH", content, 68)) <= len(content)
    if lowered.endswith(".fntdata"):  # Embedded OpenType: its size, and its mark
        return content[34:36] == b"LP" and int.from_bytes(content[:4], "little") == len(content)
    if lowered.endswith(".odttf"):  # only its first 32 bytes are obfuscated, not all of its table of contents
        return b"cmap" in content[:512] and b"head" in content[:512]
    return lowered.endswith(".wdp") and content.startswith(b"II\xbc\1")


def _notebook(content: bytes) -> list[Member] | None:
    try:
        cells = json.loads(content)["cells"]
    except (ValueError, RecursionError, TypeError, KeyError):
        return None
    if not isinstance(cells, list):
        return None
    parts = [part for number, cell in enumerate(cells[:MAX_CELLS], 1) for part in _cell(cell, number)]
    return parts + ([Member("", problem="not read to its end: too many cells")] if len(cells) > MAX_CELLS else [])


def _cell(cell: Any, number: int) -> Iterator[Member]:
    if not isinstance(cell, dict):
        return
    source = _joined(cell.get("source"))
    is_code = cell.get("cell_type") == "code"
    yield Member(f"cell-{number}.{'py' if is_code else 'md'}", _encoded(source))
    if is_code and _SHELL_LINE.search(source):
        yield Member(f"cell-{number}.sh", _encoded(re.sub(r"^\s*!", "", source, flags=re.MULTILINE)))
    bundles = [*_values(cell.get("attachments"))]
    for output in cell.get("outputs") or () if isinstance(cell.get("outputs"), list) else ():
        bundles += [output.get("data"), {"text/plain": output.get("text")}] if isinstance(output, dict) else []
    for at, (kind, data) in enumerate(
        pair for bundle in bundles if isinstance(bundle, dict) for pair in bundle.items()
    ):
        if part := _attached(f"cell-{number}-{at}", str(kind), _joined(data)):
            yield part


def _attached(name: str, kind: str, data: str) -> Member | None:
    if not data:
        return None
    if kind.startswith(("image/", "application/pdf")) and "svg" not in kind:
        try:
            suffix = kind.partition("/")[2].replace("jpeg", "jpg")
            return Member(f"{name}.{suffix}", base64.b64decode(data))
        except (binascii.Error, ValueError):
            return Member(f"{name}.txt", _encoded(data), "damaged: no base64")
    return Member(f"{name}.{'html' if 'html' in kind else 'txt'}", _encoded(data))


def _values(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else []


def _joined(value: Any) -> str:
    if isinstance(value, list):
        return "".join(piece for piece in value if isinstance(piece, str))
    return value if isinstance(value, str) else ""


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _pdf(content: bytes, budget: Budget) -> Iterator[Member]:
    """Its text as far as it is stored as such, and whether it does something when it is opened."""
    texts, active, unread, unmapped = [], False, b"/Encrypt" in content[-4096:], False
    pages: list[bytes] = []
    maps: list[dict[int, str]] = []
    for head, body in _pdf_streams(content):
        names = _PDF_ESCAPED.sub(lambda m: bytes([int(m[1], 16)]), head)
        data = _unpacked_stream(names, body, budget)
        # Pictures and fonts are read like the rest, in case they are something else; they need not be readable.
        unread = unread or (data is None and not any(mark in names for mark in _PDF_PICTURE))
        unmapped = unmapped or _has_unmapped_font(names) or _has_unmapped_font(data or b"")
        active = active or bool(_PDF_ACTIVE.search(names) or _PDF_ACTIVE.search(data or b""))
        texts.append(_drawn_text(data or b""))
        pages += [data] if data and b"ET" in data and b"<" in data else []
        maps += [_letters_in(data)] if data and b"endbf" in data else []
    texts += [_mapped_text(page, letters) for letters in maps[:MAX_MAPS] for page in pages]
    unread = unread or len(maps) > MAX_MAPS
    yield Member("text.txt", "\n".join(filter(None, texts)).encode("utf-8", "replace"))
    if active:
        yield Member("", problem="runs something when it is opened", rule="FILE-MACRO")
    if unread:
        yield Member("", problem="its text is locked or cannot be unpacked")
    if unmapped:
        yield Member("", problem="a font does not say which letters its numbers are")


def _pdf_streams(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """What stands before each stream, and the stream; last what follows the last one."""
    at = 0
    while match := _PDF_STREAM.search(content, at):
        end = content.find(b"endstream", match.end())
        end = len(content) if end < 0 else end
        yield content[at : match.start()], content[match.end() : end]
        at = end + 9
    yield content[at:], b""


def _has_unmapped_font(data: bytes) -> bool:
    """One whose text is numbers, without a map to letters."""
    fonts = (data[data.rfind(b"<<", 0, at.start()) : data.find(b">>", at.end())] for at in _PDF_FONT.finditer(data))
    return any(b"/ToUnicode" not in font for font in fonts)


def _unpacked_stream(names: bytes, body: bytes, budget: Budget) -> bytes | None:
    filters = names[names.rfind(b" obj") + 1 :]
    unpacked = bytearray()
    try:
        if b"/ASCII85Decode" in filters or b"/A85" in filters:
            body = base64.a85decode(body.strip().removesuffix(b"~>"))
        if _PDF_UNREAD_FILTER.search(filters) or len(_PDF_FLATE.findall(filters)) > 1:
            return None
        if not _PDF_FLATE.search(filters):
            return body
        inflate(zlib.decompressobj(), body, unpacked, budget.document_bytes_left)
    except (zlib.error, ValueError):
        return None
    budget.document_bytes_left = max(0, budget.document_bytes_left - len(unpacked))
    return bytes(unpacked) if budget.document_bytes_left else None


def _drawn_text(data: bytes) -> str:
    if b"ET" not in data:
        return ""
    pieces = []
    for string, code, number, operator in _PDF_TEXT.findall(data):
        if string or code:
            pieces.append(_unescaped(string, code).decode("latin-1"))
        elif operator and operator not in (b"Tj", b"TJ"):
            pieces.append("\n")
        elif number and int(number[:9]) < _WIDE_GAP:
            pieces.append(" ")
    text = _GLYPH_NUMBER.sub("", "".join(pieces))  # of fonts that number their letters as they like
    return re.sub(r"\n+", "\n", text).strip()


def _unescaped(string: bytes, code: bytes) -> bytes:
    if not code:
        return re.sub(rb"\\([()\\])", rb"\1", string)
    digits = b"".join(code.split())
    return binascii.unhexlify(digits + b"0" * (len(digits) % 2))


def _maps_in(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while (match := _PDF_MAP.search(data, at)) and (end := data.find(b"endbf", match.end())) >= 0:
        yield match[1], data[match.end() : end]
        at = end


def _letters_in(data: bytes) -> dict[int, str]:
    """What the numbers of a font stand for (its ToUnicode map)."""
    letters: dict[int, str] = {}
    for kind, body in _maps_in(data):
        if kind == b"bfchar":
            letters |= {int(code, 16): _letter(letter) for code, letter in _PDF_PAIR.findall(body)}
            continue
        for first, last, letter, listed in _PDF_RANGE.findall(body):
            codes = range(int(first, 16), min(int(last, 16), int(first, 16) + 255) + 1)
            several = map(_letter, _HEX.findall(listed)) if listed else (_letter(letter, n) for n in range(len(codes)))
            letters |= dict(zip(codes, several, strict=False))
    return letters


def _letter(code: bytes, further: int = 0) -> str:
    text = _unescaped(b"", code).decode("utf-16-be", "replace")
    return text[:-1] + chr(min(ord(text[-1]) + further, 0xFFFD)) if text else ""


def _numbers(raw: bytes) -> list[int]:
    """Of two bytes each; one that is left over is a number too."""
    pairs = len(raw) // 2
    return [*struct.unpack(f">{pairs}H", raw[: 2 * pairs]), *raw[2 * pairs :]]


def _mapped_text(page: bytes, letters: dict[int, str]) -> str:
    """The page as it reads in that font, with numbers of two bytes."""
    pieces: list[str] = []
    for string, code, number, operator in _PDF_TEXT.findall(page):
        if string or code:
            raw = _unescaped(string, code)
            pieces += map(letters.get, _numbers(raw), repeat(""))
        elif operator and operator not in (b"Tj", b"TJ"):
            pieces.append("\n")
        elif number and int(number[:9]) < _WIDE_GAP:
            pieces.append(" ")
    return re.sub(r"\n+", "\n", "".join(pieces)).strip()
