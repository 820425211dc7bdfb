"""Copies are recognised, other texts are not."""

from shared.scanner import scan_skill, similar_to
from shared.scanner.near_duplicates import SLOTS, bands, signature_of, similarity

TEXT = " ".join(f"sentence {n} says that item {n * 7 % 31} comes before item {n * 3 % 17}" for n in range(80))
OTHER = " ".join(f"the recipe needs {n} grams of flour and {n * 5 % 13} eggs beaten well" for n in range(80))


def test_a_copy_with_another_name_is_similar() -> None:
    copy = TEXT.replace("item 7 ", "thing 7 ") + " one more line at the end"
    assert (
        similar_to(signature_of(copy), {"original": signature_of(TEXT), "other": signature_of(OTHER)})[0][0]
        == "original"
    )


def test_another_text_is_not_similar() -> None:
    assert similar_to(signature_of(OTHER), {"original": signature_of(TEXT)}) == []


def test_case_line_ends_and_punctuation_make_no_difference() -> None:
    assert signature_of(TEXT) == signature_of("\ufeff" + TEXT.upper().replace(" ", "\r\n").replace("SAYS", "says,"))


def test_the_closest_comes_first_with_its_similarity() -> None:
    near = TEXT + " " + OTHER[:500]
    found = similar_to(signature_of(TEXT), {"near": signature_of(near), "same": signature_of(TEXT)}, at_least=0.1)
    assert [name for name, _ in found] == ["same", "near"]
    assert found[0][1] == 1.0


def test_similar_signatures_share_a_band_and_others_do_not() -> None:
    copy = signature_of(TEXT + " one more line")
    assert set(bands(signature_of(TEXT))) & set(bands(copy))
    assert not set(bands(signature_of(TEXT))) & set(bands(signature_of(OTHER)))


def test_a_short_text_has_a_full_signature_and_an_empty_one_none() -> None:
    assert len(signature_of("three small words")) == SLOTS
    assert signature_of("") == ()
    assert similarity((), ()) == 0.0


def test_the_report_carries_the_signature() -> None:
    assert len(scan_skill({"SKILL.md": TEXT.encode()}).signature) == SLOTS
