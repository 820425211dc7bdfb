"""Addresses of skills, read from the end."""

from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.api.skill_paths import FULL_NAME, SHORT_NAME, parse_skill_path, route_of
from shared.errors import NotFound, WrongMethod
from shared.submissions.skill_source import RESERVED_SLUGS

GET = ["", "versions", "versions/diff", "versions/compare", "badge", "security", "repo-health"]
POST = ["installs", "reports"]

owners = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9-]{0,10}[A-Za-z0-9])?", fullmatch=True)
repos = st.from_regex(r"[A-Za-z0-9._-]{1,12}", fullmatch=True) | st.sampled_from(["versions", "badge", "security"])
slugs = st.from_regex(r"[a-z]([a-z0-9._-]{0,10}[a-z0-9])?", fullmatch=True).filter(
    lambda slug: slug not in RESERVED_SLUGS | {"diff", "compare"}
)
refs = st.just("") | st.from_regex(r"@[A-Za-z0-9._-]{1,8}(~[A-Za-z0-9._-]{1,8})?", fullmatch=True)
full_names = st.builds(lambda owner, repo, slug, ref: f"{owner}/{repo}/{slug}{ref}", owners, repos, slugs, refs)
short_names = st.builds(lambda slug, ref: slug + ref, slugs, refs)


@given(
    full_names | short_names, st.sampled_from([("GET", words) for words in GET] + [("POST", words) for words in POST])
)
def test_what_follows_a_name_is_separated_from_the_name(name, action):
    method, words = action
    found = parse_skill_path(method, "/".join(part for part in (name, words) if part))
    documented = FULL_NAME if "/" in name else SHORT_NAME
    assert found == (route_of(method, documented, words), {"name": name})


@given(full_names | short_names, st.from_regex(r"[0-9]{1,6}(\.[0-9]{1,6}){2}", fullmatch=True))
def test_a_version_is_separated_from_the_name(name, version):
    found = parse_skill_path("GET", f"{name}/versions/{version}")
    assert found.parameters == {"name": name, "version": version}


@given(full_names, st.sampled_from(GET))
def test_a_name_sent_as_one_segment_is_the_same_name(name, words):
    """Decoded as the gateway does it."""
    sent = unquote(quote(name, safe="")) + (f"/{words}" if words else "")
    assert parse_skill_path("GET", sent).parameters == {"name": name}


@given(
    st.sampled_from(["GET", "POST"]), st.text(max_size=60) | st.lists(st.sampled_from([*GET, *POST, "a"])).map("/".join)
)
def test_whatever_is_asked_for_there_is_a_route_or_a_refusal(method, proxy):
    try:
        found = parse_skill_path(method, proxy)
    except (NotFound, WrongMethod):
        return
    assert found.route.startswith(f"{method} /api/v1/skills/")
    assert all(found.parameters.values())


@pytest.mark.parametrize(
    ("method", "proxy", "route", "name"),
    [
        ("GET", "search", "GET /api/v1/skills/search", None),
        ("POST", "installs", "POST /api/v1/skills/installs", None),
        ("POST", "check-updates", "POST /api/v1/skills/check-updates", None),
        ("GET", "pdf", "GET /api/v1/skills/{name}", "pdf"),
        ("GET", "a/pdf", "GET /api/v1/skills/{name}", "a/pdf"),
        ("GET", "a/b/pdf@v1~x", "GET /api/v1/skills/{owner}/{repo}/{skill}", "a/b/pdf@v1~x"),
        ("GET", "a/versions/pdf", "GET /api/v1/skills/{owner}/{repo}/{skill}", "a/versions/pdf"),
        ("GET", "a/versions/pdf/versions", "GET /api/v1/skills/{owner}/{repo}/{skill}/versions", "a/versions/pdf"),
        ("GET", "pdf/versions/1.0.0", "GET /api/v1/skills/{name}/versions/{version}", "pdf"),
        ("GET", "pdf/versions/diff", "GET /api/v1/skills/{name}/versions/diff", "pdf"),
        ("GET", "a/b/c/versions/last", "GET /api/v1/skills/{owner}/{repo}/{skill}/versions/{version}", "a/b/c"),
        ("GET", "badge", "GET /api/v1/skills/{name}", "badge"),
    ],
)
def test_routes_as_they_are_documented(method, proxy, route, name):
    found = parse_skill_path(method, proxy)
    assert found.route == route
    assert found.parameters.get("name") == name


@pytest.mark.requirement("S24")
@pytest.mark.parametrize("proxy", ["", "/", "a//b", "a/b/c/", "/a", "a/b/c/d", "a/b/c/d/versions", "a/b/c/d/e/f"])
def test_addresses_that_name_nothing_are_not_found(proxy):
    with pytest.raises(NotFound):
        parse_skill_path("GET", proxy)


@pytest.mark.requirement("S24")
@pytest.mark.parametrize(
    ("method", "proxy"),
    [
        ("POST", "search"),
        ("GET", "installs"),
        ("GET", "check-updates"),
        ("GET", "a/b/c/installs"),
        ("GET", "pdf/reports"),
        ("POST", "pdf"),
        ("POST", "a/b/c/versions"),
        ("POST", "a/b/c/versions/1.0.0"),
    ],
)
def test_a_wrong_method_is_refused(method, proxy):
    with pytest.raises(WrongMethod):
        parse_skill_path(method, proxy)
