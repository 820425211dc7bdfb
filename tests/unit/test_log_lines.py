"""One query follows a submission: each line names the function, its request, and the submission that it is about."""

import io
import json

import pytest

from shared.submissions.submission_store import get_submission
from shared.telemetry import logger, note_request
from tests.support.builders import processed
from tests.support.marked_tests import ROOT
from tests.support.memory import memory_env, within
from tests.support.route_calls import call

TRIGGERS = sorted(path for path in (ROOT / "functions").glob("*.py") if path.stem != "__init__")


def line_of(caplog):
    return json.loads(logger.registered_formatter.format(caplog.records[-1]))


def test_a_line_names_the_function_its_request_and_its_trace(caplog, monkeypatch):
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "stack-Consumer-1")
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1")
    note_request("request-1")
    logger.warning("submission processed", extra={"submission": "sub_1"})
    line = line_of(caplog)
    assert (line["function"], line["functionRequest"], line["submission"]) == ("stack-Consumer-1", "request-1", "sub_1")
    assert line["xray_trace_id"] == "1-5759e988-bd862e3fe1be46a994272793"


SKILL_MD = "---\nname: greeter\ndescription: Greets people by name.\n---\n\nSay hello.\n"


async def test_one_query_follows_a_submission_from_its_post_until_it_is_published(monkeypatch):
    """The query of docs/aws.md, over the lines that two functions really wrote."""
    env, lines = memory_env(), io.StringIO()
    monkeypatch.setattr(logger.registered_handler, "stream", lines)
    body = json.dumps({"bundle": {"name": "greeter", "files": [{"path": "SKILL.md", "content": SKILL_MD}]}}).encode()
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "stack-SubmissionsApi-1")
    note_request("request-1")
    answer = await call(env, "POST /api/v1/submissions", body=body, headers={"content-type": "application/json"})
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "stack-Consumer-1")
    note_request("request-2")
    await processed(env, await within(env, lambda: get_submission(answer.json["id"])))
    written = [json.loads(line) for line in lines.getvalue().splitlines()]
    found = [line for line in written if line.get("submission") == answer.json["id"]]
    assert [(line["function"], line["functionRequest"], line["message"]) for line in found] == [
        ("stack-SubmissionsApi-1", "request-1", "submission accepted"),
        ("stack-Consumer-1", "request-2", "submission processed"),
    ]
    assert found[-1]["state"] == "PUBLISHED"


def test_a_line_below_the_chosen_level_is_not_written(caplog, monkeypatch):
    monkeypatch.setenv("LOG_LEVEL", "ERROR")
    logger.warning("left out")
    logger.error("written")
    assert [record.message for record in caplog.records] == ["written"]


def test_the_next_invocation_has_its_own_request(caplog):
    for request in ("request-1", "request-2"):
        note_request(request)
        logger.warning("anything")
        assert line_of(caplog)["functionRequest"] == request


@pytest.mark.parametrize("path", TRIGGERS, ids=lambda path: path.stem)
def test_every_handler_notes_its_request(path):
    source = path.read_text()
    assert any(called in source for called in ("http_handler(", "run_schedule(", "answer_batch("))
