"""The small platform of tests/support/runner_app: what it stored and what it was given."""

import json
from pathlib import Path
from typing import Any

from tests.support.platform import Platform

TEMPLATE = Path(__file__).parent / "runner_app" / "template.yaml"


def echo(platform: Platform, method: str, path: str, **options: Any) -> dict[str, Any]:
    status, _, body = platform.request(method, path, **options)
    assert status == 200, body
    seen: dict[str, Any] = json.loads(body)
    return seen


def item(platform: Platform, key: str) -> dict[str, Any] | None:
    answer = platform.client("dynamodb").get_item(
        TableName=platform.info["table"], Key={"pk": {"S": key}}, ConsistentRead=True
    )
    found: dict[str, Any] | None = answer.get("Item")
    return found


def put_item(platform: Platform, key: str) -> None:
    platform.client("dynamodb").put_item(TableName=platform.info["table"], Item={"pk": {"S": key}})


def pids(platform: Platform) -> list[int]:
    """The store and every runtime process."""
    info = platform.info
    return [info["emulatorPid"], *(pid for pids in info["workers"].values() for pid in pids)]
