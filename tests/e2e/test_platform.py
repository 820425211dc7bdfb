"""The whole platform as a process: real HTTP, real Lambda runtime processes, a real queue, a real DynamoDB API."""

import json
import tarfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from local import smoke
from shared.records.submissions import CATEGORIES
from tests.support.builders import REVERSE_SHELL
from tests.support.platform import Platform, eventually, kill

EARLIER_STATE = Path(__file__).parents[1] / "support" / "state_of_emulator.tar.gz"
CLIENTS = 8
SUBMISSIONS = 200
UNUSABLE_EVERY = 4
# The longest lease of 135 s becomes 7 s, the threshold of 5 min 15 s: recovery happens while the test watches.
QUICK = "0.05"


@pytest.fixture(scope="module")
def platform(tmp_path_factory):
    running = Platform.start(tmp_path_factory.mktemp("platform"))
    yield running
    running.kill()


def bundle(name: str, usable: bool = True, padding: int = 0) -> dict:
    head = f"---\nname: {name}\ndescription: Says hello, number {name}.\n---\n"
    files = {"SKILL.md": head + "x" * padding} | ({} if usable else {"run.sh": REVERSE_SHELL})
    return {"bundle": {"name": name, "files": [{"path": path, "content": text} for path, text in files.items()]}}


def submit(platform: Platform, body: dict, **headers: str) -> dict:
    status, answer = platform.json("POST", "/api/v1/submissions", body, headers)
    assert status in (200, 201), answer
    return answer


def submission(platform: Platform, submission_id: str) -> dict:
    status, answer = platform.json("GET", f"/api/v1/submissions/{submission_id}")
    assert status == 200, answer
    return answer


def stats(platform: Platform) -> dict:
    status, answer = platform.json("GET", "/api/v1/submissions/stats")
    assert status == 200, answer
    return answer


def records(platform: Platform) -> list[dict]:
    """Every record, past all indexes and counters: what is really stored."""
    pages = platform.client("dynamodb").get_paginator("scan").paginate(TableName=platform.info["table"])
    items = [item for page in pages for item in page["Items"] if item["pk"]["S"].startswith("sub:")]
    return [json.loads(item["doc"]["S"]) for item in items]


def assert_counts_are_true(platform: Platform) -> None:
    counted = stats(platform)
    recount = Counter(record["state"] for record in records(platform))
    assert {state: n for state, n in counted["byState"].items() if n} == recount
    assert counted["total"] == sum(recount.values())


def test_the_probes_that_follow_a_deployment_find_nothing_wrong(platform):
    assert smoke.failures_at(platform.url) == []


def test_200_submissions_by_8_clients_end_as_they_should_and_every_number_is_true_on_the_way(platform):
    started, acknowledged, answers = [], [], []
    turns = threading.Semaphore(0)  # each poll lets four posts start, so the polls are spread over the whole run
    bodies = [(f"lot-{n}", n % UNUSABLE_EVERY != 0) for n in range(SUBMISSIONS)]

    def client(share):
        for name, usable in share:
            turns.acquire()
            started.append(name)
            answers.append((submit(platform, bundle(name, usable)), usable))
            acknowledged.append(name)

    def poll() -> None:
        least = len(acknowledged)
        counted = stats(platform)
        assert least <= counted["total"] <= len(started)
        assert counted["total"] == sum(counted[category] for category in CATEGORIES)
        assert counted["degraded"] is False

    polls = 0
    with ThreadPoolExecutor(CLIENTS) as pool:
        running = [pool.submit(client, bodies[n::CLIENTS]) for n in range(CLIENTS)]
        while not all(future.done() for future in running):
            poll()
            polls += 1
            turns.release(4)
        [future.result() for future in running]
    eventually(lambda: poll() or stats(platform)["active"] == 0, 120)
    assert polls >= 50
    assert len({answer["id"] for answer, _ in answers}) == SUBMISSIONS
    rows = {row["id"]: row for row in listing(platform, 500)["submissions"]}
    for answer, usable in answers:
        row = rows[answer["id"]]
        assert row["state"] == ("PUBLISHED" if usable else "TIER1_FAILED"), row
        if not usable:
            assert row["reason"].startswith("Opens a shell to another machine, run.sh:1")
    assert_counts_are_true(platform)


def listing(platform: Platform, limit: int) -> dict:
    status, answer = platform.json("GET", f"/api/v1/submissions?limit={limit}")
    assert status == 200, answer
    return answer


def test_20_parallel_submits_of_one_skill_make_one_record_and_20_equal_ids(platform):
    gate = threading.Barrier(20)

    def once(_):
        gate.wait()
        return submit(platform, bundle("the-same"))

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(once, range(20)))
    assert len({answer["id"] for answer in answers}) == 1
    assert sum("uploadToken" in answer for answer in answers) == 1
    assert sum(record["skillName"].endswith("/the-same") for record in records(platform)) == 1


