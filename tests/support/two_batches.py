"""Two batches at once in one process, each with an env of its own on a real store; the store of the second refuses.

python -m tests.support.two_batches FIRST_ENDPOINT SECOND_ENDPOINT
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from datetime import timedelta
from functools import partial

os.environ.update(AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test", AWS_REGION="us-east-1")

from shared.errors import Unavailable
from shared.settings import load_settings
from shared.storage.aws import Aws
from shared.storage.content import S3Content
from shared.storage.dynamo_kv import DynamoKV
from shared.storage.queue import SqsQueue
from shared.submissions.submission_store import get_submission
from shared.worker_context import Env, get_worker_env
from tests.support.aws_resources import create_resources
from tests.support.builders import a_bundle, an_sqs_record, consume, submitted
from tests.support.memory import FixedSecrets, ScansInThreads, SilentGitHub, no_judge, within

A_WHILE = timedelta(seconds=20)
BATCH = 3


class Watching:
    """A wire that notices requests made under another batch's env, and may refuse to write."""

    def __init__(self, aws: Aws) -> None:
        self._aws = aws
        self.env: Env | None = None
        self.refuses = False
        self.strangers = 0

    async def __call__(self, operation, params):
        self.strangers += get_worker_env() is not self.env
        if self.refuses and operation == "TransactWriteItems":
            await asyncio.sleep(0.01)
            raise Unavailable("This batch fails.")
        return await self._aws.call("dynamodb", operation, params)


def env_of(resources: Mapping[str, str]) -> tuple[Env, Watching, Aws]:
    from shared.runtime import _clock

    settings = load_settings(resources)
    aws = Aws(settings)
    wire = Watching(aws)
    env = Env(
        kv=DynamoKV(wire, settings.table_name),
        content=S3Content(partial(aws.call, "s3"), settings.bucket_name),
        queue=SqsQueue(partial(aws.call, "sqs"), settings.queue_url),
        secrets=FixedSecrets(),
        github=SilentGitHub(_clock),
        bedrock=no_judge,
        scans=ScansInThreads(),
        settings=settings,
        clock=_clock,
    )
    wire.env = env
    return env, wire, aws


async def main(first: str, second: str) -> dict[str, int]:
    (good, good_wire, good_aws), (bad, bad_wire, bad_aws) = (
        env_of(create_resources(endpoint)) for endpoint in (first, second)
    )
    batches = {}
    for env in (good, bad):
        batches[id(env)] = [await submitted(env, a_bundle(f"r26-{n}")) for n in range(BATCH)]
    bad_wire.refuses = True
    answers = await asyncio.gather(
        *(consume([an_sqs_record(s.id) for s in batches[id(env)]], env, "worker", A_WHILE) for env in (good, bad))
    )
    read = [await within(good, lambda s=s: get_submission(s.id)) for s in batches[id(good)]]
    assert answers[0] == {"batchItemFailures": []}
    await good_aws.close()
    await bad_aws.close()
    return {
        "failed": len(answers[1]["batchItemFailures"]),
        "published": sum(s.state == "PUBLISHED" for s in read),
        "strangers": good_wire.strangers + bad_wire.strangers,
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
