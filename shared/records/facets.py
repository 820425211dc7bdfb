"""By which values a skill is found, and which of these are counted. Pure.

Authors write categories, licenses and tools as they like, so only common ones are counted: the counters stay small,
whatever is published. Any other value filters as well, without a number.
"""

from collections.abc import Mapping

from shared.records.skills import Skill, full_name, split_name

FACETS = ("category", "tier", "author", "repo", "license", "tool")
MAX_TOOLS = 12  # by which a skill is found
_CATEGORIES = (
    "ai automation business cloud communication data databases design development devops documentation documents"
    " education finance games hardware health legal marketing media operations other productivity research science"
    " security testing translation utilities web writing"
)
_LICENSES = (
    "MIT Apache-2.0 BSD-2-Clause BSD-3-Clause ISC MPL-2.0 GPL-2.0 GPL-3.0 GPL-3.0-only GPL-3.0-or-later LGPL-3.0"
    " AGPL-3.0 AGPL-3.0-only AGPL-3.0-or-later Unlicense CC0-1.0 CC-BY-4.0 CC-BY-SA-4.0 Proprietary"
)
_TOOLS = "Bash Read Write Edit MultiEdit Glob Grep LS WebFetch WebSearch Task TodoWrite NotebookEdit Skill"
COUNTED: Mapping[str, tuple[str, ...]] = {
    "category": tuple(_CATEGORIES.split()),
    "tier": ("CERTIFIED", "VERIFIED", "SCANNED"),
    "license": tuple(_LICENSES.split()),
    "tool": tuple(_TOOLS.split()),
}


def facet_of(skill: Skill, key: str) -> str:
    """In lower case; blank for a skill without it."""
    owner, repo, _ = split_name(full_name(skill))
    of_source = {"author": owner, "repo": f"{owner}/{repo}"}
    return ({"category": skill.category, "tier": skill.cert_tier, "license": skill.license} | of_source)[key].lower()


def facets_of(skill: Skill, key: str) -> list[str]:
    """All values by which it is found: a skill can ask for several tools. `Bash(git:*)` is the tool `bash`."""
    if key != "tool":
        return [value] if (value := facet_of(skill, key)) else []
    tools = (tool.partition("(")[0].strip().lower() for tool in skill.allowed_tools)
    return list(dict.fromkeys(filter(None, tools)))[:MAX_TOOLS]


def facet_counter(key: str, value: str) -> str:
    return f"{key}={value.lower()}"


def counted_facets(skill: Skill) -> dict[str, int]:
    """What it adds to the counters of facets."""
    found = (facet_counter(key, value) for key in COUNTED for value in facets_of(skill, key))
    return {name: 1 for name in found if name in _COUNTERS}


FACET_COUNTERS = tuple(facet_counter(key, value) for key, values in COUNTED.items() for value in values)
_COUNTERS = frozenset(FACET_COUNTERS)
