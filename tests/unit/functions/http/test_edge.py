"""Whose request it is, behind CloudFront: its header counts beside the shared key, and never otherwise."""

import pytest

from functions.http.request import request_of
from tests.support.builders import submitted
from tests.support.route_calls import an_event, call

KEY = "e" * 64
VIEWER = {"x-viewer-address": "203.0.113.7", "x-viewer-host": "skills.example.org"}
GATEWAY = "192.0.2.1"


def seen(headers):
    event = an_event("GET /", "/", {}, b"", {"host": "api.example.com", "x-forwarded-proto": "https", **headers}, [])
    request = request_of(event)
    return request.source_ip, request.site


@pytest.fixture
def behind_the_edge(monkeypatch):
    monkeypatch.setenv("EDGE_KEY", KEY)


@pytest.mark.usefixtures("behind_the_edge")
@pytest.mark.parametrize("address", ["203.0.113.7", "2001:db8::7"])
def test_the_viewer_counts_beside_the_key(address):
    assert seen({**VIEWER, "x-edge-key": KEY, "x-viewer-address": address}) == (address, "https://skills.example.org")


@pytest.mark.usefixtures("behind_the_edge")
@pytest.mark.parametrize("shown", [{}, {"x-edge-key": ""}, {"x-edge-key": "f" * 64}, {"x-edge-key": "\ud800é"}])
def test_without_the_key_the_gateway_counts(shown):
    assert seen({**VIEWER, **shown}) == (GATEWAY, "https://api.example.com")


@pytest.mark.parametrize("key", ["", "short"])
def test_without_an_edge_no_header_is_believed_whatever_it_shows(monkeypatch, key):
    monkeypatch.setenv("EDGE_KEY", key)
    assert seen({**VIEWER, "x-edge-key": key})[0] == GATEWAY


@pytest.mark.usefixtures("behind_the_edge")
@pytest.mark.parametrize("address", ["", "unknown", "203.0.113.7, 198.51.100.1", "203.0.113.7:443"])
def test_an_address_that_is_none_is_not_believed_even_beside_the_key(address):
    assert seen({**VIEWER, "x-edge-key": KEY, "x-viewer-address": address})[0] == GATEWAY


@pytest.mark.usefixtures("behind_the_edge")
def test_a_forwarded_header_never_counts():
    assert seen({"x-edge-key": KEY, "x-forwarded-for": "203.0.113.7"})[0] == GATEWAY


@pytest.mark.parametrize("route", ["submissions", "submissions/stats", "stats"])
async def test_lists_and_counts_may_be_kept_for_two_seconds_by_a_cache_of_many_callers_and_by_no_other(env, route):
    """So a client without an edge sees at once what it has just sent (R20)."""
    await submitted(env)
    assert (await call(env, f"GET /api/v1/{route}")).headers["cache-control"] == "public, max-age=0, s-maxage=2"
