"""How skills stand: what is counted of their authors and readers, and what is not known."""

import pytest

from shared.errors import Conflict, Unavailable
from shared.marketplace.repo_health_store import RepoHealth, RepoStatus, _put
from shared.marketplace.reputation import get_reputation
from shared.marketplace.skill_admin import block_skill, delete_skill, unblock_skill
from shared.marketplace.skill_signals import get_skill_signals
from shared.marketplace.skill_store import blocked_count_adds, find_skills, get_blocked_counts, get_skill, skill_writes
from shared.records.skills import bump_between, is_newer
from shared.storage.kv import Add, Key
from tests.support.counting_stores import CountingKV
from tests.support.memory import MemoryKV, memory_env, within
from tests.support.stored_skills import a_skill, put_skills


class Unreadable(MemoryKV):
    """Some keys cannot be read for a while."""

    bad: tuple[str, ...] = ()

    async def load(self, key):
        if key.pk.startswith(self.bad or ("-",)):
            raise Unavailable("The store does not answer.")
        return await super().load(key)


async def standing_of(env, skill):
    return (await within(env, lambda: get_skill_signals([skill], {})))[skill.name]


async def test_blocking_counts_once_and_lifting_takes_it_back(env):
    await put_skills(env.kv, a_skill("Acme/a/one", 1), a_skill("acme/b/two", 2))
    for name in ("acme/a/one", "acme/a/one", "acme/b/two"):
        await within(env, lambda name=name: block_skill(name, "It phones home.", "admin:anna"))
    assert await within(env, lambda: get_blocked_counts(["ACME", "beta"])) == {"acme": 2, "beta": 0, "uploads": 0}
    await within(env, lambda: unblock_skill("acme/a/one", "It does not.", "admin:anna"))
    with pytest.raises(Conflict):
        await within(env, lambda: unblock_skill("acme/a/one", "It does not.", "admin:anna"))
    assert (await within(env, lambda: get_blocked_counts(["acme"])))["acme"] == 1


async def test_a_blocked_skill_that_is_deleted_still_taints(env):
    await put_skills(env.kv, a_skill("acme/a/bad"))
    await within(env, lambda: block_skill("acme/a/bad", "It phones home.", "admin:anna"))
    await within(env, lambda: delete_skill("acme/a/bad", "Gone.", "admin:anna"))
    assert (await standing_of(env, a_skill("acme/b/good"))).is_tainted


async def test_whatever_lifts_a_block_takes_the_count_back(env):
    """Mended content, or a person who clears what a newer rule set found."""
    blocked, lifted = a_skill("Acme/a/one", is_blocked=True, is_blocked_by_rule=True), a_skill("Acme/a/one")

    async def writes(before, after):
        return skill_writes(before, after)

    for before, after, more in ((blocked, lifted, 1), (lifted, blocked, -1)):
        _, market, _trace, author = await within(env, lambda b=before, a=after: writes(b, a))
        facets = {"category=other": more, "tier=scanned": more}
        assert market.counts == {"skills": more, "versions": more, **facets}
        assert author == Add(Key("author:acme"), {"blocked": -more})
    for before, expected in ((None, 3), (lifted, 1)):
        assert len(await within(env, lambda b=before: writes(b, lifted))) == expected


def test_uploads_are_not_counted():
    skill = a_skill("uploads/anonymous/x")
    assert blocked_count_adds(skill, a_skill("uploads/anonymous/x", is_blocked=True)) == []


async def test_what_cannot_be_read_of_an_author_is_unknown():
    env = memory_env(Unreadable)
    skill = a_skill("acme/a/one")
    assert (await standing_of(env, skill)).is_tainted is False
    env.kv.bad = ("author:",)
    assert (await standing_of(env, skill)).is_tainted is None


async def test_stars_are_those_of_the_last_look_at_the_repository(env):
    skill = a_skill("acme/tools/one")
    assert (await standing_of(env, skill)).stars is None
    health = RepoHealth(source="https://github.com/acme/tools", status=RepoStatus.ONLINE, stars=42)
    await within(env, lambda: _put(health, env.clock(), None))
    assert (await standing_of(env, skill)).stars == 42


