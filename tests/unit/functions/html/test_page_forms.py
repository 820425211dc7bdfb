"""Public forms: rate limited by address, and rejected from other sites."""

import dataclasses
import re
from datetime import timedelta

import pytest

from shared.marketplace.community import REPORT_TYPES, list_reports
from shared.settings import Limit
from shared.submissions.intake import submit_bundle
from shared.submissions.submission_store import get_submission
from shared.web import labels
from tests.support.builders import a_bundle, processed, submitted
from tests.support.memory import within
from tests.support.route_calls import call, multipart


def limited(env, kind: str, most: int):
    limits = {kind: Limit(most, timedelta(hours=1))}
    return dataclasses.replace(env, settings=dataclasses.replace(env.settings, limits=limits))


def an_upload(name: str) -> dict:
    body, headers = multipart({"name": name}, {"SKILL.md": a_bundle(name)["files"][0][1].encode()})
    return {"body": body, "headers": headers}


def a_repository(path: str) -> dict:
    return {"form": {"repoUrl": "https://github.com/o/r", "skillPath": path}}


@pytest.mark.requirement("S21")
@pytest.mark.parametrize("sent", [an_upload, a_repository])
async def test_submitting_by_form_counts_like_submitting_by_program(env, sent):
    env = limited(env, "submit", 2)
    answers = [await call(env, "POST /submit", **sent(name)) for name in ("one", "two", "three")]
    assert [answer.status for answer in answers][2] == 429
    assert 429 not in [answer.status for answer in answers][:2]
    assert "Rate limit: 2 submit requests" in answers[2].text
    assert 'value="three"' in answers[2].text  # nothing typed is lost


@pytest.mark.requirement("S37")
@pytest.mark.parametrize("sent", [an_upload, a_repository])
async def test_skills_and_shares_by_form_count_like_those_by_program(env, sent):
    env = limited(env, "skills", 2)
    env = dataclasses.replace(env, settings=dataclasses.replace(env.settings, max_active=10))
    answers = [await call(env, "POST /submit", **sent(name)) for name in ("one", "two")]
    assert [answer.status for answer in answers][1] == 429
    assert "as many submissions in progress" in answers[1].text
    env = limited(env, "skills", 1)
    answer = await call(
        dataclasses.replace(env, settings=dataclasses.replace(env.settings, max_active=90)),
        "POST /submit",
        **sent("two"),
    )
    assert (answer.status, "Rate limit: 1 skills per 60 minutes" in answer.text) == (429, True)


async def test_the_addresses_that_the_command_line_client_opens_lead_to_the_form_and_to_the_submission(env):
    page = await call(env, "GET /submit", "/submit?repo=acme%2Ftools&skill=pdf")
    assert page.status == 200
    assert 'value="https://github.com/acme/tools"' in page.text
    assert 'name="skillName" spellcheck="false" autocapitalize="none" placeholder="pdf" value="pdf"' in page.text
    submission = await submitted(env)
    followed = await call(env, "GET /submit/{id}", f"/submit/{submission.id}", id=submission.id)
    assert (followed.status, followed.headers["location"]) == (303, f"/submissions/{submission.id}")


async def test_a_single_skill_may_be_named_and_an_invalid_name_is_an_error_beside_its_field(env):
    form = {"repoUrl": "https://github.com/o/r", "skillName": "PDF!"}
    refused = await call(env, "POST /submit", form=form)
    assert refused.status == 400
    assert re.search(r'id="skill-name-problem">[^<]+<', refused.text)
    accepted = await call(env, "POST /submit", form=form | {"skillName": "pdf"})
    assert accepted.status == 303
    submission = await within(env, lambda: get_submission(accepted.headers["location"].rpartition("/")[2]))
    assert submission.skill_name == "o/r/pdf"


