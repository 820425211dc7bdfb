"""Pages as the first HTML says them: no script has run here."""

import gc
import re
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from shared.errors import Unavailable
from shared.records.submissions import State, Submission, new_id
from shared.storage.kv import Read
from shared.submissions import intake
from shared.submissions.pause import pause_queue
from shared.submissions.submission_store import create
from tests.support.builders import a_bundle, an_unusable_bundle, processed, submitted
from tests.support.counting_stores import CountingKV
from tests.support.external_scans import claim, published, report
from tests.support.memory import MemoryKV, memory_env, within
from tests.support.page_weight import weight_of
from tests.support.route_calls import call, multipart

CARDS = ("total", "active", "published", "rejected", "blocked", "onHold")


def figures(page: str) -> dict[str, str]:
    found = re.findall(r'data-figure="(\w+)">(?:<span[^>]*>)?([^<]+)', page)
    return {name: text.strip() for name, text in found}


def rows(page: str) -> list[tuple[str, str]]:
    return re.findall(r'<tr data-id="(\w+)" data-version="\d+" data-state="(\w+)"', page)


async def many(env, n: int, state: State = State.PUBLISHED) -> None:
    """Records straight into the store, without a worker."""
    for k in range(n):
        at = env.clock()
        draft = Submission(
            id=new_id(at),
            source="https://github.com/o/r",
            skill_path=f"s/{k}",
            skill_name=f"o/r/skill-{k}",
            repo_url="https://github.com/o/r",
            state=state,
            created_at=at,
            updated_at=at,
        )
        await within(env, lambda d=draft: create(d))


async def test_an_empty_queue_says_so_and_shows_true_zeros(env):
    page = await call(env, "GET /queue")
    assert page.status == 200
    assert figures(page.text) == dict.fromkeys(CARDS, "0")
    assert "No submissions yet" in page.text


async def test_one_submission_is_there_with_its_place(env):
    submission = await submitted(env)
    page = await call(env, "GET /queue")
    assert figures(page.text) == {**dict.fromkeys(CARDS, "0"), "total": "1", "active": "1"}
    assert rows(page.text) == [(submission.id, "RECEIVED")]
    assert '<td class="place"><b>1</b>' in page.text
    assert f'href="/submissions/{submission.id}"' in page.text


async def test_300_submissions_come_in_pages_that_lose_and_repeat_none(env):
    await many(env, 300)
    seen, path = [], "/queue"
    while path:
        page = await call(env, "GET /queue", path)
        assert figures(page.text)["total"] == "300"
        seen += rows(page.text)
        following = re.search(r'href="([^"]+)" rel="next"', page.text)
        path = following and following[1].replace("&amp;", "&")
    assert len(seen) == len(set(seen)) == 300


async def test_an_open_page_reads_only_what_changed(env):
    await many(env, 60)
    one, other = await submitted(env, a_bundle("one")), await submitted(env, a_bundle("other"))
    await processed(env, one)
    page = await call(env, "GET /queue", f"/queue?changed={one.id},{other.id}")
    assert rows(page.text) == [(other.id, "RECEIVED"), (one.id, "PUBLISHED")]
    assert figures(page.text)["total"] == "62"
    assert "1–50 of 62" in page.text
    page = await call(env, "GET /queue", f"/queue?changed={one.id},{other.id}&state=published")
    assert rows(page.text) == [(one.id, "PUBLISHED")]


@pytest.mark.parametrize("changed", ["x", "sub_1", ",".join(new_id(datetime.now(UTC)) for _ in range(101))])
async def test_what_is_no_list_of_ids_is_refused(env, changed):
    assert (await call(env, "GET /queue", f"/queue?changed={changed}")).status == 400


async def test_a_change_that_cannot_be_read_is_no_row_less():
    """The page keeps what it shows, and asks again."""

    class Unread(MemoryKV):
        async def get_many(self, keys):
            read = await super().get_many(keys)
            unread = [key for key in read.found if key.pk.startswith("sub:")]
            return Read({k: v for k, v in read.found.items() if k not in unread}, read.missing, unread)

    env = memory_env()
    one = await submitted(env)
    unread = Unread(env.clock.seconds)
    unread.items = env.kv.items
    assert (await call(replace(env, kv=unread), "GET /queue", f"/queue?changed={one.id}")).status == 503


