"""The function that external scanners call, called as Lambda calls it, against moto's server."""

import asyncio
import base64
import json
import time
import uuid
from types import SimpleNamespace

import pytest

from functions import consumer, webhooks
from shared import runtime
from shared.marketplace import external_scan_dispatch
from shared.marketplace.external_scan_store import get_external_scans, get_security
from shared.submissions import intake
from shared.submissions.submission_store import get_submission
from shared.timing import LONGEST_LEASE
from tests.support.builders import a_bundle, an_sqs_record
from tests.support.memory import WEBHOOK_SECRETS
from tests.support.signed_requests import CLAIM, FILES, RESULTS, signed_body, signed_headers


@pytest.fixture(autouse=True)
def scanners(monkeypatch, function_env):
    monkeypatch.setenv("EXTERNAL_SCANNERS", "bandit other")
    runtime.close()  # settings are read once per process: read them again
    return function_env


@pytest.fixture
def context():
    return SimpleNamespace(aws_request_id=str(uuid.uuid4()), get_remaining_time_in_millis=lambda: 10_000)


def on_loop(fn):
    return runtime.run(fn, LONGEST_LEASE)


def published(name, context, **files):
    """A published skill with its scans requested, as the worker does it."""
    bundle = a_bundle(name, **files)
    submission = on_loop(lambda: intake.submit_bundle(bundle["name"], bundle["files"], None, None, None)).submission
    consumer.handler({"Records": [an_sqs_record(submission.id)]}, context)
    return on_loop(lambda: get_submission(submission.id))


def event(path, body: bytes, headers: dict, is_base64=False) -> dict:
    return {
        "version": "2.0",
        "routeKey": f"POST {path}",
        "rawPath": path,
        "rawQueryString": "",
        "headers": headers,
        "requestContext": {"requestId": "request-1", "http": {"method": "POST", "sourceIp": "192.0.2.1"}},
        "body": base64.b64encode(body).decode() if is_base64 else body.decode(),
        "isBase64Encoded": is_base64,
    }


@pytest.fixture
def post(context):
    def send(path, body: bytes | None = None, headers: dict | None = None, is_base64=False, **fields):
        body = signed_body(**fields) if body is None else body
        sent = signed_headers(path, body, time.time()) if headers is None else headers
        answer = webhooks.handler(event(path, body, sent, is_base64), context)
        return answer["statusCode"], json.loads(answer["body"])

    return send


def result(claim, **more):
    named = {name: claim[name] for name in ("claimId", "provider", "skillName", "contentHash")}
    return {"status": "COMPLETED", "verdict": "PASS", "score": 100} | named | more


def test_claim_read_and_report_and_then_again_warm(post, context):
    for n, (is_base64, name) in enumerate([(False, "first"), (True, "second")]):
        submission = published(name, context, **{"run.py": "print(1)\n"})
        status, answer = post(CLAIM, is_base64=is_base64)
        claim = answer["claim"]
        assert (status, claim["skillName"], claim["contentHash"]) == (
            200,
            submission.skill_name,
            submission.content_hash,
        )
        status, answer = post(FILES, skillName=claim["skillName"], claimId=claim["claimId"])
        assert (status, answer["nextAfter"]) == (200, None)
        assert answer["files"][1] == {"path": "run.py", "encoding": "utf-8", "content": "print(1)\n"}
        for _ in range(2):  # the second is the same report, signed anew
            assert post(RESULTS, **result(claim, score=90 + n)) == (
                200,
                {"ok": True, "skillName": submission.skill_name, "status": "COMPLETED"},
            )
        security = on_loop(lambda s=submission: get_security(s.skill_name))
        [provider] = [provider for provider in security.providers if provider.provider == "bandit"]
        assert (provider.status, provider.verdict, provider.score) == ("COMPLETED", "PASS", 90 + n)
        assert post(CLAIM) == (200, {"claim": None})


def test_claimers_of_one_moment_each_get_work_of_their_own(function_env):
    names = [f"a/b/{n}" for n in range(6)]

    async def scenario():
        for name in names:
            await external_scan_dispatch.dispatch_external_scans(name, "hash", ["bandit"])
        return await asyncio.gather(*(external_scan_dispatch.claim_scan("bandit") for _ in range(8)))

    claimed = [scan for scan in on_loop(scenario) if scan is not None]
    assert sorted(scan.skill_name for scan in claimed) == names
    assert len({scan.claim_id for scan in claimed}) == len(names)


def test_a_critical_result_blocks_the_skill(post, context):
    submission = published("dangerous", context)
    _, answer = post(CLAIM)
    finding = {"severity": "critical", "title": "Sends what it reads", "file": "run.py", "line": 2}
    critical = result(answer["claim"], verdict="FAIL", score=10, criticalCount=1, findings=[finding])
    assert post(RESULTS, **critical)[0] == 200
    after = on_loop(lambda: get_submission(submission.id))
    assert (after.state, "Sends what it reads (run.py, line 2)" in after.reason) == ("BLOCKED", True)
    assert post(RESULTS, **critical)[0] == 200  # the scanner did not hear our answer


def signed_with(path, body, **change):
    return signed_headers(path, body, time.time()) | change


def without(headers, *names):
    return {name: value for name, value in headers.items() if name not in names}


