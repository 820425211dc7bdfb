"""Whose condition it was that refused a write: told by the stores in memory, heard by who counts how often a guard
mattered. To everybody else a condition is what it was."""

from collections.abc import Callable, Iterable


class Compared(str):
    """The name of an attribute in a condition, with who wants to know when a write was refused for it."""

    __slots__ = ("tells",)

    def __new__(cls, name: str, tell: Callable[[], None]):
        compared = super().__new__(cls, name)
        compared.tells = {*_tells(name), tell}
        return compared


def tell_refused(names: Iterable[str]) -> None:
    """`names` differed. Somebody's condition decided if without it the write would have been taken."""
    for tell in set.intersection(*map(_tells, names)):
        tell()


def _tells(name: str) -> set[Callable[[], None]]:
    return getattr(name, "tells", set())