@pytest.mark.parametrize(("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 303)])
async def test_a_form_of_another_site_is_refused(env, site, status):
    answer = await call(env, "POST /submit", headers={"sec-fetch-site": site}, **a_repository("a"))
    assert answer.status == status


NAME = "uploads/anonymous/greeter"


async def reported(env, name: str = NAME, **form):
    path = f"{name}/reports"
    return await call(env, "POST /skills/{proxy+}", f"/skills/{path}", form=form, proxy=path)


async def test_a_reader_reports_a_skill_and_is_thanked(env):
    await processed(env, await submitted(env))
    sent = await reported(env, type="malicious", description="It reads ~/.ssh.")
    assert (sent.status, sent.headers["location"]) == (303, f"/skills/{NAME}?reported=1#report")
    [report] = (await within(env, list_reports)).reports
    assert (report.skill_name, report.type, report.description) == (NAME, "malicious", "It reads ~/.ssh.")
    page = await call(env, "GET /skills/{proxy+}", f"/skills/{NAME}?reported=1", proxy=NAME)
    assert "A reviewer will look at your report" in page.text
    assert "no confirmed reports" in page.text  # it changes no score before a reviewer confirms it


@pytest.mark.parametrize(
    ("form", "field", "text"),
    [
        ({"type": "malicious", "description": " "}, "report-description", "1 to 2000 characters"),
        ({"type": "boring", "description": "typed with care"}, "report-type", "Choose what kind of problem it is."),
    ],
)
async def test_a_report_that_is_refused_says_why_beside_its_field(env, form, field, text):
    await processed(env, await submitted(env))
    page = await reported(env, **form)
    assert page.status == 400
    assert f'aria-describedby="{field}-problem"' in page.text
    assert text in page.text
    assert form["description"] in page.text
    assert (await within(env, list_reports)).reports == []


@pytest.mark.requirement("S21")
async def test_reports_are_limited_by_address(env):
    await processed(env, await submitted(env))
    env = limited(env, "reports", 2)
    answers = [await reported(env, type="spam", description=f"typed {n}") for n in range(3)]
    assert [answer.status for answer in answers] == [303, 303, 429]
    assert "typed 2</textarea>" in answers[2].text


async def test_a_report_of_nothing_is_not_found(env):
    for name in ("o/r/none", "o/r/" + "x" * 3000, "o/r/" + "\U0001f600" * 800):  # the last two fit no key of the store
        assert (await reported(env, name=name, type="spam", description="x")).status == 404
    path = "o/r/none/likes"
    assert (await call(env, "POST /skills/{proxy+}", f"/skills/{path}", form={}, proxy=path)).status == 404


def test_every_type_of_report_has_a_label():
    assert tuple(labels.REPORT_TYPES) == REPORT_TYPES


async def cancelled(env, submission, token: str):
    path = f"/submissions/{submission.id}/cancel"
    return await call(env, "POST /submissions/{id}/cancel", path, form={"uploadToken": token}, id=submission.id)


async def test_a_waiting_upload_is_cancelled_on_its_page_and_a_repository_leads_to_its_owner(env):
    bundle = a_bundle()
    accepted = await within(env, lambda: submit_bundle(bundle["name"], bundle["files"], None, None, None))
    for token, status, text in (("", 409, "Enter the upload token"), ("wrong", 403, "not the upload token")):
        refused = await cancelled(env, accepted.submission, token)
        assert (refused.status, text in refused.text) == (status, True)
    done = await cancelled(env, accepted.submission, accepted.upload_token)
    assert (done.status, done.headers["location"]) == (303, f"/submissions/{accepted.submission.id}")
    page = await call(env, "GET /submissions/{id}", done.headers["location"], id=accepted.submission.id)
    assert "Cancelled by its uploader" in page.text
    assert "Upload it again with its upload token" in page.text
    assert "Is it yours? Cancel" not in page.text
    sent = await call(env, "POST /submit", **a_repository("a"))
    submission_id = sent.headers["location"].rpartition("/")[2]
    page = await call(env, "GET /submissions/{id}", sent.headers["location"], id=submission_id)
    assert f'href="/owner/submissions/{submission_id}">Is it yours? Cancel' in page.text
