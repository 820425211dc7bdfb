"""The order by installs of a category: a skill is in that of the category it has, with all its installs."""

import msgspec
import pytest

from shared.marketplace.community import count_installs
from shared.marketplace.skill_admin import yank_version
from shared.marketplace.skill_index import index_skill
from shared.marketplace.skill_search import SkillQuery, list_skills
from shared.marketplace.skill_store import counts_key, find_skill, skill_put
from shared.submissions import intake
from tests.support.builders import processed
from tests.support.invariants import check_invariants
from tests.support.memory import MemoryKV, memory_env, within
from tests.support.stored_skills import a_skill, put_skills

NAME = "uploads/anonymous/greeter"


async def by_installs(env, category):
    query = SkillQuery(category=category, sort="installs")
    page = await within(env, lambda: list_skills(query))
    return [(skill.name, page.counts_of(skill).installs) for skill in page.skills]


@pytest.mark.requirement("I14")
async def test_a_version_of_another_category_moves_the_skill_with_its_installs_to_that_order():
    class Installing(MemoryKV):
        """An install is counted while the record of its installs is moved."""

        async def transact(self, build):
            writes = build()
            if (
                [write.key for write in writes] == [counts_key(NAME)]
                and '"category":"farm"' in writes[0].doc
                and not done
            ):
                done.append(writes)
                await count_installs([NAME])
            return await super().transact(lambda: writes)

    def files(category):
        front_matter = f"name: greeter\ndescription: Greets.\nmetadata:\n  category: {category}\n"
        return [("SKILL.md", f"---\n{front_matter}---\n# Hi\n")]

    done = []
    env = memory_env(Installing)
    first = await within(env, lambda: intake.submit_bundle("greeter", files("zoo"), None, None, None))
    await processed(env, first.submission)
    await within(env, lambda: count_installs([NAME]))
    assert (await by_installs(env, "zoo"), await by_installs(env, "farm")) == ([(NAME, 1)], [])
    again = await within(env, lambda: intake.submit_bundle("greeter", files("farm"), first.upload_token, None, None))
    await processed(env, again.submission)
    assert (await by_installs(env, "zoo"), await by_installs(env, "farm")) == ([], [(NAME, 2)])
    await within(env, lambda: yank_version(NAME, "1.0.1", "bad"))
    assert (await by_installs(env, "zoo"), await by_installs(env, "farm")) == ([(NAME, 2)], [])
    check_invariants(env.kv)


@pytest.mark.requirement("I14")
async def test_who_indexes_an_older_version_late_does_not_take_the_skill_back_to_its_category(env):
    await put_skills(env.kv, a_skill("a/b/one", category="zoo"))
    late = await within(env, lambda: find_skill("a/b/one"))
    newer = msgspec.structs.replace(late, category="farm", record_version=late.record_version + 1)
    await env.kv.put(skill_put(newer, {"recordVersion": late.record_version}))
    await within(env, lambda: index_skill(newer))
    await within(env, lambda: index_skill(late))
    assert (await by_installs(env, "zoo"), await by_installs(env, "farm")) == ([], [("a/b/one", 0)])