async def test_a_card_filters_and_the_age_column_turns_the_order(env):
    good = await submitted(env, a_bundle("good"))
    bad = await submitted(env, an_unusable_bundle("bad"))
    for submission in (good, bad):
        await processed(env, submission)
    page = await call(env, "GET /queue", "/queue?state=rejected")
    assert rows(page.text) == [(bad.id, "REJECTED")]
    assert 'href="/queue?state=rejected" aria-current="page"' in page.text
    assert "SKILL.md cannot be used" in page.text
    newest, oldest = await call(env, "GET /queue"), await call(env, "GET /queue", "/queue?sortDir=asc")
    assert rows(newest.text) == rows(oldest.text)[::-1]
    assert 'href="/queue?sortDir=asc"' in newest.text


@pytest.mark.parametrize(
    "query",
    [
        "state=bogus",
        "sort=name",
        "state=active&sort=createdAt",
        "cursor=x",
        "page=2",
        "q=a&sort=updatedAt",
        f"q={'x' * 201}",
    ],
)
async def test_a_query_that_cannot_be_served_is_an_error_page(env, query):
    page = await call(env, "GET /queue", f"/queue?{query}")
    assert page.status == 400
    assert page.headers["content-type"].startswith("text/html")
    assert "Bad request" in page.text


async def test_an_error_page_sets_names_as_code_and_says_what_to_do_next(env):
    page = await call(env, "GET /queue", "/queue?state=bogus")
    assert "<code>state</code> must be one of" in page.text
    assert "Check the URL or form and try again." in page.text


async def test_submissions_are_searched_by_words_and_the_words_stay_in_the_form(env):
    good = await submitted(env, a_bundle("pdf-forms"))
    await submitted(env, a_bundle("csv-cleaner"))
    page = await call(env, "GET /queue", "/queue?q=pdf+form")
    assert rows(page.text) == [(good.id, "RECEIVED")]
    assert 'value="pdf form"' in page.text
    assert "1 result<" in page.text
    assert figures(page.text)["total"] == "2"  # the cards are about all of them
    assert "2 entered in 24 h" in page.text  # events, and called so: they need not equal the rows
    assert rows((await call(env, "GET /queue", f"/queue?q={good.id}")).text) == [(good.id, "RECEIVED")]
    assert len(rows((await call(env, "GET /queue", "/queue?q=+")).text)) == 2
    assert "No submissions found" in (await call(env, "GET /queue", "/queue?q=nothing+like+it")).text


async def test_a_search_continues_on_the_next_page(env, monkeypatch):
    monkeypatch.setattr("functions.html.queue_pages.ROWS", 2)
    for n in range(5):
        await submitted(env, a_bundle(f"pdf-{n}"))
    seen, path = [], "/queue?q=pdf"
    while path:
        page = await call(env, "GET /queue", path)
        seen += rows(page.text)
        following = re.search(r'href="([^"]+)" rel="next"', page.text)
        path = following and following[1].replace("&amp;", "&")
    assert len(seen) == len(set(seen)) == 5


async def test_a_counter_that_cannot_be_read_is_a_dash_and_a_banner_never_a_zero():
    class CountersDown(MemoryKV):
        async def load(self, key):
            if key.pk == "stats:3":
                raise Unavailable("not now")
            return await super().load(key)

    env = memory_env(CountersDown)
    env.kv.__class__ = MemoryKV
    await submitted(env)
    env.kv.__class__ = CountersDown
    page = await call(env, "GET /queue")
    assert page.status == 200
    assert figures(page.text) == dict.fromkeys(CARDS, "—")
    assert "temporarily unavailable" in page.text
    assert len(rows(page.text)) == 1


async def test_a_store_that_does_not_answer_is_503_never_an_empty_queue():
    class Down(MemoryKV):
        async def query(self, query):
            raise Unavailable("not now")

    page = await call(memory_env(Down), "GET /queue")
    assert (page.status, page.headers["retry-after"]) == (503, "5")
    assert "Service unavailable" in page.text
    assert "No submissions yet" not in page.text


