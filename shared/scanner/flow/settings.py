"""Settings that a skill ships as JSON: where programs keep the address they send to."""

import json
from typing import Any

from shared.scanner.flow.objects import MAX_ITEMS, UNKNOWN, Obj, list_of

MAX_SETTINGS = 100_000
MAX_LEVELS = 8


def settings_in(text: str) -> Obj:
    if len(text) > MAX_SETTINGS:
        return UNKNOWN
    try:
        return _value(json.loads(text), MAX_LEVELS)
    except (ValueError, RecursionError):
        return UNKNOWN


def _value(value: Any, levels: int) -> Obj:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return Obj((value,))
    if levels and isinstance(value, list):
        return list_of([_value(item, levels - 1) for item in value[:MAX_ITEMS]])
    if levels and isinstance(value, dict):
        return Obj(items={key: _value(item, levels - 1) for key, item in list(value.items())[:MAX_ITEMS]})
    return UNKNOWN
