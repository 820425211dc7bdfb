"""The reviewers' workbench in a real browser, against the running platform: keys, files in place, the live list."""

import pytest
from playwright.sync_api import expect

from tests.support.browser import browser as open_browser
from tests.support.browser_tab import Tab, sign_in
from tests.support.demo import SETUP, skill_md, upload, wait_until_idle
from tests.support.platform import Platform


@pytest.fixture(scope="module")
def platform(tmp_path_factory):
    running = Platform.start(tmp_path_factory.mktemp("review"))
    yield running
    running.kill()


@pytest.fixture
def tab():
    with open_browser() as browser:
        with_tab = Tab(browser.new_context(viewport={"width": 1280, "height": 800}))
        yield with_tab.page
        with_tab.close()


def test_20_held_submissions_are_cleared_by_keyboard_alone(tab, platform):
    sent = {}
    for n in range(20):
        name = f"held-{n:02}"
        sent[name] = upload(platform, name, skill_md(name, "Is held.", []), files={"setup.sh": SETUP + name})["id"]
    wait_until_idle(platform)
    sign_in(tab, platform)
    rows, current = tab.locator(".review-link"), tab.locator(".review-link[aria-current] b")
    expect(rows).to_have_count(20)
    names = rows.locator("b").all_inner_texts()
    tab.keyboard.press("j")
    expect(rows.nth(1)).to_be_focused()
    tab.keyboard.press("Enter")
    expect(current).to_have_text(names[1])
    tab.keyboard.press("k")
    tab.keyboard.press("Enter")
    for n, name in enumerate(names):
        expect(current).to_have_text(name)  # the next one in the list each time
        expect(rows).to_have_count(20 - n)
        key, action = ("a", "approve") if n == 5 else ("r", "reject")
        tab.keyboard.press(key)
        expect(tab.locator(f"#why-{action}")).to_be_focused()
        tab.keyboard.type("looked at it")
        with tab.expect_navigation():
            tab.keyboard.press("Enter")
        expect(tab.locator(".banner.good")).to_be_visible()
    expect(tab.locator(".empty-title")).to_have_text("No submissions to review")
    states = [platform.json("GET", f"/api/v1/submissions/{sent[name]}")[1]["state"] for name in names]
    assert states.count("REJECTED") == 19
    assert states[5] == "PUBLISHED"


def test_keys_open_files_in_place_claim_note_and_close_what_is_open(tab, platform):
    held = opened_for_review(tab, platform, "by-key")
    tab.keyboard.press("?")
    expect(tab.locator("dialog.keys")).to_contain_text("Approve, reject or block")
    tab.keyboard.press("Escape")
    for key, action in (("b", "block"), ("r", "reject")):
        tab.keyboard.press(key)
        expect(tab.locator(f"#why-{action}")).to_be_focused()
        tab.keyboard.press("Escape")
    tab.keyboard.press("r")
    tab.keyboard.type("not sent yet")
    tab.locator(".finding a.where[href*='file=setup.sh']").first.click()
    expect(tab.locator("tr:target.hit")).to_be_in_viewport()
    assert tab.input_value("#why-reject") == "not sent yet"  # the file opened on the same page
    assert "file=setup.sh#L5" in tab.url
    tab.keyboard.press("Escape")
    expect(tab.locator("#why-reject")).to_be_hidden()
    tab.keyboard.press("c")
    expect(tab.locator(".claim")).to_contain_text("Yours until")
    tab.keyboard.press("n")
    tab.keyboard.type("asked the author")
    tab.keyboard.press("Enter")
    expect(tab.locator(".review-context")).to_contain_text("asked the author")
    dequeue(platform, held)


def test_the_open_workbench_follows_what_others_do(tab, platform):
    first, second = (
        upload(platform, name, skill_md(name, "Is held.", []), files={"setup.sh": SETUP + name})
        for name in ("x1", "x2")
    )
    wait_until_idle(platform)
    sign_in(tab, platform)
    tab.goto(f"{platform.url}/admin?review={first['id']}")
    expect(tab.locator("[data-live]")).to_have_attribute("data-live", "live")
    row = tab.locator(f'.review-link[href*="{second["id"]}"]')
    expect(row).to_have_count(1)
    tab.keyboard.press("r")
    tab.keyboard.type("typed")
    dequeue(platform, second["id"])
    expect(row).to_have_count(0)
    assert tab.input_value("#why-reject") == "typed"
    dequeue(platform, first["id"])
    expect(tab.locator("[data-changed]")).to_be_visible()


# At once: the open page replaces its forms when something changes.
SUBMIT_TWICE = """() => [1, 2].map(() => document.querySelector("[data-decision=reject] form").dispatchEvent(
  new SubmitEvent("submit", { cancelable: true, bubbles: true })))"""


def test_a_decision_that_is_clicked_twice_is_made_once(tab, platform):
    opened_for_review(tab, platform, "twice")
    assert tab.evaluate(SUBMIT_TWICE) == [True, False]  # the second one is not sent
    tab.reload()
    tab.keyboard.press("r")
    tab.keyboard.type("seen twice")
    tab.get_by_role("button", name="Reject twice").dblclick()
    expect(tab.locator(".banner.good")).to_have_text("Rejected. The author can see your reason.")
    expect(tab.locator(".banner.problem")).to_have_count(0)


def opened_for_review(tab, platform: Platform, name: str) -> str:
    held = upload(platform, name, skill_md(name, "Is held.", []), files={"setup.sh": f"{SETUP}# {name}"})
    wait_until_idle(platform)
    sign_in(tab, platform)
    tab.goto(f"{platform.url}/admin?review={held['id']}")
    return str(held["id"])


def dequeue(platform: Platform, submission_id: str) -> None:
    path, bearer = f"/api/v1/admin/submissions/{submission_id}/dequeue", f"Bearer {platform.admin_token}"
    status, _ = platform.json("POST", path, {"reason": "the test is over"}, headers={"authorization": bearer})
    assert status == 200
