"""A tab of the real browser that records every error in it."""

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page, expect

from tests.support.platform import Platform

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


REPEATS = "document.querySelectorAll('.operation:not([hidden])').length > 3"
OF_COLOURS = ("color-contrast", "link-in-text-block")  # all that a theme changes
# The time of these two grows with all that a page shows: of what looks the same, the first three are enough.
THIN_OUT = """for (const kind of [".operation[hidden]", ".schema[hidden]", ".api-links li", "#codes tr"])
  [...document.querySelectorAll(kind)].slice(kind.endsWith("tr") ? 20 : 3).forEach((one) => one.remove());"""


RUN_AXE = """options => axe.run(options)
  .then(({ violations }) => violations.map((found) => [found.id, found.nodes[0].html]))"""


def violations(page: Page) -> list[str]:
    """Of every rule. Those of colours look at a page that repeats itself only after the repetitions are taken away."""
    if not page.evaluate(REPEATS):
        return _run_axe(page, {})
    without_colours = {"rules": {rule: {"enabled": False} for rule in OF_COLOURS}}
    return _run_axe(page, without_colours) + violations_of_colours(page)


def violations_of_colours(page: Page) -> list[str]:
    """Takes away what the page repeats."""
    page.evaluate(THIN_OUT)
    return _run_axe(page, {"runOnly": list(OF_COLOURS)})


def _run_axe(page: Page, options: dict) -> list[str]:
    """axe is loaded once per page, and answers only what is reported: its other results are large."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    found = page.evaluate(RUN_AXE, {"resultTypes": ["violations"], **options})
    return [f"{rule}: {html}" for rule, html in found]