async def test_a_pause_is_shown_with_its_end(env):
    await within(env, lambda: pause_queue("anna", "the store moves", timedelta(hours=1)))
    page = await call(env, "GET /queue")
    assert re.search(r"04:04:\d\d UTC</time> \(the store moves\)", page.text)
    submission = await submitted(env)
    followed = await call(env, "GET /submissions/{id}", id=submission.id)
    assert re.search(r"04:04:\d\d UTC</time> \(the store moves\)", followed.text)


@pytest.mark.slow
async def test_the_queue_takes_two_round_trips_and_the_same_requests_at_100_and_2_000():
    envs = {n: memory_env(CountingKV) for n in (100, 2_000)}
    taken, searched = [], []
    for n, env in envs.items():
        await _fill_and_settle(env, n)
        env.kv.forget()
        page = await call(env, "GET /queue")
        assert figures(page.text)["total"].replace("\u202f", "") == str(n)
        taken.append((env.kv.round_trips, env.kv.requests))
        env.kv.forget()
        assert len(rows((await call(env, "GET /queue", "/queue?q=waits")).text)) == 20
        searched.append((env.kv.round_trips, env.kv.requests))
    assert taken[0] == taken[1]
    assert searched[0] == searched[1]
    assert taken[0][0] == searched[0][0] == 2
    few, many = await _cpu(*envs.values())
    assert many <= 1.3 * few


async def _fill_and_settle(env, n: int) -> None:
    await many(env, n - 20)
    await many_waiting(env, 20)
    env.clock.forward(minutes=3)
    env.kv.freeze()


async def many_waiting(env, n: int) -> None:
    for k in range(n):
        await submitted(env, a_bundle(f"waits-{k}"))


async def _cpu(*envs) -> list[float]:
    """Taken in turns, the least of many: what is above it is other work on this machine, or the collector's."""
    times: dict[int, list[float]] = {n: [] for n in range(len(envs))}
    gc.disable()
    for _ in range(30):
        for n, env in enumerate(envs):
            start = time.process_time()
            await call(env, "GET /queue")
            times[n].append(time.process_time() - start)
    gc.enable()
    return [min(taken) for taken in times.values()]


async def test_the_front_page_shows_totals_and_the_newest_skills(env):
    submission = await submitted(env)
    await processed(env, submission)
    page = await call(env, "GET /")
    assert re.search(r"<b data-total>1</b> published", page.text)
    assert 'href="/skills/uploads/anonymous/greeter"' in page.text


async def test_a_submission_is_a_story_with_durations_and_what_is_next(env):
    submission = await submitted(env, an_unusable_bundle())
    env.clock.forward(seconds=1.4)
    await processed(env, submission)
    page = await call(env, "GET /submissions/{id}", f"/submissions/{submission.id}", id=submission.id)
    assert "Rejected: SKILL.md cannot be used" in page.text
    assert "1.4 s" in page.text
    assert "Waiting for the author." in page.text
    assert re.findall(r"</svg><b>([^<]+)</b>", page.text) == ["Queued", "Scanning", "Rejected"]


async def test_what_was_scanned_links_to_reports_that_are_there(env):
    waiting, done = await submitted(env, a_bundle("waits")), await submitted(env, a_bundle("done"))
    await processed(env, done)
    page = await call(env, "GET /submissions/{id}", id=done.id)
    links = re.findall(rf'href="(/api/v1/submissions/{done.id}[^"]*)"', page.text)
    assert [link.partition(done.id)[2] for link in links] == ["", "/report?format=json", "/report?format=sarif"]
    for link, route in zip(links, ("", "/report", "/report"), strict=True):
        assert (await call(env, f"GET /api/v1/submissions/{{id}}{route}", link, id=done.id)).status == 200
    assert "/report" not in (await call(env, "GET /submissions/{id}", id=waiting.id)).text


