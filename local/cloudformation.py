"""CloudFormation syntax of template.yaml: short tags, parameters, conditions and references."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from local.config import StartError

VARIABLE = re.compile(r"\$\{(!?)([^}]*)\}")
ACCOUNT = "000000000000"
STACK = "vskill-platform"
NO_VALUE = object()


class TemplateError(StartError):
    """The template cannot be run; the message names the file and the resource."""


# Ten times as fast where the C library is there, as it is in the wheels of PyYAML.
_SafeLoader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SafeLoader):  # type: ignore[misc,valid-type]
    """SafeLoader that also knows !Ref, !Sub and the other short forms."""


def load(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text()
    except OSError as error:
        raise TemplateError(f"{path.name}: cannot be read ({error.strerror}).") from error
    try:
        document = yaml.load(text, Loader=_Loader)  # noqa: S506 a SafeLoader with CloudFormation's tags
    except yaml.YAMLError as error:
        raise TemplateError(f"{path.name}: not valid YAML ({_where(error)}).") from error
    if not isinstance(document, dict) or not isinstance(document.get("Resources"), dict):
        raise TemplateError(f"{path.name}: has no Resources.")
    return document


class Resolver:
    """Replaces intrinsic functions with their values on this machine."""

    def __init__(
        self,
        document: Mapping[str, Any],
        overrides: Mapping[str, str],
        region: str,
        reference: Callable[[str], str | None],
        attribute: Callable[[str, str], str | None],
    ) -> None:
        self._parameters = {
            name: overrides.get(name, definition.get("Default"))
            for name, definition in (document.get("Parameters") or {}).items()
        }
        self._conditions = document.get("Conditions") or {}
        self._reference = reference
        self._attribute = attribute
        self._pseudo: dict[str, Any] = {
            "AWS::Region": region,
            "AWS::AccountId": ACCOUNT,
            "AWS::Partition": "aws",
            "AWS::URLSuffix": "amazonaws.com",
            "AWS::StackName": STACK,
            "AWS::StackId": f"arn:aws:cloudformation:{region}:{ACCOUNT}:stack/{STACK}/local",
            "AWS::NoValue": NO_VALUE,
        }
        self._functions: dict[str, Callable[[Any], Any]] = {
            "Ref": self.ref,
            "Fn::GetAtt": self._get_att,
            "Fn::Sub": self._sub,
            "Fn::Join": self._join,
            "Fn::If": self._if,
            "Fn::Equals": lambda pair: self.resolve(pair[0]) == self.resolve(pair[1]),
            "Fn::Not": lambda parts: not self._true(parts[0]),
            "Fn::And": lambda parts: all(map(self._true, parts)),
            "Fn::Or": lambda parts: any(map(self._true, parts)),
        }

    def resolve(self, value: Any) -> Any:
        if isinstance(value, list):
            return [item for item in map(self.resolve, value) if item is not NO_VALUE]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            (name,) = value
            if name in self._functions:
                return self._functions[name](value[name])
            if str(name).startswith("Fn::"):
                raise TemplateError(f"the local runner does not support {name}.")
        resolved = {key: self.resolve(item) for key, item in value.items()}
        return {key: item for key, item in resolved.items() if item is not NO_VALUE}

    def ref(self, name: str) -> Any:
        if name in self._parameters:
            return self._parameters[name]
        if name in self._pseudo:
            return self._pseudo[name]
        found = self._reference(name)
        if found is None:
            raise TemplateError(f"refers to {name}, which is not in the template.")
        return found

    def is_wanted(self, condition: str | None) -> bool:
        return condition is None or self._condition(condition)

    def _get_att(self, path: Any) -> str:
        name, _, attribute = (path if isinstance(path, str) else ".".join(path)).partition(".")
        found = self._attribute(name, attribute)
        if found is None:
            raise TemplateError(f"refers to {name}.{attribute}, which is not in the template.")
        return found

    def _sub(self, argument: Any) -> str:
        text, extra = (argument, {}) if isinstance(argument, str) else argument

        def value_of(match: re.Match[str]) -> str:
            literal, name = match.groups()
            if literal:
                return "${" + name + "}"
            if name in extra:
                return str(self.resolve(extra[name]))
            return self._get_att(name) if "." in name else str(self.ref(name))

        return VARIABLE.sub(value_of, text)

    def _join(self, argument: Any) -> str:
        separator, parts = argument
        return str(separator).join(map(str, self.resolve(parts)))

    def _if(self, argument: Any) -> Any:
        condition, then, otherwise = argument
        return self.resolve(then if self._condition(condition) else otherwise)

    def _condition(self, name: str) -> bool:
        if name not in self._conditions:
            raise TemplateError(f"uses the condition {name}, which is not in the template.")
        return self._true(self._conditions[name])

    def _true(self, value: Any) -> bool:
        if isinstance(value, dict) and set(value) == {"Condition"}:
            return self._condition(value["Condition"])
        return bool(self.resolve(value))


def _tagged(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    name = suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        return {name: loader.construct_scalar(node)}
    if isinstance(node, yaml.SequenceNode):
        return {name: loader.construct_sequence(node, deep=True)}
    return {name: loader.construct_mapping(node, deep=True)}  # type: ignore[arg-type]


def _where(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "unreadable"
    return f"line {mark.line + 1}: {problem}" if mark else str(problem)


_Loader.add_multi_constructor("!", _tagged)
