"""Searching submissions: by owner, repository, slug and its parts, whatever became of them."""

import random

import msgspec
import pytest

from shared.records.search_words import MAX_SUBMISSION_WORDS, is_match, query_words, submission_words
from shared.records.submissions import State, Submission, new_id
from shared.submissions import word_index
from shared.submissions.submission_search import NAMESAKES, find_refused, search_submissions
from shared.submissions.submission_store import create, get_submission, move_submission
from tests.support.builders import a_bundle, an_unusable_bundle, processed, submitted
from tests.support.counting_stores import CountingKV
from tests.support.memory import memory_env, within

GITHUB = "https://github.com"


def a_draft(env, repo: str, slug: str) -> Submission:
    at = env.clock()
    return Submission(
        id=new_id(at),
        source=f"{GITHUB}/{repo}".lower(),
        skill_path=slug,
        skill_name=f"{repo}/{slug}",
        repo_url=f"{GITHUB}/{repo}",
        state=State.RECEIVED,
        created_at=at,
        updated_at=at,
    )


async def accepted(env, repo: str, slug: str) -> Submission:
    env.clock.forward(seconds=1)
    return await within(env, lambda: create(a_draft(env, repo, slug)))


async def rejected(env, repo: str, slug: str, reason: str = "no good") -> Submission:
    submission = await accepted(env, repo, slug)
    return await within(env, lambda: move_submission(submission, State.REJECTED, "admin:ann", reason))


async def pages(env, q: str, limit: int = 50) -> list[str]:
    shown, after = [], None
    while True:
        found = await within(env, lambda a=after: search_submissions(q, limit, a))
        assert len(found.rows) <= limit
        assert found.failed == []
        shown += [row.id for row in found.rows]
        if found.next_position is None:
            return shown
        after = found.next_position


async def test_a_submission_is_found_by_every_part_of_its_name_from_the_moment_it_is_accepted(env):
    wanted = await accepted(env, "Acme/doc-tools", "pdf-merge")
    await accepted(env, "other/things", "unrelated")
    for q in ("acme", "doc", "tools", "pdf", "MERGE", "pdf-merge", "pdf mer", "Acme/doc-tools/pdf-merge", wanted.id):
        assert await pages(env, q) == [wanted.id], q
    for q in ("acme unrelated", "pdxyz", "", "!", "sub_" + "0" * 26):
        assert await pages(env, q) == [], q


async def test_a_submission_is_found_in_the_state_it_is_in(env):
    submission = await submitted(env, an_unusable_bundle("broken"))
    await processed(env, submission)
    found = await within(env, lambda: search_submissions("broken", 10))
    assert [row.state for row in found.rows] == [State.REJECTED]


@pytest.mark.requirement("I14")
@pytest.mark.parametrize("longest", [2, 5, 1000])
@pytest.mark.parametrize("seed", range(3))
async def test_a_search_is_a_filter_over_the_records_whatever_the_page_size(monkeypatch, longest, seed):
    monkeypatch.setattr(word_index, "LONGEST_LIST", longest)
    rng = random.Random(seed)
    env = memory_env()
    parts = ("pdf", "pdfs", "table", "tables", "acme", "r")
    made = [
        await accepted(env, f"{rng.choice(parts)}/{rng.choice(parts)}{n}", f"{rng.choice(parts)}-{rng.choice(parts)}")
        for n in range(25)
    ]
    for q in ("pdf", "tab", "pdf tab", "acme r", "r"):
        expected = {s.id for s in made if is_match(query_words(q), submission_words(s))}
        whole = await pages(env, q, 500)
        assert len(whole) == len(set(whole))
        assert set(whole) == expected, q
        assert await pages(env, q, 1) == await pages(env, q, 3) == whole
        if longest == 1000:
            assert whole == sorted(whole, reverse=True), "newest first"


def test_a_submission_has_at_most_twelve_words(env):
    assert len(submission_words(a_draft(env, "a-b-c-d/e-f-g-h", "i-j-k-l-m-n"))) == MAX_SUBMISSION_WORDS == 12


async def test_words_are_part_of_the_accept_transaction(env):
    before = set(env.kv.items)
    submission = await submitted(env, a_bundle("pdf-merge"))
    words = {key.sk for key in set(env.kv.items) - before if key.pk.startswith("findsub:")}
    assert words == {f"{word}#{submission.id}" for word in ("pdf", "merge")}


@pytest.mark.parametrize("q", ["pdf", "uploads/anonymous/pdf-merge", "Uploads/Anonymous/pdf", "merge pdf"])
async def test_an_upload_is_found_by_its_own_words_and_its_full_name(env, q):
    submission = await submitted(env, a_bundle("pdf-merge"))
    assert [row.id for row in (await within(env, lambda: search_submissions(q, 10))).rows] == [submission.id]


