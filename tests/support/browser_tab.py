"""A tab of the real browser that records every error in it."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.support.platform import Platform

SERIOUS = ("serious", "critical")
LIVE = 30_000  # milliseconds: a cold worker on a busy machine


class Tab:
    def __init__(self, context) -> None:
        self.context, self.problems = context, []
        context.set_default_timeout(LIVE)
        self.page: Page = context.new_page()
        self.page.on("console", lambda message: message.type == "error" and self.problems.append(message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", lambda dialog: self.problems.append(f"dialog: {dialog.message}"))
        self.page.on("requestfailed", self._failed)

    def _failed(self, request) -> None:
        if request.failure != "net::ERR_ABORTED":  # leaving a page ends what it was waiting for
            self.problems.append(f"{request.url}: {request.failure}")

    def close(self) -> None:
        self.context.close()
        assert self.problems == []


def sign_in(page: Page, platform: Platform) -> None:
    page.goto(f"{platform.url}/admin")
    page.fill("#token", platform.admin_token)
    page.click("button:text('Sign in')")
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()


def serious_violations(page: Page, rules: tuple[str, ...] = ()) -> list[str]:
    only = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else None
    found = Axe().run(page, options=only).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found if one["impact"] in SERIOUS]
