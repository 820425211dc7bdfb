"""Publish, claim, scan, report: the running platform and the real example scanner beside it."""

import asyncio
import dataclasses
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial

import pytest

from local.scanner_client import RequestRefused, ScannerClient
from shared.marketplace.external_scan_store import Security, get_security
from shared.storage.aws import Aws
from shared.storage.dynamo_kv import DynamoKV
from shared.worker_context import run_with_worker_env
from tests.support.memory import memory_env
from tests.support.platform import REPOSITORY, Platform, eventually

CALM = 'print("Hello")\n'
DANGEROUS = 'import subprocess, sys\n\nsubprocess.run("ls -1 " + sys.argv[1], shell=True)\n'
LONG = 'some text, and é, and a "word" now and then\n' * 18_000  # 800 KB
HALF = "0.5"  # of every duration; less, and a cold start on a busy machine takes longer than an API may


@pytest.fixture(scope="module")
def platform(tmp_path_factory):
    running = Platform.start(tmp_path_factory.mktemp("scanned"), TIME_SCALE=HALF, EXTERNAL_SCANNERS="bandit")
    yield running
    running.kill()


def within_platform(platform: Platform, fn):
    """Runs one call against the platform's own store, as one of its functions would."""

    async def scenario():
        env = memory_env(external_scanners=("bandit",), endpoint_url=platform.info["endpoint"])
        aws = Aws(env.settings)
        try:
            kv = DynamoKV(partial(aws.call, "dynamodb"), platform.info["table"])
            here = dataclasses.replace(env, kv=kv, clock=lambda: datetime.now(UTC))
            return await run_with_worker_env(here, fn)
        finally:
            await aws.close()

    return asyncio.run(scenario())


def publish(platform: Platform, name: str, script: str, **more: str) -> dict:
    text = f"---\nname: {name}\ndescription: Counts the files of a folder.\n---\n\nRun scripts/run.py.\n"
    contents = {"SKILL.md": text, "scripts/run.py": script, **more}
    files = [{"path": path, "content": content} for path, content in contents.items()]
    status, answer = platform.json("POST", "/api/v1/submissions", {"bundle": {"name": name, "files": files}})
    assert status == 201, answer
    return eventually(lambda: (s := submission(platform, answer["id"]))["state"] == "PUBLISHED" and s, 60)


def submission(platform: Platform, submission_id: str) -> dict:
    return platform.json("GET", f"/api/v1/submissions/{submission_id}")[1]


def listed(platform: Platform) -> list[str]:
    status, answer = platform.json("GET", "/api/v1/skills?limit=100")
    assert status == 200
    return [skill["name"] for skill in answer["skills"]]


def security(platform: Platform, name: str) -> Security:
    return within_platform(platform, lambda: get_security(name))


def scan_once(platform: Platform) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "local.external_scanner", "--once", "--url", platform.url],
        cwd=REPOSITORY,
        env={**os.environ, "LOCAL_DIR": str(platform.directory)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_published_skill_is_pending_then_completed_and_a_dangerous_one_is_gone(platform):
    calm, dangerous = publish(platform, "calm", CALM), publish(platform, "dangerous", DANGEROUS)
    assert {calm["skillName"], dangerous["skillName"]} <= set(listed(platform))
    [before] = security(platform, calm["skillName"]).providers
    assert (before.provider, before.status, before.verdict) == ("bandit", "PENDING", None)

    output = scan_once(platform)
    assert "PASS" in output
    assert "B602" in output

    shown = security(platform, calm["skillName"])
    assert (shown.overall_verdict, shown.providers[0].status, shown.providers[0].score) == ("PASS", "COMPLETED", 100)
    assert security(platform, dangerous["skillName"]).providers[0].critical_count == 1
    blocked = submission(platform, dangerous["id"])
    assert blocked["state"] == "BLOCKED"
    assert "B602" in blocked["reason"]
    assert "scripts/run.py, line 3" in blocked["reason"]
    assert blocked["stateHistory"][-1]["from"] == "PUBLISHED"
    assert calm["skillName"] in listed(platform)
    assert dangerous["skillName"] not in listed(platform)
    assert "No scans pending." in scan_once(platform)
    assert list((platform.directory / "tmp").iterdir()) == []


def test_what_one_scanner_holds_another_does_not_get_and_its_files_arrive_whole(platform):
    """Files that are too many for one answer come in pages."""
    data = {f"data/{n}.txt": LONG for n in range(4)}
    skill = publish(platform, "held", CALM, **data)
    name = skill["skillName"]
    secret = json.loads((platform.directory / "secrets.json").read_text())["webhookSecrets"]["bandit"]
    client = ScannerClient(platform.url, "bandit", secret)
    claim = client.claim()
    assert (claim.skill_name, claim.content_hash) == (name, skill["contentHash"])
    assert security(platform, name).providers[0].status == "RUNNING"
    assert name not in scan_once(platform)

    files = client.files(claim)
    assert {path: files[path].decode() for path in data} == data
    assert files["scripts/run.py"].decode() == CALM

    for _ in range(2):
        client.report(claim, {"status": "COMPLETED", "verdict": "CONCERNS", "score": 60})
    [shown] = security(platform, name).providers
    assert (shown.status, shown.verdict, shown.score) == ("COMPLETED", "CONCERNS", 60)
    with pytest.raises(RequestRefused) as refusal:
        client.report(claim, {"status": "COMPLETED", "verdict": "PASS", "score": 100})
    assert refusal.value.code == "already_reported"


def test_a_stranger_gets_no_work(platform):
    status, answer = platform.json("POST", "/api/v1/internal/scans/claim", {"nonce": "12345678"})
    assert (status, answer["error"]["code"]) == (401, "invalid_signature")
    wrong = {"SCANNER_SECRET": "wrong" * 12, "LOCAL_DIR": str(platform.directory)}
    done = subprocess.run(
        [sys.executable, "-m", "local.external_scanner", "--once", "--url", platform.url],
        cwd=REPOSITORY,
        env={**os.environ, **wrong},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "does not know this scanner" in done.stderr