BAD = {
    "bad": lambda path, body: signed_with(path, body, **{"x-scan-signature": "0" * 64}),
    "empty": lambda path, body: signed_with(path, body, **{"x-scan-signature": ""}),
    "under a guessed secret": lambda path, body: signed_headers(path, body, time.time(), secret="guessed" * 9),
    "under another scanner's secret": lambda path, body: signed_headers(
        path, body, time.time(), secret=WEBHOOK_SECRETS["other"]
    ),
    "missing": lambda path, body: without(signed_with(path, body), "x-scan-signature"),
    "missing altogether": lambda path, body: {"content-type": "application/json"},
    "of nobody": lambda path, body: signed_with(path, body, **{"x-scan-provider": "nobody"}),
    "of another body": lambda path, body: signed_with(path, body + b"x"),
    "of another path": lambda path, body: signed_with("/api/v1/submissions", body),
    "of another time": lambda path, body: signed_with(path, body, **{"x-scan-timestamp": str(int(time.time()) - 1)}),
    "a bearer token": lambda path, body: {"authorization": f"Bearer {WEBHOOK_SECRETS['bandit']}"},
}


@pytest.mark.requirement("S19")
@pytest.mark.parametrize("which", BAD)
def test_a_signature_that_does_not_fit_is_401_before_anything_is_parsed(post, which, capsys):
    for path in (CLAIM, FILES, RESULTS):
        for body in (b'{"nonce": "12345678"}', b"{ not json", b"[" * 100_000, b""):
            status, answer = post(path, body, BAD[which](path, body))
            assert (status, answer["error"]["code"]) == (401, "invalid_signature")
            s20_no_secret_in(json.dumps(answer) + capsys.readouterr().out)


@pytest.mark.requirement("S19")
@pytest.mark.parametrize("body", [b'{"nonce": "12345678"}', b"{ not json"])
def test_an_old_signature_is_401_before_anything_is_parsed(post, body):
    status, answer = post(CLAIM, body, signed_headers(CLAIM, body, time.time() - 301))
    assert (status, answer["error"]["code"]) == (401, "expired_signature")


@pytest.mark.requirement("S19")
def test_a_replayed_signature_is_401_and_has_no_effect(post, context):
    submission = published("once", context)
    _, answer = post(CLAIM)
    body = signed_body(**result(answer["claim"]))
    headers = signed_headers(RESULTS, body, time.time())
    assert post(RESULTS, body, headers)[0] == 200
    before = on_loop(lambda: get_external_scans(submission.skill_name))
    for _ in range(2):
        status, answer = post(RESULTS, body, headers)
        assert (status, answer["error"]["code"]) == (401, "replayed_signature")
    assert on_loop(lambda: get_external_scans(submission.skill_name)) == before


def s20_no_secret_in(text):
    assert not any(secret in text for secret in WEBHOOK_SECRETS.values())


def test_the_answer_to_a_bad_signature_says_how_to_prove_who_one_is(context):
    answer = webhooks.handler(event(CLAIM, b"{}", {}), context)
    assert (answer["statusCode"], answer["headers"]["www-authenticate"]) == (401, "HMAC-SHA256")


@pytest.mark.parametrize(
    ("path", "fields", "code"),
    [
        (CLAIM, {"nonce": "short"}, "invalid_body"),
        (CLAIM, {"more": 1}, "invalid_body"),
        (FILES, {"skillName": "a/b/c"}, "invalid_body"),
        (RESULTS, {}, "invalid_body"),
    ],
)
def test_a_signed_request_that_does_not_fit_is_refused_with_the_reason(post, path, fields, code):
    status, answer = post(path, **fields)
    assert (status, answer["error"]["code"]) == (400, code)


CLAIMED = {"claimId": "c", "provider": "bandit", "skillName": "a/b/c", "contentHash": "h"}


@pytest.mark.parametrize(
    ("more", "status", "code"),
    [
        ({}, 404, "scan_not_found"),
        ({"provider": "other"}, 403, "wrong_provider"),
        ({"verdict": "GOOD"}, 400, "invalid_body"),
        ({"score": 101}, 400, "invalid_body"),
        ({"criticalCount": 1}, 400, "invalid_body"),
        ({"status": "PENDING"}, 400, "invalid_body"),
        ({"reportUrl": "javascript:alert(1)"}, 400, "invalid_body"),
        ({"findings": [{"severity": "low", "title": "x"}] * 101}, 400, "invalid_body"),
        ({"isBlocked": False}, 400, "invalid_body"),
        ({"skillName": "x" * 501}, 400, "invalid_body"),
    ],
)
def test_a_result_that_cannot_be_meant_is_refused(post, more, status, code):
    returned, answer = post(RESULTS, **result(CLAIMED, **more))
    assert (returned, answer["error"]["code"]) == (status, code)


def test_a_query_is_refused_because_it_is_not_signed(context):
    body = signed_body()
    sent = event(CLAIM, body, signed_headers(CLAIM, body, time.time())) | {"rawQueryString": "provider=other"}
    assert webhooks.handler(sent, context)["statusCode"] == 400


@pytest.mark.requirement("S23")
def test_an_event_of_another_source_is_refused(context):
    with pytest.raises(ValueError, match="HTTP API events only"):
        webhooks.handler({"Records": []}, context)
