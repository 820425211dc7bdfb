"""Names and versions of published skills."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.records.skills import Skill, full_name, next_version, sort_key, split_name

VERSIONS = st.tuples(*[st.integers(0, 999_999)] * 3).map(lambda numbers: ".".join(map(str, numbers)))


@pytest.mark.parametrize(
    ("current", "wanted", "version"),
    [
        (None, None, "1.0.0"),
        (None, "0.3.1", "0.3.1"),
        ("1.0.0", None, "1.0.1"),
        ("1.0.9", None, "1.0.10"),
        ("1.0.0", "1.1.0", "1.1.0"),
        ("1.9.0", "1.10.0", "1.10.0"),
        ("1.1.0", "1.1.0", "1.1.1"),
        ("1.1.0", "1.0.9", "1.1.1"),
        ("2.0.0", "1.99.99", "2.0.1"),
        ("1.0.999999", None, "1.1.0"),
        ("1.999999.999999", None, "2.0.0"),
        (None, "\u0661.0.0", "1.0.0"),
        ("1.0.0", "2.0", "1.0.1"),
        ("1.0.0", "2.0.0-beta", "1.0.1"),
        ("1.0.0", "02.0.0", "1.0.1"),
    ],
)
def test_the_next_version_is_the_authors_if_higher_else_a_patch(current, wanted, version):
    assert next_version(current, wanted) == version


@settings(deadline=None)
@given(VERSIONS.filter(lambda v: v != "999999.999999.999999"), st.none() | VERSIONS)
def test_the_next_version_is_always_higher(current, wanted):
    assert sort_key(next_version(current, wanted)) > sort_key(current)


@settings(deadline=None)
@given(VERSIONS, VERSIONS)
def test_text_order_is_version_order(one, other):
    assert (sort_key(one) < sort_key(other)) == (_numbers(one) < _numbers(other))


@pytest.mark.parametrize("text", ["", "1", "1.0", "1.0.0.0", "v1.0.0", "1.0.x", "-1.0.0", "1.0.1000000", "\u0661.0.0"])
def test_what_is_no_version_is_refused(text):
    with pytest.raises(ValueError, match="not a version"):
        sort_key(text)


def test_a_name_has_three_parts_and_a_ref_stays_with_the_last():
    assert split_name("owner/repo/pdf") == ("owner", "repo", "pdf")
    assert split_name("owner/repo/pdf@feature~x").slug == "pdf@feature~x"


@pytest.mark.parametrize(
    ("name", "repo_url", "full"),
    [
        ("pdf", "https://github.com/owner/repo", "owner/repo/pdf"),
        ("pdf", None, "uploads/anonymous/pdf"),
        ("a/b/c", "https://github.com/x/y", "a/b/c"),
    ],
)
def test_an_old_skill_gets_its_full_name_from_where_it_came(name, repo_url, full):
    assert full_name(_skill(name, repo_url)) == full


def _numbers(version):
    return tuple(map(int, version.split(".")))


def _skill(name, repo_url):
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return Skill(
        name=name,
        display_name=name,
        description="d",
        repo_url=repo_url,
        current_version="1.0.0",
        content_hash="0",
        submission_id="sub_1",
        published_at=at,
        updated_at=at,
    )
