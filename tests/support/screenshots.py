"""python -m tests.support.screenshots: every page, light and dark, desktop and phone, into docs/screenshots."""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser

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


def take(running: Browser, url: str, token: str, paths: dict[str, str], folder: Path) -> None:
    for theme in THEMES:
        for size, (width, height) in SIZES.items():
            context = running.new_context(color_scheme=theme, viewport={"width": width, "height": height})
            page = context.new_page()
            for name, path in paths.items():
                page.goto(url + path)
                if name == "admin":
                    page.fill("#token", token)
                    page.click("text=Sign in")
                page.screenshot(path=folder / f"{name}-{size}-{theme}.png", full_page=True)
            context.close()


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, StubGitHub() as github:
        fill_github(github)
        platform = Platform.start(Path(directory), GITHUB_API_URL=github.url)
        try:
            paths = {name: path for name, path in pages(fill(platform, github)).items() if name not in NOT_PICTURED}
            with browser() as running:
                take(running, platform.url, platform.admin_token, paths, folder)
        except NoBrowser as missing:
            print(missing, file=sys.stderr)
            return 1
        finally:
            platform.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else REPOSITORY / "docs" / "screenshots"))
