"""What a submission writes and a view reads of DynamoDB: budgets, so that it does not creep back.
`python -m bench.cost` prints the figures, and docs/aws.md shows them."""

import pytest

from bench.cost import CHANGES, RECENT_MOVES, UPDATE, cost_of_submission, cost_of_views, metered_env

WRITE_UNITS = 86  # of a published upload; the target is 90
# By view, at 0, 100 and 10,000 moves in the last two minutes. Of the queue the target is 40 and one per active row.
READ_UNITS = {
    "/queue": (29, 58, 959),
    "/": (14, 14, 14),
    "/skills": (14, 14, 14),
    "/api/v1/queue/health": (26, 26, 26),
    CHANGES: (18, 22, 175),
    UPDATE: (16, 25, 25),
}


async def test_a_published_upload_writes_no_more_units_than_its_budget():
    assert (await cost_of_submission(*metered_env()))["write units"] <= WRITE_UNITS


@pytest.mark.parametrize(("number", "moves"), list(enumerate(RECENT_MOVES)))
async def test_a_view_reads_a_limited_number_of_units_however_much_has_just_moved(number, moves):
    costs = await cost_of_views(moves)
    read = {view: cost["read units"] for view, cost in costs.items()}
    assert {view: units for view, units in read.items() if units > READ_UNITS[view][number]} == {}
