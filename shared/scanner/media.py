"""Pictures, fonts, sounds and data files: the only files that are not read as text.

A file is one of them only if its name says so and all of its bytes fit the format, from the first to the last. What
follows the end of a picture is ignored by viewers, so nothing but padding may be there.
"""

import re
import struct
from collections.abc import Callable
from pathlib import PurePosixPath

PADDING = b"\0\t\n\r "
_JPEG_ALONE = {0x01, *range(0xD0, 0xD8)}  # markers without a length
_JPEG_MARKER = re.compile(rb"\xff[^\x00\x01\xd0-\xd7\xff]")
_FONT_MAGIC = (b"\0\1\0\0", b"OTTO", b"true", b"typ1")
_NPY = re.compile(rb"\x93NUMPY[\1-\3]\0")
_NPY_DATA = re.compile(rb"'descr': *'[<>|=][a-zA-NP-Z]\d*'")  # not O: objects are unpickled, which runs code
_MP3_KBPS = {3: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)}
_MP3_KBPS |= dict.fromkeys((0, 2), (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160))
_MP3_HERTZ = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}


def media_kind(path: str, content: bytes) -> str:
    """Which kind of file it is when its name and all of its bytes agree, else nothing."""
    name = PurePosixPath(path).name
    suffix = (
        "._" if name.startswith("._") else name.lower() if name == ".DS_Store" else PurePosixPath(name).suffix.lower()
    )
    kind, ends_at = _FORMATS.get(suffix, ("", None))
    if ends_at is None:
        return ""
    try:
        end = ends_at(content)
    except (struct.error, IndexError, ValueError):
        return ""
    return kind if end and end <= len(content) and not content[end:].strip(PADDING) else ""


def _png(data: bytes) -> int:
    at = 8 if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR" else len(data)
    while at + 12 <= len(data):
        at, name = at + 12 + int.from_bytes(data[at : at + 4]), data[at + 4 : at + 8]
        if not name.isalpha():
            return 0
        if name == b"IEND":
            return at
    return 0


def _jpeg(data: bytes) -> int:
    """One picture, or several in a row: cameras add a preview."""
    end = 0
    while data[end : end + 3] == b"\xff\xd8\xff" and (one := _one_jpeg(data, end + 2)):
        end = one
    return end


def _one_jpeg(data: bytes, at: int) -> int:
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xD9:
            return at + 2
        if marker == 0xFF or marker in _JPEG_ALONE:
            at += 1 if marker == 0xFF else 2
            continue
        at += 2 + struct.unpack_from(">H", data, at + 2)[0]
        if marker == 0xDA:
            at = _after_jpeg_scan(data, at)
    return 0


def _after_jpeg_scan(data: bytes, at: int) -> int:
    """The next marker that is not part of the compressed picture."""
    marker = _JPEG_MARKER.search(data, at)
    if marker is None:
        raise ValueError("no end")
    return marker.start()


def _gif(data: bytes) -> int:
    if data[:6] not in (b"GIF87a", b"GIF89a"):
        return 0
    at = 13 + _colours(data[10])
    while data[at] != 0x3B:
        if data[at] == 0x2C:
            at += 10 + _colours(data[at + 9]) + 1
        elif data[at] == 0x21:
            at += 2
        else:
            return 0
        while data[at]:
            at += data[at] + 1
        at += 1
    return at + 1


