"""What the functions of Python's library do with values: they read sources, encode, decode, and handle files."""

from collections.abc import Callable

from shared.scanner.flow import folding
from shared.scanner.flow.expressions import Call
from shared.scanner.flow.interpreter import Handler, Interpreter, named
from shared.scanner.flow.objects import (
    UNKNOWN,
    Obj,
    as_text,
    elements,
    from_value,
    join,
    list_of,
    merged,
    origins_in,
    text_of,
    texts_of,
)
from shared.scanner.flow.python_files import PATH
from shared.scanner.flow.settings import settings_in
from shared.scanner.flow.sources import ENVIRONMENT
from shared.scanner.flow.values import Location, Source, SourceKind, Value, from_source

PARTIAL = "functools.partial()"
HOME_VARIABLES = {"HOME", "USERPROFILE"}


# Sources


def variable(run: Interpreter, name: Obj, default: Obj, at: Location) -> Obj:
    """An environment variable. A name that itself comes from the environment names any of its secrets."""
    found = [default, *(_variable(run, text, at) for text in texts_of(name))]
    if name.origins:
        found.append(Obj(origins=name.origins))
    return join(found)


def _variable(run: Interpreter, name: str, at: Location) -> Obj:
    return Obj(("~",)) if name in HOME_VARIABLES else from_value(run.tracker.variable(name, at))


def environment(at: Location) -> Obj:
    return Obj(ref="os.environ", origins=from_source(ENVIRONMENT, at).origins)


def _getenv(run: Interpreter, call: Call) -> Obj:
    return variable(run, call.argument(0, "key"), call.argument(1, "default"), call.at)


def _environ_copy(run: Interpreter, call: Call) -> Obj:
    return environment(call.at)


def _secret(name: str) -> Handler:
    def handler(run: Interpreter, call: Call) -> Obj:
        return from_value(from_source(Source(SourceKind.CREDENTIAL, name), call.at))

    return handler


def _fact(run: Interpreter, call: Call) -> Obj:
    return from_value(from_source(Source(SourceKind.FACTS, "facts about the machine"), call.at))


# Encodings


def encoding(step: str) -> Handler:
    def handler(run: Interpreter, call: Call) -> Obj:
        origins = merged(*(origins_in(value) for value in call.everything()))
        return Obj(origins=tuple(origin.then(call.at.step(step)) for origin in origins))

    return handler


def _decoding(decode: Callable[[bytes], bytes | str]) -> Handler:
    def handler(run: Interpreter, call: Call) -> Obj:
        return folding.computed(call.argument(0), decode)

    return handler


def _codecs(run: Interpreter, call: Call) -> Obj:
    return folding.computed(call.argument(0), folding.decoder_named(text_of(call.argument(1, "encoding"))))


def _quote(run: Interpreter, call: Call) -> Obj:
    return Obj(call.argument(0).constants, origins_in(call.argument(0)))


def _keeps(run: Interpreter, call: Call) -> Obj:
    """Whatever it does with its arguments, the content is still in the result."""
    return Obj(origins=merged(*(origins_in(value) for value in call.everything())))


def _parsed(run: Interpreter, call: Call) -> Obj:
    """A file of settings that the skill ships is read as it is."""
    given = call.argument(0)
    path = (given.items or {}).get(PATH, given)
    shipped = run.tracker.runs(Value(text_of(path))) if texts_of(path) else None
    return settings_in(run.tracker.shipped[shipped]) if shipped and shipped.endswith(".json") else _keeps(run, call)


def _drops(run: Interpreter, call: Call) -> Obj:
    """A digest, a length, a yes or no: nothing of the content is left."""
    return UNKNOWN


# Built-in functions


def _text(run: Interpreter, call: Call) -> Obj:
    value = call.argument(0)
    return Obj(tuple(as_text(constant) for constant in value.constants), origins_in(value))


def _bytes(run: Interpreter, call: Call) -> Obj:
    """`bytes([104, 116])`, `bytearray(b"…")`"""
    value = call.argument(0)
    numbers = [item.constants[0] for item in elements(value) or () if len(item.constants) == 1]
    if numbers and all(isinstance(number, int) and 0 <= number < 256 for number in numbers):
        return Obj((bytes(number for number in numbers if isinstance(number, int)),))
    return Obj(value.constants if texts_of(value) else (), origins_in(value))


def _chr(run: Interpreter, call: Call) -> Obj:
    value = call.argument(0)
    characters = [chr(code) for code in value.constants if isinstance(code, int) and 0 <= code < 0x110000]
    return Obj(tuple(characters), value.origins)


def _ord(run: Interpreter, call: Call) -> Obj:
    value = call.argument(0)
    return Obj(tuple(ord(text) for text in value.constants if isinstance(text, str) and len(text) == 1), value.origins)


def _int(run: Interpreter, call: Call) -> Obj:
    return folding.whole_numbers(call.argument(0), call.argument(1, "base"))


def _list(run: Interpreter, call: Call) -> Obj:
    value = call.argument(0)
    items = dict(value.items) if value.items is not None else None
    return Obj(value.constants, value.origins, items, "", None, value.is_list)


def _dict(run: Interpreter, call: Call) -> Obj:
    made = _list(run, call)
    made.is_list = False
    if call.named:
        made.items = {**(made.items or {}), **call.named}
    return made if made.items is not None or made.origins else Obj(items={})


def _reversed(run: Interpreter, call: Call) -> Obj:
    value = call.argument(0)
    known = elements(value)
    if known is not None:
        return list_of(known[::-1])
    return Obj(tuple(text[::-1] for text in texts_of(value)), origins_in(value))


