"""Our own client of AWS against servers that misbehave, and where it leaves the work to the SDK."""

import asyncio
import json
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError, CredentialRetrievalError, EndpointConnectionError, HTTPClientError

from shared.settings import load_settings
from shared.storage.aws import Aws
from shared.storage.aws_sdk import AwsSdk
from shared.storage.credentials import RENEW_BEFORE, CredentialSource
from shared.storage.http_client import HttpClient
from tests.support.aws_resources import create_resources
from tests.support.memory import Clock

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Server:
    """Answers each request with the next of `answers`, the last one for ever. None: says nothing."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []
        self.connections = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self._server.close()
        self.drop()
        await self._server.wait_closed()

    def drop(self):
        for writer in self._writers:
            writer.close()

    async def _serve(self, reader, writer):
        self.connections += 1
        self._writers.append(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(length))
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if answer is not None:
                    writer.write(answer)
                    if b"Connection: close" in answer:
                        writer.close()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


def aws_at(url: str) -> Aws:
    return Aws(load_settings({**ENVIRONMENT, "AWS_ENDPOINT_URL": url}))


ENVIRONMENT = {
    **dict.fromkeys(("TABLE_NAME", "QUEUE_URL", "SECRET_ID", "BUCKET_NAME"), "none"),
    "STAGE": "local",
    "ALLOW_UPLOADS": "true",
    "MAX_ACTIVE": "1",
    "AWS_REGION": "us-east-1",
}


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in another part of this loop
            await asyncio.sleep(0.001)


async def get_item(aws: Aws):
    return await aws.call("dynamodb", "GetItem", {})


async def test_a_connection_is_used_again():
    async with Server(OK) as server:
        aws = aws_at(server.url)
        for _ in range(3):
            await get_item(aws)
        assert (server.connections, len(server.requests)) == (1, 3)
        await asyncio.gather(*(get_item(aws) for _ in range(3)))
        assert server.connections <= 3
        await aws.close()


async def test_a_connection_that_the_server_closed_meanwhile_is_not_used_again():
    async with Server(OK) as server:
        aws = aws_at(server.url)
        await get_item(aws)
        server.drop()
        [client] = aws._http.values()
        await until(lambda: not client._idle[0].is_open)
        await get_item(aws)
        assert server.connections == 2
        await aws.close()


async def test_a_request_that_was_given_up_answers_no_later_one():
    async with Server(None, OK) as server:
        aws = aws_at(server.url)
        asked = asyncio.ensure_future(get_item(aws))
        await until(lambda: server.requests)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await get_item(aws)
        assert server.connections == 2
        await aws.close()


async def test_silence_is_a_time_out_and_the_connection_is_not_used_again():
    async with Server(None, OK) as server:
        client = HttpClient(urlsplit(server.url), None, 1)
        with pytest.raises(TimeoutError):
            await client.request("GET", "/", {}, b"", 0.01)
        assert (await client.request("GET", "/", {}, b"", 5)).status == 200
        assert server.connections == 2
        client.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\n{}",
        b'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{"a',
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nx-amz-crc32: 1\r\n\r\n{}",
        b"nonsense\r\n\r\n",
    ],
)
async def test_a_response_that_is_damaged_is_an_error_that_is_worth_a_retry(answer):
    async with Server(answer) as server:
        aws = aws_at(server.url)
        with pytest.raises(HTTPClientError):
            await get_item(aws)
        await aws.close()


async def test_a_server_that_is_not_there_is_an_error_that_names_it(closed_port):
    aws = aws_at(closed_port)
    with pytest.raises(EndpointConnectionError, match=closed_port):
        await get_item(aws)


def refused(status: int, headers: bytes = b"", body: bytes = b"{}") -> bytes:
    return b"HTTP/1.1 %d x\r\n%sContent-Length: %d\r\n\r\n%s" % (status, headers, len(body), body)


@pytest.mark.parametrize(
    ("service", "answer", "code"),
    [
        (
            "dynamodb",
            refused(400, body=b'{"__type": "com.amazonaws.dynamodb#ValidationException"}'),
            "ValidationException",
        ),
        ("dynamodb", refused(400, b"x-amzn-errortype: NoTableException:http://x/\r\n"), "NoTableException"),
        ("sqs", refused(400, b"x-amzn-query-error: AWS.SQS.NoQueue;Sender\r\n"), "AWS.SQS.NoQueue"),
        ("dynamodb", refused(502, body=b"<html>Bad Gateway"), "502"),
    ],
)
async def test_an_error_has_the_code_of_its_service(service, answer, code):
    async with Server(answer) as server:
        aws = aws_at(server.url)
        with pytest.raises(ClientError) as caught:
            await aws._once(service, "Any", {})
        assert caught.value.response["Error"]["Code"] == code
        await aws.close()


async def test_the_queue_is_asked_again_after_a_fault_and_not_after_a_refusal(monkeypatch):
    monkeypatch.setattr("shared.storage.aws.random.random", lambda: 0)
    async with Server(refused(503), b"nonsense\r\n\r\n", OK) as server:
        aws = aws_at(server.url)
        await aws.call("sqs", "SendMessage", {})
        assert len(server.requests) == 3
        server.answers = [refused(400)]
        with pytest.raises(ClientError):
            await aws.call("sqs", "SendMessage", {})
        assert len(server.requests) == 4
        await aws.close()


def credentials(key: str, expires_at: datetime) -> bytes:
    body = {"AccessKeyId": key, "SecretAccessKey": "s", "Token": "t", "Expiration": f"{expires_at:%Y-%m-%dT%H:%M:%SZ}"}
    return refused(200, b"", json.dumps(body).encode())


async def test_credentials_are_asked_for_once_and_again_before_they_expire():
    clock = Clock()
    until = clock() + timedelta(hours=1)
    async with Server(credentials("first", until), credentials("second", until + timedelta(hours=1))) as server:
        env = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{server.url}/v1", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "word"}
        source = CredentialSource(clock, env)
        assert {c.access_key for c in await asyncio.gather(*(source.get() for _ in range(5)))} == {"first"}
        assert len(server.requests) == 1
        assert b"authorization: word" in server.requests[0]
        clock.forward(seconds=(timedelta(hours=1) - RENEW_BEFORE).total_seconds())
        assert (await source.get()).access_key == "second"


async def test_credentials_that_still_work_are_used_while_no_new_ones_can_be_had():
    clock = Clock()
    async with Server(credentials("first", clock() + timedelta(hours=1)), refused(500)) as server:
        source = CredentialSource(clock, {"AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url})
        await source.get()
        clock.forward(minutes=57)
        assert (await source.get()).access_key == "first"
        clock.forward(minutes=5)
        with pytest.raises(CredentialRetrievalError):
            await source.get()


def test_credentials_of_the_environment_are_those_of_now():
    env = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    source = CredentialSource(Clock(), env)
    assert asyncio.run(source.get()).token is None
    env["AWS_SESSION_TOKEN"] = "t"
    assert asyncio.run(source.get()).token == "t"


@pytest.mark.parametrize(
    ("name", "value", "needs_sdk"),
    [
        ("HOME", "/home/x", False),
        ("HTTPS_PROXY", "http://127.0.0.1:3128", True),
        ("AWS_USE_FIPS_ENDPOINT", "true", True),
        ("AWS_ENDPOINT_URL_DYNAMODB", "https://x.example", True),
        ("AWS_ACCESS_KEY_ID", "", True),
    ],
)
def test_what_only_the_sdk_can_do_is_left_to_it(name, value, needs_sdk, monkeypatch):
    ordinary = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
    monkeypatch.setattr("os.environ", {**ordinary, name: value})
    aws = Aws(load_settings(ENVIRONMENT))
    assert aws._needs_sdk("dynamodb") is needs_sdk
    assert aws._needs_sdk("bedrock-runtime")


async def test_an_address_signed_by_either_client_is_the_same_but_for_its_time(moto_url):
    settings = load_settings(create_resources(moto_url))
    aws, sdk = Aws(settings), AwsSdk(settings)
    params = {"Bucket": settings.bucket_name, "Key": "artifact/ä b", "ResponseContentType": "application/zip"}
    ours, theirs = [urlsplit(await one.sign_url("s3", "GetObject", params, 60)) for one in (aws, sdk)]
    assert (ours.netloc, ours.path) == (theirs.netloc, theirs.path)
    names = [{pair.partition("=")[0] for pair in one.query.split("&")} for one in (ours, theirs)]
    assert names[0] == names[1]
    await asyncio.gather(aws.close(), sdk.close())