@pytest.mark.parametrize("q", ["uploads", "anonymous", "uploads/anonymous/", "uploads pdf"])
async def test_the_place_that_all_uploads_share_finds_none_of_them(env, q):
    """One partition would take the words of all of them."""
    await submitted(env, a_bundle("pdf-merge"))
    assert (await within(env, lambda: search_submissions(q, 10))).rows == []


async def test_a_search_takes_two_round_trips_and_as_many_requests_among_2000_submissions_as_among_100():
    taken = []
    for size in (100, 2000):
        env = memory_env(CountingKV)
        for n in range(size):
            await accepted(env, f"acme/r{n % 7}", f"pdf-{n}")
        env.kv.freeze()
        env.kv.forget()
        found = await within(env, lambda: search_submissions("acme pdf", 50))
        assert len(found.rows) == 50
        assert env.kv.round_trips == 2
        taken.append(env.kv.requests)
    assert taken[0] == taken[1]


async def test_an_unreadable_submission_is_reported(env):
    submission = await accepted(env, "acme/r", "pdf")
    env.kv.items[next(key for key in env.kv.items if key.pk == f"sub:{submission.id}")].doc = "{"
    assert await within(env, lambda: search_submissions("pdf", 10)) == ([], None, [submission.id])


async def test_the_refused_submission_of_a_name_is_found_in_its_source_only(env):
    refused = await rejected(env, "acme/r", "pdf")
    await accepted(env, "other/r", "pdf")
    find = lambda *asked: within(env, lambda: find_refused(*asked))  # noqa: E731
    assert await find("acme/r/pdf") == (refused, None)
    assert await find("pdf", f"{GITHUB}/acme/r") == (refused, None)
    assert await find("ACME/r/PDF", f"{GITHUB}/acme/r") == (refused, None)
    for asked in (("pdf", f"{GITHUB}/other/r"), ("other/r/pdf",), ("pdf",), ("pd",), ("acme",), ("",)):
        assert await find(*asked) == (None, None), asked


async def test_a_refusal_is_found_behind_any_number_of_newer_namesakes_and_shown_for_its_own_skill_only(env):
    refused = await rejected(env, "acme/r", "pdf")
    for n in range(NAMESAKES + 5):
        await accepted(env, "beta/kit", f"pdf-{n}")
    newest = await rejected(env, "zeta/r", "pdf")
    find = lambda *asked: within(env, lambda: find_refused(*asked))  # noqa: E731
    assert await find("pdf") == (None, None)  # not all of them were looked at
    assert await find("pdf", f"{GITHUB}/zeta/r") == (newest, None)
    assert await find("pdf", f"{GITHUB}/acme/r") == (refused, None)
    assert await find("acme/r/pdf") == (refused, None)


async def test_what_was_published_after_all_is_not_refused(env):
    refused = await rejected(env, "acme/r", "pdf")
    await within(env, lambda: move_submission(refused, State.RECEIVED, "admin:ann", "again"))
    assert await within(env, lambda: find_refused("acme/r/pdf")) == (None, None)
    assert msgspec.structs.asdict(await within(env, lambda: get_submission(refused.id)))["state"] == State.RECEIVED


@pytest.mark.parametrize("q", ["invoce", "invocie", "invoixe", "invvoice", "invoice-redaer", "acme invoce", "invoicez"])
async def test_one_wrong_letter_after_the_second_still_finds_it(env, q):
    wanted = await accepted(env, "acme/tools", "invoice-reader")
    await accepted(env, "acme/tools", "inventory")
    assert await pages(env, q) == [wanted.id]


@pytest.mark.parametrize("q", ["nivoice", "invce", "inxy", "ivn"])
async def test_more_than_one_wrong_letter_or_one_of_the_first_two_finds_nothing(env, q):
    await accepted(env, "acme/tools", "invoice-reader")
    assert await pages(env, q) == []


async def test_a_search_within_states_pages_through_all_of_them_and_only_them(env):
    wanted = [(await rejected(env, "acme/tools", f"tool-{n}")).id for n in range(7)]
    for n in range(5):
        await accepted(env, "acme/tools", f"other-tool-{n}")
    shown, after = [], None
    while True:
        found = await within(env, lambda a=after: search_submissions("acme", 3, a, (State.REJECTED,)))
        shown += [row.id for row in found.rows]
        if found.next_position is None:
            break
        after = found.next_position
    assert shown == wanted[::-1]


async def test_a_search_within_states_costs_the_same_however_many_there_are(env):
    spent = []
    for n in (1, 600):
        env = memory_env(CountingKV)
        for k in range(n):
            await accepted(env, "acme/tools", f"tool-{k}")
        before = env.kv.round_trips
        await within(env, lambda e=env: search_submissions("acme", 50, None, (State.REJECTED,)))
        spent.append(env.kv.round_trips - before)
    assert spent[0] == spent[1] == 2
