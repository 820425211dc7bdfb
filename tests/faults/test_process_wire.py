"""Bad wires and odd messages, on the whole platform: throttling, left-over keys, lost replies, conflicts, duplicates,
late and unknown messages, outages. Real processes behind a fault proxy."""

import json
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from shared.records.submissions import new_id
from shared.storage.kv import shard_of
from tests.support.builders import REVERSE_SHELL
from tests.support.faulty_platform import bundle, faulty_platform, skill_md
from tests.support.invariants import check_invariants
from tests.support.platform import REPOSITORY, eventually

MOVERS = 30
OUT_OF_ORDER = "no judge answers about this one"


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    with faulty_platform(tmp_path_factory.mktemp("wire"), seed=7) as faulty:
        yield faulty


@pytest.fixture(scope="module", autouse=True)
def outage(faulty):
    """GitHub and the judge are down from the beginning, for some, until the last tests."""
    faulty.judge.about[OUT_OF_ORDER] = "500"
    faulty.github.fail("any", "500")
    for n in range(3):
        faulty.github.repo(f"acme/r34-{n}", {"SKILL.md": skill_md(f"r34-{n}")})
    return {
        "GitHub": [faulty.submit_repo(f"acme/r34-{n}")["id"] for n in range(3)],
        "the judge": [faulty.upload(f"r34-judged-{n}", OUT_OF_ORDER)["id"] for n in range(3)],
    }


@pytest.fixture(autouse=True)
def no_faults_left(faulty):
    yield
    faulty.proxy.clear()
    faulty.proxy.asked = None


def states(done) -> list[str]:
    return [entry["to"] for entry in done["stateHistory"]]


def versions_of(faulty, name: str) -> int:
    return sum(key.pk == f"version:uploads/anonymous/{name}" for key in faulty.stored().items)


def settled(faulty, doubled: int = 0) -> None:
    """Every message that is not waiting for the end of the outage is worked off. `doubled`: how many of those that wait
    may have been sent twice."""
    eventually(lambda: faulty.messages() <= 6 + doubled, 60)


def unsent(faulty, name: str) -> str:
    """A submission that was accepted and whose message was never sent; the scan looks at it 15 s later."""
    fault = faulty.proxy.add("denied", "SendMessage")
    submission_id = faulty.upload(name)["id"]
    fault.times = 0
    return submission_id


# --- messages -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R03")
def test_five_copies_of_a_message_before_and_five_after_the_end_have_one_effect(faulty):
    submission_id = faulty.upload("r03")["id"]
    faulty.send(submission_id, 5)
    done = faulty.ended(submission_id, "PUBLISHED")
    before = faulty.record(submission_id)
    faulty.send(submission_id, 5)
    settled(faulty)
    assert faulty.record(submission_id) == before
    assert states(done) == ["RECEIVED", "TIER1_SCANNING", "TIER2_SCANNING", "AUTO_APPROVED", "PUBLISHED"]
    assert (done["attempts"], versions_of(faulty, "r03")) == (1, 1)


@pytest.mark.requirement("R04")
def test_late_messages_in_any_order_move_nothing_back(faulty):
    first = faulty.upload("r04")
    refused = faulty.submit(bundle("r04-bad", f"```sh\n{REVERSE_SHELL}```"))
    faulty.ended(first["id"], "PUBLISHED")
    again = faulty.upload("r04", "Say goodbye.", token=first["uploadToken"])
    assert again["requeued"] is True
    faulty.ended(first["id"], "PUBLISHED")
    faulty.ended(refused["id"], "TIER1_FAILED")
    before = [faulty.record(one["id"]) for one in (first, refused)]
    for one in (refused, first, refused, first):
        faulty.send(one["id"])
    settled(faulty)
    assert [faulty.record(one["id"]) for one in (first, refused)] == before
    assert versions_of(faulty, "r04") == 2


