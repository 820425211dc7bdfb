"""One query follows a submission: each line names the function, its request, and the submission that it is about."""

import json

import pytest

from shared.telemetry import logger, note_request
from tests.support.marked_tests import ROOT

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
