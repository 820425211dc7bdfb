"""What `make deploy` does around `sam deploy`: it checks the account before anything is built, says with which
parameters to deploy, tries the platform afterwards, and can take every function back to its previous version.
`make admin-token STAGE=...` stores the hash of a token in a stack."""

import argparse
import hashlib
import json
import secrets
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from local import smoke
from local.cloudformation import Resolver, load
from local.config import StartError
from local.tokens import ROLES

ROOT = Path(__file__).parents[1]
KEPT_FREE = 100  # executions that AWS leaves to functions without a reservation
SAM_CONFIG = {"dev": "default", "prod": "prod"}
# While its table is protected, CloudFormation cannot undo a first deployment that failed.
FIRST, PROTECTED = "TableProtection=off", "TableProtection=on"
ALIAS = "live"
RESERVATION = "ReservedConcurrentExecutions"
SWITCH_OFF = "deploy with PARAMETERS=ReservedConcurrency=0, or ask AWS for a higher quota"
NO_GITHUB = (
    "There is no GitHub token in the stack's secret: 60 calls an hour are about 15 submissions. "
    "docs/aws.md says how to add one."
)

Client = Callable[[str], Any]


def preflight(stack: str, stage: str, python: str, parameters: str, client: Client, region: str | None) -> list[str]:
    """Warnings. Raises StartError for what would fail later, or work badly in production."""
    if not region:
        raise StartError("There is no region: set AWS_REGION, or `region` in your AWS profile, and try again.")
    _check_credentials(client)
    warnings = _check_python(stage, python)
    outputs = find_outputs(client, stack)
    if outputs is None and "ReservedConcurrency=0" not in parameters.split():
        _check_concurrency(client, reserved_by(load(ROOT / "template.yaml")))
    return [*warnings, *([NO_GITHUB] if outputs is None else smoke.warnings_at(outputs["Url"]))]


def parameters_of_each_deployment(stage: str, parameters: str, is_new: bool) -> list[str]:
    """One line for each `sam deploy`: what samconfig.toml has for the stage, then what was given, of which the last
    counts. A new stack is deployed twice, because its table is protected only once it has all the rest."""
    with (ROOT / "samconfig.toml").open("rb") as file:
        configured = tomllib.load(file)[SAM_CONFIG[stage]]["deploy"]["parameters"]["parameter_overrides"]
    protections = [FIRST, PROTECTED] if is_new else [PROTECTED]
    return [" ".join(filter(None, [configured, protection, parameters])) for protection in protections]


def reserved_by(template: Mapping[str, Any]) -> int:
    """Executions that the stack reserves by default."""
    resolver = Resolver(template, {}, "", lambda name: None, lambda name, attribute: None)
    properties = [resource.get("Properties", {}) for resource in template["Resources"].values()]
    return sum(int(resolver.resolve(p[RESERVATION])) for p in properties if RESERVATION in p)


def find_outputs(client: Client, stack: str) -> dict[str, str] | None:
    """None: the stack does not exist yet."""
    from botocore.exceptions import ClientError

    try:
        [found] = client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    except ClientError as error:
        if "does not exist" in str(error):
            return None
        raise StartError(f"CloudFormation did not answer about {stack}: {error}") from error
    return {output["OutputKey"]: output["OutputValue"] for output in found.get("Outputs", [])}


def roll_back(stack: str, client: Client) -> list[str]:
    """Each function's alias to the version before the one it names. What has only one version stays."""
    moved = []
    for function in functions_of(client, stack):
        aws = client("lambda")
        current = aws.get_alias(FunctionName=function, Name=ALIAS)["FunctionVersion"]
        earlier = [number for number in _versions(aws, function) if number < int(current)]
        if earlier:
            aws.update_alias(
                FunctionName=function,
                Name=ALIAS,
                FunctionVersion=str(max(earlier)),
                RoutingConfig={"AdditionalVersionWeights": {}},
            )
            moved.append(f"{function}: {current} -> {max(earlier)}")
    return moved


