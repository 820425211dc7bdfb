"""What the built-in functions of JavaScript and the modules of Node do with values."""

from collections.abc import Callable

from shared.scanner.flow import folding
from shared.scanner.flow.expressions import Call
from shared.scanner.flow.interpreter import Handler, Interpreter, named
from shared.scanner.flow.methods import METHODS
from shared.scanner.flow.objects import (
    UNKNOWN,
    Obj,
    as_text,
    concatenated,
    element_of,
    elements,
    join,
    list_of,
    merged,
    origins_in,
    text_of,
    texts_of,
)
from shared.scanner.flow.operations import GLIMPSE, store_item
from shared.scanner.flow.program_commands import run_command
from shared.scanner.flow.python_files import opened, read_file, write_file
from shared.scanner.flow.python_library import encoding
from shared.scanner.flow.values import HOLE, Source, SourceKind, from_source

_DECODERS = {"base64": folding.from_base64, "base64url": folding.from_base64, "hex": folding.from_hex}


# Encodings


def _keeps(run: Interpreter, call: Call) -> Obj:
    return Obj(origins=merged(*(origins_in(value) for value in call.everything())))


def _drops(run: Interpreter, call: Call) -> Obj:
    return UNKNOWN


def _same(run: Interpreter, call: Call) -> Obj:
    return call.argument(0)


def _decoding(decode: Callable[[bytes], bytes | str]) -> Handler:
    def handler(run: Interpreter, call: Call) -> Obj:
        decoded = folding.computed(call.argument(0), decode)
        return Obj(tuple(as_text(text) for text in decoded.constants), decoded.origins)

    return handler


def _buffer(run: Interpreter, call: Call) -> Obj:
    """`Buffer.from(text, "base64")`, `Buffer.from([104, 116])`"""
    decode = _DECODERS.get(text_of(call.argument(1)))
    if decode is not None:
        return _decoding(decode)(run, call)
    return _from_codes(call.argument(0)) or call.argument(0)


def _from_codes(value: Obj) -> Obj | None:
    codes = [item.constants[0] for item in elements(value) or () if len(item.constants) == 1]
    if not codes or not all(isinstance(code, int) and 0 <= code < 0x110000 for code in codes):
        return None
    return Obj(("".join(chr(code) for code in codes if isinstance(code, int)),))


def _characters(run: Interpreter, call: Call) -> Obj:
    """`String.fromCharCode(104, 116)`"""
    made = _from_codes(list_of(call.arguments))
    return made if made is not None else _keeps(run, call)


def _to_string(run: Interpreter, call: Call) -> Obj:
    target = call.target or UNKNOWN
    encoding = text_of(call.argument(0))
    origins = origins_in(target)
    if encoding in _DECODERS:
        return Obj(origins=tuple(origin.then(call.at.step(encoding)) for origin in origins))
    return Obj(tuple(as_text(constant) for constant in target.constants), origins)


def _number(run: Interpreter, call: Call) -> Obj:
    return folding.whole_numbers(call.argument(0), call.argument(1))


# Objects and arrays


def _entries(run: Interpreter, call: Call) -> Obj:
    value = call.argument(0)
    pairs = [list_of([Obj((key,)) if key != HOLE else UNKNOWN, item]) for key, item in (value.items or {}).items()]
    if value.origins:
        pairs.append(list_of([Obj(origins=value.origins)] * 2))
    return list_of(pairs)


def _keys(run: Interpreter, call: Call) -> Obj:
    value = call.argument(0)
    made = list_of([Obj((key,)) for key in value.items or {} if key != HOLE])
    return made if not value.origins else list_of([Obj(origins=value.origins)])


def _values(run: Interpreter, call: Call) -> Obj:
    value = call.argument(0)
    return list_of([*(value.items or {}).values(), *([Obj(origins=value.origins)] if value.origins else [])])


def _assign(run: Interpreter, call: Call) -> Obj:
    target = call.argument(0)
    for value in call.arguments[1:]:
        target.origins = merged(target.origins, value.origins)
        for key, item in (value.items or {}).items():
            store_item(target, Obj((key,)), item)
    return target


def _from_entries(run: Interpreter, call: Call) -> Obj:
    made = Obj(items={}, origins=call.argument(0).origins)
    for pair in elements(call.argument(0)) or [element_of(call.argument(0))]:
        parts = elements(pair) or [UNKNOWN, pair]
        store_item(made, parts[0], parts[1] if len(parts) > 1 else UNKNOWN)
    return made


def _array_of(run: Interpreter, call: Call) -> Obj:
    value = call.argument(0)
    made = list_of(run.iterated(value))
    return _mapped(run, made, call.argument(1), call) if call.argument(1).code is not None else made


def _mapped(run: Interpreter, target: Obj, function: Obj, call: Call) -> Obj:
    return list_of([run.call_back(function, [value, UNKNOWN], call) for value in run.iterated(target)])


