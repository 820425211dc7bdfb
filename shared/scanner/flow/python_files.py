"""Paths and files of a Python program: what it reads from them, and what it puts into them."""

import re

from shared.scanner.flow.expressions import Call
from shared.scanner.flow.interpreter import Handler, Interpreter, named
from shared.scanner.flow.methods import call_method
from shared.scanner.flow.objects import (
    UNKNOWN,
    Obj,
    as_values,
    concatenated,
    from_value,
    join,
    list_of,
    merged,
    origins_in,
    text_of,
    texts_of,
)
from shared.scanner.flow.values import HOLE, Location

_HOME = re.compile(r"\$\{?HOME\}?|%USERPROFILE%")
FILE = "file()"
ARCHIVE = "archive()"
PATH = "path of the file"
BUFFER = "buffer of the archive"


# Paths


def _path(run: Interpreter, call: Call) -> Obj:
    """`Path(a, b)`, `os.path.join(a, b)`"""
    joined = call.arguments[0] if call.arguments else Obj((".",))
    for part in call.arguments[1:]:
        joined = run.path_joined(joined, part)
    return joined


def _method_path(run: Interpreter, call: Call) -> Obj:
    """`folder.joinpath(a)`, and `folder.glob(pattern)`, which yields several."""
    joined = call.target or UNKNOWN
    for part in call.arguments:
        joined = run.path_joined(joined, part)
    return joined


def _globbed(run: Interpreter, call: Call) -> Obj:
    """`**` stands for the folders between, also where the method says it."""
    if call.method == "rglob":
        below = run.path_joined(call.target or UNKNOWN, Obj(("**",)))
        return list_of([run.path_joined(below, call.argument(0))])
    return list_of([_method_path(run, call)])


def _children(run: Interpreter, call: Call) -> Obj:
    return list_of([run.path_joined(call.target or call.argument(0), Obj((HOLE,)))])


def _first(run: Interpreter, call: Call) -> Obj:
    return call.argument(0)


def _first_as_list(run: Interpreter, call: Call) -> Obj:
    return list_of([call.argument(0)])


def _expanded(run: Interpreter, call: Call) -> Obj:
    value = call.argument(0)
    return Obj(tuple(_HOME.sub("~", text) for text in texts_of(value)), value.origins)


def _walk(run: Interpreter, call: Call) -> Obj:
    """Folder, names of folders, names of files."""
    top = run.path_joined(call.argument(0), Obj(("**",)))
    return list_of([list_of([top, list_of([Obj((HOLE,))]), list_of([Obj((HOLE,))])])])


def _named_files(run: Interpreter, call: Call) -> Obj:
    return list_of([Obj((HOLE,))])


# Files


def read_file(run: Interpreter, path: Obj, at: Location) -> Obj:
    return join([from_value(run.tracker.read_file(value, at)) for value in as_values(path)])


def write_file(run: Interpreter, path: Obj, content: Obj, at: Location) -> None:
    for value in as_values(path):
        for text in as_values(content)[:1]:
            run.tracker.write_file(value, text, at)


def _open(run: Interpreter, call: Call) -> Obj:
    path = call.argument(0, "file", "path") if call.arguments or call.named else UNKNOWN
    mode = text_of(call.argument(1, "mode"))
    return opened(run, path, mode, call.at)


def opened(run: Interpreter, path: Obj, mode: str, at: Location) -> Obj:
    content = UNKNOWN if mode[:1] in ("w", "x") else read_file(run, path, at)
    return Obj(origins=content.origins, ref=FILE, items={PATH: path, "name": path})


def _open_path(run: Interpreter, call: Call) -> Obj:
    return opened(run, call.target or UNKNOWN, text_of(call.argument(0, "mode")), call.at)


def _read_path(run: Interpreter, call: Call) -> Obj:
    target = call.target or UNKNOWN
    return Obj(origins=origins_in(target)) if _is_file(target) else read_file(run, target, call.at)


def _write(run: Interpreter, call: Call) -> Obj:
    """Into an open file, a buffer, an archive, or a path with `write_text`."""
    target = call.target or UNKNOWN
    if call.method in ("write_text", "write_bytes"):
        write_file(run, target, call.argument(0), call.at)
    elif target.ref == ARCHIVE and call.method != "writestr":
        _add_file(run, call)
    else:
        _put(run, target, Obj(origins=merged(*(origins_in(value) for value in call.everything()))), call.at)
    return UNKNOWN


def _put(run: Interpreter, target: Obj, content: Obj, at: Location) -> None:
    if target is UNKNOWN:
        return
    target.origins = merged(target.origins, content.origins)
    items = target.items or {}
    if PATH in items:
        write_file(run, items[PATH], content, at)
    if BUFFER in items:
        _put(run, items[BUFFER], content, at)


def _dump(run: Interpreter, call: Call) -> Obj:
    """`json.dump(data, file)`"""
    file = call.argument(1, "fp", "file", "stream")
    if _is_file(file):
        file.origins = merged(file.origins, origins_in(call.argument(0)))
        write_file(run, (file.items or {}).get(PATH, UNKNOWN), call.argument(0), call.at)
        return UNKNOWN
    return Obj(origins=origins_in(call.argument(0)))


def _is_file(value: Obj) -> bool:
    return value.items is not None and PATH in value.items


