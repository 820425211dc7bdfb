"""Which skills resemble one, by words and by text, at the same cost among any number of skills."""

import pytest

from shared.marketplace.near_copies import near_copy_puts
from shared.marketplace.similar import find_similar
from shared.scanner.near_duplicates import signature_of
from tests.support.counting_stores import CountingKV
from tests.support.memory import memory_env, within
from tests.support.stored_skills import a_skill, put_skills

FORMS = a_skill("a/b/pdf-forms", tags=("pdf",), description="Fills in the fields of PDF forms.")
TEXT = " ".join(f"word{n} about subject{n * 3}" for n in range(300))


async def similar(env, skill=FORMS, signature=()):
    found = await within(env, lambda: find_similar(skill, signature))
    return [each.name.rpartition("/")[2] for each in found]


async def test_skills_with_several_of_its_words_are_similar_and_rare_words_count_most(env):
    others = [
        a_skill("c/d/pdf-reader", description="Reads the fields of a PDF."),
        a_skill("c/d/form-filler", description="Fills forms on the web."),
        a_skill("c/d/csv", description="Nothing in common."),
        a_skill("e/f/pdf-blocked", description="Fills in fields of forms.", is_blocked=True),
        *(a_skill(f"x/y/pdf-{n}", description="The fields of it.") for n in range(20)),
    ]
    await put_skills(env.kv, FORMS, *others)
    found = await similar(env)
    assert found[0] == "form-filler"  # it fills forms, and 22 skills have fields of a PDF
    assert len(found) == 5
    assert not {"pdf-forms", "csv", "pdf-blocked"} & set(found)


async def test_a_tag_in_common_is_enough_and_another_word_is_not(env):
    await put_skills(env.kv, FORMS, a_skill("c/d/forms", description="About something else."))
    assert await similar(env) == []
    await put_skills(env.kv, a_skill("c/d/other", tags=("pdf",), description="About something else."))
    assert await similar(env) == ["other"]


async def test_a_text_with_much_in_common_is_similar_whatever_its_words(env):
    signature = signature_of(TEXT)
    other = a_skill("c/d/other")
    await put_skills(env.kv, FORMS, other)
    for put in near_copy_puts(other, signature_of(f"{TEXT} and more")):
        await env.kv.put(put)
    assert await similar(env, signature=signature) == ["other"]
    assert await similar(env, signature=signature_of("something else entirely")) == []


@pytest.mark.slow
async def test_it_costs_the_same_among_10000_skills():
    taken = []
    for size in (100, 10_000):
        env = memory_env(CountingKV)
        others = (a_skill(f"a{n % 90}/b/pdf-{n}", n, description="The fields of it.") for n in range(size))
        await put_skills(env.kv, FORMS, *others)
        env.kv.forget()
        assert len(await similar(env, signature=signature_of(TEXT))) == 5
        assert env.kv.round_trips <= 2
        taken.append(env.kv.requests)
    assert taken[0] == taken[1] <= 8
