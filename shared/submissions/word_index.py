"""Words at rest: `{kind}:{first 2 letters}`/word#name. A word is read in one page; only if that page is complete does a
missing name mean anything."""

from collections.abc import Iterable
from itertools import takewhile
from typing import NamedTuple

from shared.db import get_kv
from shared.storage.kv import Key, Put, Query

LONGEST_LIST = 1000
MAX_LISTS = 8  # words beyond these are only checked on the documents


class WordEntry(NamedTuple):
    sort: str
    word: str
    name: str


class WordList(NamedTuple):
    """Names with a word that begins like this one, in the order of the index."""

    entries: list[WordEntry]
    is_complete: bool

    @property
    def names(self) -> set[str]:
        return {entry.name for entry in self.entries}


def word_puts(kind: str, words: Iterable[str], name: str) -> list[Put]:
    """The key is the whole entry, so that writing it again changes nothing."""
    return [Put(Key(f"{kind}:{word[:2]}", f"{word}#{name}"), "{}") for word in words]


async def read_words(
    kind: str, word: str, after: str | None = None, descending: bool = False, limit: int | None = None
) -> WordList:
    """One page, of words that begin like this one, from the beginning or from a position on. At most 1,000 entries;
    `limit` where fewer are needed."""
    prefix = word if len(word) > 1 else f"{word}#"
    return await _read(kind, word, prefix, after, descending, limit or LONGEST_LIST)


async def read_word(kind: str, word: str, limit: int = LONGEST_LIST) -> WordList:
    """One page of exactly this word, the last first."""
    return await _read(kind, word, f"{word}#", None, True, limit)


async def _read(kind: str, word: str, prefix: str, after: str | None, descending: bool, limit: int) -> WordList:
    pk = f"{kind}:{word[:2]}"
    if after is None:
        query = Query(pk, prefix=prefix, descending=descending, limit=limit)
    elif descending:
        query = Query(pk, before=after, descending=True, limit=limit)
    else:
        query = Query(pk, after=after, limit=limit)
    page = await get_kv().query(query)
    rows = list(takewhile(lambda row: row.sort.startswith(prefix), page.rows))
    entries = [WordEntry(row.sort, *row.sort.split("#", 1)) for row in rows]
    return WordList(entries, is_complete=not page.more or len(rows) < len(page.rows))
