"""What surrounds `sam deploy`: the account is checked before, the platform tried after, and taken back. All on moto."""

import hashlib
import io
import json
import os
import subprocess
import sys
import threading
import zipfile
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
import pytest
from moto import mock_aws

from local import deployment, smoke
from local.config import StartError
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
    function = {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "Handler": "index.handler",
            "Runtime": "python3.13",
            "Role": {"Fn::GetAtt": ["R", "Arn"]},
            "Code": {"ZipFile": "def handler(event, context): return 1"},
        },
    }
    trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    role = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {"Statement": [trust]}}}
    body = {
        "Resources": {"F": function, "R": role},
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


@pytest.mark.parametrize("unreserved", [10, 111])
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


def test_a_stack_with_a_github_token_is_not_warned(aws, stack):
    secret = '{"githubTokens": ["one", "two"]}'
    aws("secretsmanager").put_secret_value(SecretId=stack["GitHubTokens"], SecretString=secret)
    assert len(check()) == 1


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
    [function] = deployment._functions_of(aws, STACK)
    versions = [_publish(aws("lambda"), function, f"v{n}") for n in range(2)]
    aws("lambda").create_alias(FunctionName=function, Name="live", FunctionVersion=versions[1])
    assert deployment.roll_back(STACK, aws) == [f"{function}: {versions[1]} -> {versions[0]}"]
    assert aws("lambda").get_alias(FunctionName=function, Name="live")["FunctionVersion"] == versions[0]
    assert deployment.roll_back(STACK, aws) == []


def _publish(aws, function, text):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("index.py", text)
    aws.update_function_code(FunctionName=function, ZipFile=packed.getvalue())
    return aws.publish_version(FunctionName=function)["Version"]


def test_a_platform_that_fails_is_named_probe_by_probe_and_the_rollback_is_offered(aws, stack, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())  # not a terminal: nothing is asked
    with broken_platform() as url:
        assert len(smoke.failures_at(url)) == len(smoke.PROBES)
        monkeypatch.setattr(deployment, "find_outputs", lambda client, name: {"Url": url})
        assert deployment._try_out(STACK, "prod", aws) == 1
    shown = capsys.readouterr()
    assert "make rollback STAGE=prod" in shown.err
    assert "0 of 9 probes" in shown.out


def broken_platform():
    class Broken(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(502)
            self.end_headers()
            self.wfile.write(b'{"message": "Internal Server Error"}')

        do_POST = do_GET  # noqa: N815 - the server's name

        def log_message(self, *args):
            pass

    class Server(ThreadingHTTPServer):
        def __enter__(self):
            threading.Thread(target=self.serve_forever, daemon=True).start()
            return f"http://127.0.0.1:{self.server_port}"

        def __exit__(self, *args):
            self.shutdown()
            self.server_close()

    return Server(("127.0.0.1", 0), Broken)


def test_the_same_commit_gives_the_same_files_wherever_it_is_built(tmp_path):
    built = [_build(tmp_path / name) for name in ("one", "another/deeper")]
    assert built[0] == built[1]
    assert any(name.endswith(".pyc") for name in built[0])
    assert not any(str(tmp_path).encode() in content for content, _, _ in built[0].values())


def _build(folder):
    folder.mkdir(parents=True)
    command = ["make", "-s", "build-Consumer", f"ARTIFACTS_DIR={folder}", f"PYTHON_OF_LAMBDA={sys.executable}"]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "MAKEFLAGS": ""})
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
