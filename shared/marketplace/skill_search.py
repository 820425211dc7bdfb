"""The marketplace as a list: newest first, most installed first, trending, or what a search finds; with filters.

Every page takes two round trips, however many skills there are. The first reads one page of each index, and of an index
that has the requested order no more than the page needs: that gives candidates in order. The second reads the
candidates' records, which decide. A name that is missing in an index that was read to its end is no candidate; if the
index was cut, its record decides. So a page may be shorter than the limit, even empty, and only `next_position` marks
the end.
"""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import timedelta
from itertools import islice
from typing import NamedTuple

from shared.db import get_kv, now
from shared.marketplace.skill_index import NAMES, WORDS
from shared.marketplace.skill_store import ReadSkills, facet_partition, installs_order, read_skills, trend_order
from shared.records.facets import FACETS, facets_of
from shared.records.installs import TREND_DAYS, trend_of
from shared.records.search_words import LONGEST_WORD, begins, is_match, joined, query_words, skill_words
from shared.records.skills import Skill, SkillCounts
from shared.storage.kv import LISTS, Query, Row, complete_until, query_shards, rows_per_partition
from shared.submissions.word_index import LONGEST_LIST, MAX_LISTS, WordEntry, WordList, read_words


class SkillQuery(NamedTuple):
    q: str | None = None
    category: str | None = None
    tier: str | None = None
    author: str | None = None
    license: str | None = None
    tool: str | None = None  # that its front matter asks for
    repo: str | None = None  # owner/repo
    sort: str | None = None  # newest | installs | trending; None: newest, for a search the best match
    limit: int = 50
    after: str | None = None  # `next_position` of the page before

    @property
    def facets(self) -> dict[str, str]:
        values = {key: getattr(self, key) for key in FACETS}
        return {key: value.lower() for key, value in values.items() if value is not None}

    @property
    def words(self) -> tuple[str, ...]:
        return query_words(self.q or "")


class SkillPage(NamedTuple):
    skills: list[Skill]
    next_position: str | None  # None: this was the last page
    failed: list[str]  # could not be read
    counts: dict[str, SkillCounts]  # by the name in lower case, without those that could not be read

    def counts_of(self, skill: Skill) -> SkillCounts | None:
        return self.counts.get(skill.name.lower())


class Candidate(NamedTuple):
    position: str
    name: str
    word: str | None = None  # that found it, where another word may find it again


class Candidates(NamedTuple):
    rows: list[Candidate]
    end: str | None = None  # where the next page continues after all of them; None: there are no more
    is_in_order: bool = True  # else they are sorted by their counts


async def list_skills(query: SkillQuery) -> SkillPage:
    if query.q is not None and not query.words:
        return SkillPage([], None, [], {})  # it contains no word, so it matches nothing
    if query.sort == "trending":
        return await _trending(query)
    found = await (_best_matches(query) if query.words and query.sort is None else _in_order(query))
    page = found.rows[: query.limit]
    read = await read_skills(row.name for row in page)
    if not found.is_in_order:
        page = _by_installs(page, read, query.after)
    shown = [read.skills[row.name] for row in page if _is_shown(query, row, read)]
    next_position = page[-1].position if len(found.rows) > query.limit else found.end
    return SkillPage(shown, next_position, read.failed, read.counts)


async def search_skills(q: str, limit: int = 20, after: str | None = None) -> SkillPage:
    """The best matches first: the name itself, names that begin like it, then words."""
    return await list_skills(SkillQuery(q=q, limit=limit, after=after))


async def get_published_skills_list(limit: int, after: str | None = None) -> SkillPage:
    """A page of the marketplace, newest first."""
    return await list_skills(SkillQuery(limit=limit, after=after))


def _is_shown(query: SkillQuery, row: Candidate, read: ReadSkills) -> bool:
    skill = read.skills.get(row.name)
    if skill is None or not skill.is_listed:
        return False
    if any(value not in facets_of(skill, key) for key, value in query.facets.items()):
        return False
    if not query.words:
        return True
    words = skill_words(skill)
    if row.word is not None:
        driver = _driver(query)
        if row.word != min((word for word in words if begins(driver, word)), default=None):
            return False  # it is shown under the first of its matching words
    return is_match(query.words, words)