@pytest.mark.requirement("R05")
def test_a_message_of_a_record_that_is_not_there_is_retried_and_then_one_dead_letter(faulty):
    unknown = new_id(datetime.now(UTC))
    attributes = faulty.sqs.get_queue_attributes(QueueUrl=faulty.queue_url, AttributeNames=["VisibilityTimeout"])
    faulty.sqs.set_queue_attributes(QueueUrl=faulty.queue_url, Attributes={"VisibilityTimeout": "1"})
    faulty.proxy.asked = []
    try:
        eventually(
            lambda: any(a.action == "ReceiveMessage" and "SubmissionQueue" in a.text for a in faulty.proxy.asked)
        )
        faulty.send(unknown)  # now that no poll uses the old timeout
        letters = lambda: [  # noqa: E731
            json.loads(item.doc) for key, item in faulty.stored().items.items() if key.pk.startswith("dead-letter:")
        ]
        [letter] = eventually(letters, 60)
    finally:
        faulty.sqs.set_queue_attributes(QueueUrl=faulty.queue_url, Attributes=attributes["Attributes"])
    assert letter["submissionId"] == unknown
    assert "failed 5 deliveries" in letter["reason"]


@pytest.mark.requirement("R06")
def test_of_two_workers_that_claim_at_one_instant_one_wins(faulty):
    claims = faulty.proxy.hold("TransactWriteItems", having=["r06", "TIER1_SCANNING"])
    submission_id = faulty.upload("r06")["id"]
    claims.wait()  # the first worker has it, so the next message goes to another one
    faulty.send(submission_id)
    eventually(lambda: len({_process(faulty, port) for port in claims.ports} - {None}) >= 2)
    claims.release()
    done = faulty.ended(submission_id, "PUBLISHED")
    assert states(done).count("TIER1_SCANNING") == 1
    assert done["attempts"] == 1


def _process(faulty, port):
    from tests.support.fault_proxy import pid_of

    return pid_of(port, faulty.workers())


@pytest.mark.requirement("R07")
def test_of_two_copies_in_one_batch_one_is_worked_on(faulty):
    submission_id = unsent(faulty, "r07")
    seen = faulty.platform.output.count("2 of 2 done")
    faulty.send(submission_id, 2)
    done = faulty.ended(submission_id, "PUBLISHED")
    eventually(lambda: faulty.platform.output.count("2 of 2 done") > seen)
    assert states(done).count("TIER1_SCANNING") == 1
    assert versions_of(faulty, "r07") == 1


# --- the wire -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R15")
def test_one_throttled_request_goes_unnoticed_and_lasting_throttling_is_a_503_in_time(faulty):
    faulty.proxy.add("throttle", "Query", times=1)
    assert faulty.platform.json("GET", "/api/v1/submissions")[0] == 200
    fault = faulty.proxy.add("throttle", "Query")
    status, headers, body = faulty.platform.request("GET", "/api/v1/submissions")
    assert (status, headers["retry-after"]) == (503, "5")
    assert "submissions" not in json.loads(body)
    assert fault.hits > 1


@pytest.mark.requirement("R15")
def test_a_worker_that_is_throttled_for_ever_fails_its_item_by_its_deadline_and_tries_again(faulty):
    fault = faulty.proxy.add("throttle", "TransactWriteItems", having=["r15", "AUTO_APPROVED"])
    submission_id = faulty.upload("r15")["id"]
    failed = eventually(lambda: (r := faulty.record(submission_id)).get("error") and r, 60)
    assert failed["error"] in ("The store did not accept the write in time", "it took too long")
    fault.times = 0
    done = faulty.ended(submission_id, "PUBLISHED")
    assert "attempt 1 of 3 failed" in " ".join(entry["reason"] or "" for entry in done["stateHistory"])
    assert versions_of(faulty, "r15") == 1


@pytest.mark.requirement("R16")
@pytest.mark.parametrize("share", [0.3, 1])
def test_keys_left_over_for_a_while_are_asked_for_again(faulty, share):
    faulty.proxy.add("unprocessed", "BatchGetItem", having=["sub:"], share=share, times=2)
    status, page = faulty.platform.json("GET", "/api/v1/submissions?limit=100")
    assert (status, page["stale"]) == (200, [])


