"""submissions_api as the gateway calls it: hand-made events through the handler, twice each, on a warm process."""

import base64
import gzip
import json
import subprocess
import sys

import pytest

from functions.consumer import handler as consumer
from functions.http.answer import AT_EDGE
from functions.submissions_api import handler
from shared import runtime
from tests.support.aws_resources import client
from tests.support.builders import a_bundle, a_harmful_bundle, an_sqs_record, an_unusable_bundle
from tests.support.gateway_events import Context, an_http_event, call, error_of

SUBMIT = "POST /api/v1/submissions"
LIST = "GET /api/v1/submissions"
ONE = "GET /api/v1/submissions/{id}"
STATS = "GET /api/v1/submissions/stats"
HEALTH = "GET /api/v1/health"

pytestmark = pytest.mark.usefixtures("function_env")


def bundle_body(bundle=None, **more):
    bundle = bundle or a_bundle()
    files = [{"path": path, "content": content} for path, content in bundle["files"]]
    return {"bundle": {"name": bundle["name"], "files": files}, **more}


def submit(bundle=None, headers=None, **more):
    return call(handler, SUBMIT, body=bundle_body(bundle, **more), headers=headers)


def process(*ids):
    event = {"Records": [an_sqs_record(submission_id) for submission_id in ids]}
    assert consumer(event, Context(60)) == {"batchItemFailures": []}


def test_a_submission_is_accepted_queued_processed_and_shown(function_env, moto_url):
    created = submit()
    assert created.status == 201
    assert set(created.body) == {"id", "submissionId", "skillName", "state", "createdAt", "uploadToken"}
    assert created.body["id"] == created.body["submissionId"]
    assert (created.body["skillName"], created.body["state"]) == ("uploads/anonymous/greeter", "RECEIVED")
    queued = client("sqs", moto_url).receive_message(QueueUrl=function_env.queue_url)["Messages"]
    assert [json.loads(message["Body"])["id"] for message in queued] == [created.body["id"]]

    process(created.body["id"])
    shown = call(handler, ONE, path={"id": created.body["id"]})
    assert shown.status == 200
    assert (shown.body["state"], shown.body["category"]) == ("PUBLISHED", "published")
    assert (shown.body["publishedSkillName"], shown.body["publishedVersion"]) == ("uploads/anonymous/greeter", "1.0.0")
    moves = [(entry["from"], entry["to"]) for entry in shown.body["stateHistory"]]
    assert moves[0] == (None, "RECEIVED")
    assert moves[-1] == ("AUTO_APPROVED", "PUBLISHED")
    assert [stage["state"] for stage in shown.body["stageTimings"]] == [to for _, to in moves[:-1]]


@pytest.mark.requirement("S17")
def test_a_stranger_sees_no_lease_fence_or_token(function_env):
    token = submit().body["uploadToken"]
    created = submit()
    for answer in (call(handler, ONE, path={"id": created.body["id"]}), call(handler, LIST), created):
        assert answer.status < 300
        text = json.dumps(answer.body)
        assert token not in text
        assert not {"fence", "leaseOwner", "leaseUntil", "uploadTokenHash", "sentBy", "notBefore"} & set(answer.body)
        assert "oken" not in text


def test_a_second_submit_says_what_the_first_became():
    first, harmful = submit(), submit(a_harmful_bundle())
    again = submit()
    assert (again.status, again.body["duplicate"], again.body["id"]) == (200, True, first.body["id"])
    process(first.body["id"], harmful.body["id"])
    verified, refused = submit(), submit(a_harmful_bundle())
    assert (verified.status, verified.body["alreadyVerified"], verified.body["state"]) == (200, True, "PUBLISHED")
    assert (refused.body["duplicate"], refused.body["state"]) == (True, "TIER1_FAILED")
    assert refused.body["reason"].startswith("Opens a shell to another machine, run.sh:1")
    fixed = submit(a_bundle("nameless"), uploadToken=harmful.body["uploadToken"])
    assert (fixed.status, fixed.body["requeued"], fixed.body["state"]) == (200, True, "RECEIVED")
    for answer in (again, verified, refused, fixed):
        assert {"id", "submissionId", "skillName", "state"} <= set(answer.body)
        assert "uploadToken" not in answer.body
    assert error_of(submit(a_bundle("nameless", "Other."))) == (409, "name_taken")


def test_a_repository_is_accepted_under_its_folder():
    created = call(
        handler, SUBMIT, body={"repoUrl": "https://github.com/a/b.git", "skillPath": "s/pdf", "source": "cli"}
    )
    assert (created.status, created.body["skillName"]) == (201, "a/b/pdf")
    assert "uploadToken" not in created.body
    shown = call(handler, ONE, path={"id": created.body["id"]}).body
    assert (shown["state"], shown["repoUrl"]) == ("RECEIVED", "https://github.com/a/b")


