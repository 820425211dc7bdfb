"""What AWS's own tools say of template.yaml: the transformation that `sam deploy` asks for, and the linter."""

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.support.template_rights import ADDED_BY_SAM

Template = Mapping[str, Any]
Problems = list[str]


def linter_problems(template: Template) -> Problems:
    """The linter sees the transformed template: in the source, it overlooks most mistakes."""
    from cfnlint.api import ManualArgs, lint
    from samtranslator.model.exceptions import InvalidDocumentException

    try:
        transformed = transform(template)
    except InvalidDocumentException as error:
        return [cause.message for cause in error.causes]
    found = [
        match
        for match in lint(json.dumps(transformed), config=ManualArgs(regions=["us-east-1"]))
        if not _is_used_before_the_transformation(match, template)
    ]
    return [f"{match.rule.id} {match.message} at {match.path}" for match in found] + _role_problems(transformed)


def _is_used_before_the_transformation(match: Any, template: Template) -> bool:
    """SAM writes the values of some parameters in their place, so that nothing refers to these any more."""
    return match.rule.id == "W2001" and {"Ref": match.path[-1]} in list(_references(template))


def _references(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping) and set(value) == {"Ref"}:
        yield value
    for part in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _references(part)


def transform(template: Template) -> dict[str, Any]:
    """As `sam deploy` would have it, without asking AWS anything."""
    from boto3 import Session
    from samtranslator.parser.parser import Parser
    from samtranslator.translator.translator import Translator

    source = copy.deepcopy(dict(template))
    # What `sam package` puts in the place of folders.
    source["Globals"]["Function"]["CodeUri"] = "s3://packages/code"
    source["Resources"]["Dependencies"]["Properties"]["ContentUri"] = "s3://packages/layer"
    translator = Translator({}, Parser(), boto_session=Session(region_name="us-east-1"))
    return translator.translate(source, parameter_values={})


def _role_problems(transformed: Template) -> Problems:
    roles = [r["Properties"] for r in transformed["Resources"].values() if r["Type"] == "AWS::IAM::Role"]
    managed = {arn.rpartition("/")[2] for role in roles for arn in role.get("ManagedPolicyArns", [])}
    return [f"a role has the managed policy {name}" for name in managed - ADDED_BY_SAM]
