"""Mistakes to plant in a copy of template.yaml, to see that a check finds them."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

Plant = Callable[[dict[str, Any]], None]


def put(path: str, value: Any) -> Plant:
    """A mistake: this value at that place."""

    def plant(template: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        for name in parents:
            template = template[int(name) if name.isdigit() else name]  # type: ignore[index]
        template[last] = value

    return plant


def drop(path: str) -> Plant:
    def plant(template: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        for name in parents:
            template = template[int(name) if name.isdigit() else name]  # type: ignore[index]
        del template[int(last) if last.isdigit() else last]  # type: ignore[arg-type]

    return plant


def of(resource: str, property_: str) -> str:
    return f"Resources.{resource}.Properties.{property_}"


def planted(template: Mapping[str, Any], *mistakes: Plant) -> dict[str, Any]:
    copied = copy.deepcopy(dict(template))
    for plant in mistakes:
        plant(copied)
    return copied
