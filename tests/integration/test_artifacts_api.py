"""Artifacts through the real handlers, the bucket and its signed addresses. Each handler is called twice."""

import base64
import gzip
import hashlib
import json
import urllib.request
from urllib.parse import parse_qs, urlsplit

import pytest

from functions.api.skill_files import LARGEST_ANSWER
from functions.clients.artifacts import SUFFIXES
from functions.registry import handler as registry
from functions.skills_api import handler as skills_api
from shared.marketplace.skill_store import get_version
from tests.support.gateway_events import Context, an_http_event
from tests.support.published_skills import publish, raw, run

LAMBDA_LIMIT = 6 * 1024 * 1024


def test_a_download_from_the_bucket_is_what_the_record_says(function_env):
    publish("greeter")
    version = run(lambda: get_version("uploads/anonymous/greeter", "1.0.0"))
    for _ in range(2):
        answer = raw("greeter/versions/latest/download", "format=tgz")
        assert answer["isBase64Encoded"]
        body = base64.b64decode(answer["body"])
        assert hashlib.sha256(body).hexdigest() == version.artifacts["tgz"].sha256


def test_a_large_artifact_comes_from_the_bucket_by_an_address_that_is_signed_for_a_minute(function_env, monkeypatch):
    monkeypatch.setattr("functions.api.skill_files.LARGEST_ANSWER", 100)
    publish("large")
    artifact = run(lambda: get_version("uploads/anonymous/large", "1.0.0")).artifacts["zip"]
    for _ in range(2):
        answer = raw("large/versions/1.0.0/download")
        assert (answer["statusCode"], answer["body"]) == (302, "")
        location = answer["headers"]["location"]
        assert parse_qs(urlsplit(location).query)["X-Amz-Expires"] == ["60"]
        with urllib.request.urlopen(location) as response:
            assert hashlib.sha256(response.read()).hexdigest() == artifact.sha256
            assert response.headers["content-type"] == "application/zip"
            assert response.headers["content-disposition"] == 'attachment; filename="large-1.0.0.zip"'


ARTIFACT = "GET /artifacts/{owner}/{repo}/{skill}/{version}/{file}"
CLAWHUB = "GET /clawhub/api/v1/download"


@pytest.mark.parametrize("packaging", ["tgz", "npm", "zip"])
def test_clients_get_a_large_artifact_from_the_bucket_too(function_env, monkeypatch, packaging):
    monkeypatch.setattr("functions.api.skill_files.LARGEST_ANSWER", 100)
    publish("large")
    artifact = run(lambda: get_version("uploads/anonymous/large", "1.0.0")).artifacts[packaging]
    parts = {"owner": "uploads", "repo": "anonymous", "skill": "large", "version": "1.0.0"}
    asked = [an_http_event(ARTIFACT, path=parts | {"file": f"{artifact.sha256}{SUFFIXES[packaging]}"})]
    if packaging == "zip":
        asked.append(an_http_event(CLAWHUB, query="slug=anonymous--large&ownerHandle=uploads"))
    for event in asked * 2:
        answer = registry(event, Context())
        assert (answer["statusCode"], answer["headers"]["cache-control"]) == (302, "no-store")
        with urllib.request.urlopen(answer["headers"]["location"]) as response:
            assert hashlib.sha256(response.read()).hexdigest() == artifact.sha256


def test_the_largest_direct_answer_fits_the_limit_of_lambda():
    assert len(base64.b64encode(bytes(LARGEST_ANSWER))) < LAMBDA_LIMIT - 64 * 1024


def test_a_receipt_is_signed_with_the_secret_of_the_function_and_its_key_is_listed(function_env, monkeypatch, tmp_path):
    secret = tmp_path / "receipt-secret.json"
    secret.write_text(json.dumps({"receiptKey": "r" * 64}))
    monkeypatch.setenv("RECEIPT_SECRET_FILE", str(secret))
    publish("greeter")
    for _ in range(2):
        envelope = json.loads(_text(raw("greeter/versions/latest/receipt", headers={"accept-encoding": "gzip"})))
        keys = skills_api(an_http_event("GET /.well-known/vskill-keys.json"), Context())
        assert [key["keyid"] for key in json.loads(keys["body"])["keys"]] == [envelope["signatures"][0]["keyid"]]


def _text(answer) -> str:
    return gzip.decompress(base64.b64decode(answer["body"])).decode()
