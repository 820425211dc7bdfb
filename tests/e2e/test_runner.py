"""The runner as a process: a small platform (tests/support/runner_app) serves requests, queue and schedule."""

import http.client
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.platform import Platform, eventually, is_running, kill
from tests.support.small_platform import TEMPLATE, echo, item, put_item


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """Shared by the tests that leave it running. Visibility, schedule and timeouts are 3 s, over HTTP 5 s."""
    running = Platform.start(tmp_path_factory.mktemp("runner"), template=TEMPLATE, TIME_SCALE="0.05", GREETING="hi")
    yield running
    running.kill()


def send(platform: Platform, **job: Any) -> None:
    platform.client("sqs").send_message(QueueUrl=platform.info["queueUrl"], MessageBody=json.dumps(job))


def hidden_or_waiting(platform: Platform) -> int:
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    answer = platform.client("sqs").get_queue_attributes(QueueUrl=platform.info["queueUrl"], AttributeNames=names)
    return sum(map(int, answer["Attributes"].values()))


# --- HTTP ---


@pytest.mark.parametrize(
    ("method", "path", "route"),
    [
        ("GET", "/things/first", "GET /things/first"),
        ("GET", "/things/second", "GET /things/{id}"),
        ("GET", "/things/a%2Fb", "ANY /things/{proxy+}"),
        ("PUT", "/things/first", "ANY /things/{proxy+}"),
        ("POST", "/echo", "POST /echo"),
        ("GET", "/echo", "$default"),
        ("GET", "//things/%2e%2e/first", "$default"),
    ],
)
def test_a_request_takes_its_route(platform: Platform, method: str, path: str, route: str) -> None:
    assert echo(platform, method, path)["event"]["routeKey"] == route


def test_the_event_carries_what_was_sent(platform: Platform) -> None:
    event = echo(platform, "POST", "/echo?a=1&a=2", body={"é": 1}, headers={"Cookie": "x=1; y=2"})["event"]
    assert json.loads(event["body"]) == {"é": 1}
    assert event["queryStringParameters"] == {"a": "1,2"}
    assert event["cookies"] == ["x=1", "y=2"]
    assert event["requestContext"]["http"]["sourceIp"] == "127.0.0.1"


def test_a_compressed_body_arrives_as_it_was_sent(platform: Platform) -> None:
    event = echo(platform, "POST", "/echo", body=b"\x1f\x8bnot gzip", headers={"Content-Encoding": "gzip"})["event"]
    assert event["isBase64Encoded"] is True


def test_a_process_is_used_again(platform: Platform) -> None:
    first, second = echo(platform, "GET", "/things/first"), echo(platform, "GET", "/things/first")
    assert first["pid"] == second["pid"]
    assert second["count"] == first["count"] + 1
    assert first["requestId"] != second["requestId"]
    assert first["pid"] in platform.info["workers"]["Echo"]


def test_a_function_sees_lambda_and_nothing_of_the_user(platform: Platform) -> None:
    seen = echo(platform, "GET", "/things/first")
    environment = seen["environment"]
    assert environment["STAGE"] == "local"
    assert environment["GREETING"] == "hi"
    assert environment["AWS_ENDPOINT_URL"] == platform.info["endpoint"]
    assert environment["QUEUE_URL"] == platform.info["queueUrl"]
    assert environment["AWS_LAMBDA_FUNCTION_NAME"] == "vskill-platform-Echo"
    assert environment["TIME_SCALE"] == "0.05"
    assert json.loads(Path(environment["SECRETS_FILE"]).read_text())["signingKey"]
    assert "USER" not in environment
    assert environment["HOME"].startswith(str(platform.directory))
    assert seen["arn"] == "arn:aws:lambda:us-east-1:000000000000:function:vskill-platform-Echo"
    assert 0 < seen["remainingMs"] <= 5000


@pytest.mark.parametrize("kind", ["raises", "exits", "malformed", "huge"])
def test_a_failing_function_returns_500_and_the_next_call_works(platform: Platform, kind: str) -> None:
    status, _, body = platform.request("GET", f"/answers/{kind}")
    assert (status, json.loads(body)) == (500, {"message": "Internal Server Error"})
    assert platform.json("GET", "/answers/inferred") == (200, {"plain": True})


def test_bytes_and_cookies_reach_the_client(platform: Platform) -> None:
    assert platform.request("GET", "/answers/binary")[2] == b"\x00\x01\xff"
    status, headers, body = platform.request("GET", "/answers/cookies")
    assert (status, body) == (204, b"")
    assert headers.get_all("set-cookie") == ["a=1; HttpOnly", "b=2"]


def test_a_head_request_gets_no_body(platform: Platform) -> None:
    status, headers, body = platform.request("HEAD", "/anything")
    assert (status, body) == (200, b"")
    assert headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({"x-large": "x" * 10_300}, b"", 431),
        ({}, b"x" * (10 * 1024 * 1024 + 1), 413),
        ({"content-type": "text/plain"}, b"x" * (6 * 1024 * 1024), 413),
    ],
    ids=["headers over 10,240 bytes", "body over 10 MB", "event over 6 MB"],
)
def test_what_is_too_large_is_refused(platform: Platform, headers: dict[str, str], body: bytes, status: int) -> None:
    assert platform.request("POST", "/echo", body, headers)[0] == status


def test_a_function_over_its_time_is_killed_and_replaced(platform: Platform) -> None:
    assert platform.request("GET", "/slow/0")[0] == 200
    (before,) = platform.info["workers"]["Slow"]
    assert platform.request("GET", "/slow/30")[0] == 500
    eventually(lambda: not is_running(before))
    assert platform.request("GET", "/slow/0")[0] == 200
    assert platform.info["workers"]["Slow"] != [before]
    assert "Task timed out after 5.00 seconds" in platform.output


