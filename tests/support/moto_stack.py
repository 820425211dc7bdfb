"""The stack that the transformed template makes, created in moto's CloudFormation. moto knows no aliases, deployment
groups and the like: these are left out, and what refers to an alias refers to its function, to others to their name."""

import io
import json
import re
import zipfile
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from tests.support.template_linter import transform

Resources = dict[str, Any]
# What a stack of functions needs beside them.
TRUST = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
FUNCTION = {
    "Handler": "index.handler",
    "Runtime": "python3.13",
    "Role": {"Fn::GetAtt": ["Role", "Arn"]},
    "Code": {"ZipFile": "def handler(event, context): return 1"},
}


def stack_of(template: Mapping[str, Any]) -> dict[str, Any]:
    stack = _without_transform(transform(template))
    known = known_types()
    left_out = {name for name, resource in stack["Resources"].items() if resource["Type"] not in known}
    stack["Resources"] = {name: r for name, r in stack["Resources"].items() if name not in left_out}
    result: dict[str, Any] = _fitted(stack, left_out)
    return result


def known_types() -> set[str]:
    from moto.cloudformation.parsing import get_model_map

    return set(get_model_map())


def put_packages(s3: Any) -> None:
    """What `sam package` would have uploaded."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("functions/__init__.py", "")
    s3.create_bucket(Bucket="packages")
    for key in ("code", "layer"):
        s3.put_object(Bucket="packages", Key=key, Body=packed.getvalue())


def publish(aws: Any, function: str, text: str) -> str:
    """A version with other code; its number."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("index.py", text)
    aws.update_function_code(FunctionName=function, ZipFile=packed.getvalue())
    return str(aws.publish_version(FunctionName=function)["Version"])


def age_objects(bucket: str, by: timedelta) -> None:
    """S3 counts in seconds, in which a test is over."""
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends

    for version in s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[bucket].keys.values():
        version.last_modified -= by


def body_of(stack: Mapping[str, Any]) -> str:
    return json.dumps(stack)


def _without_transform(stack: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in stack.items() if name != "Transform"}


def _fitted(value: Any, left_out: set[str]) -> Any:
    if isinstance(value, list):
        return [_fitted(part, left_out) for part in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"Fn::GetAtt"}:
        return _attribute(value["Fn::GetAtt"], left_out)
    if set(value) == {"Ref"}:
        alias = _ALIAS.fullmatch(value["Ref"])
        return {"Fn::GetAtt": [alias[1], "Arn"]} if alias else value["Ref"] if value["Ref"] in left_out else value
    if set(value) == {"Fn::Sub"} and isinstance(value["Fn::Sub"], str):
        text = re.sub(r"\$\{(\w+)Aliaslive\}", r"${\1.Arn}", value["Fn::Sub"])
        return {"Fn::Sub": re.sub(r"\$\{(\w+)(\.\w+)?\}", lambda m: m[1] if m[1] in left_out else m[0], text)}
    return {name: _fitted(part, left_out) for name, part in value.items()}


def _attribute(path: str | list[str], left_out: set[str]) -> Any:
    parts = path.split(".", 1) if isinstance(path, str) else path
    return parts[0] if parts[0] in left_out else {"Fn::GetAtt": parts}


_ALIAS = re.compile(r"(\w+)Aliaslive")
