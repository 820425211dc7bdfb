"""Submissions by the words of their names: owner, repository, slug and its parts. Two round trips, newest first.

Words are written when a submission is accepted and never removed; the records, read strongly, decide.
"""

import asyncio
from typing import NamedTuple

from shared.errors import Unavailable
from shared.records.search_words import begins, is_match, is_typo_of, name_tokens, query_words, submission_words
from shared.records.submissions import CATEGORIES, State, Submission, SubmissionRow, is_id, row_of
from shared.submissions.submission_store import WORDS, get_submissions_fresh
from shared.submissions.word_index import MAX_LISTS, WordEntry, WordList, read_word, read_words

READ_AT_ONCE = 500  # records, in one round trip
NAMESAKES = 100  # submissions with the words of one name that are read, the newest first


class Found(NamedTuple):
    rows: list[SubmissionRow]
    next_position: str | None  # None: this was the last page
    failed: list[str]  # could not be read, so they are neither shown nor known to be gone


async def search_submissions(
    q: str, limit: int, after: str | None = None, states: tuple[State, ...] = tuple(State)
) -> Found:
    """By words, or by the id itself. Where more have a word than one page of the index takes, they come by word. If
    nothing has the words, one letter of each may be wrong. With some states only, a page reads READ_AT_ONCE records at
    most: it may be shorter than the limit, and `next_position` continues."""
    if is_id(q.strip()):
        fresh = await get_submissions_fresh([q.strip()])
        return Found([row_of(one) for one in fresh.submissions if one.state in states], None, fresh.failed)
    words = query_words(q)
    if not words:
        return Found([], None, [])
    entries, end = await _candidates(words, after)
    if not entries and (words := await _corrected(words)):
        entries, end = await _candidates(words, after)
    page = entries[: limit if len(states) == len(State) else max(limit, READ_AT_ONCE)]
    fresh = await get_submissions_fresh(entry.name for entry in page)
    by_id = {one.id: one for one in fresh.submissions if one.state in states}
    shown = [entry for entry in page if entry.name in by_id and _is_shown(words, entry, by_id[entry.name])]
    last = shown[limit - 1] if len(shown) > limit else page[-1] if len(entries) > len(page) else None
    return Found([row_of(by_id[e.name]) for e in shown[:limit]], last.sort if last else end, fresh.failed)


async def _corrected(words: tuple[str, ...]) -> tuple[str, ...]:
    """Words that nothing has, replaced by the first known ones they may be typos of; none if there is no such word."""
    found = await asyncio.gather(*(_known_word(word) for word in words[:MAX_LISTS]))
    return () if None in found or found == list(words) else tuple(word for word in found if word)


async def _known_word(word: str) -> str | None:
    alike, exact = await asyncio.gather(read_words(WORDS, word[:2]), read_words(WORDS, word, limit=1))
    if exact.entries:
        return word
    return next((entry.word for entry in alike.entries if is_typo_of(word, entry.word)), None)


class RejectedSubmission(NamedTuple):
    rejected: Submission | None = None
    blocked: Submission | None = None


async def find_refused(name: str, source: str | None = None) -> RejectedSubmission:
    """The newest refused submissions of that name, full or its last part. None for a last part that is ambiguous
    without the source: submissions of several sources have it, or too many to read them all."""
    words = tuple(dict.fromkeys(name_tokens(name if source is None or "/" in name else f"{_place(source)}/{name}")))
    if not words:
        return RejectedSubmission()
    ids, are_all = await _ids_with(words)
    fresh = await get_submissions_fresh(ids)
    if fresh.failed:
        raise Unavailable("Not every submission of this name could be read.")
    named = [submission for submission in fresh.submissions if _has_name(submission, name.lower())]
    if source is None and (not are_all or len({submission.source for submission in named}) > 1):
        return RejectedSubmission()
    matching = [submission for submission in named if source in (None, submission.source)]
    return RejectedSubmission(_newest_of(matching, "rejected"), _newest_of(matching, "blocked"))


async def _ids_with(words: tuple[str, ...]) -> tuple[list[str], bool]:
    """Ids of the newest submissions that have each of these words, and whether there are no others."""
    lists = await asyncio.gather(*(read_word(WORDS, word) for word in words[:MAX_LISTS]))
    known = [each.names for each in lists if each.is_complete]
    ids = sorted(set.intersection(*(known or [each.names for each in lists])), reverse=True)
    return ids[:NAMESAKES], bool(known) and len(ids) <= NAMESAKES


def _place(source: str) -> str:
    return "/".join(source.split("/")[-2:])


async def _candidates(words: tuple[str, ...], after: str | None) -> tuple[list[WordEntry], str | None]:
    """Newest first where one of the lists at least is complete; else with their words, as the index has them."""
    listed = words[:MAX_LISTS]
    driver = _driver(listed)
    if after is not None and "#" in after:
        return _page_of_list(await read_words(WORDS, driver, after, descending=True))
    lists = await asyncio.gather(*(read_words(WORDS, word, descending=True) for word in listed))
    known = [each.names for each in lists if each.is_complete]
    if not known:
        return _page_of_list(lists[listed.index(driver)])
    ids = sorted(set.intersection(*known), reverse=True)
    return [WordEntry(id_, "", id_) for id_ in ids if after is None or id_ < after], None


def _page_of_list(found: WordList) -> tuple[list[WordEntry], str | None]:
    return found.entries, None if found.is_complete else found.entries[-1].sort


def _is_shown(words: tuple[str, ...], entry: WordEntry, submission: Submission) -> bool:
    own = submission_words(submission)
    if entry.word:
        driver = _driver(words[:MAX_LISTS])
        if entry.word != max((word for word in own if begins(driver, word)), default=None):
            return False  # it is shown under the last of its words that begin so, which comes first
    return is_match(words, own)


def _driver(words: tuple[str, ...]) -> str:
    return max(words, key=len)


def _newest_of(submissions: list[Submission], category: str) -> Submission | None:
    in_category = (submission for submission in submissions if submission.state in CATEGORIES[category])
    return max(in_category, key=lambda submission: submission.updated_at, default=None)


def _has_name(submission: Submission, name: str) -> bool:
    own = submission.skill_name.lower()
    return name == own or ("/" not in name and own.rpartition("/")[2] == name)