async def test_names_lead_to_the_one_skill_that_is_left(env):
    await put_skills(env.kv, a_skill("a/b/pdf"), a_skill("c/d/pdf"), a_skill("c/d/csv"))
    names = ["pdf", "csv", "A/B/PDF", "a/b", "none"]
    found = await within(env, lambda: find_skills(names))
    assert {name: skill.name for name, skill in found.skills.items()} == {"csv": "c/d/csv", "A/B/PDF": "a/b/pdf"}
    await within(env, lambda: delete_skill("a/b/pdf", "Gone.", "admin:anna"))
    found = await within(env, lambda: find_skills(names))
    assert {name: skill.name for name, skill in found.skills.items()} == {"csv": "c/d/csv", "pdf": "c/d/pdf"}


async def test_a_name_that_many_share_is_unique_only_when_one_is_left_and_costs_the_same(env):
    """However many of them were deleted."""
    many = [a_skill(f"owner-{n:02}/kit/pdf", n) for n in range(25)]
    await put_skills(env.kv, *many)
    with pytest.raises(Conflict) as conflict:
        await within(env, lambda: get_skill("pdf"))
    assert conflict.value.details == {"candidates": [skill.name for skill in many[:20]], "more": True}
    assert "More than 20 skills" in str(conflict.value)
    assert (await within(env, lambda: find_skills(["pdf"]))).skills == {}
    for skill in many[:-1]:
        await within(env, lambda name=skill.name: delete_skill(name, "Gone.", "admin:anna"))
    assert (await within(env, lambda: get_skill("pdf"))).name == "owner-24/kit/pdf"
    assert (await within(env, lambda: find_skills(["pdf"]))).skills["pdf"].name == "owner-24/kit/pdf"


async def test_what_is_known_against_one_of_many_namesakes_takes_the_same_few_requests():
    taken = []
    for namesakes in (3, 60):
        env = memory_env(CountingKV)
        many = [a_skill(f"owner-{n}/kit/pdf", n, is_blocked=n == 2, block_reason="Bad.") for n in range(namesakes)]
        await put_skills(env.kv, *many)
        env.kv.forget()
        sources = [f"https://github.com/{owner}/kit" for owner in ("owner-2", "owner-1", "nobody")]
        known = [await within(env, lambda s=source: get_reputation("pdf", s, None)) for source in (*sources, None)]
        assert [one.entry and one.entry.reason for one in known] == ["Bad.", None, None, None]
        taken.append(env.kv.requests)
    assert taken[0] == taken[1]


async def test_a_name_whose_skill_cannot_be_read_is_reported():
    env = memory_env(Unreadable)
    await put_skills(env.kv, a_skill("a/b/pdf"), a_skill("a/b/csv"))
    env.kv.bad = ("skill:a/b/pdf",)
    found = await within(env, lambda: find_skills(["pdf", "csv"]))
    assert (set(found.skills), found.failed) == ({"csv"}, {"pdf"})
    assert Key("skill:a/b/pdf") in env.kv.items


@pytest.mark.parametrize(
    ("installed", "latest", "bump", "newer"),
    [
        ("1.0.0", "1.0.0", None, False),
        ("1.0.0", "1.0.1", "patch", True),
        ("1.0.9", "1.1.0", "minor", True),
        ("1.9.9", "2.0.0", "major", True),
        ("2.0.0", "1.9.9", None, False),
        ("1.10.0", "1.9.0", None, False),
        ("1.9.0", "1.10.0", "minor", True),
        ("v1.0", "1.0.1", "patch", True),
        ("1", "1.0.0", None, False),
        ("1.0.0-beta.1", "1.0.0", "patch", True),
        ("1.0.1-beta", "1.0.0", None, False),
        ("1.0.0+build", "1.0.0", None, False),
        ("", "1.0.0", None, True),
        ("unknown", "1.0.0", None, True),
        ("\u0661.0.0", "1.0.0", None, True),
    ],
)
def test_which_number_rises(installed, latest, bump, newer):
    assert (bump_between(installed, latest), is_newer(latest, installed)) == (bump, newer)
