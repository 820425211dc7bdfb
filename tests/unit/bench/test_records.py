"""The records of the benchmarks are made by the product's own code, so that they change with it."""

from bench.list_records import skill_items, submission_items


async def test_submissions_and_skills_can_be_made_for_the_benchmarks_of_lists_and_reads():
    items, last = await submission_items(3)
    assert f"sub:{last}" in {item["pk"]["S"] for item in items}
    assert any(item["pk"]["S"].startswith("skill:") for item in skill_items(1))
