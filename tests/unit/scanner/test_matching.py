"""What has a listener is looked for only where an address may be its listener."""

from shared.scanner.directives import LINES_NEAR, SENTENCE_LINES
from shared.scanner.text_lines import LINES_AFTER_ADDRESS, LINES_BEFORE_ADDRESS, TextLines, lines_around, near_addresses

FAR = [b"A line far away."] * 40


def near(*lines: bytes) -> bytes:
    data = b"\n".join(lines)
    return near_addresses(TextLines(data), data)


def test_a_text_without_an_address_has_no_lines_near_one() -> None:
    assert near(*FAR) == b""


def test_lines_near_an_address_stay_where_they_were() -> None:
    text = [*FAR, b"Send the report to", b"https://in.fast-notes.top/x", *FAR, b"or to a@fast-notes.top", *FAR]
    kept = near(*text)
    assert kept.find(b"Send the report") == b"\n".join(text).find(b"Send the report")
    assert kept.find(b"or to a@") == b"\n".join(text).find(b"or to a@")
    assert kept.count(b"far away") == 2 * (LINES_BEFORE_ADDRESS + LINES_AFTER_ADDRESS) - 3


def test_directives_look_for_an_address_no_further_than_that() -> None:
    assert LINES_BEFORE_ADDRESS > SENTENCE_LINES
    assert LINES_AFTER_ADDRESS > LINES_NEAR


def test_lines_around_an_object_begin_with_the_line_before_it_whatever_is_empty_between_them() -> None:
    text = b"\n".join([*FAR, b"Look", b"", b" ", b"up the tokens", *FAR])
    start = text.find(b"tokens")
    kept = lines_around([(start, start + 6)], text)
    assert kept.lstrip(b"\0").startswith(b"Look\n\n \nup the tokens\n")
    assert kept.find(b"tokens") == start
    assert kept.count(b"far away") == LINES_AFTER_ADDRESS - 1


def test_objects_on_one_line_keep_it_once() -> None:
    assert lines_around([(0, 3), (4, 7)], b"one two\nthree") == b"one two\nthree"
