"""Every address of the platform and its methods: a wrong method is told from an address that does not exist."""

import re
from functools import cache

from functions import admin_pages, openapi

FUNCTIONS = (*openapi.FUNCTIONS, admin_pages)


def methods_at(path: str) -> list[str]:
    """Of the address itself where there is one; else of those with parameters that fit."""
    exact = {method for method, address in _routes() if address == path}
    return sorted(exact or {method for method, address in _routes() if is_at(address, path)})


def is_at(address: str, path: str) -> bool:
    """Whether a path is one of this address, which may have parameters."""
    return _pattern(address).fullmatch(path) is not None


@cache
def _routes() -> list[tuple[str, str]]:
    """`OPERATIONS` names addresses more closely than the gateway's own route, where a function has both."""
    routes = [route for function in FUNCTIONS for route in getattr(function, "OPERATIONS", function.ROUTES)]
    pairs = [route.partition(" ") for route in routes if " " in route]
    return [(method, path) for method, _, path in pairs]


@cache
def _pattern(path: str) -> re.Pattern[str]:
    parts = re.split(r"(\{\w+\+?\})", path)
    return re.compile("".join(_of_part(part) for part in parts))


def _of_part(part: str) -> str:
    if not part.startswith("{"):
        return re.escape(part)
    return ".+" if part.endswith("+}") else "[^/]+"