# --- trending -------------------------------------------------------------------------------------------------------


async def _trending(query: SkillQuery) -> SkillPage:
    """Most installed in the last seven days: one page, of the skills that were last installed in this week or the one
    before. Each is in the index by what its seven days were when that was, so their counts are read and compared."""
    today = now().date()
    weeks = [trend_order(today), trend_order(today - timedelta(days=TREND_DAYS))]
    limit = rows_per_partition(query.limit)
    found = await query_shards(get_kv(), *(Query(week, "due", descending=True, limit=limit) for week in weeks))
    read = await read_skills(_name_of(row) for row in found.rows)
    trends = {name: trend_of(counts, today) for name, counts in read.counts.items()}
    names = sorted((name for name, trend in trends.items() if trend), key=lambda name: (-trends[name], name))
    shown = [read.skills[name] for name in names if _is_shown(query, Candidate("", name), read)]
    return SkillPage(shown[: query.limit], None, read.failed, read.counts)


# --- by time or by installs -----------------------------------------------------------------------------------------


async def _in_order(query: SkillQuery) -> Candidates:
    if query.sort != "installs" and not query.words and query.facets:
        return await _newest_with_facets(query)
    members, rows = await asyncio.gather(_lists(query, _facets_beside_order(query)), _candidates_in_order(query))
    known = [each.names for each in members if each.is_complete]
    if query.sort == "installs" and known and len(members_of_all := set.intersection(*known)) <= query.limit:
        return Candidates([Candidate("", name) for name in members_of_all], is_in_order=False)
    kept = [row for row in rows.rows if all(row.name in names for names in known)]
    return Candidates(kept, rows.end)


async def _candidates_in_order(query: SkillQuery) -> Candidates:
    """Skills in the requested order, of all or of the category, as far as one page of each partition goes."""
    name, index = _order(query)
    limit = LONGEST_LIST if query.words or _facets_beside_order(query) else rows_per_partition(query.limit)
    found = await query_shards(get_kv(), Query(name, index, before=query.after, descending=True, limit=limit))
    rows, end = found.page(len(found.rows))
    return Candidates([Candidate(row.sort, _name_of(row)) for row in rows], end)


def _by_installs(rows: Iterable[Candidate], read: ReadSkills, after: str | None) -> list[Candidate]:
    """So few that they fit a page: sorted here, however many others are between them in the index."""
    installs = {row.name: counts.installs if (counts := read.counts.get(row.name)) else 0 for row in rows}
    placed = [Candidate(f"{n:012d}#{name}", name) for name, n in installs.items()]
    return sorted((row for row in placed if after is None or row.position < after), reverse=True)


def _order(query: SkillQuery) -> tuple[str, str]:
    """The partitions that have the requested order, and their index."""
    if query.sort != "installs":
        return LISTS["skill:"], "list"
    category = query.facets.get("category")
    return installs_order(category), "list" if category else "state"


def _facets_beside_order(query: SkillQuery) -> dict[str, str]:
    """Each category has its own order by installs, so it needs no other list."""
    return {key: value for key, value in query.facets.items() if query.sort != "installs" or key != "category"}


async def _newest_with_facets(query: SkillQuery) -> Candidates:
    """All facets have the same order: what is in all of them, as far as all of them were read."""
    limit = query.limit + 1 if len(query.facets) == 1 else LONGEST_LIST
    pks = [facet_partition(key, value) for key, value in query.facets.items()]
    queries = [Query(pk, before=query.after, descending=True, limit=limit) for pk in pks]
    pages = await asyncio.gather(*map(get_kv().query, queries))
    end = complete_until(pages, descending=True)
    others = [{row.sort for row in page.rows} for page in pages[1:]]
    in_all = [row.sort for row in pages[0].rows if all(row.sort in sorts for sorts in others)]
    return Candidates([Candidate(sort, sort.split("#", 1)[1]) for sort in in_all if end is None or sort >= end], end)


def _name_of(row: Row) -> str:
    return row.key.pk.partition(":")[2]


