"""Values keep what is known of a text, carry their sources, and stay small."""

from shared.scanner.flow.values import (
    EMPTY,
    HOLE,
    MAX_ORIGINS,
    MAX_TEXT,
    UNKNOWN,
    Location,
    Source,
    SourceKind,
    Value,
    constant,
    either,
    from_source,
    joined,
)
from shared.scanner.report import MAX_STEPS

AT = Location("run.sh", 3)


def secret(name: str = "GITHUB_TOKEN") -> Value:
    return from_source(Source(SourceKind.SECRET, name, "github"), AT)


def test_joined_text_keeps_a_hole_where_it_is_unknown_and_the_sources_of_all_parts() -> None:
    value = joined([constant("https://a.dev/?t="), secret(), constant("&x=1")])
    assert value.text == f"https://a.dev/?t={HOLE}&x=1"
    assert [origin.source.name for origin in value.origins] == ["GITHUB_TOKEN"]


def test_an_encoding_is_a_step_and_leaves_nothing_of_the_text() -> None:
    encoded = secret().with_text("abc").through(Location("run.sh", 5).step("base64"))
    assert encoded.text == HOLE
    assert [step.what for step in encoded.origins[0].steps] == ["reads `GITHUB_TOKEN`", "base64"]
    assert constant("abc").through(AT.step("base64")) == UNKNOWN


def test_one_of_two_texts_is_known_only_if_they_are_the_same() -> None:
    assert either([constant("a"), constant("a")]).text == "a"
    assert either([constant("a"), secret()]) == Value(HOLE, secret().origins)


def test_text_origins_and_steps_are_bounded() -> None:
    assert len(joined([constant("a" * MAX_TEXT)] * 3).text) == MAX_TEXT
    assert not joined([constant("a" * MAX_TEXT)] * 3).is_known
    assert len(joined(secret(f"A{n}_TOKEN") for n in range(50)).origins) == MAX_ORIGINS
    value = secret()
    for line in range(50):
        value = value.through(Location("run.sh", line).step("copied"))
    assert len(value.origins[0].steps) == MAX_STEPS - 1
    assert joined([]) == EMPTY