@pytest.mark.requirement("R16")
def test_keys_left_over_for_ever_are_named_and_their_rows_kept(faulty, outage):
    faulty.proxy.add("unprocessed", "BatchGetItem", having=["sub:"], share=1)
    status, page = faulty.platform.json("GET", "/api/v1/submissions?limit=100")
    waiting = {submission_id for ids in outage.values() for submission_id in ids}
    assert (status, page["degraded"]) == (200, True)
    assert waiting <= set(page["stale"])
    assert waiting <= {row["id"] for row in page["submissions"]}


@pytest.fixture
def many(faulty):
    """251 waiting submissions, written past the platform and gone after the test."""
    ids = [new_id(datetime.now(UTC)) for _ in range(251)]
    for start in range(0, len(ids), 25):
        rows = [{"PutRequest": {"Item": _waiting(submission_id)}} for submission_id in ids[start : start + 25]]
        faulty.dynamodb.batch_write_item(RequestItems={faulty.table: rows})
    yield ids
    for submission_id in ids:
        faulty.dynamodb.delete_item(TableName=faulty.table, Key={"pk": {"S": f"sub:{submission_id}"}, "sk": {"S": "."}})


def _waiting(submission_id: str) -> dict:
    at = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # newer than any other
    shared = {"id": submission_id, "skillName": "uploads/anonymous/r17", "state": "RECEIVED"}
    shared |= {"createdAt": at, "updatedAt": at}
    row = {**shared, "repoUrl": None, "reason": None, "score": None, "version": 1}
    values = {
        "pk": f"sub:{submission_id}",
        "sk": ".",
        "doc": json.dumps({**shared, "source": "uploads/anonymous", "skillPath": submission_id}),
        "row": json.dumps(row),
        "listPk": f"submissions:index#{shard_of(submission_id)}",
        "listSk": f"{at}#{submission_id}",
    }
    return {name: {"S": value} for name, value in values.items()}


@pytest.mark.requirement("R17")
@pytest.mark.parametrize("keys", [1, 100, 101, 250])
def test_any_number_of_records_is_read_in_whole_each_once(faulty, many, keys):
    faulty.proxy.asked = []
    status, page = faulty.insist("GET", f"/api/v1/submissions?limit={keys}")
    assert (status, page["stale"], page["degraded"]) == (200, [], False)
    assert {row["id"] for row in page["submissions"]} <= set(many)
    assert len({row["id"] for row in page["submissions"]}) == keys
    batches = [_keys(asked.text) for asked in faulty.proxy.asked if asked.action == "BatchGetItem"]
    ours = [[key for key in batch if key.removeprefix("sub:") in many] for batch in batches]
    assert all(len(batch) <= 100 for batch in batches)
    assert max(Counter(key for batch in ours for key in batch).values()) == 1
    assert {f"sub:{row['id']}" for row in page["submissions"]} <= {key for batch in ours for key in batch}


@pytest.mark.requirement("R17")
def test_no_records_are_no_request(faulty):
    faulty.proxy.asked = []
    status, page = faulty.insist("GET", "/api/v1/submissions?state=VENDOR_APPROVED")
    assert (status, page["submissions"], page["total"]) == (200, [], 0)
    batches = [_keys(asked.text) for asked in faulty.proxy.asked if asked.action == "BatchGetItem"]
    assert all(batches)


def _keys(text: str) -> list[str]:
    [ask] = json.loads(text.partition("\n")[2])["RequestItems"].values()
    return [key["pk"]["S"] for key in ask["Keys"]]


LOST = {
    "the accept": ("TransactWriteItems", ["unique:"]),
    "the claim": ("TransactWriteItems", ["TIER1_SCANNING"]),
    "the move": ("TransactWriteItems", ["AUTO_APPROVED"]),
    "the publication": ("TransactWriteItems", ["version:"]),
    "the words it is found by": ("BatchWriteItem", ["facet:"]),
}


