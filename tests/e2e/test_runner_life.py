"""How the runner starts, stops, refuses to start, and continues after it was killed."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.certificates import write_certificate
from tests.support.platform import Platform, eventually, is_running, kill
from tests.support.small_platform import TEMPLATE, item, pids, put_item
from tests.support.store import begin_a_write


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Platform]]:
    """Platforms of one test; whatever still runs is killed at its end."""
    platforms: list[Platform] = []
    yield platforms
    for running in platforms:
        running.kill()


def start(started: list[Platform], tmp_path: Path, template: Path = TEMPLATE, **environment: str) -> Platform:
    running = Platform.start(tmp_path, template=template, **environment)
    started.append(running)
    return running


def test_a_clean_stop_keeps_the_data(started: list[Platform], tmp_path: Path) -> None:
    first = start(started, tmp_path)
    put_item(first, "kept")
    first.client("s3").put_object(Bucket=first.info["bucket"], Key="content/x", Body=b"bytes")
    first.client("sqs").send_message(
        QueueUrl=first.info["queueUrl"], MessageBody=json.dumps({"id": "waiting"}), DelaySeconds=4
    )
    children, token = pids(first), first.admin_token
    assert first.stop() == 0
    assert not (first.directory / "platform.json").exists()
    assert not any(map(is_running, children))
    assert token not in first.output  # it is a log here, not a terminal
    assert stat.S_IMODE((first.directory / "platform.db").stat().st_mode) == 0o600
    second = start(started, tmp_path)
    assert item(second, "kept")
    assert second.client("s3").get_object(Bucket=second.info["bucket"], Key="content/x")["Body"].read() == b"bytes"
    assert second.admin_token == token
    assert "did not stop cleanly" not in second.output
    assert eventually(lambda: item(second, "job:waiting"))
    _back_up_and_restore(second, tmp_path / "backup.tar.gz")


def test_a_running_invocation_may_finish_before_the_stop(started: list[Platform], tmp_path: Path) -> None:
    running = start(started, tmp_path)
    answers: list[int] = []
    asking = threading.Thread(target=lambda: answers.append(running.request("GET", "/slow/1")[0]))
    asking.start()
    eventually(lambda: running.info["workers"]["Slow"])
    assert running.stop() == 0
    asking.join()
    assert answers == [200]


def test_killed_with_everything_it_continues_with_all_that_was_acknowledged_and_says_so(
    started: list[Platform], tmp_path: Path
) -> None:
    first = start(started, tmp_path)
    put_item(first, "kept")
    first.kill()
    begin_a_write(first.directory / "platform.db-wal")
    second = start(started, tmp_path)
    assert item(second, "kept")
    assert "did not stop cleanly; everything that it acknowledged is here." in second.output
    assert re.search(r"The store cut \d+ bytes of unanswered writes from the end of the log\.", second.output)
    assert second.stop() == 0


def test_the_children_die_with_the_runner(started: list[Platform], tmp_path: Path) -> None:
    running = start(started, tmp_path)
    children = pids(running)
    assert len(children) >= 2
    os.kill(running.pid, signal.SIGKILL)
    eventually(lambda: not any(map(is_running, children)))


def test_a_port_in_use_is_reported_with_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = Platform(tmp_path / "local", TEMPLATE, {"PORT": str(port)})
        refused.launch()
        assert refused.wait() == 1
    assert refused.output == f"Port {port} is in use; choose another one: PORT={port + 1} make run\n"


@pytest.mark.parametrize("setting", ["LOCAL_DIR", "LOG_FILE"])
def test_a_place_that_cannot_be_written_is_reported_with_its_setting(tmp_path: Path, setting: str) -> None:
    (tmp_path / "file").write_text("no folder")
    place = tmp_path / "file" / "inside"
    refused = Platform(tmp_path / "local", TEMPLATE, {setting: str(place)})
    refused.launch()
    assert refused.wait() == 1
    assert refused.output == f"{place} cannot be written: Not a directory. Choose another place with {setting}.\n"


def test_it_runs_on_where_platform_json_cannot_be_written(started: list[Platform], tmp_path: Path) -> None:
    """As on a full disk: more processes start, and the terminal says it once."""
    running = start(started, tmp_path)
    (running.directory / f".platform.json.{running.pid}").mkdir()
    assert running.request("GET", "/slow/0")[0] == 200
    assert running.stop() == 0
    assert running.output.count("platform.json could not be written") == 1


def test_a_broken_template_is_reported_and_nothing_starts(tmp_path: Path) -> None:
    broken = tmp_path / "template.yaml"
    broken.write_text("Resources: {Queue: {Type: AWS::SQS::Queue, Properties: {DelaySeconds: !Ref Nobody}}}")
    refused = Platform(tmp_path / "local", broken, {})
    refused.launch()
    assert refused.wait() == 1
    assert refused.output == "template.yaml: Queue: refers to Nobody, which is not in the template.\n"


def test_a_second_signal_stops_at_once(started: list[Platform], tmp_path: Path) -> None:
    running = start(started, tmp_path)
    asking = threading.Thread(target=lambda: _ignore_reset(running, "/slow/1.9"))
    asking.start()
    eventually(lambda: running.info["workers"]["Slow"])
    children = pids(running)
    os.kill(running.pid, signal.SIGINT)
    eventually(lambda: "Stopping" in running.output)
    os.kill(running.pid, signal.SIGINT)
    assert running.wait() == 1
    eventually(lambda: not any(map(is_running, children)))
    asking.join()


def test_the_first_start_submits_the_samples_and_a_later_one_adds_new_indexes(
    started: list[Platform], tmp_path: Path
) -> None:
    template = _own_copy(tmp_path / "app")
    for name in ("good/one", "bad/two"):
        folder = template.parent / "samples" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\n---\n")
    certificate = write_certificate(tmp_path)
    first = start(started, tmp_path, template, SAMPLES="1", **certificate)
    assert first.url.startswith("https://127.0.0.1:")
    eventually(lambda: "First start: submitted 2 sample skills from samples/." in first.output)
    assert first.output.count("POST /api/v1/submissions 200") == 2
    put_item(first, "indexed")
    assert first.stop() == 0
    index = (
        "[{IndexName: new, KeySchema: [{AttributeName: pk, KeyType: HASH}], Projection: {ProjectionType: KEYS_ONLY}}]"
    )
    keys = "KeySchema: [{AttributeName: pk, KeyType: HASH}]\n"
    template.write_text(template.read_text().replace(keys, f"{keys}      GlobalSecondaryIndexes: {index}\n"))
    second = start(started, tmp_path, template, SAMPLES="1")
    assert "submitted" not in second.output
    found = second.client("dynamodb").query(
        TableName=second.info["table"],
        IndexName="new",
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": "indexed"}},
    )
    assert found["Count"] == 1


def test_a_store_that_was_killed_is_started_again_with_all_its_data(started: list[Platform], tmp_path: Path) -> None:
    running = start(started, tmp_path)
    put_item(running, "kept")
    first = running.info["emulatorPid"]
    kill(first)
    eventually(lambda: "The store was started again" in running.output)
    assert item(running, "kept")
    assert running.info["emulatorPid"] != first
    assert "The store exited with -9" in running.output
    assert running.stop() == 0


def test_a_store_that_cannot_be_started_again_ends_the_platform_with_an_error(
    started: list[Platform], tmp_path: Path
) -> None:
    running = start(started, tmp_path)
    for name in ("platform.db-wal", "platform.db-shm"):
        (running.directory / name).unlink(missing_ok=True)
    (running.directory / "platform.db").write_bytes(b"no database" * 1000)
    kill(running.info["emulatorPid"])
    assert running.wait() == 1
    assert "cannot be opened" in running.output
    assert "everything that it acknowledged is kept" in running.output


def _back_up_and_restore(running: Platform, file: Path) -> None:
    """While it runs, by one command each: what came after the backup is gone, everything else is there."""
    assert "has all data" in _command(running, "backup", file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    put_item(running, "later")
    secrets = (running.directory / "secrets.json").read_text()
    (running.directory / "secrets.json").write_text("{}")
    assert "has the data of" in _command(running, "restore", file)
    assert item(running, "kept")
    assert not item(running, "later")
    assert (running.directory / "secrets.json").read_text() == secrets
    put_item(running, "after")
    assert item(running, "after")
    assert running.stop() == 0


def _command(running: Platform, name: str, file: Path) -> str:
    command = [sys.executable, "-m", "local", name, str(file)]
    environment = {**os.environ, "LOCAL_DIR": str(running.directory)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def _own_copy(folder: Path) -> Path:
    folder.mkdir()
    for file in TEMPLATE.parent.glob("*.[py]*"):
        (folder / file.name).write_bytes(file.read_bytes())
    return folder / TEMPLATE.name


def _ignore_reset(platform: Platform, path: str) -> None:
    try:
        platform.request("GET", path)
    except OSError:
        return