# --- by match -------------------------------------------------------------------------------------------------------


async def _best_matches(query: SkillQuery) -> Candidates:
    """Sorted by how well the name matches. For a single word the indexes have that order, so a page of them is enough;
    several words are intersected, as long as one of their lists is complete."""
    if query.after is None and len(query.words) == 1 and not query.facets:
        return await _scan_prefix(query)
    if query.after and query.after.startswith(("n", "w")):
        return await _scan_prefix(query)
    lists, names = await asyncio.gather(_lists(query, query.facets), _read_names(query))
    known = [each.names for each in lists if each.is_complete]
    if not known:
        return _names_then_words(query, names, lists[query.words.index(_driver(query))])
    wanted = joined(query.q or "")
    ranked = sorted((f"c{_rank(name, wanted)}#{name}", name) for name in set.intersection(*known))
    return Candidates([Candidate(*pair) for pair in ranked if query.after is None or pair[0] > query.after])


async def _lists(query: SkillQuery, facets: Mapping[str, str]) -> list[WordList]:
    """The skills with each word and in each facet, at most one page of each."""
    words = (read_words(WORDS, word) for word in query.words[:MAX_LISTS])
    return list(await asyncio.gather(*words, *(_read_facet(key, value) for key, value in facets.items())))


async def _read_facet(key: str, value: str) -> WordList:
    page = await get_kv().query(Query(facet_partition(key, value), descending=True, limit=LONGEST_LIST))
    return WordList([WordEntry(row.sort, "", row.sort.split("#", 1)[1]) for row in page.rows], not page.more)


def _rank(name: str, wanted: str) -> int:
    own = _matching_name(name, wanted)
    return 2 if own is None else int(own != wanted)


def _matching_name(name: str, wanted: str) -> str | None:
    """Which of its names begins like this: the last part or the full name, the first in the order of the index."""
    own = (joined(name.rpartition("/")[2]), joined(name))
    return min((each for each in own if begins(wanted, each)), default=None)


async def _scan_prefix(query: SkillQuery) -> Candidates:
    """Names that begin like the query, then words, each in the order of its index: exact ones first."""
    if query.after and query.after.startswith("w"):
        # A long page: most skills with the word may have been shown for their name, and are skipped.
        return _names_then_words(query, _NO_NAMES, await read_words(WORDS, _driver(query), query.after[1:]))
    return _names_then_words(
        query, *await asyncio.gather(_read_names(query), read_words(WORDS, _driver(query), limit=query.limit + 1))
    )


async def _read_names(query: SkillQuery) -> WordList:
    after = query.after[1:] if query.after and query.after.startswith("n") else None
    return await read_words(NAMES, joined(query.q or "")[:LONGEST_WORD], after, limit=query.limit + 1)


def _names_then_words(query: SkillQuery, names: WordList, words: WordList) -> Candidates:
    wanted = joined(query.q or "")
    first = [Candidate(f"n{e.sort}", e.name) for e in names.entries if _is_first_entry(e, wanted)]
    if not names.is_complete:
        return Candidates(first, f"n{names.entries[-1].sort}")
    shown = {row.name for row in first}
    # On a later page a skill with a matching name was shown before. On the first page all matching names are here: a
    # skill that is missing is not in the list of names yet, and is found by the word.
    left = (e for e in words.entries if e.name not in shown and not (query.after and _matching_name(e.name, wanted)))
    others = (Candidate(f"w{e.sort}", e.name, e.word) for e in left)
    rows = [*first, *islice(others, query.limit + 1)]
    return Candidates(rows, None if words.is_complete else f"w{words.entries[-1].sort}")


def _is_first_entry(entry: WordEntry, wanted: str) -> bool:
    """A skill that is in the list twice, by the last part of its name and by its full name, is shown the first time."""
    own = _matching_name(entry.name, wanted)
    return own is not None and entry.word == own[:LONGEST_WORD]


def _driver(query: SkillQuery) -> str:
    """The word whose list is read: the longest, which has the fewest entries."""
    return max(query.words[:MAX_LISTS], key=len)


_NO_NAMES = WordList([], is_complete=True)
