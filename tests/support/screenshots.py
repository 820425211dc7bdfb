"""python -m tests.support.screenshots: every page, light and dark, desktop and phone, into docs/screenshots."""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page

from tests.support.browser import NoBrowser, browser
from tests.support.demo import BLOCKED, fill, fill_github
from tests.support.platform import REPOSITORY, Platform
from tests.support.stub_github import StubGitHub

SIZES = {"desktop": (1280, 800), "phone": (390, 844)}
THEMES = ("light", "dark")
NOT_PICTURED = (
    "queue-rejected",
    "submission-rejected",
    "submission-waiting",
    "skills-search",
    "owner",
    "files",
    "admin-files",
    "rules",
    "policies",
    "docs",
    "docs-operation",
    "not-found",
    "admin-access",
    "admin-audit",
    "run",
    "owner-sign-in",
)  # similar to another page, or plain


def pages(ids: dict[str, str]) -> dict[str, str]:
    skill, changed = "/skills/northwind/skills/log-triage", "/skills/uploads/anonymous/pdf-forms"
    return {
        "home": "/",
        "queue": "/queue",
        "queue-rejected": "/queue?state=rejected",
        "submit": "/submit",
        "submission-published": f"/submissions/{ids['published']}",
        "submission-held": f"/submissions/{ids['held']}",
        "submission-failed": f"/submissions/{ids['failed']}",
        "submission-rejected": f"/submissions/{ids['rejected']}",
        "submission-waiting": f"/submissions/{ids['waiting']}",
        "run": f"/submissions/{ids['published']}/runs/1",
        "skills": "/skills",
        "skills-search": "/skills?q=git&category=development",
        "skill-blocked": f"/skills/{BLOCKED}",
        "skill": skill,
        "owner": "/owners/northwind",
        "files": f"{skill}/versions/latest/files/SKILL.md",
        "skill-diff": f"{changed}?from=1.0.0&to=1.0.2",
        "guide": "/guide",
        "rules": "/rules",
        "rule": "/rules/RC-PIPE-SHELL",
        "policies": "/policies",
        "docs": "/docs",
        "docs-operation": "/docs/admin#postAdminQueuePause",
        "not-found": "/nothing/here",
        "owner-sign-in": "/owner",
        "my-submissions": "/owner",
        "my-appeal": f"/owner/submissions/{ids['held']}",
        "admin-sign-in": "/admin",
        "admin": "/admin",
        "admin-review": f"/admin?review={ids['held']}&file=scripts/setup.sh",
        "admin-files": f"/admin/files/{ids['held']}/",
        "admin-queue": "/admin/queue",
        "admin-skills": "/admin/skills?name=pdf-forms",
        "admin-blocklist": "/admin/blocklist",
        "admin-access": "/admin/access",
        "admin-audit": "/admin/audit",
    }


def open_page(page: Page, platform: Platform, ids: dict[str, str], name: str) -> None:
    """As who it is for sees it."""
    if name.startswith("admin") and name != "admin-sign-in":
        _sign_in(page, f"{platform.url}/admin", platform.admin_token)
    if name.startswith("my-"):
        _sign_in(page, f"{platform.url}/owner", ids["ownerToken"])
    page.goto(platform.url + pages(ids)[name])


def _sign_in(page: Page, door: str, token: str) -> None:
    page.goto(door)
    if page.get_by_role("button", name="Sign out").count():
        return
    page.fill("#token", token)
    page.locator("form", has=page.locator("#token")).get_by_role("button").click()
    page.get_by_role("button", name="Sign out").wait_for()


def take(running: Browser, platform: Platform, ids: dict[str, str], folder: Path) -> None:
    for theme in THEMES:
        for size, (width, height) in SIZES.items():
            context = running.new_context(color_scheme=theme, viewport={"width": width, "height": height})
            page = context.new_page()
            for name in pages(ids):
                if name in NOT_PICTURED:
                    continue
                open_page(page, platform, ids, name)
                page.screenshot(path=folder / f"{name}-{size}-{theme}.png", full_page=True)
            context.close()


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, StubGitHub() as github:
        fill_github(github)
        platform = Platform.start(Path(directory), GITHUB_API_URL=github.url)
        try:
            ids = fill(platform, github)
            with browser() as running:
                take(running, platform, ids, folder)
        except NoBrowser as missing:
            print(missing, file=sys.stderr)
            return 1
        finally:
            platform.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else REPOSITORY / "docs" / "screenshots"))
