"""The store of one machine: what it refuses, what is on disk when it answers, and what it takes from earlier releases.
What it must do like DynamoDB, SQS and S3 is in tests/integration/test_*_contract.py."""

import asyncio
import json
import sqlite3
import tarfile
from pathlib import Path
from typing import Any

import pytest

from local.store.database import MOST_IN_ONE_COMMIT, Database
from local.store.dynamodb import DynamoDb
from local.store.errors import RequestError
from local.store.http_server import Request
from local.store.ministack_state import import_state
from local.store.queries import PAGE_BYTES, end_of_prefix
from local.store.s3 import S3
from local.store.sqs import Sqs
from tests.support.aws_resources import resource
from tests.support.store import begin_a_write

EARLIER_STATE = Path(__file__).parents[2] / "support" / "state_of_emulator.tar.gz"
WANTED = ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "BillingMode")


@pytest.fixture
def database(tmp_path):
    opened = Database(tmp_path / "platform.db")
    yield opened
    opened.close()


@pytest.fixture
async def dynamodb(database):
    service = DynamoDb(database)
    table = resource("Table")
    await service.handle("CreateTable", {"TableName": "t", **{name: table[name] for name in WANTED}})
    return service


def key(pk: str, sk: str = ".") -> dict[str, Any]:
    return {"pk": {"S": pk}, "sk": {"S": sk}}


def put(pk: str, sk: str = ".", **attributes: Any) -> dict[str, Any]:
    return {"TableName": "t", "Item": {**key(pk, sk), **attributes}}


async def get(service: DynamoDb, pk: str, sk: str = ".") -> dict[str, Any] | None:
    return (await service.handle("GetItem", {"TableName": "t", "Key": key(pk, sk)})).get("Item")


async def query(service: DynamoDb, condition: str, values: dict[str, str], **more: Any) -> dict[str, Any]:
    given = {name: {"S": value} for name, value in values.items()}
    about = {"TableName": "t", "KeyConditionExpression": condition, "ExpressionAttributeValues": given}
    return await service.handle("Query", {**about, **more})


# --- refused by name ---


@pytest.mark.parametrize(
    ("operation", "params", "named"),
    [
        ("ExecuteStatement", {}, "the operation ExecuteStatement of DynamoDB"),
        ("PutItem", {**put("a"), "Expected": {}}, "Expected of PutItem"),
        ("Query", {"TableName": "t", "FilterExpression": "a = :b"}, "FilterExpression of Query"),
        ("TransactWriteItems", {"TransactItems": [{"Upsert": {}}]}, "Upsert in a transaction"),
        ("UpdateTable", {"TableName": "t", "GlobalSecondaryIndexUpdates": [{"Delete": {}}]}, "anything but Create"),
    ],
)
async def test_what_the_store_cannot_do_is_refused_by_name(dynamodb, operation, params, named):
    with pytest.raises(RequestError, match=f"ValidationException: The store of one machine does not support {named}"):
        await dynamodb.handle(operation, params)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("size(#a) > :v", "support the function size"),
        ("contains(#a, :v)", "support the function contains"),
        ("#a IN (:v)", "support IN in a condition"),
        ("#a.b = :v", "support paths into an attribute"),
        ("#a = #a", "where a value like :v is expected"),
        ("#a = :v AND", "ends too early"),
        ("#a = :v :v", "syntax error at ':v'"),
        ("#a = :v; DROP", "syntax error at ';"),
        ("#a = :other", "not defined: :other"),
        ("attribute_exists(b)", "not used in any expression: #a, :v"),
        ("", "is empty"),
    ],
)
async def test_a_condition_outside_the_supported_grammar_is_refused(dynamodb, expression, reason):
    given = {"ExpressionAttributeNames": {"#a": "a"}, "ExpressionAttributeValues": {":v": {"S": "x"}}}
    with pytest.raises(RequestError, match=reason):
        await dynamodb.handle("PutItem", {**put("a"), "ConditionExpression": expression, **given})
    assert await get(dynamodb, "a") is None


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("DELETE a :v", "DELETE in an update"),
        ("SET a = :v + :v", "arithmetic in SET"),
        ("SET a = if_not_exists(a, :v)", "where a value like :v"),
        ("SET a = :v ADD a :v", "overlap"),
        ("SET sk = :v", "a key attribute cannot be updated"),
        ("ADD a :v", "ADD to anything but a number"),
    ],
)
async def test_an_update_outside_the_supported_grammar_is_refused(dynamodb, expression, reason):
    values = {"ExpressionAttributeValues": {":v": {"S": "x"}}}
    with pytest.raises(RequestError, match=reason):
        await dynamodb.handle(
            "UpdateItem", {"TableName": "t", "Key": key("a"), "UpdateExpression": expression, **values}
        )


