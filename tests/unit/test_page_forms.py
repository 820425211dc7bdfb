"""Forms that anybody may send: limited by address, and never sent in a visitor's name by another site."""

import dataclasses
from datetime import timedelta

import pytest

from shared.settings import Limit
from tests.support.builders import a_bundle
from tests.support.requests import call, multipart


def limited(env, kind: str, most: int):
    limits = {kind: Limit(most, timedelta(hours=1))}
    return dataclasses.replace(env, settings=dataclasses.replace(env.settings, limits=limits))


def an_upload(name: str) -> dict:
    body, headers = multipart({"name": name}, {"SKILL.md": a_bundle(name)["files"][0][1].encode()})
    return {"body": body, "headers": headers}


def a_repository(path: str) -> dict:
    return {"form": {"repoUrl": "https://github.com/o/r", "skillPath": path}}


@pytest.mark.parametrize("sent", [an_upload, a_repository])
async def test_s21_submitting_by_form_counts_like_submitting_by_program(env, sent):
    env = limited(env, "submit", 2)
    answers = [await call(env, "POST /submit", **sent(name)) for name in ("one", "two", "three")]
    assert [answer.status for answer in answers][2] == 429
    assert 429 not in [answer.status for answer in answers][:2]
    assert "Rate limit: 2 submit requests" in answers[2].text
    assert 'value="three"' in answers[2].text  # nothing typed is lost


@pytest.mark.parametrize(("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 303)])
async def test_a_form_of_another_site_is_refused(env, site, status):
    answer = await call(env, "POST /submit", headers={"sec-fetch-site": site}, **a_repository("a"))
    assert answer.status == status
