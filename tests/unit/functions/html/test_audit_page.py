"""/admin/audit: pages, filters, names and the export."""

import csv
import io
import re

import pytest

from shared.access.audit import audit_put
from shared.storage.secret_store import AdminToken
from tests.support.admin_forms import signed_in
from tests.support.builders import submitted
from tests.support.memory import within
from tests.support.route_calls import call

ANN = AdminToken(sha256="0" * 64, name="ann", role="admin")
BEN = AdminToken(sha256="1" * 64, name="ben", role="reviewer")


@pytest.fixture
async def audited(env):
    """120 actions: every third one by ben, the last one about a submission."""
    submission = await submitted(env)

    async def write():
        for n in range(120):
            env.clock.forward(seconds=1)
            by, action = (BEN, "reject") if n % 3 == 0 else (ANN, "approve")
            put = audit_put(by, action, submission.id if n == 119 else f"thing-{n}", f"=reason {n}")
            await env.kv.transact(lambda put=put: [put])

    await within(env, write)
    return env


async def opened(env, path="/admin/audit"):
    cookie, _ = await signed_in(env, "reviewer")
    return await call(env, "GET /admin/audit", path, cookies=[cookie])


def reasons(page):
    return re.findall(r"<td>=reason (\d+)</td>", page.text)


def link(page, name):
    [url] = re.findall(rf'href="([^"]+)" rel="{name}"', page.text)
    return url.replace("&amp;", "&")


async def test_pages_lead_through_the_month_and_back_and_name_skills(audited):
    first = await opened(audited)
    assert reasons(first) == [str(n) for n in range(119, 69, -1)]
    assert ">uploads/anonymous/greeter</a>" in first.text
    second = await opened(audited, link(first, "next"))
    third = await opened(audited, link(second, "next"))
    assert reasons(third) == [str(n) for n in range(19, -1, -1)]
    assert reasons(await opened(audited, link(third, "prev"))) == reasons(second)
    assert 'rel="next"' not in third.text


async def test_a_filter_by_user_and_action_is_kept_on_the_next_page(audited):
    page = await opened(audited, "/admin/audit?by=Ann&action=appr")
    assert len(reasons(page)) == 50
    following = await opened(audited, link(page, "next"))
    shown = reasons(page) + reasons(following)
    assert shown == [str(n) for n in range(119, -1, -1) if n % 3]
    assert "with this filter" in (await opened(audited, "/admin/audit?by=nobody")).text


async def test_the_export_has_every_matching_entry_and_no_formula(audited):
    answer = await opened(audited, "/admin/audit?by=ben&format=csv")
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 40
    assert {row["user"] for row in rows} == {"ben"}
    assert all(row["reason"].startswith("'=reason") for row in rows)


@pytest.mark.parametrize("query", ["month=2026-13", "format=pdf", "cursor=junk"])
async def test_a_wrong_parameter_is_refused(audited, query):
    assert (await opened(audited, f"/admin/audit?{query}")).status == 400


async def test_the_export_asks_for_a_session(audited):
    answer = await call(audited, "GET /admin/audit", "/admin/audit?format=csv")
    assert "text/html" in answer.headers["content-type"]
    assert "reason" not in answer.text.partition("<main")[2].partition("</main>")[0].replace("reason_", "")
