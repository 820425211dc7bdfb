"""The files of a skill: which are text, what the others are, and which violate a rule."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

import msgspec

from shared.scanner.archives import ArchiveContents, open_archive
from shared.scanner.report import ScannedFile

MAX_TEXT_FILE = 1_000_000
MAX_SKILL = 10_000_000
MAX_FILES = 500

PROGRAM_MAGIC = (
    *(b"\x7fELF", b"MZ", b"\xca\xfe\xba\xbe", b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf", b"\xcf\xfa\xed\xfe"),
    *(b"\xce\xfa\xed\xfe", b"\0asm", b"dex\n"),
)
COMPILED_CODE = (
    *(".pyc", ".pyo", ".class", ".jar", ".so", ".dylib", ".dll", ".exe", ".node", ".o", ".a", ".wasm", ".msi", ".dmg"),
    *(".pkg", ".deb", ".rpm", ".apk", ".scr", ".com", ".lnk", ".hta"),
)
ARCHIVE_MAGIC = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"Rar!", b"\x28\xb5\x2f\xfd")
OFFICE = (
    *(".docx", ".xlsx", ".pptx", ".odt", ".ods", ".odp", ".dotx", ".potx", ".xltx", ".epub", ".vsdx", ".docm", ".xlsm"),
)
MEDIA_MAGIC = (
    *(b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"%PDF", b"OTTO", b"wOFF", b"wOF2", b"\0\1\0\0", b"ttcf", b"true"),
    *(b"ID3", b"OggS", b"fLaC", b"\0\0\1\0", b"BM", b"SQLite format 3", b"II*\0", b"MM\0*", b"\x1aE\xdf\xa3"),
    *(b"PAR1", b"\x93NUMPY"),
)
UNSAFE_PATH = re.compile(r"^[/~]|^[A-Za-z]:|\\|[\x00-\x1f\x7f]|(^|/)\.\.(/|$)")


class Item(msgspec.Struct, frozen=True):
    """One file of a skill: text to match, or the rule that it violates, or neither (an image)."""

    record: ScannedFile
    text: str | None = None
    rule_id: str = ""
    detail: str = ""
    in_archive: bool = False  # scanned, but not a file of the skill itself


class Inventory(msgspec.Struct, frozen=True):
    items: tuple[Item, ...]
    incomplete: tuple[str, ...]
    content_hash: str


def take_inventory(files: Mapping[str, bytes]) -> Inventory:
    """SKILL.md comes first: it must be the last file that a limit leaves out."""
    records = {path: ScannedFile(path, hashlib.sha256(files[path]).hexdigest(), len(files[path])) for path in files}
    items: list[Item] = []
    incomplete: list[str] = []
    total = 0
    for count, path in enumerate(sorted(files, key=_reading_order)):
        total += len(files[path])
        if reason := _exceeded_limit(count, total):
            items.append(Item(_skipped(records[path], reason)))
            incomplete.append(f"{path}: {reason}")
            continue
        found = classify(records[path], files[path], max_bytes=MAX_SKILL - total)
        total += sum(item.record.size for item in found if item.in_archive)
        incomplete += [reason for item in found for reason in _truncation(item)]
        items += found
    return Inventory(tuple(items), _bounded(incomplete), content_hash(records.values()))


def content_hash(records: Iterable[ScannedFile]) -> str:
    lines = sorted(f"{record.sha256} {record.size} {record.path}\n" for record in records)
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def classify(record: ScannedFile, content: bytes, max_bytes: int = MAX_SKILL) -> list[Item]:
    """The file itself, and its members if it is a readable archive."""
    name = record.path.lower()
    if UNSAFE_PATH.search(record.path):
        return [Item(record, _text_of(content), "FILE-UNSAFE-PATH", record.path[:120])]
    if content.startswith(PROGRAM_MAGIC) or name.endswith(COMPILED_CODE):
        return [Item(_skipped(record, "compiled code"), None, "FILE-PROGRAM", PurePosixPath(record.path).name)]
    if content.startswith(ARCHIVE_MAGIC) or content[257:262] == b"ustar":
        return _classify_archive(record, open_archive(content, max_bytes))
    is_media = content.startswith(MEDIA_MAGIC) or content[4:8] == b"ftyp"
    text = None if is_media and b"\0" in content[:4096] else _text_of(content)
    if text is None:
        rule_id = "" if is_media else "FILE-UNKNOWN-DATA"
        return [Item(_skipped(record, "binary"), None, rule_id, PurePosixPath(record.path).name)]
    return [Item(record, text)]


def _classify_archive(record: ScannedFile, archive: ArchiveContents) -> list[Item]:
    if any(name.lower().endswith("vbaproject.bin") for name in archive.members):
        return [Item(_skipped(record, "document"), None, "FILE-MACRO", "vbaProject.bin")]
    if record.path.lower().endswith(OFFICE) and not archive.rule_id:
        return [Item(_skipped(record, "document"))]
    item = Item(_skipped(record, "archive, its files were read"), None, archive.rule_id, archive.detail)
    members = [_classify_member(f"{record.path}!{name}", content) for name, content in archive.members.items()]
    return [item, *members]


def _classify_member(path: str, content: bytes) -> Item:
    record = ScannedFile(path, hashlib.sha256(content).hexdigest(), len(content))
    if content.startswith(ARCHIVE_MAGIC) and not path.lower().endswith(OFFICE):
        return Item(record, None, "FILE-ARCHIVE", "an archive inside an archive", in_archive=True)
    return msgspec.structs.replace(classify(record, content)[0], in_archive=True)


def _text_of(content: bytes) -> str | None:
    """Text in UTF-8 or UTF-16, else Latin-1 if it has almost no control characters; None for binary data."""
    head = content[: MAX_TEXT_FILE + 4]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or _looks_utf16(head):
        return head.decode("utf-16", "replace") if head[:1] in b"\xff\xfe" else _decode_utf16(head)
    try:
        return head.decode("utf-8")[:MAX_TEXT_FILE]
    except UnicodeDecodeError as error:
        if error.start >= len(head) - 4:
            return head[: error.start].decode("utf-8")
    return head.decode("latin-1")[:MAX_TEXT_FILE] if _mostly_printable(head[:8192]) else None


def _looks_utf16(head: bytes) -> bool:
    sample = head[:400]
    return len(sample) >= 8 and max(sample[0::2].count(0), sample[1::2].count(0)) > 0.4 * len(sample[0::2])


def _decode_utf16(head: bytes) -> str:
    little = head[1:400:2].count(0) >= head[0:400:2].count(0)
    return head.decode("utf-16-le" if little else "utf-16-be", "replace")


def _mostly_printable(sample: bytes) -> bool:
    control = sum(byte < 32 and byte not in (9, 10, 12, 13, 27) for byte in sample)
    return control <= 0.02 * len(sample)


def _reading_order(path: str) -> tuple[bool, int, str]:
    return (PurePosixPath(path).name.lower() != "skill.md", path.count("/"), path)


def _exceeded_limit(count: int, total: int) -> str:
    if count >= MAX_FILES:
        return f"not read: more than {MAX_FILES} files"
    return f"not read: more than {MAX_SKILL // 1_000_000} MB in total" if total > MAX_SKILL else ""


def _truncation(item: Item) -> list[str]:
    if item.text is None or item.record.size <= MAX_TEXT_FILE:
        return []
    return [
        f"{item.record.path}: only the first {MAX_TEXT_FILE // 1_000_000} MB of {item.record.size:,} bytes was read"
    ]


def _bounded(reasons: list[str]) -> tuple[str, ...]:
    return tuple(reasons if len(reasons) <= 20 else [*reasons[:20], f"and {len(reasons) - 20} more"])


def _skipped(record: ScannedFile, why: str) -> ScannedFile:
    return msgspec.structs.replace(record, skipped=why)
