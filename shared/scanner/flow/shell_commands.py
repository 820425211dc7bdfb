"""What the programs of a shell script do with values: read, change, write, run, send."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from shared.scanner.flow.command_options import Options, read_options
from shared.scanner.flow.sources import command_source, variable_source
from shared.scanner.flow.values import EMPTY, HOLE, UNKNOWN, Location, Value, constant, from_source, joined

if TYPE_CHECKING:
    from shared.scanner.flow.shell import Shell

CommandHandler = Callable[["CommandCall"], Value]


class CommandCall(msgspec.Struct):
    shell: Shell
    name: str
    arguments: list[Value]
    stdin: Value

    @property
    def at(self) -> Location:
        return self.shell.at

    def options(self, with_value: str = "", long_with_value: Iterable[str] = ()) -> Options:
        return read_options(self.arguments, with_value, frozenset(long_with_value))

    def source(self) -> Value | None:
        """What the command prints, if its words say that it prints a secret."""
        found = command_source([self.name, *(argument.text for argument in self.arguments)])
        return from_source(found, self.at) if found else None

    def content(self, paths: Iterable[Value]) -> Value:
        """The files, or the standard input where there are none."""
        paths = [path for path in paths if path.text != "-"]
        return joined([self.shell.read(path) for path in paths], "\n") if paths else self.stdin


# Filters: what they print is what they read

_CHANGES = {
    *("base64", "base32", "xxd", "od", "hexdump", "gzip", "bzip2", "xz", "zstd", "openssl", "gpg", "age", "uuencode"),
    *("basenc", "pigz", "lz4", "ccrypt", "rot13"),
}
_SUMMARIES = {
    "wc",
    "sha256sum",
    "sha1sum",
    "md5sum",
    "shasum",
    "md5",
    "cksum",
    "sha512sum",
    "b2sum",
    "stat",
    "file",
    "du",
}


_LETTERS = {
    "head": "nc",
    "tail": "nc",
    "cut": "dfcb",
    "sort": "tko",
    "awk": "Ffv",
    "sed": "ef",
    "fold": "w",
    "paste": "d",
}
_LETTERS |= {"xxd": "lcs", "od": "AtNj", "strings": "n", "uniq": "fsw", "perl": "eE", "column": "st", "nl": "bsw"}


def _filter(call: CommandCall) -> Value:
    options = call.options(_LETTERS.get(call.name, ""), ("--lines", "--bytes", "--delimiter", "--fields", "--arg"))
    content = call.content(_paths(call.name, options))
    if call.name in _CHANGES:
        return content.through(call.at.step(call.name)) if content.origins else content
    return content


def _paths(name: str, options: Options) -> list[Value]:
    """The arguments that are files: not the program of sed or the pattern of grep."""
    words = options.words
    first_is_program = name in ("sed", "awk", "gawk", "mawk", "jq", "yq", "grep", "egrep", "fgrep", "rg", "ag", "perl")
    skipped = 1 if first_is_program and not options.has("-e", "-f", "--regexp", "--expression") else 0
    return [] if name == "tr" else words[skipped:]


def _base64(call: CommandCall) -> Value:
    options = call.options("wbio", ("--wrap", "--input", "--output"))
    content = call.content([*options.words, *options.get("-i", "--input")])
    if options.has("-d", "-D", "--decode") and content.is_known:
        return constant(_decoded(content.text))
    encoded = content.through(call.at.step("base64")) if content.origins else UNKNOWN
    for target in options.get("-o", "--output"):
        call.shell.write(target, encoded)
    return encoded


def _decoded(text: str) -> str:
    compact = "".join(text.split())
    try:
        return base64.b64decode(compact + "=" * (-len(compact) % 4)).decode()
    except (ValueError, binascii.Error):
        return HOLE


def openssl(call: CommandCall) -> Value:
    options = read_options(
        call.arguments[1:], "", frozenset({"-in", "-out", "-connect", "-k", "-pass", "-K", "-iv", "-inkey"})
    )
    command = call.arguments[0].text if call.arguments else ""
    if command in ("dgst", "sha256", "md5", "x509", "req", "verify", "rand", "version"):
        return UNKNOWN
    content = call.content(options.get("-in"))
    if command in ("base64", "enc") and content.is_known and options.has("-d") and not options.has("-k", "-pass"):
        return constant(_decoded(content.text))
    changed = content.through(call.at.step("openssl")) if content.origins else UNKNOWN
    for target in options.get("-out"):
        call.shell.write(target, changed)
    return changed


def _summary(call: CommandCall) -> Value:
    return UNKNOWN


def _grep(call: CommandCall) -> Value:
    options = call.options("efmABCd", ("--regexp", "--file", "--include", "--exclude", "--exclude-dir"))
    if options.has("-q", "-c", "--quiet", "--count", "-l", "-L", "--files-with-matches"):
        return UNKNOWN
    paths = _paths("grep", options)
    if options.has("-r", "-R", "--recursive") and not paths:
        paths = [constant(".")]
    return call.content(paths)


# Text


def _echo(call: CommandCall) -> Value:
    words = call.arguments
    while words and words[0].text in ("-n", "-e", "-E", "-ne", "-en"):
        words = words[1:]
    return joined(words, " ")


def _printf(call: CommandCall) -> Value:
    words = call.arguments[2:] if call.arguments and call.arguments[0].text == "--" else call.arguments
    if words and words[0].text == "-v":
        call.shell.assign(words[1].text if len(words) > 1 else "", joined(words[3:], " "))
        return EMPTY
    if not words:
        return EMPTY
    values = iter(words[1:])
    text = _FORMAT.sub(lambda match: "%" if match.group() == "%%" else next(values, EMPTY).text, words[0].text)
    return joined(words).with_text(text.replace("\\n", "\n"))


_FORMAT = re.compile(r"%%|%[-0-9.*]{0,10}[a-zA-Z]")


def _printenv(call: CommandCall) -> Value:
    names = [name for argument in call.arguments for name in argument.text.split()[:20] if not name.startswith("-")]
    found = [from_source(source, call.at) for name in names if (source := variable_source(name))]
    return joined(found, "\n") if found else call.source() or UNKNOWN


def _prints_source(call: CommandCall) -> Value:
    return call.source() or Value(HOLE, call.stdin.origins)


# Files


def _copy(call: CommandCall) -> Value:
    options = call.options("t", ("--target-directory",))
    *sources, target = options.words if len(options.words) > 1 else [*options.words, EMPTY]
    content = joined([call.shell.read(path) for path in sources], "\n")
    if target.text:
        call.shell.write(target, content)
        for source in sources:
            call.shell.write(target.with_text(f"{target.text.rstrip('/')}/{source.text.rpartition('/')[2]}"), content)
    return EMPTY


def _temporary(call: CommandCall) -> Value:
    """A name of its own for each place that makes one."""
    return constant(f"/tmp/made-{call.at.path.replace('/', '-')}-{call.at.line}")  # noqa: S108 - a name for what a script wrote


def _part_of_path(call: CommandCall) -> Value:
    path = next(iter(call.options("s").words), UNKNOWN)
    folder, _, name = path.text.rstrip("/").rpartition("/")
    return path.with_text({"basename": name, "dirname": folder or "."}.get(call.name, path.text))


def _tee(call: CommandCall) -> Value:
    for target in call.options().words:
        call.shell.write(target, call.stdin)
    return call.stdin


def _tar(call: CommandCall) -> Value:
    words = list(call.arguments)
    if words and not words[0].text.startswith("-") and re.fullmatch(r"[a-zA-Z]{1,8}", words[0].text):
        words[0] = words[0].with_text("-" + words[0].text)
    options = read_options(words, "fCTX", frozenset({"--file", "--directory", "--exclude", "--files-from"}))
    folders = options.get("-C", "--directory")
    paths = [_under(folder, path) for path in options.words for folder in (folders or [EMPTY])]
    packed = joined([call.shell.read(path) for path in paths], "\n")
    listed = [call.stdin] if options.has("-T") else []
    packed = packed.plus([call.shell.read(one) for one in listed])
    packed = packed.through(call.at.step("tar")) if packed.origins else UNKNOWN
    targets = [target for target in options.get("-f", "--file") if target.text != "-"]
    for target in targets:
        call.shell.write(target, packed)
    return UNKNOWN if targets else packed


def _under(folder: Value, path: Value) -> Value:
    if not folder.text or path.text.startswith(("/", "~")):
        return path
    return joined([folder, path], "/") if path.text not in (".", "./") else folder


def _zip(call: CommandCall) -> Value:
    options = call.options("Pxi", ("--password",))
    words = options.words[1:] if call.name in ("7z", "7za", "rar") else options.words
    if not words:
        return UNKNOWN
    packed = joined([call.shell.read(path) for path in words[1:]], "\n")
    packed = packed.through(call.at.step(call.name)) if packed.origins else UNKNOWN
    call.shell.write(words[0], packed)
    call.shell.write(words[0].with_text(words[0].text + ".zip"), packed)
    return packed if words[0].text == "-" else EMPTY


def _dd(call: CommandCall) -> Value:
    named = dict(split_value(argument, "=") for argument in call.arguments if "=" in argument.text)
    content = call.shell.read(named["if"]) if "if" in named else call.stdin
    if "of" in named:
        call.shell.write(named["of"], content)
        return EMPTY
    return content


def split_value(value: Value, separator: str) -> tuple[str, Value]:
    name, _, rest = value.text.partition(separator)
    return name, value.with_text(rest)


def _gzip(call: CommandCall) -> Value:
    options = call.options("S")
    if options.has("-c", "--stdout") or not options.words:
        return _filter(call)
    for path in options.words:
        content = call.shell.read(path)
        if content.origins:
            suffix = {"bzip2": ".bz2", "xz": ".xz", "zstd": ".zst"}.get(call.name, ".gz")
            call.shell.write(path.with_text(path.text + suffix), content.through(call.at.step(call.name)))
    return EMPTY


def _gpg(call: CommandCall) -> Value:
    options = call.options("our", ("--output", "--recipient", "--passphrase", "--passphrase-file", "--cipher-algo"))
    if (secret := call.source()) is not None:
        return secret
    content = call.content(options.words)
    changed = content.through(call.at.step(call.name)) if content.origins else UNKNOWN
    targets = options.get("-o", "--output")
    default = [path.with_text(path.text + ".gpg") for path in options.words]
    for target in targets or default:
        call.shell.write(target, changed)
    return UNKNOWN if targets else changed


def _sqlite(call: CommandCall) -> Value:
    words = call.options("", ("-cmd", "-separator")).words
    return call.shell.read(words[0]) if words else UNKNOWN


def _ls(call: CommandCall) -> Value:
    """Names of files, as paths that a following command reads."""
    words = call.options("I").words or [constant(".")]
    source = call.source()
    return joined([word.with_text(word.text.rstrip("/")) for word in words], "\n").plus([source] if source else [])


def named(handler: CommandHandler, names: str) -> dict[str, CommandHandler]:
    return dict.fromkeys(names.split(), handler)


COMMANDS: dict[str, CommandHandler] = {
    **named(
        _filter, "cat head tail sort uniq tr cut sed awk gawk mawk jq yq tac rev paste column fold nl strings iconv"
    ),
    **named(_filter, "xxd od hexdump base32 basenc uuencode zcat gunzip pv expand unexpand perl shuf less more bat"),
    **named(_filter, "plutil csvcut dos2unix unix2dos envsubst"),
    **named(_summary, " ".join(sorted(_SUMMARIES))),
    **named(_gzip, "gzip bzip2 xz zstd pigz lz4"),
    **named(_grep, "grep egrep fgrep rg ag zgrep"),
    **named(_base64, "base64"),
    **named(openssl, "openssl"),
    **named(_echo, "echo print"),
    **named(_printf, "printf"),
    **named(_printenv, "printenv"),
    **named(_prints_source, "gh-auth security secret-tool op pass bw vault hostname whoami id uname history"),
    **named(_copy, "cp mv ln install ditto"),
    **named(_temporary, "mktemp"),
    **named(_part_of_path, "basename dirname realpath readlink"),
    **named(_tee, "tee sponge"),
    **named(_tar, "tar bsdtar gtar"),
    **named(_zip, "zip 7z 7za rar"),
    **named(_dd, "dd"),
    **named(_gpg, "gpg gpg2 age ccrypt"),
    **named(_sqlite, "sqlite3"),
    **named(_ls, "ls"),
}
