"""Responses of AWS as plain JSON."""

import pytest
from botocore.exceptions import HTTPClientError

from shared.storage.aws_sdk import _PlainJsonParser


async def parse(body: bytes):
    return await _PlainJsonParser().parse({"status_code": 200, "headers": {}, "body": body}, None)


async def test_an_answer_is_its_json():
    assert await parse(b'{"Item": {"pk": {"S": "x"}}}') == {
        "Item": {"pk": {"S": "x"}},
        "ResponseMetadata": {"HTTPStatusCode": 200},
    }


async def test_an_empty_answer_is_no_fault():
    assert await parse(b"") == {"ResponseMetadata": {"HTTPStatusCode": 200}}


async def test_an_answer_that_broke_off_is_worth_asking_again():
    with pytest.raises(HTTPClientError):
        await parse(b'{"Item": {"pk"')