def _map(run: Interpreter, call: Call) -> Obj:
    return _mapped(run, call.target or UNKNOWN, call.argument(0), call)


def _flat_map(run: Interpreter, call: Call) -> Obj:
    made = _map(run, call)
    return list_of([item for value in elements(made) or () for item in elements(value) or [value]])


def _for_each(run: Interpreter, call: Call) -> Obj:
    _map(run, call)
    return call.target or UNKNOWN


def _reduce(run: Interpreter, call: Call) -> Obj:
    """The result so far is handed to the next round."""
    result = call.argument(1)
    for value in run.iterated(call.target or UNKNOWN):
        result = join([result, run.call_back(call.argument(0), [result, value], call)])
    return result


def _then(run: Interpreter, call: Call) -> Obj:
    """A promise is followed as the value that it becomes."""
    if call.argument(0).code is None:
        return call.target or UNKNOWN
    return run.call_back(call.argument(0), [call.target or UNKNOWN], call)


def _encrypted(run: Interpreter, call: Call) -> Obj:
    """`cipher.update(text)`; a digest is made by an object that keeps nothing."""
    target = call.target or UNKNOWN
    return _keeps(run, call) if "ipher" in target.ref else Obj(origins=origins_in(target))


def _reversed(run: Interpreter, call: Call) -> Obj:
    known = elements(call.target or UNKNOWN)
    return list_of(known[::-1]) if known is not None else call.target or UNKNOWN


def _part(run: Interpreter, call: Call) -> Obj:
    """`text.slice(a, b)`, `list.slice(a)`"""
    target = call.target or UNKNOWN
    bounds = [value.constants[0] if value.constants else None for value in call.arguments[:2]]
    numbers = [bound for bound in bounds if isinstance(bound, int)]
    if len(numbers) < len(bounds) or not numbers:
        return Obj(origins=origins_in(target))
    part = slice(numbers[0], numbers[1] if len(numbers) > 1 else None)
    known = elements(target)
    if known is not None:
        return list_of(known[part])
    is_glimpse = numbers[0] in range(-GLIMPSE, 0) or (numbers[0] == 0 and numbers[-1] in range(1, GLIMPSE + 1))
    return Obj(tuple(text[part] for text in texts_of(target)), () if is_glimpse else origins_in(target))


def _concat(run: Interpreter, call: Call) -> Obj:
    target = call.target or UNKNOWN
    known = elements(target)
    if known is None:
        return concatenated([target, *call.arguments])
    return list_of([*known, *(item for value in call.arguments for item in elements(value) or [value])])


def _join(run: Interpreter, call: Call) -> Obj:
    """`parts.join(",")`, the other way round than in Python."""
    separator = call.argument(0) if call.arguments else Obj((",",))
    parts = elements(call.target or UNKNOWN)
    if parts is None:
        return Obj(origins=origins_in(call.target or UNKNOWN))
    return concatenated([piece for part in parts for piece in (separator, part)][1:])


def _split(run: Interpreter, call: Call) -> Obj:
    target = call.target or UNKNOWN
    if text_of(call.argument(0)) == "" and len(target.constants) == 1:
        return list_of([Obj((letter,)) for letter in as_text(target.constants[0])])
    return METHODS["split"](target, call)


def _code_at(run: Interpreter, call: Call) -> Obj:
    target, at = call.target or UNKNOWN, call.argument(0).constants or (0,)
    text = text_of(target)
    index = at[0]
    return (
        Obj((ord(text[index]),)) if isinstance(index, int) and 0 <= index < len(text) else Obj(origins=target.origins)
    )


# Files and paths


def _path(run: Interpreter, call: Call) -> Obj:
    joined = call.arguments[0] if call.arguments else UNKNOWN
    for part in call.arguments[1:]:
        joined = run.path_joined(joined, part)
    return joined


def _read(run: Interpreter, call: Call) -> Obj:
    """Also with a function that gets the error and the content."""
    content = read_file(run, call.argument(0), call.at)
    for function in (value for value in call.arguments if value.code is not None):
        run.call_back(function, [UNKNOWN, content], call)
    return content


def _open(run: Interpreter, call: Call) -> Obj:
    return opened(run, call.argument(0), "r", call.at)


def _write(run: Interpreter, call: Call) -> Obj:
    write_file(run, call.argument(0), call.argument(1), call.at)
    return UNKNOWN


def _copy(run: Interpreter, call: Call) -> Obj:
    write_file(run, call.argument(1), read_file(run, call.argument(0), call.at), call.at)
    return UNKNOWN


def _folder(run: Interpreter, call: Call) -> Obj:
    return list_of([Obj((HOLE,))])


def _fact(run: Interpreter, call: Call) -> Obj:
    return Obj(origins=from_source(Source(SourceKind.FACTS, "facts about the machine"), call.at).origins)


def _secret(name: str) -> Handler:
    def handler(run: Interpreter, call: Call) -> Obj:
        return Obj(origins=from_source(Source(SourceKind.CREDENTIAL, name), call.at).origins)

    return handler


