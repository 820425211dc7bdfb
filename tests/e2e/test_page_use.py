"""Pages with fixed data, in a real browser: accessibility, themes, sizes, keyboard."""

import gzip
import re
from collections import defaultdict
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import product
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from shared.submissions.dead_letter_store import store_dead_letter
from shared.web import labels
from tests.support.backdated_history import in_store_of
from tests.support.browser import browser as open_browser
from tests.support.browser_tab import Tab, sign_in, violations, violations_of_colours
from tests.support.demo import fill, fill_github
from tests.support.platform import Platform
from tests.support.screenshots import SIZES, THEMES, open_page, pages
from tests.support.stub_github import StubGitHub

PAGES = [*pages(defaultdict(str))]


@pytest.fixture(scope="module")
def browser():
    with open_browser() as running:
        yield running


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Sample data of every kind, with the queue paused."""
    with StubGitHub() as github:
        fill_github(github)
        running = Platform.start(tmp_path_factory.mktemp("demo"), GITHUB_API_URL=github.url)
        running.ids = fill(running, github)
        in_store_of(running, github.url, lambda _: store_dead_letter("m-1", "{}", "it failed", running.ids["held"]))
        yield running
        running.kill()


@pytest.fixture
def tab(browser):
    with_tab = Tab(browser.new_context(viewport={"width": 1280, "height": 800}))
    yield with_tab.page
    with_tab.close()


def _look(page, width, height, theme):
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=theme)


@pytest.fixture(scope="module")
def visit(browser, demo):
    """Opens a page of the table in a context of its own. Each role signs in once."""
    sessions = {}

    @contextmanager
    def open_(name, **options):
        role = name.partition("-")[0] if name.startswith(("admin", "my-")) and name != "admin-sign-in" else None
        tab = Tab(browser.new_context(storage_state=sessions.get(role), **options))
        open_page(tab.page, demo, demo.ids, name)
        if role:
            sessions[role] = tab.context.storage_state()
        yield tab.page
        if name == "not-found":
            tab.problems = [problem for problem in tab.problems if "404" not in problem]
        tab.close()

    return open_


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_accessible_in_every_size_and_theme_and_by_keyboard_alone(visit, name):
    with visit(name) as page:
        _look(page, *SIZES["desktop"], "light")
        _tab_through(page)
        found = []
        for (size, (width, height)), theme in product(SIZES.items(), THEMES):
            _look(page, width, height, theme)
            if not page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"):
                found.append((size, theme, "too wide"))
            look = violations if theme == "light" else violations_of_colours  # a theme changes nothing else
            found += [(size, theme, violation) for violation in look(page)]
        assert found == []


def _tab_through(page):
    """Every element of the first ones is reached in order, and the focus is always to be seen."""
    page.locator(".skip").focus()  # some forms begin in their first field
    wanted = page.evaluate(FOCUSABLE)[:FIRST]
    seen = []
    for _ in wanted:
        where = page.evaluate(RING)
        assert where["ring"] >= 2, where["at"]
        seen.append(where["at"])
        page.keyboard.press("Tab")
    assert seen == wanted
    assert len(seen) > 5


FIRST = 40  # what follows on longer pages repeats them
AT = "(element) => [...document.querySelectorAll('*')].indexOf(element) + ' ' + element.outerHTML.slice(0, 120)"
FOCUSABLE = f"""() => {{
  const at = {AT};
  const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")];
  const firstOf = new Set();
  return all.filter((one) => one.checkVisibility() && !one.disabled && one.type !== "hidden")
    .filter((one) => one.type !== "radio" || (one.checked && !firstOf.has(one.name) && firstOf.add(one.name)))
    .map(at);
}}"""
RING = f"""() => {{
  const at = {AT};
  const element = document.activeElement;
  const width = (style) => (style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth));
  const shown = element.type === "radio" ? element.nextElementSibling : element;
  const rings = [getComputedStyle(shown), getComputedStyle(shown, "::after")].map(width);
  return {{ ring: Math.max(...rings), at: at(element) }};
}}"""


SAID = """() => [...document.querySelectorAll("main :is(h1, h2, h3, dt, th, a[href])")]
  .filter((one) => one.checkVisibility() && !one.closest(".console"))
  .map((one) => one.tagName + " " + one.textContent.trim())"""
LIVE = re.compile(r"\d+ (ms|s|min|h|days?|months?)( ago)?$")  # what an age may have become


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_complete_without_a_script_and_light(visit, name):
    """What a page says with its scripts, its HTML says before them."""
    said = []
    for javascript in (True, False):
        with visit(name, java_script_enabled=javascript) as page:
            said.append([text for text in page.evaluate(SAID) if not LIVE.search(text)])
            sent = len(gzip.compress(page.content().encode()))
    assert sent < (200_000 if name.startswith("docs") else 50_000)  # beside its assets, of the 300 KB and 100 KB
    with_scripts, without = said
    assert without
    assert [text for text in with_scripts if text not in without] == []


def test_shortcuts_move_through_the_rows_open_one_and_go_back(tab, demo):
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


def test_a_slash_leads_to_the_search_and_escape_out_of_it(tab, demo):
    tab.goto(f"{demo.url}/skills")
    tab.keyboard.press("/")
    expect(tab.locator("#q")).to_be_focused()
    assert tab.input_value("#q") == ""
    tab.keyboard.press("Escape")
    expect(tab.locator("#q")).not_to_be_focused()
    tab.keyboard.press("j")
    expect(tab.locator("[data-rows] .row-link").first).to_be_focused()


def test_skills_are_found_as_one_types_without_a_new_page(tab, demo):
    tab.goto(f"{demo.url}/skills")
    everything = tab.locator("[data-rows] li").count()
    tab.evaluate("window.sameDocument = true")
    tab.type("#q", "csv clean")
    expect(tab.locator("[data-rows] li")).to_have_count(1)
    expect(tab.locator("[data-rows] .row-link")).to_have_text("csv-cleaner")
    expect(tab).to_have_url(f"{demo.url}/skills?q=csv+clean")
    expect(tab.locator("[data-news]")).to_contain_text("1 result")
    tab.fill("#q", "")
    expect(tab.locator("[data-rows] li")).to_have_count(everything)
    tab.select_option("#tier", "CERTIFIED")
    expect(tab.locator(".empty-title")).to_have_text("No skills found")
    tab.select_option("#tier", "")
    tab.select_option("#category", "operations")
    expect(tab.locator("[data-rows] li")).to_have_count(2)
    expect(tab).to_have_url(f"{demo.url}/skills?category=operations")
    assert tab.evaluate("window.sameDocument")


def test_ages_tick_in_the_words_of_the_server(tab, demo):
    tab.goto(f"{demo.url}/queue")
    for span in (timedelta(minutes=5), timedelta(hours=3), timedelta(days=1), timedelta(days=320), timedelta(days=800)):
        shown = tab.locator("time[data-age]").first
        shown.evaluate("(time, then) => { time.dateTime = then; }", (datetime.now(UTC) - span).isoformat())
        expect(shown).to_have_text(labels.age(span))


def test_the_search_works_without_javascript_too(browser, demo):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{demo.url}/skills")
    page.fill("#q", "incident")
    page.select_option("#sort", "installs")
    page.click("[data-search-button]")
    assert sorted(page.locator("[data-rows] .row-link").all_inner_texts()) == ["log-triage", "runbook-writer"]
    assert page.input_value("#q") == "incident"
    assert page.input_value("#sort") == "installs"
    context.close()


@pytest.mark.parametrize(("wish", "moves"), [("reduce", "none"), ("no-preference", "tint")])
def test_nothing_moves_with_reduced_motion(browser, demo, wish, moves):
    tab = Tab(browser.new_context(reduced_motion=wish))
    tab.page.goto(f"{demo.url}/queue")
    row = tab.page.locator("[data-rows] tbody tr").first
    assert row.evaluate("row => { row.classList.add('changed'); return getComputedStyle(row).animationName; }") == moves
    tab.close()


def test_the_theme_is_kept_and_there_from_the_first_byte(browser, demo):
    tab = Tab(browser.new_context(color_scheme="light"))
    tab.page.goto(f"{demo.url}/queue")
    light = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
    tab.page.click("[data-theme-toggle]")
    assert tab.page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    response = tab.page.goto(f"{demo.url}/skills")
    assert 'data-theme="dark"' in response.text()
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


def test_install_tabs_change_by_keyboard_and_without_javascript(browser, demo):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{demo.url}/skills/northwind/skills/log-triage")
    expect(page.locator(".client:visible")).to_have_count(1)
    page.focus("#client-skills")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#install-claude-code-2")).to_contain_text("claude plugin install log-triage@")
    expect(page.locator(".client:visible")).to_have_count(1)
    page.click("text=clawhub")
    expect(page.locator("#install-clawhub-1")).to_be_visible()
    context.close()


def test_a_finding_of_a_submission_is_one_click_from_its_line(tab, demo):
    sign_in(tab, demo)
    tab.goto(f"{demo.url}/admin?review={demo.ids['held']}")
    tab.click(".tree a.chip")
    expect(tab.locator("tr:target.hit")).to_be_in_viewport()
    tab.click(".jump a")
    expect(tab.locator("tr:target.hit")).to_be_in_viewport()


def test_findings_of_one_line_are_shown_once_and_lead_to_the_page_of_their_rule(tab, demo):
    tab.set_viewport_size({"width": 390, "height": 844})
    tab.goto(f"{demo.url}/submissions/{demo.ids['failed']}")
    hits = tab.locator(".finding .hit .line-number").all_inner_texts()
    assert len(hits) == len(set(hits))
    tab.click("summary:text('more findings on this line')")
    expect(tab.locator(".finding details[open] li")).to_have_count(3)
    assert tab.evaluate("[...document.querySelectorAll('.code')].every((one) => one.scrollWidth <= one.clientWidth)")
    tab.click(".finding .where[href='/rules/EX-CREDENTIAL-NEAR-SEND']")
    expect(tab.locator("h1")).to_have_text("Reads a credential file and sends data a few lines later")


def test_the_reason_in_the_queue_begins_with_its_cause(tab, demo):
    tab.goto(f"{demo.url}/queue")
    reason = tab.locator(f"tr[data-id='{demo.ids['failed']}'] .reason")
    expect(reason).to_have_text(re.compile(r"^Reads a credential file and sends data a few lines later, sync\.py:6 "))


def test_badge_and_release_follow_the_version(tab, demo):
    tab.goto(f"{demo.url}/skills/uploads/anonymous/pdf-forms")
    expect(tab.locator("dt:text('Released') + dd")).to_contain_text("1.0.2, 1 h ago")
    expect(tab.locator("dt:text('First release') + dd")).to_have_text("22 h ago")
    badge = tab.get_by_role("img", name="Badge of pdf-forms").get_attribute("src")
    assert "1.0.2" in demo.request("GET", badge)[2].decode()


def test_the_audit_log_filters_names_skills_and_is_exported(tab, demo):
    sign_in(tab, demo)
    tab.goto(f"{demo.url}/admin/audit")
    everything = tab.locator("tbody tr").count()
    tab.fill("#action", "block")
    tab.get_by_role("button", name="Filter").click()
    rows = tab.locator("tbody tr")
    assert 0 < rows.count() < everything
    expect(rows.get_by_role("link", name="uploads/anonymous/shell-helper")).to_be_visible()
    with tab.expect_download() as download:
        tab.get_by_role("link", name="Export CSV").click()
    exported = download.value.path().read_text().splitlines()
    assert len(exported) == 1 + rows.count()
    assert any("uploads/anonymous/shell-helper" in line for line in exported)


@pytest.mark.parametrize("place", ["#review-title", "#appeals-title", "stuck", "dead", "reports"])
def test_each_number_of_the_admin_page_is_that_of_the_rows_it_leads_to(tab, demo, place):
    sign_in(tab, demo)
    link = tab.locator(f".small-totals a[href*='{place}']")
    number = link.locator("b").inner_text()
    link.click()
    section = tab.locator(f"section[aria-labelledby='{urlsplit(tab.url).fragment}']")
    expect(section.locator(".panel-head").first).to_contain_text(re.compile(rf"(?<!\d){number} "))
    assert section.locator(".review-list li, .notes li, .small-table tbody tr").count() == int(number)
    assert int(number) == {"#review-title": 5, "stuck": 0}.get(place, 1)


IS_UNDER = "([x, y]) => document.elementFromPoint(x, y).closest('summary')?.textContent"
SECTIONS = ("?review={held}", "/queue", "/skills?name=pdf-forms", "/skills?name=prompt-tuner", "/blocklist")
BOXES = """() => [...document.querySelectorAll("main .decisions summary")].map((one) => {
  const { x, y } = one.getBoundingClientRect();
  return [one.textContent, x + scrollX, y + scrollY];
})"""


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("section", SECTIONS)
def test_no_button_moves_when_one_opens(tab, demo, section, size):
    sign_in(tab, demo)
    tab.set_viewport_size(dict(zip(("width", "height"), size, strict=True)))
    tab.goto(f"{demo.url}/admin{section.format(**demo.ids)}")
    buttons = tab.locator("main .decisions summary")
    assert buttons.count()
    for n in range(buttons.count()):
        button = buttons.nth(n)
        button.evaluate("button => button.scrollIntoView({ block: 'center' })")
        box, label = button.bounding_box(), button.text_content()
        middle = [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]
        before = tab.evaluate(BOXES)
        tab.mouse.click(*middle)
        form = tab.locator("main .decisions details[open]", has=tab.locator("summary", has_text=label)).last
        expect(form.locator("[name=why]")).to_be_visible()
        assert tab.evaluate(IS_UNDER, middle) == label
        assert tab.evaluate(BOXES) == before
        assert tab.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
        tab.mouse.click(*middle)


def test_the_api_page_shows_one_operation_at_a_time_and_sends_it(tab, demo):
    tab.goto(f"{demo.url}/docs")
    expect(tab.locator("[data-view]:visible")).to_have_count(1)
    tab.keyboard.press("/")
    tab.keyboard.type("list submissions")
    expect(tab.get_by_text(re.compile(r"^\d+ matches$"))).to_be_visible()
    tab.keyboard.press("Enter")
    expect(tab.locator(".operation:visible")).to_have_count(1)
    expect(tab.get_by_role("heading", name="List submissions")).to_be_focused()
    console = tab.get_by_role("form", name="Try it")
    console.get_by_label("limit").fill("2")
    expect(console.get_by_text(f"curl -s '{demo.url}/api/v1/submissions?limit=2'")).to_be_visible()
    for language, said in {"Python": "urlopen(request)", "JavaScript": "await fetch("}.items():
        console.get_by_role("button", name=language).click()
        expect(console.locator(".snippets code")).to_contain_text(said)
        expect(console.locator(".snippets code")).to_contain_text("/api/v1/submissions?limit=2")
    console.get_by_role("button", name="Send request").click()
    expect(console.get_by_text("200 OK")).to_be_visible()
    expect(console.get_by_role("region", name="Response")).to_contain_text('"submissions": [')


def test_the_console_names_a_body_that_is_no_json_and_sends_an_admin_token(tab, demo):
    tab.goto(f"{demo.url}/docs/admin#postAdminQueuePause")
    console = tab.get_by_role("form", name="Try it")
    console.get_by_label("Body (JSON)").fill("{")
    console.get_by_role("button", name="Send request").click()
    expect(console.get_by_text("This is not valid JSON")).to_be_visible()
    tab.goto(f"{demo.url}/docs/admin#getAdminQueue")
    console.get_by_label("Admin token").fill(demo.admin_token)
    console.get_by_role("button", name="Send request").click()
    expect(console.get_by_role("region", name="Response")).to_contain_text('"maxActive"')
    expect(console.locator(".snippets code")).not_to_contain_text(demo.admin_token)


def test_the_api_page_is_complete_without_javascript(browser, demo):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{demo.url}/docs/admin")
    assert page.locator(".operation").count() == page.locator(".operation:visible").count() > 30
    expect(page.locator("#postAdminQueuePause pre")).to_have_count(3)
    expect(page.get_by_placeholder("Search the API")).to_be_hidden()
    context.close()