@pytest.mark.parametrize(
    "item",
    [
        {"pk": {"S": "a"}},
        key(""),
        key("a", "b" * 1025),
        {"pk": {"N": "1"}, "sk": {"S": "b"}},
        {**key("a"), "x": {"N": "one"}},
        {**key("a"), "x": {"N": "NaN"}},
        {**key("a"), "x": "text"},
        {**key("a"), "listPk": {"N": "1"}, "listSk": {"S": "1"}},
        {**key("a"), "doc": {"S": "x" * 410_000}},
    ],
    ids=["no sk", "empty", "long", "number", "no number", "NaN", "no type", "index key", "too large"],
)
async def test_an_item_that_dynamodb_refuses_is_refused(dynamodb, item):
    with pytest.raises(RequestError, match="ValidationException"):
        await dynamodb.handle("PutItem", {"TableName": "t", "Item": item})


async def test_conditions_know_precedence_parentheses_not_and_types(dynamodb):
    await dynamodb.handle("PutItem", put("a", n={"N": "10"}, s={"S": "10"}))
    values = {":nine": {"N": "9.0"}, ":ten": {"S": "10"}, ":a": {"S": "1"}, ":z": {"S": "2"}}

    async def is_met(condition: str) -> bool:
        used = {name: value for name, value in values.items() if name in condition}
        about = {**put("a", n={"N": "10"}, s={"S": "10"}), "ConditionExpression": condition}
        try:
            await dynamodb.handle("PutItem", {**about, **({"ExpressionAttributeValues": used} if used else {})})
        except RequestError as error:
            return error.code != "ConditionalCheckFailedException"
        return True

    assert await is_met("n > :nine AND s = :ten OR attribute_exists(none)")
    assert await is_met("attribute_exists(none) OR n > :nine AND s BETWEEN :a AND :z")
    assert not await is_met("(attribute_exists(none) OR n > :nine) AND NOT begins_with(s, :a)")
    assert not await is_met("n = :ten")  # a number is no string
    assert not await is_met("none <> :ten")


async def test_a_page_ends_at_a_megabyte_and_continues_where_it_ended(dynamodb):
    text = {"S": "x" * 300_000}
    for n in range(5):
        await dynamodb.handle("PutItem", put("big", f"{n}", doc=text, listPk={"S": "l"}, listSk={"S": "same"}))
    pages, start = [], {}
    while True:
        page = await query(dynamodb, "pk = :p", {":p": "big"}, **start)
        pages.append([item["sk"]["S"] for item in page["Items"]])
        if "LastEvaluatedKey" not in page:
            break
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
    assert pages == [["0", "1", "2", "3"], ["4"]]
    assert sum(len(text["S"]) for _ in pages[0]) > PAGE_BYTES
    # Entries of an index with the same keys have an order too.
    first = await query(dynamodb, "listPk = :p", {":p": "l"}, IndexName="list", Limit=2, ScanIndexForward=False)
    about = {"ExclusiveStartKey": first["LastEvaluatedKey"], "ScanIndexForward": False}
    rest = await query(dynamodb, "listPk = :p", {":p": "l"}, IndexName="list", **about)
    assert [item["sk"]["S"] for page in (first, rest) for item in page["Items"]] == ["4", "3", "2", "1", "0"]


@pytest.mark.parametrize(
    ("prefix", "end"), [("a", "b"), ("a\U0010ffff", "b"), ("\ud7ff", "\ue000"), ("\U0010ffff", None), ("", None)]
)
def test_the_end_of_a_prefix(prefix, end):
    assert end_of_prefix(prefix) == end


async def test_a_transaction_with_the_same_token_is_applied_once(dynamodb):
    add = {"Update": {"TableName": "t", "Key": key("n"), "UpdateExpression": "ADD n :one"}}
    add["Update"]["ExpressionAttributeValues"] = {":one": {"N": "1"}}
    for _ in range(2):
        await dynamodb.handle("TransactWriteItems", {"TransactItems": [add], "ClientRequestToken": "once"})
    assert (await get(dynamodb, "n"))["n"] == {"N": "1"}
    other = {"Put": put("other")}
    with pytest.raises(RequestError, match="IdempotentParameterMismatch"):
        await dynamodb.handle("TransactWriteItems", {"TransactItems": [other], "ClientRequestToken": "once"})