@pytest.mark.requirement("R31")
def test_an_idempotency_key_repeats_the_answer():
    headers = {"idempotency-key": "0123456789abcdef"}
    first, again = submit(headers=headers), submit(headers=headers)
    assert (again.status, again.body) == (first.status, first.body)
    assert again.body["uploadToken"]
    assert error_of(submit(a_bundle("other"), headers=headers)) == (422, "idempotency_key_reused")


@pytest.mark.parametrize("key", ["", "short", "x" * 15, "x" * 129, "\u00e4" * 20, "x" * 15 + "\n"])
def test_an_idempotency_key_of_another_form_is_refused(key):
    assert error_of(submit(headers={"idempotency-key": key})) == (400, "invalid_idempotency_key")


def test_the_list_is_right_at_first_sight_and_page_by_page():
    ids = [submit(a_bundle(f"skill-{n:02}")).body["id"] for n in range(7)]
    process(*ids[:3])
    whole = call(handler, LIST, query="limit=500")
    assert whole.status == 200
    assert [row["id"] for row in whole.body["submissions"]] == ids[::-1]
    assert (whole.body["total"], whole.body["cursor"], whole.body["degraded"], whole.body["stale"]) == (
        7,
        None,
        False,
        [],
    )
    stats = whole.body["stats"]
    assert (stats["total"], stats["published"], stats["active"]) == (7, 3, 4)
    assert _pages("limit=1") == _pages("limit=3") == ids[::-1]
    assert _pages("limit=2&sortDir=asc") == ids
    assert sorted(_pages("limit=2&state=published")) == sorted(ids[:3])
    assert sorted(_pages("state=RECEIVED")) == sorted(ids[3:])


@pytest.mark.requirement("S09")
def test_a_cursor_fits_its_own_list_only():
    for n in range(4):
        submit(a_bundle(f"skill-{n}"))
    cursor = call(handler, LIST, query="limit=2").body["cursor"]
    assert call(handler, LIST, query={"limit": 2, "cursor": cursor}).status == 200
    for query in (
        {"cursor": cursor, "sortDir": "asc"},
        {"cursor": cursor, "state": "active"},
        {"cursor": cursor, "repoUrl": "https://github.com/a/b"},
        {"cursor": cursor[:-4]},
        {"cursor": cursor[::-1]},
        {"cursor": ""},
    ):
        assert error_of(call(handler, LIST, query=query)) == (400, "invalid_cursor")


def test_the_skills_of_a_repository_are_listed_by_its_address():
    for path in ("a", "b", "c"):
        call(handler, SUBMIT, body={"repoUrl": "https://github.com/o/r", "skillPath": path})
    call(handler, SUBMIT, body={"repoUrl": "https://github.com/o/r2"})
    answer = call(handler, LIST, query={"repoUrl": "https://www.github.com/O/R.git", "limit": 2})
    assert [row["skillName"] for row in answer.body["submissions"]] == ["o/r/a", "o/r/b"]
    assert answer.body["total"] is None
    rest = call(handler, LIST, query={"repoUrl": "github.com/o/r", "limit": 2, "cursor": answer.body["cursor"]})
    assert [row["skillName"] for row in rest.body["submissions"]] == ["o/r/c"]
    assert rest.body["cursor"] is None


def test_stats_and_health_answer_on_an_empty_platform():
    for _ in range(2):
        stats = call(handler, STATS)
        assert (stats.status, stats.body["total"], stats.body["degraded"]) == (200, 0, False)
        health = call(handler, HEALTH)
        assert (health.status, health.body["status"], set(health.body["parts"].values())) == (200, "ok", {"ok"})


@pytest.mark.parametrize("submission_id", ["sub_1", "x", "%00", "x" * 3000, "sub_" + "0" * 26, "../stats", "\ud800"])
def test_what_is_no_submission_is_not_found(submission_id):
    assert error_of(call(handler, ONE, path={"id": submission_id})) == (404, "not_found")


def test_long_answers_are_compressed_for_those_who_accept_it():
    for n in range(8):
        submit(a_bundle(f"skill-{n}"))
    plain = handler(an_http_event(LIST), Context())
    packed = handler(an_http_event(LIST, headers={"accept-encoding": "br, gzip"}), Context())
    assert (plain["isBase64Encoded"], "content-encoding" in plain["headers"]) == (False, False)
    assert (packed["isBase64Encoded"], packed["headers"]["content-encoding"]) == (True, "gzip")
    assert packed["headers"]["vary"] == "accept-encoding"
    unpacked = json.loads(gzip.decompress(base64.b64decode(packed["body"])))
    assert unpacked["submissions"] == json.loads(plain["body"])["submissions"]