def _zip(run: Interpreter, call: Call) -> Obj:
    columns = [elements(value) for value in call.arguments]
    if columns and all(column is not None for column in columns):
        return list_of(list_of(row) for row in zip(*(column or [] for column in columns), strict=False))
    return list_of([list_of([Obj(origins=origins_in(value)) for value in call.arguments])])


def _enumerate(run: Interpreter, call: Call) -> Obj:
    return list_of(list_of([Obj((at,)), value]) for at, value in enumerate(run.iterated(call.argument(0))))


def _map(run: Interpreter, call: Call) -> Obj:
    function, values = call.argument(0), call.argument(1)
    if function.code is not None:
        return list_of(run.call_back(function, [value], call) for value in run.iterated(values))
    results = []
    for value in run.iterated(values):
        inner = Call(call.scope, call.line, None, function.ref.rpartition(".")[2], function.ref)
        inner.arguments = [value]
        results.append(run.call(function, inner))
    return list_of(results)


def _filter(run: Interpreter, call: Call) -> Obj:
    return call.argument(1)


def _first(run: Interpreter, call: Call) -> Obj:
    return call.argument(0)


def _next(run: Interpreter, call: Call) -> Obj:
    return join(list(run.iterated(call.argument(0))))


def _print(run: Interpreter, call: Call) -> Obj:
    run.printed += call.arguments[:20]
    return UNKNOWN


def _getattr(run: Interpreter, call: Call) -> Obj:
    names = texts_of(call.argument(1))[:1]
    return run.member(call.argument(0), names[0], call.scope, call.line) if names else call.argument(2)


def _setattr(run: Interpreter, call: Call) -> Obj:
    target = call.argument(0)
    for name in texts_of(call.argument(1))[:1]:
        if target.items is not None:
            target.items[name] = call.argument(2)
    return UNKNOWN


def _import(run: Interpreter, call: Call) -> Obj:
    names = texts_of(call.argument(0, "name"))[:1]
    return run.imported(call.scope, names[0]) if names else UNKNOWN


def _names(run: Interpreter, call: Call) -> Obj:
    scope = call.scope.module if call.method == "globals" else call.scope
    return Obj(items=scope.names)


def _partial(run: Interpreter, call: Call) -> Obj:
    return Obj(
        ref="functools.partial()", items={"partial": list_of(call.arguments), "named": Obj(items=dict(call.named))}
    )


FUNCTIONS = named(
    (_getenv, "os.getenv os.environ.get os.environ.pop os.environ.setdefault environ.get getenv"),
    (_environ_copy, "os.environ.copy"),
    (_secret("the keyring"), "keyring.get_password keyring.get_credential"),
    (_secret("data encrypted by Windows"), "win32crypt.CryptUnprotectData"),
    (_secret("the clipboard"), "pyperclip.paste"),
    (_secret("cookies of the browser"), "browser_cookie3.chrome browser_cookie3.firefox browser_cookie3.load"),
    (_fact, "socket.gethostname getpass.getuser platform.node platform.platform platform.uname"),
    (encoding("base64"), "b64encode urlsafe_b64encode standard_b64encode encodebytes b2a_base64"),
    (encoding("encoded"), "b32encode b16encode b85encode a85encode"),
    (encoding("hex"), "hexlify b2a_hex"),
    (encoding("JSON"), "json.dumps orjson.dumps ujson.dumps msgpack.packb"),
    (encoding("serialized"), "pickle.dumps marshal.dumps yaml.dumps"),
    (encoding("compressed"), "zlib.compress gzip.compress bz2.compress lzma.compress brotli.compress"),
    (_decoding(folding.from_base64), "b64decode urlsafe_b64decode standard_b64decode a2b_base64 decodebytes"),
    (_decoding(folding.from_hex), "bytes.fromhex bytearray.fromhex unhexlify a2b_hex"),
    (_decoding(folding.inflated), "zlib.decompress gzip.decompress"),
    (_decoding(folding.from_bz2), "bz2.decompress"),
    (_decoding(folding.from_lzma), "lzma.decompress"),
    (_decoding(folding.unquoted), "parse.unquote unquote unquote_plus"),
    (_codecs, "codecs.decode codecs.encode"),
    (_quote, "quote quote_plus parse.quote parse.quote_plus shlex.quote html.escape"),
    (_parsed, "json.load json.loads"),
    (_keeps, "urlencode yaml.safe_load yaml.load toml.load tomllib.load tomllib.loads"),
    (_keeps, "csv.reader csv.DictReader pickle.load pickle.loads literal_eval MIMEText MIMEApplication MIMEBase"),
    (_keeps, "encrypt seal_box memoryview textwrap.wrap re.sub re.findall copy.deepcopy copy.copy"),
    (_keeps, "asyncio.gather asyncio.run asyncio.create_task asyncio.wait_for"),
    (_drops, "bool len type isinstance hash id any all callable hasattr max min sum"),
    (_text, "str repr ascii format"),
    (_bytes, "bytes bytearray"),
    (_chr, "chr"),
    (_ord, "ord"),
    (_int, "int"),
    (_list, "list tuple set frozenset sorted iter collections.OrderedDict"),
    (_dict, "dict"),
    (_reversed, "reversed"),
    (_zip, "zip"),
    (_enumerate, "enumerate"),
    (_map, "map"),
    (_filter, "filter"),
    (_next, "next"),
    (_print, "print sys.stdout.write"),
    (_getattr, "getattr"),
    (_setattr, "setattr"),
    (_import, "__import__ importlib.import_module import_module"),
    (_names, "globals locals vars"),
    (_partial, "functools.partial partial"),
    (_first, "compile textwrap.dedent"),
)
