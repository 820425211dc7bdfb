"""Our signatures are those of the SDK's signer, to the letter."""

from datetime import UTC, datetime
from unittest.mock import patch
from urllib.parse import parse_qsl, urlsplit

import botocore.auth
import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as SdkCredentials
from hypothesis import given
from hypothesis import strategies as st

from shared.storage.signature import Credentials, Target, encode, signed_headers, signed_query

AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=40)
TOKENS = st.none() | st.text("abcXYZ019+/=", min_size=1, max_size=40)
SIGNERS = {"dynamodb": SigV4Auth, "s3": S3SigV4Auth}


@pytest.fixture(autouse=True, scope="module")
def fixed_time():
    with patch.object(botocore.auth, "get_current_datetime", lambda: AT.replace(tzinfo=None)):
        yield


@given(st.sampled_from(["dynamodb", "s3"]), st.lists(TEXT, max_size=3), st.binary(max_size=200), TOKENS)
def test_headers_are_signed_as_the_sdk_signs_them(service, parts, body, token):
    path = "/" + "/".join(map(encode, parts)) if service == "s3" else "/"
    headers = {"content-type": "application/x-amz-json-1.0", "x-amz-target": "DynamoDB_20120810.GetItem"}
    ours = signed_headers(
        "POST",
        Target(service, "eu-west-1", "store.example:8000", path),
        headers,
        body,
        Credentials("A", "S", token),
        AT,
    )
    request = AWSRequest("POST", f"https://store.example:8000{path}", headers, data=body)
    SIGNERS[service](SdkCredentials("A", "S", token), service, "eu-west-1").add_auth(request)
    assert ours["authorization"] == request.headers["Authorization"]


@given(st.dictionaries(st.sampled_from(["response-content-type", "response-cache-control"]), TEXT), TEXT, TOKENS)
def test_an_address_is_signed_as_the_sdk_signs_it(query, key, token):
    path = f"/bucket/{encode(key)}"
    ours = signed_query(Target("s3", "eu-west-1", "s3.example", path), query, Credentials("A", "S", token), AT, 60)
    request = AWSRequest("GET", f"https://s3.example{path}", params=query)
    S3SigV4QueryAuth(SdkCredentials("A", "S", token), "s3", "eu-west-1", expires=60).add_auth(request)
    assert dict(parse_qsl(ours)) == dict(parse_qsl(urlsplit(request.url).query))