def test_a_base64_body_is_understood():
    event = an_http_event(SUBMIT, body=bundle_body())
    event |= {"body": base64.b64encode(event["body"].encode()).decode(), "isBase64Encoded": True}
    assert handler(event, Context())["statusCode"] == 201


def test_answers_are_json_that_is_not_sniffed_and_that_no_browser_keeps():
    for query, cached in (("", AT_EDGE), ("x=1", "no-store")):
        answer = call(handler, LIST, query=query)
        assert answer.headers["content-type"] == "application/json; charset=utf-8"
        assert answer.headers["cache-control"] == cached
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.requirement("S23")
@pytest.mark.parametrize("event", [{}, {"Records": []}, {"source": "aws.events"}, {"version": "1.0", "routeKey": LIST}])
def test_what_is_no_http_event_is_refused(event):
    with pytest.raises(ValueError, match="HTTP API"):
        handler(event, Context())


def _pages(query):
    ids, cursor = [], None
    while True:
        page = call(handler, LIST, query=query + (f"&cursor={cursor}" if cursor else "")).body
        ids += [row["id"] for row in page["submissions"]]
        cursor = page["cursor"]
        if cursor is None:
            return ids


def test_several_skills_of_a_repository_are_submitted_at_once_and_each_is_answered():
    skills = [{"name": "pdf", "path": "s/pdf"}, {"name": "csv", "path": "s/csv"}, {"name": "up", "path": "../up"}]
    body = {"repoUrl": "https://github.com/a/several", "skills": skills}
    first = call(handler, SUBMIT, body=body)
    assert (first.status, first.body["count"], first.body["repoUrl"]) == (201, 2, body["repoUrl"])
    assert [one["skillName"] for one in first.body["submissions"]] == ["a/several/pdf", "a/several/csv"]
    assert [(one["path"], one["code"]) for one in first.body["skipped"]] == [("../up", "invalid_skill_path")]
    again = call(handler, SUBMIT, body=body)
    assert (again.status, [one["duplicate"] for one in again.body["submissions"]]) == (200, [True, True])
    assert [one["id"] for one in again.body["submissions"]] == [one["id"] for one in first.body["submissions"]]


def test_what_a_scan_found_is_shown_with_its_submission():
    created = submit(a_bundle("scanned"))
    process(created.body["id"])
    found = call(handler, ONE, path={"id": created.body["id"]}).body["scanResult"]
    assert (found["verdict"], found["findings"], found["judgement"]) == ("PASS", [], "not_judged")
    assert found["ruleSet"]


def test_what_no_worker_could_accept_is_refused_at_once_and_broken_yaml_is_reported():
    assert error_of(submit(an_unusable_bundle())) == (422, "invalid_front_matter")
    assert error_of(submit({"name": "x", "files": [("a/SKILL.md", "x")]})) == (422, "no_skill_md")
    broken = "---\nname: odd\ndescription: Use this: [it\n---\nSay hello.\n"
    accepted = submit({"name": "odd", "files": [("SKILL.md", broken)]})
    assert accepted.status == 201
    assert "not valid YAML" in accepted.body["warnings"][0]


def test_a_check_says_what_the_scanner_says_and_stores_nothing(tmp_path):
    for bundle in (a_bundle(), a_harmful_bundle(), an_unusable_bundle()):
        folder = tmp_path / str(len(bundle["files"])) / bundle["name"]
        for path, content in bundle["files"]:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content)
        command = [sys.executable, "-m", "shared.scanner", str(folder), "--json"]
        printed = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
        printed = json.loads(json.dumps(printed).replace(f'"{bundle["name"]}/', '"'))  # it names the folder too
        checked = call(handler, "POST /api/v1/submissions/check", body=bundle_body(bundle))
        assert checked.status == 200
        same = ("verdict", "action", "certain", "score", "incomplete", "findings", "capabilities")
        assert {key: checked.body[key] for key in same} == {key: printed[key] for key in same}
        assert checked.body["errors"] == printed["front_matter"]["errors"]
        assert checked.body["warnings"] == printed["front_matter"]["warnings"]
        assert checked.body["files"] == printed["receipt"]["files"]
        assert checked.body["ruleSet"] == printed["receipt"]["rule_set_version"]
    assert call(handler, STATS).body["total"] == 0


def test_where_uploads_are_off_nothing_is_checked(monkeypatch):
    monkeypatch.setenv("ALLOW_UPLOADS", "false")
    runtime.close()
    assert error_of(call(handler, "POST /api/v1/submissions/check", body=bundle_body())) == (403, "uploads_off")
