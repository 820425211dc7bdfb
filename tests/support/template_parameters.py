"""What CloudFormation refuses before it creates anything: parameters by their constraints, and by Rules. Neither the
linter nor moto evaluates these with values, so this does."""

import re
from collections.abc import Mapping
from typing import Any

from local.cloudformation import Resolver


def refusals_of(template: Mapping[str, Any], given: Mapping[str, str]) -> list[str]:
    """The reasons why a stack with these parameters, and defaults for the others, would not be begun."""
    unknown = [f"there is no parameter {name}" for name in given.keys() - template["Parameters"].keys()]
    values = {name: str(given.get(name, p.get("Default", ""))) for name, p in template["Parameters"].items()}
    broken = [
        f"{name}={value!r}: {reason}"
        for name, value in values.items()
        for reason in _broken_constraints(template["Parameters"][name], value)
    ]
    return unknown + broken + _broken_rules(template, values)


def _broken_constraints(parameter: Mapping[str, Any], value: str) -> list[str]:
    broken = []
    if parameter["Type"] == "Number" and not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", value):
        return ["not a number"]
    if "AllowedValues" in parameter and value not in map(str, parameter["AllowedValues"]):
        broken.append(f"not one of {parameter['AllowedValues']}")
    if "AllowedPattern" in parameter and not re.fullmatch(parameter["AllowedPattern"], value):
        broken.append(parameter.get("ConstraintDescription", f"not like {parameter['AllowedPattern']}"))
    if "MinValue" in parameter and float(value) < parameter["MinValue"]:
        broken.append(f"below {parameter['MinValue']}")
    if "MaxValue" in parameter and float(value) > parameter["MaxValue"]:
        broken.append(f"above {parameter['MaxValue']}")
    return broken


def _broken_rules(template: Mapping[str, Any], values: Mapping[str, str]) -> list[str]:
    resolver = Resolver(template, values, "us-east-1", lambda name: None, lambda name, attribute: None)
    return [
        assertion["AssertDescription"]
        for rule in template.get("Rules", {}).values()
        if resolver.resolve(rule.get("RuleCondition", True))
        for assertion in rule["Assertions"]
        if not resolver.resolve(assertion["Assert"])
    ]