def _colours(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _riff(form: bytes) -> Callable[[bytes], int]:
    def ends_at(data: bytes) -> int:
        if data[:4] != b"RIFF" or data[8:12] != form:
            return 0
        at, end = 12, 8 + int.from_bytes(data[4:8], "little")
        while at + 8 <= end:
            at += 8 + (size := int.from_bytes(data[at + 4 : at + 8], "little")) + size % 2
        return max(at, end) if at - end in (0, 1) else 0

    return ends_at


def _icon(data: bytes) -> int:
    reserved, kind, count = struct.unpack_from("<HHH", data)
    entries = [struct.unpack_from("<II", data, 6 + 16 * n + 8) for n in range(count)]
    return max((at + size for size, at in entries), default=0) if reserved == 0 and kind in (1, 2) else 0


def _bitmap(data: bytes) -> int:
    return int.from_bytes(data[2:6], "little") if data[:2] == b"BM" and data[6:10] == b"\0\0\0\0" else 0


def _tiff(data: bytes) -> int:
    """A chain of directories; where the pixels end cannot be said without decoding them, so the last use counts."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(data[:4], "")
    if not order:
        return 0
    end, at = 8, struct.unpack_from(f"{order}I", data, 4)[0]
    for _ in range(100):
        if not at:
            return end
        count = struct.unpack_from(f"{order}H", data, at)[0]
        entries = struct.iter_unpack(f"{order}HHI4s", data[at + 2 : at + 2 + 12 * count])
        end = max(end, at + 6 + 12 * count, _tiff_data_end(data, order, list(entries)))
        at = struct.unpack_from(f"{order}I", data, at + 2 + 12 * count)[0]
    return 0


def _tiff_data_end(data: bytes, order: str, entries: list[tuple[int, int, int, bytes]]) -> int:
    sizes = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8}
    end, numbers = 0, {}
    for tag, type_, count, value in entries:
        length = sizes[type_] * count if type_ in sizes else len(data)
        at = struct.unpack(f"{order}I", value)[0]
        if length > 4:
            end = max(end, at + length)
        if tag in (273, 279, 324, 325) and count <= 100_000:
            raw = data[at : at + length] if length > 4 else value[:length]
            numbers[tag] = struct.unpack(f"{order}{count}{'H' if type_ == 3 else 'I'}", raw)
    pairs = [*zip(numbers.get(273, ()), numbers.get(279, ())), *zip(numbers.get(324, ()), numbers.get(325, ()))]  # noqa: B905
    return max(end, *(int(start + length) for start, length in pairs)) if pairs else end


def _font(data: bytes) -> int:
    if data[:4] == b"ttcf":
        count = struct.unpack_from(">I", data, 8)[0]
        return max((_tables_end(data, at) for at in struct.unpack_from(f">{min(count, 64)}I", data, 12)), default=0)
    return _tables_end(data, 0) if data.startswith(_FONT_MAGIC) else 0


def _tables_end(data: bytes, start: int) -> int:
    count = struct.unpack_from(">H", data, start + 4)[0]
    tables = [struct.unpack_from(">4sIII", data, start + 12 + 16 * n) for n in range(count)]
    names = {name for name, _, _, _ in tables}
    return max(at + size for _, _, at, size in tables) if {b"head", b"cmap"} & names else 0


def _web_font(data: bytes) -> int:
    return int.from_bytes(data[8:12]) if data[:4] in (b"wOFF", b"wOF2") else 0


def _mp3(data: bytes) -> int:
    at = 0
    if data[:3] == b"ID3":
        at = 10 + sum((data[6 + n] & 0x7F) << 7 * (3 - n) for n in range(4))
    frames = 0
    while at + 4 <= len(data) and (size := _mp3_frame(data[at : at + 4])):
        at, frames = at + size, frames + 1
    if data[at : at + 3] == b"TAG":
        at += 128
    return min(at, len(data)) if frames >= 2 else 0


def _mp3_frame(head: bytes) -> int:
    version, layer = head[1] >> 3 & 3, head[1] >> 1 & 3
    rate, hertz = head[2] >> 4, head[2] >> 2 & 3
    if head[0] != 0xFF or head[1] < 0xE0 or version == 1 or layer != 1 or rate in (0, 15) or hertz == 3:
        return 0
    scale = 144_000 if version == 3 else 72_000
    return scale * _MP3_KBPS[version][rate] // _MP3_HERTZ[version][hertz] + (head[2] >> 1 & 1)


def _ogg(data: bytes) -> int:
    at = 0
    while data[at : at + 5] == b"OggS\0":
        segments = data[at + 26]
        at += 27 + segments + sum(data[at + 27 : at + 27 + segments])
    return at


def _flac(data: bytes) -> int:
    """Its frames have no lengths: what must hold is the chain of blocks before them and the mark of the first."""
    at, last = 4, data[:4] != b"fLaC"
    while not last:
        last, at = bool(data[at] & 0x80), at + 4 + int.from_bytes(data[at + 1 : at + 4])
    return len(data) if data[:4] == b"fLaC" and data[at] == 0xFF and data[at + 1] >> 2 == 0x3E else 0


def _boxes(data: bytes) -> int:
    """MP4, QuickTime, AVIF, HEIC."""
    at = 0
    if data[4:8] != b"ftyp":
        return 0
    while at + 8 <= len(data):
        size, name = int.from_bytes(data[at : at + 4]), data[at + 4 : at + 8]
        if size == 1:
            size = int.from_bytes(data[at + 8 : at + 16])
        size = size or len(data) - at  # the last one may leave its length open
        if size < 8 or not re.fullmatch(rb"[A-Za-z0-9 \xa9]{4}", name):
            return 0
        at += size
    return at


def _matroska(data: bytes) -> int:
    at = 0
    for name in (b"\x1aE\xdf\xa3", b"\x18S\x80g"):
        if data[at : at + 4] != name:
            return 0
        width = 9 - data[at + 4].bit_length()
        size = int.from_bytes(data[at + 4 : at + 4 + width]) & (1 << 7 * width) - 1
        at += 4 + width + size
    return at


def _sqlite(data: bytes) -> int:
    page = int.from_bytes(data[16:18]) or 1
    page = 65536 if page == 1 else page
    pages = int.from_bytes(data[28:32])
    return page * pages if data[:16] == b"SQLite format 3\0" and page & (page - 1) == 0 and page >= 512 else 0


def _parquet(data: bytes) -> int:
    size = int.from_bytes(data[-8:-4], "little")
    return len(data) if data[:4] == data[-4:] == b"PAR1" and 0 < size < len(data) - 8 else 0


def _numpy(data: bytes) -> int:
    return len(data) if _NPY.match(data) and _NPY_DATA.search(data[:200]) else 0


def _metafile(data: bytes) -> int:
    if data[40:44] == b" EMF" and data[:4] == b"\1\0\0\0":
        return int.from_bytes(data[48:52], "little")
    at = 22 if data[:4] == b"\xd7\xcd\xc6\x9a" else 0
    is_wmf = struct.unpack_from("<HHH", data, at) in ((1, 9, 0x300), (2, 9, 0x300), (1, 9, 0x100))
    return at + 2 * int.from_bytes(data[at + 6 : at + 10], "little") if is_wmf else 0


def _apple_double(data: bytes) -> int:
    """What macOS keeps beside a file, in archives made there."""
    if data[:8] != b"\0\5\x16\7\0\2\0\0":
        return 0
    count = struct.unpack_from(">H", data, 24)[0]
    ends = [int(sum(struct.unpack_from(">II", data, 26 + 12 * n + 4))) for n in range(count)]
    return max(ends, default=0)


def _folder_view(data: bytes) -> int:
    return len(data) if data[:8] == b"\0\0\0\1Bud1" else 0


_FORMATS: dict[str, tuple[str, Callable[[bytes], int]]] = {
    ".png": ("picture", _png),
    **dict.fromkeys((".jpg", ".jpeg", ".jpe", ".jfif"), ("picture", _jpeg)),
    ".gif": ("picture", _gif),
    ".webp": ("picture", _riff(b"WEBP")),
    **dict.fromkeys((".ico", ".cur"), ("picture", _icon)),
    ".bmp": ("picture", _bitmap),
    **dict.fromkeys((".tif", ".tiff"), ("picture", _tiff)),
    **dict.fromkeys((".avif", ".heic", ".heif"), ("picture", _boxes)),
    **dict.fromkeys((".emf", ".wmf"), ("picture", _metafile)),
    **dict.fromkeys((".ttf", ".otf", ".ttc", ".otc"), ("font", _font)),
    **dict.fromkeys((".woff", ".woff2"), ("font", _web_font)),
    ".mp3": ("sound", _mp3),
    ".wav": ("sound", _riff(b"WAVE")),
    **dict.fromkeys((".ogg", ".oga", ".ogv", ".opus"), ("sound", _ogg)),
    ".flac": ("sound", _flac),
    **dict.fromkeys((".mp4", ".m4a", ".m4v", ".mov"), ("film", _boxes)),
    **dict.fromkeys((".webm", ".mkv"), ("film", _matroska)),
    **dict.fromkeys((".sqlite", ".sqlite3", ".db"), ("database", _sqlite)),
    ".parquet": ("table", _parquet),
    ".npy": ("table", _numpy),
    "._": ("folder settings", _apple_double),
    ".ds_store": ("folder settings", _folder_view),
}
MEDIA_SUFFIXES = tuple(suffix[1:] for suffix in _FORMATS if suffix != "._")
MEDIA_KINDS = {kind for kind, _ in _FORMATS.values()}
