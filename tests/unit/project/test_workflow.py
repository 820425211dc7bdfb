"""The deployment workflow: dev before prod, an approval between them, and nothing but make targets."""

import re

import pytest
import yaml

from tests.support.marked_tests import ROOT

WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "deploy.yml").read_text())
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
