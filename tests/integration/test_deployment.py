"""What surrounds `sam deploy`: the account is checked before, the platform tried after, and taken back. All on moto."""

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from local import deployment, migrate, smoke
from local.cloudformation import load
from local.config import StartError
from tests.support.moto_stack import FUNCTION, TRUST, publish
from tests.support.template_checks import ROOT

REGION = "us-east-1"
STACK = "tried"
THIS_PYTHON = "python3.13-that-is-not-there"
OUTPUTS = ("Url", "AdminTokens", "GitHubTokens")


class Limits:
    """moto knows no account settings."""

    def __init__(self, unreserved: int) -> None:
        self._unreserved = unreserved

    def get_account_settings(self):
        return {"AccountLimit": {"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": self._unreserved}}


def client_with(unreserved):
    return lambda service: Limits(unreserved) if service == "lambda" else boto3.client(service, region_name=REGION)


@pytest.fixture
def aws():
    with mock_aws():
        yield partial(boto3.client, region_name=REGION)


@pytest.fixture
def stack(aws):
    manager = aws("secretsmanager")
    tokens = manager.create_secret(Name="admin", SecretString='{"adminTokens": []}')["ARN"]
    github = manager.create_secret(Name="github", SecretString='{"githubTokens": []}')["ARN"]
    values = dict(zip(OUTPUTS, ("http://127.0.0.1:9", tokens, github), strict=True))
    function = {"Type": "AWS::Lambda::Function", "Properties": FUNCTION}
    role = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {"Statement": [TRUST]}}}
    body = {
        "Resources": {"F": function, "Role": role},
        "Outputs": {name: {"Value": value} for name, value in values.items()},
    }
    aws("cloudformation").create_stack(StackName=STACK, TemplateBody=json.dumps(body))
    return values


def check(unreserved=1000, stage="dev", parameters="", region=REGION):
    return deployment.preflight(STACK, stage, THIS_PYTHON, parameters, client_with(unreserved), region)


def test_an_account_with_room_passes_and_the_report_names_what_is_missing(aws):
    python, github = check()
    assert "cold starts" in python
    assert "15 submissions" in github


@pytest.mark.parametrize("unreserved", [10, 117])
def test_an_account_that_has_too_little_to_reserve_is_refused_with_the_way_out(aws, unreserved):
    with pytest.raises(StartError, match="ReservedConcurrency=0"):
        check(unreserved)
    assert check(unreserved, parameters="ReservedConcurrency=0 Tracing=Active")


def test_a_stack_that_has_its_reservation_needs_no_second_one(stack):
    assert check(unreserved=10)


def test_without_a_region_nothing_is_begun(aws):
    with pytest.raises(StartError, match="AWS_REGION"):
        check(region=None)


def test_credentials_that_do_not_work_are_named(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    session = boto3.Session()
    with pytest.raises(StartError, match="AWS_PROFILE"):
        deployment.preflight(STACK, "dev", THIS_PYTHON, "", partial(session.client, region_name=REGION), REGION)


def test_production_is_not_built_without_lambdas_python(aws):
    with pytest.raises(StartError, match="PYTHON_OF_LAMBDA"):
        check(stage="prod")


def test_another_python_than_lambdas_does_not_count(aws):
    assert deployment._starts(sys.executable) is (sys.version_info[:2] == (3, 13))


@pytest.mark.parametrize("warnings", [[], ["There is no GitHub token"]])
def test_a_stack_says_itself_what_it_lacks_so_its_secrets_are_not_read(aws, stack, warnings, monkeypatch):
    def client(service):
        assert service != "secretsmanager"  # the role of the workflow may not read them
        return aws(service)

    with answering(200, {"status": "ok", "warnings": warnings}) as url:
        monkeypatch.setattr(deployment, "find_outputs", lambda client, name: {"Url": url})
        _, *told = deployment.preflight(STACK, "dev", THIS_PYTHON, "", client, REGION)
    assert told == warnings


def test_a_platform_that_does_not_answer_can_be_deployed_again(aws, stack):
    _, unknown = check()
    assert stack["Url"] in unknown
    with answering(502, "Bad Gateway") as url:
        assert len(smoke.warnings_at(url)) == 1


def test_what_the_template_reserves_is_asked_of_the_account(aws):
    assert deployment.reserved_by(load(ROOT / "template.yaml")) == 10 + 3 + 5 + 3 * 1
    check(121)
    with pytest.raises(StartError, match="reserves 21"):
        check(120)


@pytest.mark.parametrize("stage", ["dev", "prod"])
def test_what_was_given_is_added_to_what_the_stage_always_has(stage):
    [line] = deployment.parameters_of_each_deployment(stage, "AllowUploads=true", is_new=False)
    assert line.split()[0] == f"Stage={stage}"
    assert line.endswith("TableProtection=on AllowUploads=true")
    assert ("LogRetentionDays=90 DeploymentType=Canary10Percent5Minutes" in line) is (stage == "prod")


def test_the_table_of_a_new_stack_is_protected_once_all_of_it_is_there():
    first, second = deployment.parameters_of_each_deployment("prod", "", is_new=True)
    assert (first.split()[-1], second.split()[-1]) == ("TableProtection=off", "TableProtection=on")


def run_make(*arguments, makefile=ROOT / "Makefile"):
    command = ["make", "-s", "-f", makefile, "-o", ".venv/ready", "-o", "rule-pack", *arguments]
    return subprocess.run(
        command, check=False, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "MAKEFLAGS": ""}
    )


