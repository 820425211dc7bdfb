"""An author's page as HTML: its size is in proportion to what the author wrote."""

import pytest

from shared.web.skill_text import MAX_CELLS, render_skill_md


def table(columns: int, rows: int, row: str = "|") -> str:
    return f"{'|a' * columns}|\n{'|-' * columns}|\n" + f"{row}\n" * rows


def test_an_ordinary_table_is_one():
    html = render_skill_md(table(3, 20, "|1|2|3|").encode())
    assert (html.count("<table>"), html.count("<td>")) == (1, 60)


@pytest.mark.parametrize("within", ["", "> "])
def test_short_rows_below_a_wide_head_do_not_become_millions_of_cells(within):
    text = "\n".join(within + line for line in table(300, 400).splitlines())
    html = render_skill_md(text.encode())
    assert html.count("<td>") <= MAX_CELLS
    assert len(html) < 20 * len(text)
