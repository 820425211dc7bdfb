"""The files of a skill: what each of them says, and which of them violate a rule by their name or kind.

Everything is read as text, except what cannot be run or read as text: see media.py and used_files.py. What was not
read completely makes the scan incomplete.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

import msgspec

from shared.scanner.archives import Budget, Member, between_members, is_archive, read_archive
from shared.scanner.computed_runs import SkillCode
from shared.scanner.documents import OFFICE, document_parts, is_opaque_part, office_problem, office_text
from shared.scanner.file_names import leaves_its_folder, name_findings
from shared.scanner.file_text import commands_in, is_readable, strings_in, text_of, unix_lines
from shared.scanner.media import MEDIA_KINDS, MEDIA_SUFFIXES, media_kind
from shared.scanner.report import ScannedFile
from shared.scanner.used_files import UsedFiles

MAX_TEXT_FILE = 1_000_000
MAX_DECODED = 4 * MAX_TEXT_FILE  # bytes: what is decoded to find that much text
MAX_SKILL = 10_000_000
MAX_FILES = 500
MAX_DEPTH = 3  # an archive in an archive in an archive
ARCHIVE_READ = "archive, its files were read"
DOCUMENT_READ = "document, its text was read"
SHOWN = {*MEDIA_KINDS, DOCUMENT_READ}  # a reader sees them, and a program that runs them sees something else

PROGRAM_MAGIC = (
    *(b"\x7fELF", b"MZ", b"\xca\xfe\xba\xbe", b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf", b"\xcf\xfa\xed\xfe"),
    *(b"\xce\xfa\xed\xfe", b"\0asm", b"dex\n"),
)
COMPILED_CODE = (
    *(".pyc", ".pyo", ".class", ".jar", ".so", ".dylib", ".dll", ".exe", ".node", ".o", ".a", ".wasm", ".msi", ".dmg"),
    *(".pkg", ".deb", ".rpm", ".apk", ".scr", ".com", ".lnk", ".hta"),
)
PACKED = (
    *(".zip", ".tar", ".gz", ".tgz", ".bz2", ".tbz2", ".xz", ".txz", ".lzma", ".7z", ".rar", ".zst", ".z", ".cab"),
    *(".whl", ".egg", ".vsix", ".xpi", ".nupkg", ".skill", ".mcpb", ".dxt", ".crx", ".pptm", ".vst", ".pdf", *OFFICE),
    *(".emz", ".wmz", ".svgz"),
)
_DATA_SUFFIXES = (*PACKED, *COMPILED_CODE, *(f".{suffix}" for suffix in MEDIA_SUFFIXES), "!content")
_PACKED_PICTURES = {".emz": ".emf", ".wmz": ".wmf", "svgz": ".svg"}
_SOURCE_ENCODING = re.compile(r"\A(?:[^\r\n]*(?:\r\n|\r|\n))?[ \t\f]*#[^\r\n]*?coding[:=][ \t]*([-\w.]{1,40})")
_PLAIN_ENCODING = re.compile(
    r"utf-?8(-?sig)?|ascii|us-ascii|latin-?1|iso-?8859-?\d+|cp125\d|windows-125\d", re.IGNORECASE
)


class Item(msgspec.Struct, frozen=True):
    """One file of a skill, or a part of one: text to match, the rule that it violates, or both."""

    record: ScannedFile
    text: str | None = None
    rule_id: str = ""
    detail: str = ""
    in_archive: bool = False  # scanned, but not a file of the skill itself
    incomplete: str = ""  # what was not read


class Inventory(msgspec.Struct, frozen=True):
    items: tuple[Item, ...]
    incomplete: tuple[str, ...]
    content_hash: str


def take_inventory(files: Mapping[str, bytes]) -> Inventory:
    """SKILL.md comes first: it must be the last file that a limit leaves out."""
    records = {path: ScannedFile(path, hashlib.sha256(files[path]).hexdigest(), len(files[path])) for path in files}
    budget = Budget(MAX_SKILL)
    items: list[Item] = []
    for count, path in enumerate(sorted(files, key=_reading_order)):
        content = files[path]
        if len(content) > budget.bytes_left or count >= MAX_FILES:
            items.append(Item(_skipped(records[path], reason := _limit(count)), incomplete=reason))
            budget.bytes_left -= len(content) if count < MAX_FILES else 0
            continue
        budget.bytes_left -= len(content)
        items += _classified(records[path], content, budget, 0)
    items = [*map(_bounded_text, _with_used_media(items, files)), *_named(files, records)]
    incomplete = [f"{item.record.path}: {item.incomplete}" for item in items if item.incomplete]
    return Inventory(tuple(items), _bounded(list(dict.fromkeys(incomplete))), content_hash(records.values()))


def texts_of(files: Mapping[str, bytes]) -> dict[str, str]:
    """What a reader other than the rules should see: each file and each part of an archive or document, as text."""
    texts: dict[str, str] = {}
    for item in take_inventory(files).items:
        if item.text is not None and not item.record.skipped:
            path = item.record.path  # an archive may have two members of one name
            texts[path] = f"{texts[path]}\n{item.text}" if path in texts else item.text
    return texts


def content_hash(records: Iterable[ScannedFile]) -> str:
    lines = sorted(f"{record.sha256} {record.size} {record.path}\n" for record in records)
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def _classified(record: ScannedFile, content: bytes, budget: Budget, depth: int) -> Iterator[Item]:
    """The file itself, then its parts."""
    in_archive = depth > 0
    if is_archive(content):
        yield from _archive(record, content, budget, depth)
        return
    if kind := media_kind(record.path, content):
        yield Item(_skipped(record, kind), strings_in(content) or None, in_archive=in_archive)
        return
    parts = document_parts(record.path, content, budget)
    yield _as_text(record, content, in_archive, is_document=parts is not None)
    for part in parts or ():
        yield from _member(record, part, budget, depth)


def _as_text(record: ScannedFile, content: bytes, in_archive: bool, is_document: bool = False) -> Item:
    """Read, whatever its bytes are; data that is no text is a finding, and what was read of it counts all the same."""
    text = text_of(content[:MAX_DECODED])
    readable = is_readable(text)
    if content.startswith(PROGRAM_MAGIC) or record.path.lower().endswith(COMPILED_CODE):
        rule, reason = "FILE-PROGRAM", "compiled code"
    elif is_document and not readable:
        return Item(_skipped(record, DOCUMENT_READ), strings_in(content) or None, in_archive=in_archive)
    elif encoding := _odd_encoding(text):
        return Item(record, text, "FILE-UNKNOWN-DATA", encoding, in_archive, f"not read as {encoding}")
    elif readable:
        return Item(record, text, in_archive=in_archive)
    else:
        rule, reason = "FILE-UNKNOWN-DATA", "binary"
    if not readable and not _is_named_as_text(record.path):
        record = _skipped(record, reason)
    return Item(record, text, rule, _name(record), in_archive, f"not read: {reason}")


def _archive(record: ScannedFile, content: bytes, budget: Budget, depth: int) -> Iterator[Item]:
    if depth >= MAX_DEPTH:
        yield Item(
            record, None, "FILE-ARCHIVE", "an archive inside too many archives", True, "not read: nested too deep"
        )
        return
    is_office = record.path.lower().endswith(OFFICE)
    if _is_named_as_text(record.path):
        yield _as_text(record, content, depth > 0)
    else:
        what = DOCUMENT_READ if is_office else ARCHIVE_READ
        yield Item(_skipped(record, what), strings_in(between_members(content)) or None, in_archive=depth > 0)
    if content.startswith(PROGRAM_MAGIC) or record.path.lower().endswith(COMPILED_CODE):
        yield Item(record, None, "FILE-PROGRAM", _name(record), True, "not read: compiled code")
    names = []
    for packed in read_archive(content, budget):
        member = packed._replace(name=_unpacked_name(record.path, packed.name))
        names += [member.name] if member.name and not is_office else []
        yield from _member(record, member, budget, depth, is_office)
    for found in name_findings(names):
        yield Item(_part(record, found.path), None, found.rule, found.detail, in_archive=True)


def _member(record: ScannedFile, member: Member, budget: Budget, depth: int, in_office: bool = False) -> Iterator[Item]:
    part = _part(record, member.name, member.content)
    if member.problem:
        yield Item(part, None, member.rule, f"{member.name}: {member.problem}"[:200], True, member.problem)
    if in_office and leaves_its_folder(member.name or "-"):
        yield Item(part, None, "FILE-UNSAFE-PATH", member.name[:120], in_archive=True)
    if in_office and (problem := office_problem(member.name, member.content)):
        yield Item(_skipped(part, problem), None, "FILE-MACRO", member.name[-80:], True, f"not read: {problem}")
    elif in_office and (text := office_text(member.name, member.content)) is not None:
        yield Item(part, text, in_archive=True)
    elif in_office and is_opaque_part(member.name, member.content):
        yield Item(_skipped(part, "part of a document"), strings_in(member.content) or None, in_archive=True)
    elif member.content:
        yield from _classified(part, member.content, budget, depth + 1)


def _unpacked_name(path: str, member: str) -> str:
    """A packed picture is one of the kind that its name tells."""
    return f"content{_PACKED_PICTURES.get(path[-5:].lower()[-4:], '')}" if member == "content" else member


def _part(record: ScannedFile, name: str, content: bytes = b"") -> ScannedFile:
    path = f"{record.path}!{name}" if name else record.path
    return ScannedFile(path, hashlib.sha256(content).hexdigest(), len(content))


def _with_used_media(items: list[Item], files: Mapping[str, bytes]) -> list[Item]:
    """A picture that something runs, or the agent is instructed to follow, is read like a script."""
    media = [item.record.path for item in items if item.record.skipped in SHOWN and item.record.path in files]
    if not media:
        return items
    texts = [(item.record.path, item.text) for item in items if item.text is not None and not item.record.skipped]
    used, code = UsedFiles((text for _, text in texts), media), SkillCode(texts, media)
    run = {path for path in media if used.has(path) or code.runs(path)}
    return [_as_used(item, files[item.record.path]) if item.record.path in run else item for item in items]


def _as_used(item: Item, content: bytes) -> Item:
    record = msgspec.structs.replace(item.record, skipped="")
    text = text_of(content)
    if is_readable(text):
        return Item(record, text)
    commands = commands_in(text)  # a program finds nothing else in it, and letters by chance are no look-alikes
    return Item(record, commands, "FILE-USED-DATA", _name(record), False, "not read: data that is run or followed")


def _named(files: Mapping[str, bytes], records: Mapping[str, ScannedFile]) -> Iterator[Item]:
    for found in name_findings(sorted(files)):
        yield Item(records[found.path], None, found.rule, found.detail, in_archive=True)


def _is_named_as_text(path: str) -> bool:
    """A name that something executes, or that an agent reads: anything but a name of packed or compiled data."""
    name = path.lower()
    return not name.endswith(_DATA_SUFFIXES)


def _odd_encoding(text: str) -> str:
    """Python reads a source file in the encoding that a comment names, whatever it shows in others."""
    named = _SOURCE_ENCODING.match(text)
    return "" if not named or _PLAIN_ENCODING.fullmatch(named[1].replace("_", "-")) else named[1]


def _reading_order(path: str) -> tuple[bool, int, str]:
    return (PurePosixPath(path).name.lower() != "skill.md", path.count("/"), path)


def _limit(count: int) -> str:
    if count >= MAX_FILES:
        return f"not read: more than {MAX_FILES} files"
    return f"not read: more than {MAX_SKILL // 1_000_000} MB in total"


def _bounded_text(item: Item) -> Item:
    if item.text is None:
        return item
    text, incomplete = unix_lines(item.text, item.record.path), item.incomplete
    is_cut = len(text) > MAX_TEXT_FILE or (not item.record.skipped and item.record.size > MAX_DECODED)
    if is_cut and not incomplete:
        incomplete = f"only the first {MAX_TEXT_FILE // 1_000_000} MB of {item.record.size:,} bytes was read"
    return msgspec.structs.replace(item, text=text[:MAX_TEXT_FILE], incomplete=incomplete)


def _bounded(reasons: list[str]) -> tuple[str, ...]:
    return tuple(reasons if len(reasons) <= 20 else [*reasons[:20], f"and {len(reasons) - 20} more"])


def _skipped(record: ScannedFile, why: str) -> ScannedFile:
    return msgspec.structs.replace(record, skipped=why)


def _name(record: ScannedFile) -> str:
    return PurePosixPath(record.path).name
