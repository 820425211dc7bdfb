"""Which published skill a text resembles."""

from datetime import UTC, datetime, timedelta

import msgspec

from shared.marketplace.near_copies import PublishedText, find_near_copy, near_copy_keys
from shared.scanner.near_duplicates import signature_of
from shared.storage.documents import encode

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
TEXT = " ".join(f"word{n} about subject{n * 3}" for n in range(300))
ORIGINAL = PublishedText("acme/skills/notes", "a" * 64, WHEN, signature_of(TEXT))


def found(
    name: str, text: str = f"{TEXT} and more", published_at: datetime | None = None, known: PublishedText = ORIGINAL
):
    docs = {key: encode(known) for key in near_copy_keys(known.signature)}
    return find_near_copy(docs, signature_of(text), name, published_at)


def test_a_copy_of_another_publisher_is_found_with_its_share() -> None:
    copy = found("someone/skills/notes")
    assert copy.original == ORIGINAL
    assert copy.share > 0.9


def test_a_publisher_may_copy_itself_but_uploads_have_no_common_publisher() -> None:
    uploaded = msgspec.structs.replace(ORIGINAL, name="uploads/anonymous/notes")
    assert found("ACME/other/memo") is None
    assert found("uploads/anonymous/memo", known=uploaded) is not None
    assert found("uploads/anonymous/notes", known=uploaded) is None


def test_what_was_published_first_is_no_copy() -> None:
    assert found("someone/skills/notes", published_at=WHEN - timedelta(days=1)) is None
    assert found("someone/skills/notes", published_at=WHEN + timedelta(days=1)) is not None


def test_other_text_in_the_same_band_is_no_copy() -> None:
    other = signature_of("An entirely different page about birds.")
    docs = {near_copy_keys(other)[0]: encode(ORIGINAL)}
    assert find_near_copy(docs, other, "someone/skills/notes", None) is None
