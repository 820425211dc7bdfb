"""The runbooks of docs/aws.md, followed on one machine as far as they go there, and how long each took. The local
platform stands for the functions and their store, moto for what only AWS has. Writes bench/results/runbooks.json and a
table in docs/aws.md; seven minutes, of which five are the time for which functions keep secrets.

    python -m bench.runbooks
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import boto3
from moto import mock_aws

from bench.partitions import PAGE, between
from local import deployment, restore_stack
from tests.support.aws_resources import resource
from tests.support.moto_stack import FUNCTION, TRUST, age_objects, body_of, publish
from tests.support.platform import Platform, eventually

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "runbooks.json"
TABLE = "bench.runbooks"
SUBMISSIONS = 20
SCALE = 0.05  # of waiting in the trial of the stuck queue: a lost message comes back after 12 minutes
FUNCTIONS = 15
ITEMS, OBJECTS = 10_000, 1_000
WHY = {"reason": "a trial of the runbook"}
CLIENT = partial(boto3.client, region_name="us-east-1")


class Watch:
    """What took how long."""

    def __init__(self) -> None:
        self.steps: dict[str, float] = {}

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.steps[step] = round(time.monotonic() - began, 2)
        print(f"{self.steps[step]:8.2f} s  {step}", flush=True)


# --- on the local platform -------------------------------------------------------------------------------------------


def stuck_queue(watch: Watch, folder: Path) -> None:
    """A release whose consumer does not start; what accumulates, and that nothing is lost once it is taken back."""
    platform = Platform.start(folder / "stuck", template=_broken_release(folder / "release"), TIME_SCALE=str(SCALE))
    try:
        for number in range(SUBMISSIONS):
            _submit(platform, f"skill-{number}")
        with watch.timed("a stuck queue: its health says that nothing drains"):
            eventually(lambda: _stats(platform)["active"] == SUBMISSIONS and _drained(platform) == 0)
    finally:
        platform.stop()
    with watch.timed("a stuck queue: the earlier release is back"):
        platform = Platform.start(folder / "stuck", TIME_SCALE=str(SCALE))
    try:
        with watch.timed(
            f"a stuck queue: {SUBMISSIONS} waiting submissions are published (waiting is scaled by {SCALE})"
        ):
            eventually(lambda: _published(platform) == SUBMISSIONS, 300)
    finally:
        platform.stop()


def _broken_release(folder: Path) -> Path:
    folder.mkdir()
    for name in ("functions", "shared"):
        (folder / name).symlink_to(ROOT / name)
    template = folder / "template.yaml"
    text = (ROOT / "template.yaml").read_text()
    template.write_text(text.replace("functions.consumer.handler", "functions.consumer.missing"))
    return template


def paused_queue(watch: Watch, platform: Platform) -> None:
    admin = _as(platform.admin_token)
    with watch.timed("a paused queue: health says so"):
        assert platform.request("POST", "/api/v1/admin/queue/pause", WHY, admin)[0] == 200
        eventually(lambda: _health(platform)["paused"])
    _submit(platform, "paused")
    with watch.timed("a paused queue: resumed, and what waited is published"):
        assert platform.request("POST", "/api/v1/admin/queue/resume", WHY, admin)[0] == 200
        eventually(lambda: _published(platform) >= 1, 120)


def token_rotation(watch: Watch, platform: Platform, old: str) -> None:
    eventually(lambda: _may(platform, old))
    with watch.timed("token rotation: the new token works (secrets are read again after five minutes)"):
        new = _local(platform.directory, "admin-token", "new", "admin").split()[-1]
        eventually(lambda: _may(platform, new), 400)
    _, listed = platform.json("GET", "/api/v1/admin/tokens", headers=_as(new))
    [old_id] = [token["id"] for token in listed["tokens"] if token["name"] == "old"]
    with watch.timed("token rotation: the old token is refused"):
        assert platform.request("POST", f"/api/v1/admin/tokens/{old_id}/revoke", WHY, _as(new))[0] == 200
        eventually(lambda: not _may(platform, old))


def backup_and_restore(watch: Watch, platform: Platform, folder: Path) -> None:
    before = _published(platform)
    with watch.timed("one machine: backup while it runs"):
        _local(platform.directory, "backup", str(folder / "backup.tar.gz"))
    _submit(platform, "after-the-backup")
    eventually(lambda: _published(platform) == before + 1, 120)
    with watch.timed("one machine: restore while it runs"):
        _local(platform.directory, "restore", str(folder / "backup.tar.gz"))
        eventually(lambda: _published(platform) == before, 120)


def recount(watch: Watch, platform: Platform) -> None:
    with watch.timed("recount, without drift"):
        status, counted = platform.json("POST", "/api/v1/admin/recount", WHY, _as(platform.admin_token))
        assert (status, counted["drift"]) == (200, {}), counted


def _submit(platform: Platform, name: str) -> None:
    text = f"---\nname: {name}\ndescription: Greets the people of {name}.\n---\nSay hello.\n"
    body = {"bundle": {"name": name, "files": [{"path": "SKILL.md", "content": text}]}}
    status, answer = platform.json("POST", "/api/v1/submissions", body)
    assert status == 201, answer


def _health(platform: Platform) -> dict[str, Any]:
    health: dict[str, Any] = platform.json("GET", "/api/v1/queue/health")[1]
    return health


def _drained(platform: Platform) -> Any:
    return _health(platform)["drainRate"]["last1h"]


def _stats(platform: Platform) -> dict[str, Any]:
    stats: dict[str, Any] = platform.json("GET", "/api/v1/submissions/stats")[1]
    return stats


def _published(platform: Platform) -> int:
    return int(_stats(platform)["published"] or 0)


def _as(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def _may(platform: Platform, token: str) -> bool:
    return platform.request("GET", "/api/v1/admin/stuck", headers=_as(token))[0] == 200


def _local(directory: Path, *command: str) -> str:
    environment = {**os.environ, "LOCAL_DIR": str(directory)}
    command = (sys.executable, "-m", "local", *command)
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout


# --- on moto ---------------------------------------------------------------------------------------------------------


def on_aws(watch: Watch) -> None:
    with mock_aws():
        _make_stack()
        _roll_back(watch)
        _restore_table(watch)
        _restore_bucket(watch)


def _make_stack() -> None:
    role = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {"Statement": [TRUST]}}}
    functions = {f"F{n}": {"Type": "AWS::Lambda::Function", "Properties": FUNCTION} for n in range(FUNCTIONS)}
    outputs = {"Table": {"Value": "table"}, "Content": {"Value": "bucket"}}
    body = body_of({"Resources": {"Role": role, **functions}, "Outputs": outputs})
    CLIENT("cloudformation").create_stack(StackName="stack", TemplateBody=body)


def _roll_back(watch: Watch) -> None:
    aws = CLIENT("lambda")
    for function in deployment.functions_of(CLIENT, "stack"):
        newest = [publish(aws, function, text) for text in ("before", "after")][-1]
        aws.create_alias(FunctionName=function, Name="live", FunctionVersion=newest)
    with watch.timed(f"rollback of {FUNCTIONS} functions (moto)"):
        assert len(deployment.roll_back("stack", CLIENT)) == FUNCTIONS


def _restore_table(watch: Watch) -> None:
    dynamodb = CLIENT("dynamodb")
    schema = {name: resource("Table")[name] for name in ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes")}
    for table in ("table", "copy"):
        dynamodb.create_table(TableName=table, BillingMode="PAY_PER_REQUEST", **schema)
    items = [{"pk": {"S": f"sub:{n}"}, "sk": {"S": "."}, "doc": {"S": "x" * 500}} for n in range(ITEMS)]
    for start in range(0, ITEMS, 25):
        chunk = [{"PutRequest": {"Item": item}} for item in items[start : start + 25]]
        dynamodb.batch_write_item(RequestItems={"copy": chunk})
    with watch.timed(f"the table from its copy, {ITEMS:,} items (moto)"):
        assert restore_stack.restore_table("stack", "copy", CLIENT) == (ITEMS, 0)


def _restore_bucket(watch: Watch) -> None:
    s3 = CLIENT("s3")
    s3.create_bucket(Bucket="bucket")
    s3.put_bucket_versioning(Bucket="bucket", VersioningConfiguration={"Status": "Enabled"})
    for number in range(OBJECTS):
        s3.put_object(Bucket="bucket", Key=f"content/{number}", Body=b"files")
    age_objects("bucket", timedelta(hours=1))
    for number in range(OBJECTS):
        s3.delete_object(Bucket="bucket", Key=f"content/{number}")
    since = datetime.now(UTC) - timedelta(minutes=1)
    with watch.timed(f"the bucket, {OBJECTS:,} deleted objects (moto)"):
        assert restore_stack.restore_bucket("stack", since, CLIENT) == OBJECTS


def on_one_machine(watch: Watch, folder: Path) -> None:
    Platform.start(folder / "running").stop()
    old = _local(folder / "running" / "local", "admin-token", "old", "admin").split()[-1]
    with watch.timed("one machine: the platform starts"):
        platform = Platform.start(folder / "running")
    try:
        paused_queue(watch, platform)
        recount(watch, platform)
        backup_and_restore(watch, platform, folder)
        token_rotation(watch, platform, old)
    finally:
        platform.stop()


def main() -> None:
    watch = Watch()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "stuck").mkdir()
        (folder / "running").mkdir()
        stuck_queue(watch, folder)
        on_one_machine(watch, folder)
    on_aws(watch)
    RESULTS.write_text(json.dumps({"seconds": watch.steps}, indent=2) + "\n")
    PAGE.write_text(with_table(PAGE.read_text(), watch.steps))


def with_table(page: str, steps: Mapping[str, float]) -> str:
    rows = [f"| {step} | {seconds} |\n" for step, seconds in steps.items()]
    return between(page, TABLE, "".join(["| runbook | seconds |\n| --- | --- |\n", *rows]))


if __name__ == "__main__":
    main()