def test_requests_at_once_get_processes_of_their_own(platform: Platform) -> None:
    threads = [threading.Thread(target=platform.request, args=("GET", "/slow/0.7")) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert eventually(lambda: len(platform.info["workers"]["Slow"]) == 3)
    for thread in threads:
        thread.join()


def test_a_module_that_does_not_load_is_shown_with_its_traceback(platform: Platform) -> None:
    assert platform.request("GET", "/broken")[0] == 500
    eventually(lambda: "FAILED RuntimeError: this module is broken on purpose" in platform.output)
    assert 'raise RuntimeError("this module is broken on purpose")' in platform.output


def test_every_invocation_is_one_line(platform: Platform) -> None:
    platform.request("GET", "/things/line-42")
    lines = [line for line in platform.output.splitlines() if "/things/line-42" in line]
    assert len(lines) == 1
    assert "Echo" in lines[0]
    assert "GET /things/line-42 200" in lines[0]
    assert lines[0].rstrip().endswith("ms")


def test_a_killed_idle_process_is_replaced(platform: Platform) -> None:
    pid = echo(platform, "GET", "/things/first")["pid"]
    kill(pid)
    eventually(lambda: not is_running(pid))
    assert echo(platform, "GET", "/things/first")["pid"] != pid


# --- queue and schedule ---


def test_only_the_failed_message_of_a_batch_reappears_and_ends_as_a_dead_letter(platform: Platform) -> None:
    for name in ("good-1", "good-2"):
        send(platform, id=name)
    send(platform, id="bad", fail=True)
    sqs = platform.client("sqs")
    (dead,) = eventually(
        lambda: sqs.receive_message(QueueUrl=platform.info["deadLetterQueueUrl"], WaitTimeSeconds=1).get("Messages")
    )
    assert json.loads(dead["Body"])["id"] == "bad"
    times = {
        name: (item(platform, f"job:{name}") or {}).get("times", {}).get("N") for name in ("good-1", "good-2", "bad")
    }
    assert times == {"good-1": "1", "good-2": "1", "bad": "2"}
    assert eventually(lambda: hidden_or_waiting(platform) == 0)


def test_a_record_has_the_attributes_of_sqs(platform: Platform) -> None:
    send(platform, id="shape")
    record = json.loads(eventually(lambda: item(platform, "job:shape"))["event"]["S"])
    assert record["eventSource"] == "aws:sqs"
    assert record["eventSourceARN"] == "arn:aws:sqs:us-east-1:000000000000:vskill-platform-Jobs"
    assert record["attributes"]["ApproximateReceiveCount"] == "1"
    assert abs(int(record["attributes"]["SentTimestamp"]) / 1000 - time.time()) < 60


def test_a_worker_killed_mid_run_leaves_its_message_for_the_next(platform: Platform) -> None:
    send(platform, id="killed", hang=2)
    first = json.loads(eventually(lambda: item(platform, "job:killed"))["facts"]["S"])["pid"]
    kill(first)
    again = eventually(lambda: (found := item(platform, "job:killed")) and found["times"]["N"] == "2" and found)
    assert json.loads(again["facts"]["S"])["pid"] != first
    assert eventually(lambda: hidden_or_waiting(platform) == 0)


def test_no_more_batches_at_once_than_the_mapping_allows(platform: Platform) -> None:
    for number in range(9):
        send(platform, id=f"many-{number}", hang=0.1)
    eventually(lambda: all(item(platform, f"job:many-{number}") for number in range(9)))
    assert 1 <= len(platform.info["workers"]["Worker"]) <= 2


def test_a_schedule_fires_again_and_again(platform: Platform) -> None:
    def times() -> int:
        return int((item(platform, "tick") or {"times": {"N": "0"}})["times"]["N"])

    before = times()
    eventually(lambda: times() >= before + 2)
    tick = json.loads((item(platform, "tick") or {})["event"]["S"])
    assert tick["source"] == "aws.events"
    assert tick["resources"] == ["arn:aws:events:us-east-1:000000000000:rule/EveryMinute"]


# --- its AWS, its folder ---


def test_a_web_page_cannot_reach_the_store(platform: Platform) -> None:
    address = urlsplit(platform.info["endpoint"]).netloc
    pages = ({"Origin": "https://example.com"}, {"Host": "example.com"})
    for headers, expected in (({}, 200), *((page, 403) for page in pages)):
        connection = http.client.HTTPConnection(address, timeout=10)
        connection.request("GET", "/_health", headers=headers)
        assert connection.getresponse().status == expected
        connection.close()


def test_a_second_runner_on_the_same_folder_is_refused(platform: Platform) -> None:
    second = Platform(platform.directory, TEMPLATE, {})
    second._output = platform.directory.parent / "second.output"
    second.launch()
    assert second.wait() == 1
    assert second.output.startswith(f"Another runner is using {platform.directory}; stop it")
    assert second.output.count("\n") == 1
    assert echo(platform, "GET", "/things/first")


def test_an_aws_of_ones_own_is_used_instead(platform: Platform, tmp_path: Path) -> None:
    second = Platform.start(tmp_path, template=TEMPLATE, AWS_ENDPOINT_URL=platform.info["endpoint"])
    try:
        assert second.info["emulatorPid"] is None
        put_item(second, "shared")
        assert item(platform, "shared")
        assert second.stop() == 0
    finally:
        second.kill()
    assert item(platform, "shared")