def deployed(tmp_path, lines):
    program = tmp_path / "deployment"
    program.write_text("#!/bin/sh\n" + "".join(f'echo "{line}"\n' for line in lines) + f"exit {0 if lines else 1}\n")
    program.chmod(0o755)
    return run_make("deploy-stack", "STAGE=prod", f"DEPLOYMENT={program}", r"SAM=printf '[%s]\n'")


def test_each_deployment_gets_its_parameters_and_asks_for_nothing_without_a_terminal(tmp_path):
    shown = deployed(
        tmp_path, ["Stage=prod RateLimits='a b' TableProtection=off", "Stage=prod TableProtection=on"]
    ).stdout
    assert "[Stage=prod RateLimits='a b' TableProtection=off]\n[--no-confirm-changeset]" in shown
    assert shown.index("TableProtection=off") < shown.index("TableProtection=on")
    assert "[--confirm-changeset]" not in shown


def test_nothing_is_deployed_with_unknown_parameters(tmp_path):
    failed = deployed(tmp_path, [])
    assert failed.returncode != 0
    assert "[deploy]" not in failed.stdout


STEPS = ("preflight", "sam build", "parameters.txt", "local.deployment parameters", "sam deploy", "deployment smoke")


def order_problems(makefile):
    """`make -n` follows the steps into the targets they call."""
    shown = run_make("-n", "deploy", "STAGE=prod", makefile=makefile).stdout
    found = [(shown.find(step), step) for step in STEPS]
    missing = [f"no {step}" for at, step in found if at < 0]
    asks = "test -t 0 && echo --confirm-changeset || echo --no-confirm-changeset"
    return missing + ([] if found == sorted(found) else ["out of order"]) + ([] if asks in shown else ["asks wrongly"])


def test_a_deployment_checks_builds_deploys_and_tries_in_this_order():
    assert order_problems(ROOT / "Makefile") == []


ASKS = "$$(test -t 0 && echo --confirm-changeset || echo --no-confirm-changeset)"
BROKEN = {
    "always asks": (ASKS, "--confirm-changeset", "asks wrongly"),
    "never asks": (ASKS, "--no-confirm-changeset", "asks wrongly"),
    "no check before": ("@$(DEPLOYMENT) preflight", "@true", "no preflight"),
    "nothing tried after": ("@$(DEPLOYMENT) smoke $(OF_STACK)", "@true", "no deployment smoke"),
    "built before the check": (
        "\t@$(known_stage)\n\t@$(DEPLOYMENT)",
        "\t@$(SAM) build\n\t@$(DEPLOYMENT)",
        "out of order",
    ),
}


@pytest.mark.parametrize("mistake", BROKEN)
def test_a_deployment_with_a_planted_mistake_is_noticed(tmp_path, mistake):
    right, wrong, problem = BROKEN[mistake]
    text = (ROOT / "Makefile").read_text()
    assert right in text
    planted = tmp_path / "Makefile"
    planted.write_text(text.replace(right, wrong).replace("$(MAKE) ", f"$(MAKE) -f {planted} "))
    assert problem in order_problems(planted)


def test_an_admin_token_is_stored_as_a_hash_in_its_own_secret(aws, stack):
    token = deployment.add_admin_token(STACK, "anna", "reviewer", aws)
    stored = aws("secretsmanager").get_secret_value(SecretId=stack["AdminTokens"])["SecretString"]
    assert token not in stored
    assert json.loads(stored)["adminTokens"] == [
        {"name": "anna", "role": "reviewer", "sha256": hashlib.sha256(token.encode()).hexdigest()}
    ]
    with pytest.raises(StartError, match="revoke"):
        deployment.add_admin_token(STACK, "anna", "admin", aws)


@pytest.mark.parametrize(("name", "role"), [("", "admin"), ("ben", "root")])
def test_a_token_without_a_name_or_with_another_role_is_refused(aws, stack, name, role):
    with pytest.raises(StartError, match="make admin-token STAGE=prod"):
        deployment.add_admin_token(STACK, name, role, aws)


def test_a_token_needs_a_stack(aws):
    with pytest.raises(StartError, match="make deploy"):
        deployment.add_admin_token("none", "anna", "admin", aws)