async def test_a_queued_submission_shows_its_position_and_an_honest_wait(env):
    await many_waiting(env, 41)
    ids = [row_id for row_id, _ in rows((await call(env, "GET /queue", "/queue?sortDir=asc")).text)]

    async def sentence(n: int) -> str:
        return (await call(env, "GET /submissions/{id}", id=ids[n - 1])).text

    assert "It is next in the queue." in await sentence(1)
    assert "Position 41 in the queue." in await sentence(41)  # nothing was finished lately: no estimate
    await many(env, 60)
    assert "Position 41 in the queue, estimated wait 11 min." in await sentence(41)
    assert "Position 20 in the queue." in await sentence(20)  # taken at once


async def test_an_unknown_submission_is_a_404_page(env):
    page = await call(env, "GET /submissions/{id}", "/submissions/sub_x", id="sub_x")
    assert page.status == 404
    assert "Page not found" in page.text


async def test_a_short_name_leads_to_the_skill_and_the_skill_shows_its_text(env):
    submission = await submitted(env)
    await processed(env, submission)
    short = await call(env, "GET /skills/{proxy+}", "/skills/greeter", proxy="greeter")
    assert (short.status, short.headers["location"]) == (303, "/skills/uploads/anonymous/greeter")
    name = "uploads/anonymous/greeter"
    page = await call(env, "GET /skills/{proxy+}", f"/skills/{name}", proxy=name)
    assert "Say hello." in page.text
    assert "npx vskill@latest install" not in page.text, "a client would look for uploads/anonymous on GitHub"
    assert "<h3>greeter</h3>" in page.text


async def test_third_party_scans_are_part_of_the_evidence(env):
    submission = await published(env)
    await report(env, await claim(env))
    page = await call(env, "GET /skills/{proxy+}", f"/skills/{submission.skill_name}", proxy=submission.skill_name)
    assert "<dt>bandit</dt><dd>Passed, 97 of 100</dd>" in page.text
    assert "<dt>other</dt><dd>Queued</dd>" in page.text


async def test_two_versions_show_what_changed(env):
    bundle = a_bundle()
    first = await within(env, lambda: intake.submit_bundle("greeter", bundle["files"], None, None, None))
    await processed(env, first.submission)
    changed = [("SKILL.md", bundle["files"][0][1] + "\nAnd wave.\n"), ("wave.py", "print('wave')\n")]
    again = await within(env, lambda: intake.submit_bundle("greeter", changed, first.upload_token, None, None))
    await processed(env, again.submission)
    name = "uploads/anonymous/greeter"
    path = f"/skills/{name}?from=1.0.0&to=1.0.1"
    page = await call(env, "GET /skills/{proxy+}", path, proxy=name)
    assert "2 files changed, +3 −0 lines" in page.text
    assert "<code>And wave.</code>" in page.text
    missing = await call(env, "GET /skills/{proxy+}", f"/skills/{name}?from=1.0.0&to=9.9.9", proxy=name)
    assert missing.status == 404


async def test_a_repository_submitted_by_form_leads_to_its_submission(env):
    page = await call(env, "POST /submit", form={"repoUrl": "https://github.com/o/r", "skillPath": ""})
    assert page.status == 303
    assert page.headers["location"].startswith("/submissions/sub_")


async def test_a_wrong_repository_url_is_an_error_beside_its_field_and_the_input_is_kept(env):
    page = await call(env, "POST /submit", form={"repoUrl": 'https://evil.example/"><script>', "skillPath": "a/b"})
    assert page.status == 400
    assert "not the address of a GitHub repository" in page.text
    assert 'value="https://evil.example/&#34;&gt;&lt;script&gt;"' in page.text
    assert 'value="a/b"' in page.text


async def test_files_uploaded_by_form_are_submitted_and_the_token_is_shown_once(env):
    text = a_bundle("mine")["files"][0][1].encode()
    body, headers = multipart({"name": "mine"}, {"mine/SKILL.md": text, "mine/run.py": "print('ü')\r\n".encode()})
    page = await call(env, "POST /submit", body=body, headers=headers)
    assert page.status == 200
    assert re.search(r'readonly value="[0-9a-f]{64}"', page.text)
    [files] = env.content.files.values()
    assert files == {"SKILL.md": text, "run.py": "print('ü')\r\n".encode()}
    again = await call(env, "POST /submit", body=body, headers=headers)
    assert again.status == 303
    where = again.headers["location"]
    shown = await call(env, "GET /submissions/{id}", where, id=where.split("/")[2].partition("?")[0])
    assert "This content was submitted before" in shown.text
    assert "readonly" not in shown.text


