"""A small policy simulator: explicit Deny, then Allow, else refused, with `dynamodb:LeadingKeys` conditions. Resources
are named as template_checks names them: `Table`, `Table/index/due`, `Content/content/*`."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from tests.support.template_checks import _alternatives, _as_list, _resource, functions_of, statements_of

KEYS = "dynamodb:LeadingKeys"


class Simulator:
    def __init__(self, template: Mapping[str, Any], function: str) -> None:
        self._statements = statements_of(template, dict(functions_of(template))[function])

    def may(self, action: str, resource: str, keys: Sequence[str] = ()) -> bool:
        matching = [s["Effect"] for s in self._statements if self._matches(s, action, resource, keys)]
        return "Deny" not in matching and "Allow" in matching

    def may_write(self, key: str) -> bool:
        return any(self.may(f"dynamodb:{verb}Item", "Table", [key]) for verb in ("Put", "Update", "Delete"))

    def _matches(self, statement: Mapping[str, Any], action: str, resource: str, keys: Sequence[str]) -> bool:
        return (
            any(fnmatchcase(action, pattern) for pattern in _as_list(statement["Action"]))
            and any(fnmatchcase(resource, _resource(r)) for r in _alternatives(statement["Resource"]))
            and all(_holds(kind, tests, keys) for kind, tests in statement.get("Condition", {}).items())
        )


def _holds(kind: str, tests: Mapping[str, Any], keys: Sequence[str]) -> bool:
    if set(tests) != {KEYS} or kind not in ("ForAllValues:StringLike", "ForAnyValue:StringLike"):
        raise NotImplementedError(f"{kind} of {sorted(tests)}")
    fits = [any(fnmatchcase(key, pattern) for pattern in _as_list(tests[KEYS])) for key in keys]
    return all(fits) if kind.startswith("ForAll") else any(fits)  # as AWS: without keys, the first holds
