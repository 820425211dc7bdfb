"""The marketplace as a list: newest first, most installed first, or what a search finds; with filters.

Every page takes two round trips, however many skills there are. The first reads indexes, each of them one page, and no
more of one than the answer needs where it has the order asked for: they give candidates in order. The second reads the
candidates' records, which decide. Where an index was read to its end, a name that is not in it is no candidate; where
it was cut, the record tells. So a page may be shorter than asked for, even empty, and only `next_position` tells the
end.
"""

import asyncio
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from shared.db import get_kv
from shared.marketplace.skill_index import FACETS, NAMES, WORDS, facet_of
from shared.marketplace.skill_store import ReadSkills, facet_partition, installs_order, read_skills
from shared.records.search_words import LONGEST_WORD, begins, is_match, joined, query_words, skill_words
from shared.records.skills import Skill, SkillCounts
from shared.storage.kv import LISTS, Query, Row, complete_until, query_shards, rows_per_partition
from shared.submissions.word_index import LONGEST_LIST, MAX_LISTS, WordEntry, WordList, read_words


class SkillQuery(NamedTuple):
    q: str | None = None
    category: str | None = None
    tier: str | None = None
    author: str | None = None
    sort: str | None = None  # newest | installs; None: newest, of a search the best match
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
    failed: list[str]  # could not be read, so they are neither shown nor known to be gone
    counts: dict[str, SkillCounts]  # by the name in lower case; one that could not be read is not there

    def counts_of(self, skill: Skill) -> SkillCounts | None:
        return self.counts.get(skill.name.lower())


class Candidate(NamedTuple):
    position: str
    name: str
    word: str | None = None  # under which it was found, where it may be found again under another one


class Candidates(NamedTuple):
    rows: list[Candidate]
    end: str | None = None  # where the next page goes on after all of them; None: there are no others
    is_in_order: bool = True  # else their counts tell the order


async def list_skills(query: SkillQuery) -> SkillPage:
    if query.q is not None and not query.words:
        return SkillPage([], None, [], {})  # nothing in it is a word, so nothing has it
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
    if any(facet_of(skill, key) != value for key, value in query.facets.items()):
        return False
    if not query.words:
        return True
    words = skill_words(skill)
    if row.word is not None:
        driver = _driver(query)
        if row.word != min((word for word in words if begins(driver, word)), default=None):
            return False  # it is shown under the first of its words that begin so
    return is_match(query.words, words)


# --- by time or by installs -----------------------------------------------------------------------------------------


async def _in_order(query: SkillQuery) -> Candidates:
    if query.sort != "installs" and not query.words and query.facets:
        return await _newest_with_facets(query)
    members, rows = await asyncio.gather(_lists(query, _facets_beside_order(query)), _candidates_in_order(query))
    known = [each.names for each in members if each.is_complete]
    if query.sort == "installs" and known and len(all_there_are := set.intersection(*known)) <= query.limit:
        return Candidates([Candidate("", name) for name in all_there_are], is_in_order=False)
    kept = [row for row in rows.rows if all(row.name in names for names in known)]
    return Candidates(kept, rows.end)


async def _candidates_in_order(query: SkillQuery) -> Candidates:
    """Skills in the order asked for, as far as one page of each partition goes: all of them, or of the category."""
    name, index = _order(query)
    limit = LONGEST_LIST if query.words or _facets_beside_order(query) else rows_per_partition(query.limit)
    found = await query_shards(get_kv(), Query(name, index, before=query.after, descending=True, limit=limit))
    rows, end = found.page(len(found.rows))
    return Candidates([Candidate(row.sort, _name_of(row)) for row in rows], end)


def _by_installs(rows: Iterable[Candidate], read: ReadSkills, after: str | None) -> list[Candidate]:
    """So few that they fit a page: however many others stand between them, they are not looked for in the order."""
    installs = {row.name: counts.installs if (counts := read.counts.get(row.name)) else 0 for row in rows}
    placed = [Candidate(f"{n:012d}#{name}", name) for name, n in installs.items()]
    return sorted((row for row in placed if after is None or row.position < after), reverse=True)


def _order(query: SkillQuery) -> tuple[str, str]:
    """The partitions that have it, and their index."""
    if query.sort != "installs":
        return LISTS["skill:"], "list"
    category = query.facets.get("category")
    return installs_order(category), "list" if category else "state"


