"""The sections of the admin pages: each action asks for a reason, goes through, and shows in the audit list."""

import re

import pytest

from shared.db import now
from shared.errors import Conflict
from shared.evidence.blocklist import list_blocks
from shared.marketplace.community import add_report, list_reports
from shared.marketplace.skill_store import find_skill, get_versions
from shared.records.submissions import State
from shared.submissions.counters import COUNTER_KEYS
from shared.submissions.submission_store import get_submission
from tests.support.admin_forms import signed_in
from tests.support.builders import a_bundle, processed, submitted
from tests.support.memory import within
from tests.support.route_calls import call

NAME = "uploads/anonymous/greeter"


@pytest.fixture
async def greeter(env):
    submission = await submitted(env)
    await processed(env, submission)
    return submission


class Panel:
    """A signed-in user who opens sections and submits their forms."""

    def __init__(self, env, cookie: str, csrf_token: str) -> None:
        self.env, self.cookie, self.csrf_token = env, cookie, csrf_token

    @classmethod
    async def open(cls, env, role: str = "admin") -> "Panel":
        return cls(env, *await signed_in(env, role))

    async def get(self, path: str) -> str:
        answer = await call(self.env, f"GET {path.partition('?')[0]}", path, cookies=[self.cookie])
        assert answer.status == 200
        return answer.text

    async def post(self, path: str, **form: str):
        form = {"csrf_token": self.csrf_token, "why": "because of this test", **form}
        return await call(self.env, f"POST {path}", form=form, cookies=[self.cookie])

    async def done(self, path: str, **form: str) -> str:
        answer = await self.post(path, **form)
        assert answer.status == 303, answer.text
        page = await self.get(answer.headers["location"])
        assert "because of this test" in page.partition('id="audit-title"')[2]  # the audit list is below every section
        return page


async def test_a_skill_is_blocked_and_put_back_by_its_name(env, greeter):
    panel = await Panel.open(env)
    page = await panel.get("/admin/skills?name=greeter")
    assert "Block greeter</button>" in page  # the button names the thing
    page = await panel.done("/admin/skills", action="block", name=NAME)
    assert "removed from the marketplace" in page
    assert (await within(env, lambda: find_skill(NAME))).is_blocked
    assert (await within(env, lambda: get_submission(greeter.id))).state == State.BLOCKED
    shown = await call(env, "GET /skills/{proxy+}", f"/skills/{NAME}", proxy=NAME)
    assert "This skill is blocked. Do not install it" in shown.text
    assert "npx" not in shown.text
    page = await panel.done("/admin/skills", action="unblock", name=NAME)
    assert "Unblocked" in page
    assert not (await within(env, lambda: find_skill(NAME))).is_blocked


async def test_a_version_is_yanked_and_unyanked(env, greeter):
    panel = await Panel.open(env)
    assert "Version yanked" in await panel.done("/admin/skills", action="yank", name=NAME, version="1.0.0")
    assert (await within(env, lambda: get_versions(NAME)))[0].is_yanked
    shown = await call(env, "GET /skills/{proxy+}", f"/skills/{NAME}", proxy=NAME)
    assert "Every version of this skill has been yanked" in shown.text
    assert "because of this test" in shown.text
    assert "npx" not in shown.text
    await panel.done("/admin/skills", action="unyank", name=NAME, version="1.0.0")
    assert not (await within(env, lambda: get_versions(NAME)))[0].is_yanked


async def test_a_skill_is_rescanned_and_deleted_permanently(env, greeter):
    panel = await Panel.open(env)
    assert "Rescanned" in await panel.done("/admin/skills", action="rescan", name=NAME)
    assert "Its name cannot be reused" in await panel.done("/admin/skills", action="delete", name=NAME)
    assert (await call(env, "GET /skills/{proxy+}", f"/skills/{NAME}", proxy=NAME)).status == 404


async def test_a_name_of_no_skill_or_of_several_is_an_error(env, greeter):
    panel = await Panel.open(env)
    assert "There is no skill" in await panel.get("/admin/skills?name=nobody")
    refused = await panel.post("/admin/skills", action="block", name="o/r/nobody")
    assert (refused.status, "There is no skill" in refused.text) == (404, True)
    assert (await panel.post("/admin/skills", action="fry", name=NAME)).status == 400
    refused = await panel.post("/admin/skills", action="yank", name=NAME, version="1.0.0", why=" ")
    assert (refused.status, "A reason is required" in refused.text) == (400, True)


async def test_a_report_is_listed_and_resolved(env, greeter):
    await within(env, lambda: add_report(NAME, "misleading", "<b>It does not greet.</b>", now()))
    panel = await Panel.open(env)
    assert "<b>1</b> open report<" in await panel.get("/admin")
    page = await panel.get("/admin/skills")
    assert "&lt;b&gt;It does not greet.&lt;/b&gt;" in page
    report_id = re.search(r'action="/admin/reports">.*?name="id" value="([^"]+)"', page, re.DOTALL)[1]
    page = await panel.done("/admin/reports", id=report_id)
    assert "Report resolved" in page
    assert (await within(env, list_reports)).reports == []


async def test_the_blocklist_is_added_to_and_removed_from(env, greeter):
    panel = await Panel.open(env)
    assert "The blocklist is empty" in await panel.get("/admin/blocklist")
    page = await panel.done("/admin/blocklist", action="add", skillName=NAME, severity="critical")
    assert "Added to the blocklist" in page
    [entry], _ = await within(env, list_blocks)
    assert (entry.skill_name, entry.severity, entry.reason) == (NAME, "critical", "because of this test")
    assert (await within(env, lambda: find_skill(NAME))).is_blocked
    await panel.done("/admin/blocklist", action="remove", id=entry.id)
    assert await within(env, list_blocks) == ([], [])


