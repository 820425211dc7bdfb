"""What every queue must do: the same suite on the in-memory fakes and on implementations of SQS."""

import json
from datetime import timedelta
from functools import partial

import pytest

from shared.errors import Unavailable
from shared.settings import load_settings
from shared.storage.aws import Aws
from shared.storage.aws_sdk import AwsSdk
from shared.storage.queue import SqsQueue, parse_body
from shared.timing import MAX_RECEIVES, VISIBILITY_TIMEOUT
from tests.support.aws_resources import client, create_resources
from tests.support.memory import Clock, MemoryQueue
from tests.support.memory_sqs import MemorySqs

ID = "sub_01kk2v5q3n8d7a6f5e4d3c2b1a"


class MemorySide:
    """What a test sees of the queue from outside."""

    def __init__(self):
        self.clock = Clock()
        self.dead = MemorySqs(self.clock)
        self.sqs = MemorySqs(self.clock, self.dead)
        self.queue = SqsQueue(self.sqs, "q")

    def receive_all(self):
        return self.sqs.receive()

    def receive(self):
        return [parse_body(message["Body"]).id for message in self.receive_all()]

    def receive_dead(self):
        return [parse_body(message["Body"]).id for message in self.dead.receive()]

    def delete(self, receipt):
        self.sqs.delete(receipt)

    def stop(self):
        self.sqs.is_down = True


class PlainSide(MemorySide):
    """The queue of unit tests keeps what was sent, and no more."""

    def __init__(self):
        self.queue = MemoryQueue()

    def receive(self):
        return [submission_id for submission_id, delay in self.queue.sent if not delay]

    def stop(self):
        self.queue.is_down = True


class SqsSide:
    def __init__(self, url, environment, client_of_aws):
        self.settings = load_settings(environment)
        self.aws = client_of_aws(self.settings)
        self.queue = SqsQueue(partial(self.aws.call, "sqs"), self.settings.queue_url)
        self.client = client("sqs", url)
        self.dead = self.client.create_queue(QueueName=f"dead-{self.settings.table_name}")["QueueUrl"]
        arn = self.client.get_queue_attributes(QueueUrl=self.dead, AttributeNames=["QueueArn"])["Attributes"][
            "QueueArn"
        ]
        redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": MAX_RECEIVES})
        visibility = str(int(VISIBILITY_TIMEOUT.total_seconds()))
        self.client.set_queue_attributes(
            QueueUrl=self.settings.queue_url,
            Attributes={"RedrivePolicy": redrive, "VisibilityTimeout": visibility},
        )

    def receive_all(self):
        return self._receive(self.settings.queue_url)

    def receive(self):
        return [parse_body(message["Body"]).id for message in self.receive_all()]

    def receive_dead(self):
        return [parse_body(message["Body"]).id for message in self._receive(self.dead)]

    def delete(self, receipt):
        self.client.delete_message(QueueUrl=self.settings.queue_url, ReceiptHandle=receipt)

    def stop(self):
        self.client.delete_queue(QueueUrl=self.settings.queue_url)

    def _receive(self, url):
        answer = self.client.receive_message(QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"])
        return answer.get("Messages", [])


@pytest.fixture(params=["plain", "memory", "moto", "moto by the SDK", "store", "store by the SDK"])
async def side(request):
    if request.param in ("plain", "memory"):
        yield PlainSide() if request.param == "plain" else MemorySide()
        return
    url = request.getfixturevalue(f"{request.param.split()[0]}_url")
    side = SqsSide(url, create_resources(url), AwsSdk if request.param.endswith("SDK") else Aws)
    yield side
    await side.aws.close()


async def test_what_is_sent_is_received_and_names_its_submission(side):
    await side.queue.send(ID)
    assert side.receive() == [ID]


async def test_what_is_sent_with_a_delay_is_not_there_yet(side):
    await side.queue.send(ID, timedelta(minutes=15))
    assert side.receive() == []


async def test_a_delay_longer_than_sqs_takes_is_shortened_not_refused(side):
    await side.queue.send(ID, timedelta(hours=3))
    assert side.receive() == []


async def test_a_queue_that_is_up_says_so(side):
    assert await side.queue.check() is None


@pytest.mark.parametrize(
    "call",
    [
        lambda queue: queue.send(ID),
        lambda queue: queue.retry_in("receipt", timedelta(seconds=1)),
        lambda queue: queue.check(),
    ],
    ids=["send", "retry_in", "check"],
)
async def test_a_queue_that_is_gone_is_unavailable(side, call):
    side.stop()
    with pytest.raises(Unavailable):
        await call(side.queue)


@pytest.fixture(params=["memory", "moto", "store"])
async def full_side(request):
    """A queue with visibility, receive counts and a dead-letter queue behind it."""
    if request.param == "memory":
        yield MemorySide()
        return
    url = request.getfixturevalue(f"{request.param}_url")
    side = SqsSide(url, create_resources(url), Aws)
    yield side
    await side.aws.close()


async def test_a_received_message_reappears_after_the_delay_that_was_set(full_side):
    await full_side.queue.send(ID)
    [received] = full_side.receive_all()
    assert full_side.receive() == []
    await full_side.queue.retry_in(received["ReceiptHandle"], timedelta())
    assert full_side.receive() == [ID]


async def test_a_message_is_gone_once_it_is_deleted_and_not_before(full_side):
    await full_side.queue.send(ID)
    [received] = full_side.receive_all()
    await full_side.queue.retry_in(received["ReceiptHandle"], timedelta())
    [again] = full_side.receive_all()
    assert again["MessageId"] == received["MessageId"]
    full_side.delete(again["ReceiptHandle"])
    full_side.delete(again["ReceiptHandle"])  # once more is no error
    assert full_side.receive() == []


async def test_a_message_counts_its_receives_and_after_five_it_is_a_dead_letter(full_side):
    await full_side.queue.send(ID)
    counts = []
    for _ in range(MAX_RECEIVES):
        [received] = full_side.receive_all()
        counts.append(received["Attributes"]["ApproximateReceiveCount"])
        await full_side.queue.retry_in(received["ReceiptHandle"], timedelta())
    assert counts == ["1", "2", "3", "4", "5"]
    assert full_side.receive_dead() == []
    assert full_side.receive() == []
    assert full_side.receive_dead() == [ID]


async def test_a_deleted_message_cannot_be_made_to_reappear(full_side):
    await full_side.queue.send(ID)
    [received] = full_side.receive_all()
    full_side.delete(received["ReceiptHandle"])
    with pytest.raises(Unavailable):
        await full_side.queue.retry_in(received["ReceiptHandle"], timedelta())
    assert full_side.receive() == []