def test_a_rollback_takes_each_function_to_the_version_before(aws, stack):
    [function] = deployment.functions_of(aws, STACK)
    versions = [publish(aws("lambda"), function, f"v{n}") for n in range(2)]
    aws("lambda").create_alias(FunctionName=function, Name="live", FunctionVersion=versions[1])
    assert deployment.roll_back(STACK, aws) == [f"{function}: {versions[1]} -> {versions[0]}"]
    assert aws("lambda").get_alias(FunctionName=function, Name="live")["FunctionVersion"] == versions[0]
    assert deployment.roll_back(STACK, aws) == []


def test_a_platform_that_fails_is_named_probe_by_probe_and_the_rollback_is_offered(aws, stack, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())  # not a terminal: nothing is asked
    with answering(502, {"message": "Internal Server Error"}) as url:
        assert len(smoke.failures_at(url)) == len(smoke.PROBES)
        monkeypatch.setattr(deployment, "find_outputs", lambda client, name: {"Url": url})
        assert deployment._try_out(STACK, "prod", aws) == 1
    shown = capsys.readouterr()
    assert "make rollback STAGE=prod" in shown.err
    assert "0 of 9 probes" in shown.out


def pages(*cursors, failed=()):
    return [{"checked": 50, "failed": list(failed), "cursor": cursor} for cursor in cursors]


def counted(cursor=None, busy=0):
    """A page of a recount, which does not name what it could not count."""
    return {"checked": 50, "unread": 0, "busy": busy, "cursor": cursor}


def test_each_job_is_continued_until_its_end_in_the_order_of_the_release():
    bodies = [*pages("next", None, None), counted("next"), counted()]
    with answering(200, bodies) as url:
        lines = list(migrate.migrate(url, "token"))
    jobs = ["build-artifacts", "build-artifacts", "rebuild-index", "recount", "recount"]
    assert [line.partition(":")[0] for line in lines] == jobs
    assert bodies == []


@pytest.mark.parametrize(
    ("status", "bodies", "reason"),
    [
        (200, [*pages(None, None, failed=["a/b/c"]), counted()], "run it again: a/b/c"),
        (200, [*pages(None, None), counted(busy=1)], r"run it again: recount \(busy\)"),
        (403, [{"error": "forbidden"}], "answered 403"),
    ],
)
def test_a_job_that_fails_fails_the_command(status, bodies, reason):
    with answering(status, bodies) as url, pytest.raises(StartError, match=reason):
        list(migrate.migrate(url, "token"))


def test_a_migration_needs_an_address_and_a_token():
    with pytest.raises(StartError, match="ADMIN_TOKEN"):
        migrate.main(["http://127.0.0.1:9"], "")


def answering(status, body):
    """A platform with one answer, or with these one after the other."""

    class Server(ThreadingHTTPServer):
        def __enter__(self):
            threading.Thread(target=self.serve_forever, daemon=True).start()
            return f"http://127.0.0.1:{self.server_port}"

        def __exit__(self, *args):
            self.shutdown()
            self.server_close()

    class Same(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body.pop(0) if isinstance(body, list) else body).encode())

        do_POST = do_GET  # noqa: N815 - the server's name

        def log_message(self, *args):
            pass

    return Server(("127.0.0.1", 0), Same)


def test_the_same_commit_gives_the_same_files_wherever_it_is_built(tmp_path):
    building = [_begin_build(tmp_path / name) for name in ("one", "another/deeper")]
    one, other = map(_built, building)
    assert [name for name in one.keys() | other.keys() if one.get(name) != other.get(name)] == []
    assert {"shared/scanner/rules.pack"} < one.keys()
    assert any(name.endswith(".pyc") for name in one)
    assert not any(str(tmp_path).encode() in content for content, _, _ in one.values())


def _begin_build(folder):
    """From a copy of what is committed, so the rules are compiled anew too."""
    folder.mkdir(parents=True)
    for name in ("functions", "shared", "local"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "rules.pack"))
    for name in ("Makefile", "template.yaml", "requirements.txt"):
        shutil.copy(ROOT / name, folder / name)
    python = Path(sys.executable)
    variables = [f"ARTIFACTS_DIR={folder / 'built'}", f"PYTHON_OF_LAMBDA={python}", f"BIN={python.parent}"]
    command = ["make", "-s", "-o", ".venv/ready", "rule-pack", "build-Consumer", *variables]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    return folder / "built", subprocess.Popen(command, cwd=folder, env={**environment, "MAKEFLAGS": ""})


def _built(building):
    folder, process = building
    assert process.wait() == 0
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime, path.stat().st_mode) for path in files
    }


def test_a_changed_parameter_is_changed_code_and_so_a_new_version(tmp_path):
    code = tmp_path / ".aws-sam/build/Pages/functions"
    code.mkdir(parents=True)
    noted = set()
    for parameters in ("", "SnapStart=on", "SnapStart=off RateLimits='submit=10/3600 skills=9/60'"):
        command = ["make", "-s", "-f", ROOT / "Makefile", "note-parameters", "STAGE=dev", f"PARAMETERS={parameters}"]
        subprocess.run(command, cwd=tmp_path, check=True)
        noted.add((code / "parameters.txt").read_text())
    assert len(noted) == 3
