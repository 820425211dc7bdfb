"""What the role of the deployment workflow may do to a resource, whose ARN is given without `arn:aws:`."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from local.cloudformation import Resolver


def may_deploy(template: Mapping[str, Any], stack: str, action: str, resource: str) -> bool:
    policy = template["Resources"]["DeployRole"]["Properties"]["Policies"][0]["PolicyDocument"]
    own = {"AWS::StackName": {"Default": stack}, "AWS::AccountId": {"Default": "1"}}
    document = {**template, "Parameters": {**template["Parameters"], **own}}
    resolver = Resolver(document, {}, "eu-west-1", lambda name: f"arn:aws:{name}", lambda name, _: f"arn:aws:{name}")
    matching = [
        statement["Effect"]
        for statement in resolver.resolve(policy["Statement"])
        if any(fnmatchcase(action, pattern) for pattern in _listed(statement["Action"]))
        and any(fnmatchcase(f"arn:aws:{resource}", pattern) for pattern in _listed(statement["Resource"]))
    ]
    return "Deny" not in matching and "Allow" in matching


def _listed(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]
