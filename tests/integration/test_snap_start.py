"""Copies restored from one snapshot have nothing in common but their code: see tests/support/restored_copies.py."""

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.support.aws_resources import client, create_resources
from tests.support.fault_proxy import FaultProxy
from tests.support.restored_copies import REPORT

ROOT = Path(__file__).parents[2]
SECRET = json.dumps({"signingKey": "k" * 64})


@pytest.fixture
def problems_of_copies(moto_url):
    name = f"s{uuid.uuid4().hex}"
    client("secretsmanager", moto_url).create_secret(Name=name, SecretString=SECRET)
    resources = create_resources(moto_url) | {"SECRET_ID": name, "AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start"}

    def run(*options):
        with FaultProxy(moto_url) as proxy:
            proxy.asked = []
            environment = {"PATH": os.environ["PATH"], **resources, "AWS_ENDPOINT_URL": proxy.url}
            command = [sys.executable, "-m", "tests.support.restored_copies", *options]
            output = subprocess.run(
                command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
            ).stdout
            reports = [line.removeprefix(REPORT) for line in output.splitlines() if line.startswith(REPORT)]
            return problems_in(*map(json.loads, reports), asked=proxy.asked)

    return run


def problems_in(initial, frozen, *copies, asked):
    """What the processes reported, against what the server saw."""
    everyone = [initial, *copies]
    secrets_read = [request.action for request in asked].count("GetSecretValue")
    ports = [port for process in everyone for port in process["ports"]]
    ids = [id_ for process in everyone for id_ in process["ids"]]
    assert len(copies) == 2
    assert all(process["ports"] for process in everyone)
    assert set(ports) <= {request.port for request in asked}
    assert initial["scan_processes"] == 1  # else there was nothing to end
    found = {
        "a request failed": any(status != 201 for process in everyone for status in process["statuses"]),
        "an id twice": len(set(ids)) < len(ids),
        "a shared connection": len(set(ports)) < len(ports),
        "a connection in the snapshot": frozen["sockets"] > 0,
        "a process in the snapshot": frozen["has_processes"] or any(copy["scan_processes"] for copy in copies),
        "the same random numbers": len({copy["random"] for copy in copies}) < len(copies),
        "a secret of before the snapshot": secrets_read < len(everyone),
    }
    return {problem for problem, is_there in found.items() if is_there}


def test_restored_copies_share_no_connections_random_numbers_secrets_or_processes(problems_of_copies):
    assert problems_of_copies() == set()


def test_without_the_hooks_each_of_these_is_noticed(problems_of_copies):
    assert problems_of_copies("no-hooks") >= {
        "a shared connection",
        "a connection in the snapshot",
        "a process in the snapshot",
        "the same random numbers",
        "a secret of before the snapshot",
    }
