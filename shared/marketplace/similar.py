"""Skills that resemble one: those that share its words, rare ones above all, and those whose text has much in common.

Both come from indexes that are there anyway. Of each word's list one short page is read, so a page costs the same among
any number of skills; of a word that thousands have it is a sample, and such a word says little.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import chain, islice

from shared.db import get_kv
from shared.marketplace.near_copies import near_copy_keys, shares_of
from shared.marketplace.skill_index import WORDS
from shared.marketplace.skill_store import read_skills
from shared.records.search_words import STOP_WORDS, tokens
from shared.records.skills import Skill, full_name, split_name
from shared.submissions.word_index import WordList, read_word

MOST_WORDS = 8
PER_WORD = 100
CANDIDATES = 20
SHOWN = 5
ENOUGH_WORDS = 2  # in common: a single one says little
TAG = 2  # words: an author chose it to say what a skill is about
ENOUGH_TEXT = 0.5  # of a near copy it is 0.7


async def find_similar(skill: Skill, signature: Sequence[int]) -> list[Skill]:
    """The closest first, at most five. `signature`: of its text; empty if that is not known."""
    words = words_to_compare(skill)
    keys = near_copy_keys(signature) if signature else []
    known, lists = await asyncio.gather(
        get_kv().get_many(keys), asyncio.gather(*(read_word(WORDS, word, PER_WORD) for word in words))
    )
    shares = {name: share for name, share in shares_of(known.found.values(), signature).items() if share >= ENOUGH_TEXT}
    tags = {word for tag in skill.tags for word in tokens(tag)}
    ranked = _rank(dict(zip(words, lists, strict=True)), tags, shares, skill.name.lower())
    read = await read_skills(ranked, with_counts=False)
    found = (read.skills.get(name) for name in ranked)
    return list(islice((each for each in found if each and each.is_listed), SHOWN))


def words_to_compare(skill: Skill) -> list[str]:
    """Its tags, the parts of its name and how its description begins, without its owner."""
    described = (word for word in tokens(skill.description) if len(word) > 2 and word not in STOP_WORDS)
    words = chain(*map(tokens, skill.tags), tokens(split_name(full_name(skill)).slug), described)
    return list(islice(dict.fromkeys(words), MOST_WORDS))


def _rank(lists: Mapping[str, WordList], tags: Collection[str], shares: Mapping[str, float], own: str) -> list[str]:
    """The fewer skills have a word, the more it says."""
    score: dict[str, float] = defaultdict(float)
    common: Counter[str] = Counter()
    for word, found in lists.items():
        weight = TAG if word in tags else 1
        for name in found.names:
            common[name] += weight
            score[name] += weight / len(found.names)
    near = (name for name, n in common.items() if n >= ENOUGH_WORDS)
    wanted = {*near, *shares} - {own}
    return sorted(wanted, key=lambda name: (-shares.get(name, 0.0) - score[name], name))[:CANDIDATES]