# Programs


def _command(run: Interpreter, call: Call) -> Obj:
    """A command line, or a program with its arguments; the output goes to the result and to a function."""
    words = elements(call.argument(1))
    command = list_of([call.argument(0), *words]) if words is not None else call.argument(0)
    output = run_command(run, command, UNKNOWN, call)
    for function in (value for value in call.arguments if value.code is not None):
        run.call_back(function, [UNKNOWN, output, output], call)
    return Obj(output.constants, output.origins)


def _print(run: Interpreter, call: Call) -> Obj:
    run.printed += call.arguments[:20]
    return UNKNOWN


FUNCTIONS = named(
    (encoding("base64"), "btoa"),
    (_decoding(folding.from_base64), "atob"),
    (encoding("JSON"), "JSON.stringify qs.stringify querystring.stringify"),
    (encoding("compressed"), "zlib.gzipSync zlib.deflateSync zlib.brotliCompressSync gzipSync deflateSync"),
    (_decoding(folding.inflated), "zlib.gunzipSync zlib.inflateSync gunzipSync inflateSync"),
    (_decoding(folding.unquoted), "decodeURIComponent unescape decodeURI"),
    (_same, "encodeURIComponent encodeURI escape String Promise.resolve promisify util.promisify structuredClone"),
    (_same, "path.resolve path.normalize path.dirname fileURLToPath url.fileURLToPath"),
    (_keeps, "JSON.parse yaml.load yaml.parse dotenv.parse URLSearchParams Blob File Uint8Array TextEncoder().encode"),
    (_keeps, "util.inspect Buffer.concat TextDecoder().decode"),
    (_drops, "Boolean createHash Number.isInteger Array.isArray"),
    (_buffer, "Buffer.from Buffer"),
    (_characters, "String.fromCharCode String.fromCodePoint"),
    (_number, "parseInt Number parseFloat"),
    (_entries, "Object.entries"),
    (_keys, "Object.keys Object.getOwnPropertyNames"),
    (_values, "Object.values Promise.all Promise.allSettled Promise.race"),
    (_assign, "Object.assign"),
    (_from_entries, "Object.fromEntries Map"),
    (_array_of, "Array.from Set"),
    (_path, "path.join path.resolve posix.join"),
    (lambda run, call: Obj(("~",)), "os.homedir homedir"),
    (lambda run, call: Obj(("/tmp",)), "os.tmpdir tmpdir"),  # noqa: S108 - a name in the program that is read
    (lambda run, call: Obj((".",)), "process.cwd"),
    (_read, "readFileSync readFile fs.readFileSync fs.readFile Bun.file Deno.readTextFile Deno.readTextFileSync"),
    (_read, "fse.readJson readJsonSync readJSONSync Deno.readFile"),
    (_open, "createReadStream fs.createReadStream"),
    (_write, "writeFileSync writeFile appendFileSync appendFile fs.writeFileSync fs.writeFile Bun.write"),
    (_copy, "copyFileSync copyFile cpSync renameSync fs.copyFileSync fs.cpSync fs.renameSync"),
    (_folder, "readdirSync readdir fs.readdirSync fs.readdir"),
    (lambda run, call: list_of([call.argument(0)]), "glob.sync globSync fg.sync globby.sync glob fast-glob.sync"),
    (_fact, "os.hostname os.userInfo os.networkInterfaces os.platform os.release hostname userInfo"),
    (_secret("the keyring"), "keytar.getPassword keytar.findCredentials"),
    (_secret("the clipboard"), "clipboardy.readSync clipboardy.read navigator.clipboard.readText"),
    (_command, "exec execSync spawn spawnSync execFile execFileSync execa execaCommand shell.exec execAsync"),
    (_command, "child_process.exec child_process.execSync child_process.spawn child_process.spawnSync"),
    (_command, "child_process.execFile child_process.execFileSync Bun.spawn Bun.spawnSync"),
    (_print, "console.log process.stdout.write"),
)  # fmt: skip
JS_METHODS = named(
    (_to_string, "toString toLocaleString"),
    (_map, "map"),
    (_flat_map, "flatMap"),
    (_for_each, "forEach filter find some every"),
    (_reduce, "reduce"),
    (_then, "then finally"),
    (_reversed, "reverse"),
    (_encrypted, "update encrypt"),
    (_part, "slice substring substr subarray"),
    (_concat, "concat"),
    (_join, "join"),
    (_split, "split"),
    (_code_at, "charCodeAt codePointAt"),
)
PYTHON_NAMES = {
    "push": "append",
    "unshift": "append",
    "append": "append",
    "set": "append",
    "add": "append",
    "trim": "strip",
    "trimEnd": "rstrip",
    "trimStart": "lstrip",
    "toLowerCase": "lower",
    "toUpperCase": "upper",
    "replaceAll": "replace",
    "replace": "replace",
    "get": "get",
    "padEnd": "ljust",
    "padStart": "rjust",
}