async def test_an_entry_that_could_not_remove_a_skill_names_it_and_how_to_retry(env, greeter, monkeypatch):
    async def always_changed(skill, reason, actor):
        raise Conflict("It has changed.")

    panel = await Panel.open(env)
    form = {"action": "add", "skillName": NAME, "severity": "critical"}
    with monkeypatch.context() as patched:
        patched.setattr("shared.marketplace.skill_admin.block_by_entry", always_changed)
        failed = await panel.post("/admin/blocklist", **form)
    assert failed.status == 409
    assert f"could not be removed from the marketplace: {NAME}. Add the entry again" in failed.text
    assert f'value="{NAME}"' in failed.text  # so that sending the form once more is all there is to do
    assert "Added to the blocklist" in await panel.done("/admin/blocklist", **form)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ({"skillName": "google"}, "Enter the full name or the repository"),  # never every skill of a name by accident
        ({"skillName": " "}, "Enter the name of the skill"),
        ({"skillName": NAME, "severity": "mild"}, "Choose a severity."),
        ({"skillName": "google", "sourceUrl": "https://evil.example/x"}, "not the address of a GitHub repository"),
        ({"skillName": "google", "global": "yes", "contentHash": "0" * 64}, "not both"),
        ({"skillName": "google", "global": "yes", "why": ""}, "A reason is required"),
    ],
)
async def test_an_entry_that_cannot_be_added_says_why_and_keeps_what_was_typed(env, form, text):
    panel = await Panel.open(env)
    refused = await panel.post("/admin/blocklist", action="add", **form)
    assert refused.status == 400
    assert text in refused.text
    assert f'value="{form["skillName"]}"' in refused.text
    assert await within(env, list_blocks) == ([], [])


async def test_a_token_is_revoked_and_its_session_is_over(env):
    reviewer = await Panel.open(env, "reviewer")
    panel = await Panel.open(env)
    page = await panel.get("/admin/access")
    assert page.count("Revoke token of") == 1  # never one's own
    token_id = re.search(r'action="/admin/tokens">.*?name="id" value="([0-9a-f]{12})"', page, re.DOTALL)[1]
    page = await panel.done("/admin/tokens", id=token_id)
    assert "by admin: because of this test" in page
    assert "Admin token" in await reviewer.get("/admin")


async def test_a_reviewer_sees_no_tokens_and_changes_neither_skills_nor_the_blocklist(env, greeter):
    reviewer = await Panel.open(env, "reviewer")
    assert "Only admins can view tokens" in await reviewer.get("/admin/access")
    for path in ("/admin/skills?name=greeter", "/admin/blocklist"):
        assert 'name="why"' not in await reviewer.get(path)
    for path, form in (
        ("/admin/skills", {"action": "delete", "name": NAME}),
        ("/admin/blocklist", {"action": "add", "skillName": NAME}),
        ("/admin/tokens", {"id": "x"}),
        ("/admin/reports", {"id": "x"}),
        ("/admin/recount", {"action": "repair"}),
    ):
        assert (await reviewer.post(path, **form)).status == 403
    assert (await within(env, lambda: find_skill(NAME))).is_listed


async def test_what_was_blocked_by_a_person_is_lifted_from_the_review(env, greeter):
    panel = await Panel.open(env)
    route, path = "POST /admin/review/{id}", f"/admin/review/{greeter.id}"
    for action, state in (("block", State.BLOCKED), ("unblock", State.PUBLISHED)):
        form = {"csrf_token": panel.csrf_token, "action": action, "why": "because of this test"}
        assert (await call(env, route, path, form=form, cookies=[panel.cookie], id=greeter.id)).status == 303
        assert (await within(env, lambda: get_submission(greeter.id))).state == state


async def test_a_recount_of_many_records_shows_its_progress_and_continues(env, monkeypatch):
    monkeypatch.setattr("shared.moderation.recount.RECORDS_PER_PAGE", 2)
    monkeypatch.setattr("shared.moderation.recount.PAGES_AT_ONCE", 1)
    for n in range(3):
        await submitted(env, a_bundle(f"counted-{n}"))
    panel = await Panel.open(env)
    page = (await panel.post("/admin/recount")).text
    assert "2 of 3 records read." in page
    cursor = re.search('name="cursor" value="([^"]+)"', page)[1]
    assert "3 of 3 records read." in (await panel.post("/admin/recount", cursor=cursor)).text
    assert "No drift: 3 submissions" in (await panel.post("/admin/recount", cursor=cursor)).text
    assert "does not belong" in (await panel.post("/admin/recount", cursor="made up")).text
    env.clock.forward(hours=1)
    assert "paused for too long" in (await panel.post("/admin/recount", cursor=cursor)).text
    refused = await panel.post("/admin/recount", action="repair")
    assert "the recount has not read every record yet" in await panel.get(refused.headers["location"])


async def test_wrong_counters_are_repaired_with_a_reason(env):
    await submitted(env, a_bundle("counted"))
    key = next(key for key in COUNTER_KEYS if key in env.kv.items)
    env.kv.items[key].attrs["RECEIVED"] += 2
    panel = await Panel.open(env)
    page = (await panel.post("/admin/recount")).text
    assert "Counters and records differ" in page
    assert "Queued (RECEIVED)</td>" in page
    assert "Counters repaired" in await panel.done("/admin/recount", action="repair")
    assert "No drift" in (await panel.post("/admin/recount")).text