async def test_expired_items_are_deleted_with_their_index_entries(database, dynamodb):
    about = {"AttributeName": "expiresAt", "Enabled": True}
    await dynamodb.handle("UpdateTimeToLive", {"TableName": "t", "TimeToLiveSpecification": about})
    for n, expires in enumerate(("1", "1", "99999999999")):
        attributes = {"expiresAt": {"N": expires}, "duePk": {"S": "due"}, "dueSk": {"S": str(n)}}
        await dynamodb.handle("PutItem", put(f"p{n}", **attributes))
    await dynamodb.delete_expired(most=1)
    assert [(await get(dynamodb, f"p{n}")) is not None for n in range(3)] == [False, False, True]
    assert (await query(dynamodb, "duePk = :p", {":p": "due"}, IndexName="due"))["Count"] == 1


async def test_messages_beyond_their_retention_are_deleted(database):
    now = [1000.0]
    sqs = Sqs(database, "http://127.0.0.1:1", lambda: now[0])
    about = {"QueueUrl": (await sqs.handle("CreateQueue", {"QueueName": "q"}))["QueueUrl"]}
    await sqs.handle("SendMessage", {**about, "MessageBody": "old"})
    now[0] += 4 * 24 * 3600 + 1
    await sqs.handle("SendMessage", {**about, "MessageBody": "new"})
    await sqs.delete_expired()
    assert [m["Body"] for m in (await sqs.handle("ReceiveMessage", about))["Messages"]] == ["new"]


async def test_objects_expire_by_the_beginning_of_their_key_and_their_age(database, monkeypatch):
    monkeypatch.setattr("local.store.s3.MOST_IN_ONE_DELETE", 2)
    now = [1000.0]
    s3 = S3(database, lambda: now[0], {"cache/": 1, "received/": 180})
    await s3.handle(Request("PUT", "/b", {}, b""))
    keys = [*(f"cache/{n}" for n in range(5)), "received/a", "content/a"]
    for key in keys:
        await s3.handle(Request("PUT", f"/b/{key}", {}, b"x"))
    for days, left in ((0.9, keys), (0.2, keys[5:]), (179, ["content/a"])):
        now[0] += days * 24 * 3600
        await s3.delete_expired()
        rows = database.reader.execute("SELECT key FROM objects ORDER BY rowid").fetchall()
        assert [key for (key,) in rows] == left


async def test_what_expires_is_found_without_reading_the_objects(database):
    query = "EXPLAIN QUERY PLAN SELECT rowid FROM objects WHERE key >= 'a' AND key < 'b' AND modified < 1 LIMIT 5"
    assert "COVERING INDEX objects_by_age" in str(database.reader.execute(query).fetchall())


async def test_a_waiting_receiver_gets_a_message_as_soon_as_it_is_sent(database):
    sqs = Sqs(database, "http://127.0.0.1:1")
    about = {"QueueUrl": (await sqs.handle("CreateQueue", {"QueueName": "q"}))["QueueUrl"]}
    waiting = asyncio.create_task(sqs.handle("ReceiveMessage", {**about, "WaitTimeSeconds": 20}))
    await asyncio.sleep(0)
    await sqs.handle("SendMessage", {**about, "MessageBody": "here"})
    assert [m["Body"] for m in (await asyncio.wait_for(waiting, 10))["Messages"]] == ["here"]


@pytest.mark.parametrize(
    ("operation", "params"),
    [
        ("PurgeQueue", {}),
        ("CreateQueue", {"QueueName": "q.fifo", "Attributes": {"FifoQueue": "true"}}),
        ("SendMessage", {"QueueUrl": "q", "MessageBody": "x", "MessageAttributes": {"a": {}}}),
    ],
)
async def test_what_the_queue_cannot_do_is_refused_by_name(database, operation, params):
    with pytest.raises(RequestError, match="The store of one machine does not support"):
        await Sqs(database, "http://127.0.0.1:1").handle(operation, params)


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        ("GET", "/bucket?list-type=2", {}),
        ("POST", "/bucket/key?uploads", {}),
        ("PUT", "/bucket/key", {"x-amz-copy-source": "/other/key"}),
        ("PUT", "/bucket/key", {"content-encoding": "aws-chunked"}),
    ],
)
async def test_what_the_bucket_cannot_do_is_refused_by_name(database, method, target, headers):
    with pytest.raises(RequestError, match="NotImplemented: The store of one machine does not support"):
        await S3(database).handle(Request(method, target, headers, b""))


# --- on disk when answered ---


