"""Methods of strings, lists and dictionaries, by their names in Python."""

import re
from collections.abc import Callable

from shared.scanner.flow.expressions import Call
from shared.scanner.flow.folding import computed, decoder_named
from shared.scanner.flow.objects import (
    MAX_CONSTANTS,
    MAX_ITEMS,
    MAX_TEXT,
    UNKNOWN,
    Constant,
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
)
from shared.scanner.flow.operations import item_of, store_item
from shared.scanner.flow.values import HOLE

Method = Callable[[Obj, Call], Obj]
_FIELD = re.compile(r"\{([^{}]*)\}")


def call_method(target: Obj, call: Call) -> Obj | None:
    method = METHODS.get(call.method)
    return method(target, call) if method is not None else None


def _map_text(change: Callable[[str], str]) -> Method:
    def method(target: Obj, call: Call) -> Obj:
        changed = tuple(change(as_text(text)) for text in target.constants if isinstance(text, str | bytes))
        return Obj(changed, target.origins)

    return method


def _same(target: Obj, call: Call) -> Obj:
    return target


def _origins_only(target: Obj, call: Call) -> Obj:
    return Obj(origins=origins_in(target))


def _join(target: Obj, call: Call) -> Obj:
    """`",".join(parts)`"""
    given = call.argument(0)
    parts = elements(given)
    if parts is None:
        return Obj(origins=origins_in(given))
    separated = [piece for part in parts for piece in (target, part)][1:]
    return concatenated(separated)


def _format(target: Obj, call: Call) -> Obj:
    """`"{}/{name}".format(a, name=b)`"""
    text = text_of(target)
    parts, end, position = [], 0, 0
    for field in _FIELD.finditer(text):
        name = re.split(r"[.\[:!]", field[1])[0]
        value = call.named.get(name, UNKNOWN)
        if not name or name.isdecimal():
            value = call.argument(int(name) if name else position)
            position += 1
        parts += [Obj((text[end : field.start()],)), value]
        end = field.end()
    made = concatenated([*parts, Obj((text[end:],))])
    return Obj(made.constants, merged(made.origins, *(origins_in(value) for value in call.everything())))


def _replace(target: Obj, call: Call) -> Obj:
    old, new = call.argument(0), call.argument(1)
    if not (old.constants and new.constants):
        return Obj(origins=merged(target.origins, new.origins))
    a, b = as_text(old.constants[0]), as_text(new.constants[0])
    changed = tuple(as_text(text)[:MAX_TEXT].replace(a, b)[:MAX_TEXT] for text in target.constants if a)
    return Obj(changed, merged(target.origins, new.origins))


def _split(target: Obj, call: Call) -> Obj:
    separator = call.argument(0)
    if not target.constants or not isinstance(target.constants[0], str | bytes):
        return Obj(origins=origins_in(target)) if origins_in(target) else list_of([UNKNOWN])
    text = as_text(target.constants[0])
    by = as_text(separator.constants[0]) if separator.constants else None
    return list_of(Obj((piece,), target.origins) for piece in text.split(by or None)[:MAX_ITEMS])


def _decode(target: Obj, call: Call) -> Obj:
    return computed(target, decoder_named(text_of(call.argument(0, "encoding"))))


def _encode(target: Obj, call: Call) -> Obj:
    return Obj(tuple(as_text(text) for text in target.constants), target.origins)


def _get(target: Obj, call: Call) -> Obj:
    """An entry, or the default."""
    found = item_of(target, call.argument(0))
    return join([found, call.argument(1, "default")])


def _setdefault(target: Obj, call: Call) -> Obj:
    if call.arguments:
        store_item(target, call.arguments[0], call.argument(1), weak=True)
    return item_of(target, call.argument(0))


def _update(target: Obj, call: Call) -> Obj:
    given = call.argument(0)
    target.origins = merged(target.origins, given.origins)
    for key, value in [*(given.items or {}).items(), *call.named.items()]:
        store_item(target, Obj((key,)), value)
    return UNKNOWN


def _items(target: Obj, call: Call) -> Obj:
    pairs = [list_of([_key(key), value]) for key, value in (target.items or {}).items()]
    made = list_of(pairs)
    if target.origins:
        tainted = Obj(origins=target.origins)
        assert made.items is not None
        made.items[len(made.items)] = list_of([tainted, tainted])
    return made


def _key(key: Constant) -> Obj:
    return UNKNOWN if key == HOLE else Obj((key,))


def _keys(target: Obj, call: Call) -> Obj:
    return Obj(tuple(key for key in target.items or {} if key != HOLE)[:MAX_CONSTANTS], target.origins)


def _values(target: Obj, call: Call) -> Obj:
    made = list_of((target.items or {}).values())
    made.origins = target.origins
    return made


def _append(target: Obj, call: Call) -> Obj:
    value = call.argument(len(call.arguments) - 1) if call.arguments else UNKNOWN
    if target is UNKNOWN:
        return UNKNOWN
    if target.items is None:
        target.origins = merged(target.origins, origins_in(value))
    elif len(target.items) < MAX_ITEMS:
        target.items[len(target.items)] = value
    return UNKNOWN


def _extend(target: Obj, call: Call) -> Obj:
    given = call.argument(0)
    for value in elements(given) or [element_of(given)]:
        if target.items is not None and len(target.items) < MAX_ITEMS:
            target.items[len(target.items)] = value
        elif target is not UNKNOWN:
            target.origins = merged(target.origins, origins_in(value))
    return UNKNOWN


def _copy(target: Obj, call: Call) -> Obj:
    items = dict(target.items) if target.items is not None else None
    return Obj(target.constants, target.origins, items, "", None, target.is_list)


METHODS: dict[str, Method] = {
    "strip": _map_text(str.strip),
    "lstrip": _map_text(str.lstrip),
    "rstrip": _map_text(str.rstrip),
    "lower": _map_text(str.lower),
    "upper": _map_text(str.upper),
    "title": _map_text(str.title),
    "swapcase": _map_text(str.swapcase),
    **dict.fromkeys(("splitlines", "readlines"), lambda target, call: list_of([Obj(origins=origins_in(target))])),
    **dict.fromkeys(("hex", "zfill", "ljust", "rjust", "translate", "removeprefix", "removesuffix"), _origins_only),
    **dict.fromkeys(("resolve", "absolute", "as_posix", "expanduser", "tobytes", "getvalue", "tolist"), _same),
    "join": _join,
    "format": _format,
    "format_map": _format,
    "replace": _replace,
    "split": _split,
    "rsplit": _split,
    "decode": _decode,
    "encode": _encode,
    "get": _get,
    "pop": _get,
    "setdefault": _setdefault,
    "update": _update,
    "items": _items,
    "keys": _keys,
    "values": _values,
    **dict.fromkeys(("append", "add", "insert", "put", "appendleft", "put_nowait", "add_field"), _append),
    "extend": _extend,
    "copy": _copy,
}