def add_admin_token(stack: str, name: str, role: str, client: Client) -> str:
    """Only its hash is stored, in the secret of admin tokens. Returns the token, which cannot be read again."""
    if not name or not name.isprintable():
        raise StartError("A token needs a NAME: make admin-token STAGE=prod NAME=anna ROLE=reviewer")
    if role not in ROLES:
        raise StartError(f"ROLE must be {' or '.join(ROLES)}: make admin-token STAGE=prod NAME={name} ROLE=reviewer")
    outputs = find_outputs(client, stack)
    if outputs is None:
        raise StartError(f"The stack {stack} does not exist: run make deploy first.")
    secret_id, token = outputs["AdminTokens"], secrets.token_urlsafe(24)
    aws = client("secretsmanager")
    values = json.loads(aws.get_secret_value(SecretId=secret_id)["SecretString"])
    tokens = values.setdefault("adminTokens", [])
    if name in [known["name"] for known in tokens]:
        raise StartError(
            f"There is a token named {name}: revoke it in the admin panel, and give the new one another name."
        )
    tokens.append({"name": name, "role": role, "sha256": hashlib.sha256(token.encode()).hexdigest()})
    aws.put_secret_value(SecretId=secret_id, SecretString=json.dumps(values))
    return token


def _check_credentials(client: Client) -> None:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        client("sts").get_caller_identity()
    except (BotoCoreError, ClientError) as error:
        raise StartError(
            "There are no AWS credentials that work: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
            f"and try again ({error})."
        ) from error


def _check_python(stage: str, python: str) -> list[str]:
    """Only Lambda's own version writes .pyc files that Lambda can use."""
    if _starts(python):
        return []
    problem = (
        f"{python} does not start, so cold starts would take two to three times as long. Name one: PYTHON_OF_LAMBDA="
    )
    if stage == "prod":
        raise StartError(problem)
    return [problem]


def _starts(python: str) -> bool:
    path = shutil.which(python)
    check = "import sys; sys.exit(sys.version_info[:2] != (3, 13))"
    return bool(path) and subprocess.run([str(path), "-c", check], capture_output=True, check=False).returncode == 0


def _check_concurrency(client: Client, reserved: int) -> None:
    limit = client("lambda").get_account_settings()["AccountLimit"]
    free = limit["UnreservedConcurrentExecutions"]
    if free - reserved < KEPT_FREE:
        raise StartError(
            f"The account has {limit['ConcurrentExecutions']} concurrent executions, {free} of them not reserved; "
            f"the stack reserves {reserved}, and AWS keeps {KEPT_FREE} free: {SWITCH_OFF}."
        )


def functions_of(client: Client, stack: str) -> Iterator[str]:
    pages = client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack)
    for page in pages:
        for resource in page["StackResourceSummaries"]:
            if resource["ResourceType"] == "AWS::Lambda::Function":
                yield resource["PhysicalResourceId"]


def _versions(aws: Any, function: str) -> list[int]:
    pages = aws.get_paginator("list_versions_by_function").paginate(FunctionName=function)
    return [int(v["Version"]) for page in pages for v in page["Versions"] if v["Version"] != "$LATEST"]


def _try_out(stack: str, stage: str, client: Client) -> int:
    outputs = find_outputs(client, stack) or {}
    if smoke.main(outputs["Url"]) == 0:
        print("\n".join(smoke.warnings_at(outputs["Url"])), file=sys.stderr)
        return 0
    command = f"make rollback STAGE={stage}"
    if sys.stdin.isatty() and input(f"Take every function back to its previous version ({command})? [y/N] ") == "y":
        print("\n".join(roll_back(stack, client)) or "There is no previous version.")
    else:
        print(f"The deployed platform does not work. To take it back: {command}", file=sys.stderr)
    return 1


def main(arguments: list[str]) -> int:
    import boto3

    parser = argparse.ArgumentParser(prog="local.deployment")
    parser.add_argument("what", choices=("preflight", "parameters", "smoke", "rollback", "admin-token"))
    for name in ("stack", "stage", "python", "parameters", "name", "role"):
        parser.add_argument(f"--{name}", default="")
    given = parser.parse_args(arguments)
    session = boto3.Session()
    if given.what == "preflight":
        args = (given.stack, given.stage, given.python, given.parameters)
        for warning in preflight(*args, session.client, session.region_name):
            print(warning, file=sys.stderr)
        return 0
    if given.what == "parameters":
        is_new = find_outputs(session.client, given.stack) is None
        print("\n".join(parameters_of_each_deployment(given.stage, given.parameters, is_new)))
        return 0
    if given.what == "smoke":
        return _try_out(given.stack, given.stage, session.client)
    if given.what == "rollback":
        print("\n".join(roll_back(given.stack, session.client)) or "There is no previous version.")
        return 0
    print(add_admin_token(given.stack, given.name, given.role, session.client))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except StartError as error:
        sys.exit(str(error))