@pytest.mark.requirement("R18")
def test_one_submission_that_loses_the_reply_to_every_kind_of_write_leaves_one_effect(faulty):
    lost = [faulty.proxy.add("drop after", a, having=["r18", *having], times=1) for a, having in LOST.values()]
    lost += [faulty.proxy.add("drop after", action, times=1) for action in ("SendMessage", "s3:PUT")]
    lost += [faulty.proxy.add("drop after", "DeleteMessageBatch", times=1)]
    first = faulty.upload("r18")
    done = faulty.ended(first["id"], "PUBLISHED")
    lost.append(faulty.proxy.add("drop after", "PutItem", having=["idem:"], times=1))
    again = faulty.upload("r18")
    eventually(lambda: all(fault.hits for fault in lost), 30)
    assert (again["id"], again["alreadyVerified"]) == (first["id"], True)
    settled(faulty, doubled=1)  # the lost reply may have been that to one who waits for GitHub or the judge
    done = faulty.submission(first["id"])
    assert states(done) == ["RECEIVED", "TIER1_SCANNING", "TIER2_SCANNING", "AUTO_APPROVED", "PUBLISHED"]
    assert versions_of(faulty, "r18") == 1
    check_invariants(faulty.stored())


@pytest.mark.requirement("R19")
def test_thirty_movers_in_a_storm_of_conflicts_are_counted_exactly(faulty):
    storm = faulty.proxy.add("conflict", "TransactWriteItems", having=["r19"], chance=0.25)
    with ThreadPoolExecutor(10) as pool:
        ids = list(pool.map(lambda n: faulty.upload(f"r19-{n}")["id"], range(MOVERS)))
    for submission_id in ids:
        faulty.ended(submission_id, "PUBLISHED")
    assert storm.hits > MOVERS
    check_invariants(faulty.stored())


@pytest.mark.requirement("R26")
def test_two_batches_with_envs_of_their_own_one_failing_keep_apart(faulty, moto_url):
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.two_batches", faulty.proxy.url, moto_url],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "failed": 3,
        "published": 3,
        "strangers": 0,
    }


# --- outages --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R34")
def test_a_pause_costs_nothing_and_ends_by_itself(faulty):
    until = datetime.now(UTC) + timedelta(seconds=6)
    pause = json.dumps({"until": until.isoformat(), "by": "admin:test", "reason": "moving"})
    item = {"pk": {"S": "queue:paused"}, "sk": {"S": "."}, "doc": {"S": pause}}
    faulty.dynamodb.put_item(TableName=faulty.table, Item=item)
    ids = [faulty.upload(f"r34-paused-{n}")["id"] for n in range(4)]
    faulty.send(ids[0], 5)
    for submission_id in ids:
        done = faulty.ended(submission_id, "PUBLISHED")
        assert (done["attempts"], states(done).count("TIER1_SCANNING")) == (1, 1)
        assert datetime.fromisoformat(done["stateHistory"][1]["timestamp"]) >= until


@pytest.fixture(scope="module")
def at_its_end(faulty, outage):
    """What had become of them when the outage was over."""
    deferred = lambda record: "deferred" in (record.get("reason") or "")  # noqa: E731
    seen = {}
    for submission_id in (submission_id for ids in outage.values() for submission_id in ids):
        seen[submission_id] = eventually(lambda s=submission_id: deferred(r := faulty.record(s)) and r)
    faulty.judge.about.clear()
    faulty.github.fail("any", None)
    return seen


@pytest.mark.requirement("R34")
@pytest.mark.parametrize("down", ["GitHub", "the judge"])
def test_what_was_deferred_by_an_outage_finishes_after_it_with_all_its_attempts(faulty, outage, at_its_end, down):
    for submission_id in outage[down]:
        waiting = at_its_end[submission_id]
        assert (waiting["state"], waiting.get("attempts", 0)) == ("RECEIVED", 0)
        assert faulty.ended(submission_id, "PUBLISHED")["attempts"] == 1
    stored = faulty.stored()
    letters = [json.loads(item.doc) for key, item in stored.items.items() if key.pk.startswith("dead-letter:")]
    assert not [letter for letter in letters if letter["submissionId"] in outage[down]]


def test_at_rest_every_invariant_holds_and_the_queue_is_empty(faulty):
    eventually(lambda: faulty.messages() == 0, 60)
    check_invariants(faulty.stored())
    assert faulty.admin("GET", "stuck")["count"] == 0