@pytest.mark.requirement("R39")
async def test_a_write_is_answered_after_its_commit_and_many_share_one(database, tmp_path):
    other = sqlite3.connect(tmp_path / "platform.db")
    commits: list[int] = []
    database._writer.set_trace_callback(lambda statement: commits.append(1) if statement == "COMMIT" else None)

    async def write(n: int) -> bool:
        await database.write(lambda connection: connection.execute("INSERT INTO buckets VALUES (?)", (f"b{n}",)))
        # At the very moment of the answer, another connection sees it.
        return other.execute("SELECT 1 FROM buckets WHERE name = ?", (f"b{n}",)).fetchone() is not None

    assert all(await asyncio.gather(*map(write, range(MOST_IN_ONE_COMMIT))))
    assert 1 <= len(commits) < MOST_IN_ONE_COMMIT / 10
    assert database._writer.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL: an fsync for every commit
    other.close()


async def test_a_write_that_fails_harms_none_beside_it(database):
    def half(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO buckets VALUES ('half')")
        raise RequestError("ValidationException", "no")

    def whole(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO buckets VALUES ('whole')")

    outcomes = await asyncio.gather(database.write(half), database.write(whole), return_exceptions=True)
    assert isinstance(outcomes[0], RequestError)
    assert outcomes[1] is None
    assert database.reader.execute("SELECT name FROM buckets").fetchall() == [("whole",)]


async def test_a_commit_that_fails_is_reported_to_every_writer(database):
    database._writer.execute("PRAGMA max_page_count = 1")  # as if the disk were full
    big = lambda connection: connection.execute("INSERT INTO objects VALUES ('b', 'k', zeroblob(9000000), '', 0)")  # noqa: E731
    with pytest.raises(RequestError, match=r"InternalServerError: Nothing was written|full"):
        await database.write(big)
    assert database.reader.execute("SELECT COUNT(*) FROM objects").fetchone() == (0,)


def test_a_torn_tail_of_the_log_is_cut_and_counted(tmp_path):
    file = tmp_path / "platform.db"
    first = Database(file)
    first._apply([lambda connection: connection.execute("INSERT INTO buckets VALUES ('kept')")])
    for name in ("platform.db", "platform.db-wal"):  # as they are while the writer still runs: it never stops here
        (tmp_path / f"copy-{name}").write_bytes((tmp_path / name).read_bytes())
    first.close()
    begin_a_write(tmp_path / "copy-platform.db-wal")
    second = Database(tmp_path / "copy-platform.db")
    assert second.opened == (False, 1024)
    assert second.reader.execute("SELECT name FROM buckets").fetchall() == [("kept",)]
    second.close()


def test_a_file_of_a_newer_release_is_refused(tmp_path):
    connection = sqlite3.connect(tmp_path / "platform.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(sqlite3.DatabaseError, match="its format is 99, and this release knows 1"):
        Database(tmp_path / "platform.db")


# --- from an earlier release ---


async def test_the_state_of_an_earlier_release_is_imported_once(tmp_path, capsys):
    """The archive was made by the platform as it was when its store was an emulator: two submissions and a message."""
    with tarfile.open(EARLIER_STATE) as archive:
        archive.extractall(tmp_path, filter="data")

    def fill(connection: sqlite3.Connection) -> None:
        import_state(connection, tmp_path)

    database = Database(tmp_path / "platform.db", fill)
    assert "imported 60 items, 1 messages and 6 objects" in capsys.readouterr().out
    dynamodb, sqs, s3 = DynamoDb(database), Sqs(database, "http://127.0.0.1:1", lambda: 4e9), S3(database)
    table = "vskill-platform-Table"
    rows = []
    for shard in range(4):
        about = {"TableName": table, "IndexName": "list", "KeyConditionExpression": "listPk = :p"}
        values = {":p": {"S": f"submissions:index#{shard}"}}
        rows += (await dynamodb.handle("Query", {**about, "ExpressionAttributeValues": values}))["Items"]
    docs = [
        json.loads((await dynamodb.handle("GetItem", {"TableName": table, "Key": _key_in(row)}))["Item"]["doc"]["S"])
        for row in rows
    ]
    assert sorted(doc["state"] for doc in docs) == ["PUBLISHED", "REJECTED"]
    received = await sqs.handle("ReceiveMessage", {"QueueUrl": "/vskill-platform-SubmissionQueue"})
    assert [message["Body"] for message in received["Messages"]] == ["kept for later"]
    stored = f"/vskill-platform-content/content/{docs[0]['contentHash']}"
    assert (await s3.handle(Request("GET", stored, {}, b""))).body.startswith(b"\x1f\x8b")
    database.close()
    Database(tmp_path / "platform.db", fill).close()
    assert capsys.readouterr().out == ""


def _key_in(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("pk", "sk")}
