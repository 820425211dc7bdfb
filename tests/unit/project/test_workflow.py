"""The deployment workflow: dev before prod, an approval between them, and nothing but make targets."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.marked_tests import ROOT
from tests.support.template_audit import ACCEPTED, Audited, problems_of

FILE = ROOT / ".github" / "workflows" / "deploy.yml"
WORKFLOW = yaml.safe_load(FILE.read_text())
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
JOBS = WORKFLOW["jobs"]


@pytest.mark.parametrize("job", JOBS)
def test_a_job_runs_make_targets_alone(job):
    commands = [step["run"] for step in JOBS[job]["steps"] if "run" in step]
    assert commands
    for command in commands:
        assert re.fullmatch(r"make ([a-z-]+)( STAGE=(dev|prod))?", command), command
        assert command.split()[1] in TARGETS


def test_prod_follows_dev_and_dev_follows_the_checks():
    assert (JOBS["dev"]["needs"], JOBS["prod"]["needs"]) == ("check", "dev")
    assert [JOBS[name]["environment"] for name in ("dev", "prod")] == ["dev", "prod"]  # whose rules ask for approval


def test_only_jobs_that_deploy_get_a_token_for_aws_and_none_may_write_here():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert "permissions" not in JOBS["check"]
    assert {str(JOBS[name]["permissions"]) for name in ("dev", "prod")} == {
        str({"contents": "read", "id-token": "write"})
    }


def test_no_credential_is_in_the_workflow():
    assert "secrets." not in str(WORKFLOW)


def lint(workflow):
    command = ["make", "-s", "check-workflows", f"BIN={Path(sys.executable).parent}", f"WORKFLOWS={workflow}"]
    environment = {**os.environ, "MAKEFLAGS": ""}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


MISTAKES = {
    "a job that waits for nothing known": ("    needs: check\n", "    neds: check\n", "neds"),
    "a runner that is a number": ("runs-on: ubuntu-24.04-arm", "runs-on: 24", "24"),
    "an action by a name that can move": ("actions/checkout@11bd", "actions/checkout@v4 # 11bd", "unpinned-uses"),
    "the title of a change in a command": (
        "- run: make check\n",
        "- run: make check ${{ github.event.head_commit.message }}\n",
        "template-injection",
    ),
    "credentials left for later steps": ("persist-credentials: false", "fetch-depth: 1", "artipacked"),
    "rights of everything": ("permissions:\n  contents: read\n", "permissions: write-all\n", "excessive-permissions"),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_planted_in_the_workflow_fails_the_check(tmp_path, mistake):
    right, wrong, said = MISTAKES[mistake]
    assert right in FILE.read_text()
    planted = tmp_path / "deploy.yml"
    planted.write_text(FILE.read_text().replace(right, wrong, 1))
    checked = lint(planted)
    assert checked.returncode != 0
    assert said in checked.stdout + checked.stderr


@pytest.mark.slow
def test_the_workflow_passes_its_check():
    assert lint(FILE).returncode == 0


def _accepted_findings():
    return [Audited(check, "title", accepted.resources.replace("*", "A")) for check, accepted in ACCEPTED.items()]


def test_the_audit_accepts_what_has_a_reason_and_nothing_else():
    assert list(problems_of(_accepted_findings())) == []
    found = Audited("CKV_AWS_53", "the bucket is public", "AWS::S3::Bucket.Content")
    assert list(problems_of([*_accepted_findings(), found])) == [
        "AWS::S3::Bucket.Content: the bucket is public (CKV_AWS_53)"
    ]
    elsewhere = Audited("CKV_AWS_109", "rights without limits", "AWS::IAM::Role.ConsumerRole")
    assert "ConsumerRole" in str(list(problems_of([*_accepted_findings(), elsewhere])))


def test_an_exception_that_is_no_longer_needed_is_found():
    assert list(problems_of(_accepted_findings()[1:])) == [f"{next(iter(ACCEPTED))}: accepted, and no longer found"]


def test_the_deployment_is_audited_first():
    assert {"run": "make audit"} in JOBS["check"]["steps"]