def _temporary(run: Interpreter, call: Call) -> Obj:
    path = Obj((f"/tmp/{call.at.path}:{call.at.line}",))  # noqa: S108 - a name for a file of the program that is read
    if call.method in ("mktemp", "mkdtemp", "gettempdir", "TemporaryDirectory"):
        return path
    return list_of([path, path]) if call.method == "mkstemp" else Obj(ref=FILE, items={PATH: path, "name": path})


def _compressed(run: Interpreter, call: Call) -> Obj:
    """What is written to it is content, not the path of a file."""
    target = call.named.get("fileobj") or call.argument(0, "filename")
    if not target.constants:
        return Obj(origins=target.origins, ref=FILE, items={BUFFER: target})
    return opened(run, target, text_of(call.argument(1, "mode")), call.at)


def _archive(run: Interpreter, call: Call) -> Obj:
    """A zip or tar file on disk or in a buffer."""
    target = call.named.get("fileobj") or call.argument(0, "name", "file", "filename")
    if not target.constants:
        return Obj(origins=target.origins, ref=ARCHIVE, items={BUFFER: target})
    file = opened(run, target, text_of(call.argument(1, "mode")), call.at)
    return Obj(origins=file.origins, ref=ARCHIVE, items=file.items)


def _add_file(run: Interpreter, call: Call) -> Obj:
    """`archive.write(path)`, `archive.add(path)`: what the file holds goes into the archive."""
    path = call.argument(0, "name", "filename", "arcname")
    if call.target is not None and call.target.ref == ARCHIVE:
        _put(run, call.target, Obj(origins=read_file(run, path, call.at).origins), call.at)
        return UNKNOWN
    return call_method(call.target or UNKNOWN, call) or UNKNOWN


def _make_archive(run: Interpreter, call: Call) -> Obj:
    kind = text_of(call.argument(1, "format"))
    ending = {"gztar": ".tar.gz", "bztar": ".tar.bz2", "xztar": ".tar.xz"}.get(kind, f".{kind}")
    made = concatenated([call.argument(0, "base_name"), Obj((ending,))])
    content = read_file(run, call.argument(2, "root_dir", "base_dir"), call.at)
    write_file(run, made, content, call.at)
    return Obj(made.constants, content.origins)


def _copy_file(run: Interpreter, call: Call) -> Obj:
    write_file(run, call.argument(1, "dst"), read_file(run, call.argument(0, "src"), call.at), call.at)
    return call.argument(1, "dst")


def _read_named(run: Interpreter, call: Call) -> Obj:
    """A function that is given a path and returns what the file holds, for files of any format."""
    given = call.argument(0)
    found = Obj(origins=origins_in(given)) if _is_file(given) or not given.constants else read_file(run, given, call.at)
    return Obj(origins=found.origins, ref="" if found.origins else f"{call.ref}()")


def _read_config(run: Interpreter, call: Call) -> Obj:
    """`parser.read(path)` of configparser changes the parser."""
    target = call.target or UNKNOWN
    if call.arguments and texts_of(call.arguments[0]) and target.ref.startswith("configparser"):
        target.origins = merged(target.origins, read_file(run, call.arguments[0], call.at).origins)
        return UNKNOWN
    return _read_path(run, call) if _is_file(target) else Obj(origins=origins_in(target))


def _buffer(run: Interpreter, call: Call) -> Obj:
    return Obj(origins=origins_in(call.argument(0)), ref=FILE, items={})


FILE_FUNCTIONS = named(
    (_path, "Path PurePath PosixPath os.path.join path.join"),
    (lambda run, call: Obj(("~",)), "Path.home"),
    (lambda run, call: Obj((".",)), "Path.cwd os.getcwd"),
    (_expanded, "path.expanduser path.expandvars"),
    (_first, "path.abspath path.realpath path.normpath os.fspath"),
    (_first_as_list, "glob.glob glob.iglob"),
    (_walk, "os.walk"),
    (_named_files, "os.listdir"),
    (_children, "os.scandir"),
    (_open, "open io.open codecs.open aiofiles.open os.fdopen gzip.open"),
    (_dump, "json.dump pickle.dump yaml.dump yaml.safe_dump toml.dump"),
    (_read_named, "sqlite3.connect pandas.read_csv pd.read_csv dotenv_values dotenv.dotenv_values linecache.getlines"),
    (_read_named, "netrc.netrc RSAKey.from_private_key_file np.fromfile"),
    (_temporary, "NamedTemporaryFile TemporaryFile SpooledTemporaryFile mkstemp mktemp mkdtemp gettempdir"),
    (_temporary, "TemporaryDirectory"),
    (_buffer, "StringIO BytesIO"),
    (_archive, "zipfile.ZipFile tarfile.open ZipFile TarFile"),
    (_compressed, "gzip.GzipFile GzipFile bz2.BZ2File lzma.LZMAFile"),
    (_make_archive, "shutil.make_archive"),
    (_copy_file, "shutil.copy shutil.copy2 shutil.copyfile shutil.copytree shutil.move os.rename os.replace os.link"),
)
FILE_METHODS: dict[str, Handler] = named(
    (_read_path, "read_text read_bytes"),
    (_read_config, "read"),
    (_open_path, "open"),
    (_method_path, "joinpath"),
    (_globbed, "glob rglob"),
    (_children, "iterdir"),
    (_write, "write write_text write_bytes writelines writestr set_content attach add_attachment set_payload"),
    (_add_file, "add"),
)