def _facets_beside_order(query: SkillQuery) -> dict[str, str]:
    """An order by installs is kept of each category, so that one needs no other list."""
    return {key: value for key, value in query.facets.items() if query.sort != "installs" or key != "category"}


async def _newest_with_facets(query: SkillQuery) -> Candidates:
    """Facets have one order, so they are put side by side: what is in all of them, as far as all of them were read."""
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
    """Sorted by how well the name matches. Of a single word the indexes have that order themselves, so a page of them
    is enough; several words are compared, as long as one of their lists is complete."""
    if query.after is None and len(query.words) == 1 and not query.facets:
        return await _scan_prefix(query)
    if query.after and query.after.startswith(("n", "w")):
        return await _scan_prefix(query)
    lists, named = await asyncio.gather(_lists(query, query.facets), _named(query))
    known = [each.names for each in lists if each.is_complete]
    if not known:
        return _walked(query, named, lists[query.words.index(_driver(query))])
    wanted = joined(query.q or "")
    ranked = sorted((f"c{_rank(name, wanted)}#{name}", name) for name in set.intersection(*known))
    return Candidates([Candidate(*pair) for pair in ranked if query.after is None or pair[0] > query.after])


async def _lists(query: SkillQuery, facets: Mapping[str, str]) -> list[WordList]:
    """Who has the words and who is in the facets, each at most one page."""
    words = (read_words(WORDS, word) for word in query.words[:MAX_LISTS])
    return list(await asyncio.gather(*words, *(_read_facet(key, value) for key, value in facets.items())))


async def _read_facet(key: str, value: str) -> WordList:
    page = await get_kv().query(Query(facet_partition(key, value), descending=True, limit=LONGEST_LIST))
    return WordList([WordEntry(row.sort, "", row.sort.split("#", 1)[1]) for row in page.rows], not page.more)


def _rank(name: str, wanted: str) -> int:
    own = _matching_name(name, wanted)
    return 2 if own is None else int(own != wanted)


def _matching_name(name: str, wanted: str) -> str | None:
    """Which of its names begins so: the last part or all of it, the first in the order of the index."""
    own = (joined(name.rpartition("/")[2]), joined(name))
    return min((each for each in own if begins(wanted, each)), default=None)


async def _scan_prefix(query: SkillQuery) -> Candidates:
    """Names that begin like what was asked for, then words, each in the order of its index: whole ones first."""
    if query.after and query.after.startswith("w"):
        # A long page: most of what has the word may have been shown for its name, and is only passed over.
        return _walked(query, _NOBODY, await read_words(WORDS, _driver(query), query.after[1:]))
    return _walked(
        query, *await asyncio.gather(_named(query), read_words(WORDS, _driver(query), limit=query.limit + 1))
    )


async def _named(query: SkillQuery) -> WordList:
    after = query.after[1:] if query.after and query.after.startswith("n") else None
    return await read_words(NAMES, joined(query.q or "")[:LONGEST_WORD], after, limit=query.limit + 1)


def _walked(query: SkillQuery, named: WordList, found: WordList) -> Candidates:
    wanted = joined(query.q or "")
    first = [Candidate(f"n{e.sort}", e.name) for e in named.entries if _is_called(e, wanted)]
    if not named.is_complete:
        return Candidates(first, f"n{named.entries[-1].sort}")
    shown = {row.name for row in first}
    # On a later page whoever is called so was shown before. On the first one they are all here: who is not is not in
    # the list of names yet, and is found by the word.
    left = (e for e in found.entries if e.name not in shown and not (query.after and _matching_name(e.name, wanted)))
    others = (Candidate(f"w{e.sort}", e.name, e.word) for e in left)
    rows = [*first, *islice(others, query.limit + 1)]
    return Candidates(rows, None if found.is_complete else f"w{found.entries[-1].sort}")


def _is_called(entry: WordEntry, wanted: str) -> bool:
    """Whoever is in the list twice, by the last part of its name and by all of it, is shown the first time."""
    own = _matching_name(entry.name, wanted)
    return own is not None and entry.word == own[:LONGEST_WORD]


def _driver(query: SkillQuery) -> str:
    """The word whose list is walked: the longest, for it has the fewest entries."""
    return max(query.words[:MAX_LISTS], key=len)


_NOBODY = WordList([], is_complete=True)
