"""The soak itself, for some seconds: it breaks things, says what it did, and its exit code can be trusted."""

import subprocess
import sys

from tests.support.faulty_platform import faulty_platform
from tests.support.platform import REPOSITORY, eventually
from tests.support.quiescence import wrong_at_rest


def test_a_short_soak_breaks_a_lot_and_loses_nothing():
    """At rest again after R01, R03, R13, R15, R16, R18, R19 and R21 all at once."""
    command = ["tests.faults.soak", "--minutes", "0.2", "--kills", "60", "--seed", "3"]
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=REPOSITORY, capture_output=True, text=True, timeout=420, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    reported = {line[:20].strip(): line[20:] for line in done.stdout.splitlines()}
    assert reported["submissions lost"] == reported["published twice"] == "0"
    assert int(reported["workers killed"].split()[0]) > 0
    assert int(reported["faults on the wire"].split()[0]) > 0
    assert int(reported["load held"].split()[0]) > 0


def test_what_is_wrong_at_rest_is_reported(tmp_path):
    """A soak that cannot fail proves nothing: each kind of damage is planted and found."""
    with faulty_platform(tmp_path, EXTERNAL_SCANNERS="") as faulty:
        kept, lost = faulty.upload("kept")["id"], faulty.upload("lost")["id"]
        for one in (kept, lost):
            faulty.ended(one, "PUBLISHED")
        eventually(lambda: faulty.messages() == 0)
        assert wrong_at_rest(faulty, [kept, lost], []) == []
        poison = faulty.sqs.send_message(QueueUrl=faulty.queue_url, MessageBody="junk", DelaySeconds=900)["MessageId"]
        key = {"pk": {"S": f"sub:{lost}"}, "sk": {"S": "."}}
        faulty.dynamodb.delete_item(TableName=faulty.table, Key=key)
        problems = " ".join(wrong_at_rest(faulty, [kept, lost], [poison]))
        for reported in (
            f"I1: {lost} was accepted and is answered 404",
            f"I1: {lost} was accepted and is not stored",
            "I5: the cards say",
            f"I15: the poison message {poison} is no dead letter",
            "I13: 1 messages are in queueUrl",
        ):
            assert reported in problems