def test_what_is_published_can_be_read(platform):
    answer = submit(platform, bundle("readable"))
    eventually(lambda: submission(platform, answer["id"])["state"] == "PUBLISHED")
    for name in ("uploads/anonymous/readable", "readable"):
        status, found = platform.json("GET", f"/api/v1/skills/{name}")
        assert (status, found["skill"]["currentVersion"]) == (200, "1.0.0")
        assert "Says hello" in found["skill"]["content"]
    names = [skill["name"] for skill in platform.json("GET", "/api/v1/skills?limit=100")[1]["skills"]]
    assert "uploads/anonymous/readable" in names


def test_poison_in_the_queue_becomes_one_dead_letter_and_harms_no_other_message(platform):
    sqs, url = platform.client("sqs"), platform.info["queueUrl"]
    sent = sqs.send_message(QueueUrl=url, MessageBody="not json")["MessageId"]
    answer = submit(platform, bundle("beside-poison"))
    eventually(lambda: submission(platform, answer["id"])["state"] == "PUBLISHED")
    key = {"pk": {"S": f"dead-letter:{sent}"}, "sk": {"S": "."}}
    find = lambda: platform.client("dynamodb").get_item(TableName=platform.info["table"], Key=key).get("Item")  # noqa: E731
    assert json.loads(eventually(find)["doc"]["S"])["body"] == "not json"


def test_restart_keeps_every_record_and_the_first_list_is_right(tmp_path):
    first = Platform.start(tmp_path)
    try:
        ids = {submit(first, bundle(f"kept-{n}", usable=n % 2 == 0))["id"] for n in range(12)}
        eventually(lambda: stats(first)["active"] == 0)
        before = sorted(records(first), key=lambda record: record["id"])
        assert first.stop() == 0
        first = Platform.start(tmp_path)
        answer = listing(first, 500)  # the very first request of a cold function
        assert {row["id"] for row in answer["submissions"]} == ids
        assert (answer["total"], answer["stats"]["published"], answer["stats"]["rejected"]) == (12, 6, 6)
        assert sorted(records(first), key=lambda record: record["id"]) == before
    finally:
        first.kill()


def test_a_platform_continues_with_the_data_of_an_earlier_release(tmp_path):
    """As it was when its store was an emulator: a published and a rejected skill, and a message that is none."""
    with tarfile.open(EARLIER_STATE) as archive:
        archive.extractall(tmp_path / "local", filter="data")
    platform = Platform.start(tmp_path, TIME_SCALE=QUICK)
    try:
        assert "imported 60 items" in platform.output
        rows = listing(platform, 500)["submissions"]
        assert sorted(row["state"] for row in rows) == ["PUBLISHED", "REJECTED"]
        name = next(row["skillName"] for row in rows if row["state"] == "PUBLISHED")
        found = platform.json("GET", f"/api/v1/skills?q={name.rpartition('/')[2]}")[1]["skills"]
        assert [skill["name"] for skill in found] == [name]
        for path in (f"/skills/{name}", f"/api/v1/skills/{name}/versions/latest/download", "/queue"):
            assert platform.request("GET", path)[0] == 200
        new = submit(platform, bundle("after-the-update"))["id"]
        eventually(lambda: submission(platform, new)["state"] == "PUBLISHED", 90)
    finally:
        platform.kill()


def test_while_the_store_is_gone_a_list_waits_or_is_503_and_is_never_empty(tmp_path):
    platform = Platform.start(tmp_path)
    try:
        there = submit(platform, bundle("there"))["id"]
        kill(platform.info["emulatorPid"])
        seen = []

        def is_answered() -> bool:
            seen.append(platform.json("GET", "/api/v1/submissions?limit=500"))
            return seen[-1][0] != 503

        eventually(is_answered)
        status, answer = seen[-1]
        assert (status, [row["id"] for row in answer["submissions"]]) == (200, [there])
        assert not any("submissions" in refused for _, refused in seen[:-1])
    finally:
        platform.kill()


def test_a_send_that_fails_at_submit_time_is_made_up_for(tmp_path):
    """The queue is gone for a moment: the answer is still 201, and the scan sends it once the queue is back."""
    platform = Platform.start(tmp_path, TIME_SCALE=QUICK)
    try:
        sqs, url = platform.client("sqs"), platform.info["queueUrl"]
        attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout", "RedrivePolicy"])
        sqs.delete_queue(QueueUrl=url)
        answer = submit(platform, bundle("unsent"))
        assert "send failed, left to the stuck scan" in platform.output
        sqs.create_queue(QueueName=url.rpartition("/")[2], Attributes=attributes["Attributes"])
        done = eventually(lambda: (s := submission(platform, answer["id"]))["state"] == "PUBLISHED" and s, 90)
        assert [entry["to"] for entry in done["stateHistory"]].count("PUBLISHED") == 1
    finally:
        platform.kill()