async def test_a_rejected_upload_shows_the_error_beside_its_field(env):
    for fields, files, text in (
        ({"name": "Mine!"}, {"SKILL.md": b"x"}, "cannot be a skill"),
        ({"name": "mine"}, {}, "1 to 500 files"),
        ({"name": "mine"}, {"SKILL.md": b"x", "../a": b"x"}, "not a path inside the skill"),
    ):
        body, headers = multipart(fields, files)
        page = await call(env, "POST /submit", body=body, headers=headers)
        assert page.status == 400
        assert text in page.text


async def test_a_file_that_is_not_text_can_be_uploaded(env):
    text = a_bundle("mine")["files"][0][1].encode()
    body, headers = multipart({"name": "mine"}, {"SKILL.md": text, "logo.png": b"\x89PNG\xff"})
    assert (await call(env, "POST /submit", body=body, headers=headers)).status == 200
    [files] = env.content.files.values()
    assert files["logo.png"] == b"\x89PNG\xff"


async def test_a_new_version_starts_with_what_is_known_of_the_old_one(env):
    upload = await call(env, "GET /submit", "/submit?name=mine")
    assert 'value="mine"' in upload.text
    assert "<details open><summary>New version of an existing upload" in upload.text
    repo = await call(env, "GET /submit", "/submit?repoUrl=https%3A%2F%2Fgithub.com%2Fa%2Fb&skillPath=skills%2Fpdf")
    assert 'value="skills/pdf"' in repo.text


async def test_the_theme_is_a_cookie_that_the_next_page_has_from_its_first_byte(env):
    chosen = await call(env, "POST /theme", form={"theme": "dark", "back": "/queue?state=active"})
    assert (chosen.status, chosen.headers["location"]) == (303, "/queue?state=active")
    assert chosen.cookies[0].startswith("theme=dark; Path=/; Max-Age=31536000; SameSite=Lax")
    page = await call(env, "GET /queue", cookies=["theme=dark"])
    assert '<html lang="en" data-theme="dark">' in page.text
    assert 'data-theme="' not in (await call(env, "GET /queue", cookies=['theme="><script>'])).text.partition(">")[0]


@pytest.mark.requirement("S07")
@pytest.mark.parametrize("back", ["//evil.example", "https://evil.example", "/\\evil.example", "/a\r\nset-cookie: x=1"])
async def test_choosing_a_theme_never_redirects_to_another_site(env, back):
    chosen = await call(env, "POST /theme", form={"theme": "dark", "back": back})
    assert chosen.headers["location"] == "/"


async def test_assets_are_cached_for_a_year_under_the_name_of_their_content(env):
    page = await call(env, "GET /queue")
    names = set(re.findall(r'"/assets/([^"]+)"', page.text))
    assert {name.partition(".")[0] for name in names} == {"app", "icon", "queue"}
    for name in names:
        asset = await call(env, "GET /assets/{name}", f"/assets/{name}", name=name)
        assert "immutable" in asset.headers["cache-control"]
    old = await call(env, "GET /assets/{name}", "/assets/app.000000000000.css", name="app.000000000000.css")
    assert (old.status, old.headers["cache-control"]) == (200, "no-cache")
    for name in ("x.css", "../pages.py", "app.css", "queue.css"):
        found = await call(env, "GET /assets/{name}", f"/assets/{name}", name=name)
        assert found.status == (200 if name == "app.css" else 404)


@pytest.mark.parametrize("path", ["/", "/queue", "/skills", "/submit", "/admin", "/docs"])
async def test_a_page_weighs_less_than_100_kb_compressed(path):
    env = memory_env()
    await many(env, 60)
    assert await weight_of(env, path) < 100_000


async def test_unknown_addresses_are_a_page_for_people_and_json_for_programs(env):
    page = await call(env, "$default", "/nothing")
    assert (page.status, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    answer = await call(env, "$default", "/api/v1/nothing")
    assert (answer.status, answer.json["error"]["code"]) == (404, "not_found")
