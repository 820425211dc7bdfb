"""What every queue must do: the same suite on the in-memory fake and on SQS."""

from datetime import timedelta
from functools import partial

import pytest

from shared.aws import Aws
from shared.errors import Unavailable
from shared.queue import SqsQueue, parse_body
from shared.settings import load_settings
from tests.support.memory import MemoryQueue
from tests.support.resources import client, create_resources

ID = "sub_01kk2v5q3n8d7a6f5e4d3c2b1a"


class MemorySide:
    """What a test sees of the queue from outside."""

    def __init__(self):
        self.queue = MemoryQueue()

    def receive(self):
        return [submission_id for submission_id, delay in self.queue.sent if not delay]

    def stop(self):
        self.queue.is_down = True


class SqsSide:
    def __init__(self, url, environment):
        self.settings = load_settings(environment)
        self.aws = Aws(self.settings)
        self.queue = SqsQueue(partial(self.aws.call, "sqs"), self.settings.queue_url)
        self.client = client("sqs", url)

    def receive(self):
        answer = self.client.receive_message(QueueUrl=self.settings.queue_url, MaxNumberOfMessages=10)
        return [parse_body(message["Body"]).id for message in answer.get("Messages", [])]

    def stop(self):
        self.client.delete_queue(QueueUrl=self.settings.queue_url)


@pytest.fixture(params=["memory", "moto"])
async def side(request):
    if request.param == "memory":
        yield MemorySide()
        return
    url = request.getfixturevalue("moto_url")
    side = SqsSide(url, create_resources(url))
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
        lambda queue: queue.come_back_in("receipt", timedelta(seconds=1)),
        lambda queue: queue.check(),
    ],
    ids=["send", "come_back_in", "check"],
)
async def test_a_queue_that_is_gone_is_unavailable(side, call):
    side.stop()
    with pytest.raises(Unavailable):
        await call(side.queue)


async def test_a_received_message_comes_back_when_it_is_told_to(moto_url):
    side = SqsSide(moto_url, create_resources(moto_url))
    await side.queue.send(ID)
    received = side.client.receive_message(QueueUrl=side.settings.queue_url, VisibilityTimeout=600)["Messages"]
    assert side.receive() == []
    await side.queue.come_back_in(received[0]["ReceiptHandle"], timedelta())
    assert side.receive() == [ID]
    await side.aws.close()
