import asyncio
import json
import os

import hypothesis
import pytest

# Before anything imports the platform: no profile or region of this machine may reach a test.
os.environ.update(
    AWS_ACCESS_KEY_ID="test",
    AWS_SECRET_ACCESS_KEY="test",
    AWS_REGION="us-east-1",
    AWS_CONFIG_FILE="/dev/null",
    AWS_SHARED_CREDENTIALS_FILE="/dev/null",
    AWS_EC2_METADATA_DISABLED="true",
    POWERTOOLS_SERVICE_NAME="vskill-platform",
)

from shared import telemetry
from shared.scanner.scan_runner import ScanProcesses
from shared.settings import load_settings
from tests.support.aws_resources import create_resources
from tests.support.memory import memory_env
from tests.support.ministack import ministack
from tests.support.moto_server import moto_server
from tests.support.store import store

# The machine may be busy; how long an example takes proves nothing. They are other examples in each run.
hypothesis.settings.register_profile("platform", deadline=None, max_examples=50)
hypothesis.settings.load_profile("platform")

# Counting lines takes up to twice as long, and most lines are counted many times. Not counted: tests that watch other
# processes, read the code instead of running it, or go over the same lines thousands of times, as those marked `slow`
# do; and those in tests/integration that show again through the handlers what unit tests of the routes have counted.
NOT_COUNTED = {
    "e2e",
    "faults",
    "project",
    "test_hostile_input.py",
    "test_submission_list.py",
    "test_surface_costs.py",
}
COUNTED_IN_INTEGRATION = {
    *("test_batches.py", "test_content_contract.py", "test_contract_lists.py", "test_contract_submissions.py"),
    *("test_framing.py", "test_github.py", "test_github_archives.py", "test_github_http.py", "test_judge.py"),
    *("test_kv_contract.py", "test_kv_faults.py", "test_look_alike.py", "test_outcomes.py", "test_queue_contract.py"),
    *("test_queue_functions.py", "test_rescan.py", "test_reverification.py", "test_secrets_manager.py"),
    *("test_shared_repositories.py", "test_verification.py"),
}

# They start platforms and mostly wait for them. The longest first: one that begins last delays the end.
WAITING = {"e2e", "faults"}
LONGEST = [
    *("test_page_use.py", "test_schemathesis.py", "test_platform.py", "test_pages.py", "test_process_wire.py"),
    *("test_process_crashes.py", "test_runner_life.py", "test_soak.py", "test_judge_outcomes.py"),
]


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("slow") or not _is_counted(item.path):
            item.add_marker("no_cover")
    place = _places(list(dict.fromkeys(item.path for item in items)))
    items.sort(key=lambda item: place[item.path])


def _is_counted(file):
    if "integration" in file.parts:
        return file.name in COUNTED_IN_INTEGRATION
    return NOT_COUNTED.isdisjoint(file.parts)


def _places(files):
    """Those that wait among those that compute, so that no core is idle; all are begun well before the end."""
    waiting = [file for file in files if not WAITING.isdisjoint(file.parts)]
    waiting.sort(key=lambda file: LONGEST.index(file.name) if file.name in LONGEST else len(LONGEST))
    computing = [file for file in files if WAITING.isdisjoint(file.parts)]
    return {
        **{file: 0.6 * n / len(waiting) for n, file in enumerate(waiting)},
        **{file: n / len(computing) for n, file in enumerate(computing)},
    }


@pytest.fixture(autouse=True)
def no_metrics_of_another_test():
    """Metrics are collected per process until they are flushed; a test must see its own only."""
    telemetry._metrics.clear_metrics()


@pytest.fixture
def env():
    """An environment in memory, with a clock that a test moves."""
    return memory_env()


@pytest.fixture
def scan_processes():
    """The real ones, instead of the threads of the environment in memory."""
    processes = ScanProcesses()
    yield processes
    processes.close()


@pytest.fixture(scope="session")
def moto_url():
    with moto_server() as url:
        yield url


@pytest.fixture(scope="session")
def ministack_url(tmp_path_factory):
    with ministack(tmp_path_factory.mktemp("ministack")) as url:
        yield url


@pytest.fixture(scope="session")
def store_url(tmp_path_factory):
    """The store that `make run` uses."""
    with store(tmp_path_factory.mktemp("store")) as url:
        yield url


@pytest.fixture
def function_env(moto_url, monkeypatch, tmp_path):
    """The process environment of a function, with storage of its own behind it."""
    from shared import runtime
    from tests.support.memory import FixedSecrets

    secrets = tmp_path / "secrets.json"
    secrets.write_text(json.dumps(_secrets(FixedSecrets())))
    sessions = tmp_path / "session-secret.json"
    sessions.write_text(json.dumps({"sessionKey": "s" * 64}))
    files = {
        "SECRETS_FILE": str(secrets),
        "SESSION_SECRET_FILE": str(sessions),
        "OWNER_SESSION_SECRET_FILE": str(sessions),
    }
    for name, value in {**create_resources(moto_url), **files}.items():
        monkeypatch.setenv(name, value)
    runtime.request_env.cache_clear()
    runtime._aws.cache_clear()
    yield load_settings()
    runtime.close()


def _secrets(secrets) -> dict:
    values = asyncio.run(secrets.get())
    tokens = [{"name": t.name, "role": t.role, "sha256": t.sha256} for t in values.admin_tokens]
    return {"signingKey": values.signing_key, "adminTokens": tokens, "webhookSecrets": values.webhook_secrets}
