"""Owners whose names people mistake for each other: drawn alike (`acrne`, `acme`), with an addition (`acme-official`,
an `s`), or one letter apart. Pure: no store, no I/O.

An owner is stored under a few forms and found under a few more, so no list of owners is read: each form of the one
that looks like another is equal to one of the other's. `*` stands for any one letter."""

import re

from shared.records.search_words import look_alike

_ADDITIONS = (
    "official real the get my team org group corp inc llc ltd gmbh labs lab hq dev devs app apps io ai co com net tools"
    " skills hub cloud studio studios global world support mcp sdk cli api plugin plugins agent agents verified limited"
    " company co pro plus store shop tech software systems security research foundation community"
)
LONG_ENOUGH = 6  # letters: of shorter names too many are one letter apart
SHORTEST_REST = 3  # of a name without its addition
_DRAWN_ALIKE = (("rn", "m"), ("vv", "w"), ("cl", "d"), ("ln", "h"))
_SEPARATOR = re.compile(r"[-_.]")
_DOUBLED = re.compile(r"(.)\1+")
_DIGITS = re.compile(r"[0-9]")


def skeleton(name: str) -> str:
    """How a name looks at a glance."""
    text = look_alike(name)
    for several, one in _DRAWN_ALIKE:
        text = text.replace(several, one)
    return _DOUBLED.sub(r"\1", text)


def stem(name: str) -> str:
    """Its skeleton without what anyone could add to it: words, and a number at the end."""
    unnumbered = name.rstrip("0123456789")
    name = unnumbered if len(unnumbered) >= SHORTEST_REST else name
    parts = [part for part in _SEPARATOR.split(name) if part]
    while len(parts) > 1 and skeleton(parts[-1]) in ADDITIONS and len("".join(parts[:-1])) >= SHORTEST_REST:
        parts.pop()
    while len(parts) > 1 and skeleton(parts[0]) in ADDITIONS and len("".join(parts[1:])) >= SHORTEST_REST:
        parts.pop(0)
    text = skeleton("".join(parts))
    joined_on = max((end for end in _JOINED_ON if text.endswith(end)), key=len, default="")
    if len(text) - len(joined_on) >= SHORTEST_REST:
        text = text.removesuffix(joined_on)
    return text.removesuffix("s") if len(text) > SHORTEST_REST + 1 else text


def stored_forms(owner: str) -> set[str]:
    return {skeleton(owner), stem(owner), *_masked(_base(owner))}


def sought_forms(owner: str) -> set[str]:
    """Another letter, one more, one less, two swapped."""
    base = _base(owner)
    shorter = {base[:at] + base[at + 1 :] for at in range(len(base))}
    longer = {f"{base[:at]}*{base[at:]}" for at in range(len(base) + 1)} if base else set()
    swapped = {base[:at] + base[at + 1] + base[at] + base[at + 2 :] for at in range(len(base) - 1)}
    return {skeleton(owner), stem(owner), *_masked(base), *shorter, *longer, *swapped} - {""}


def is_look_alike(owner: str, other: str) -> bool:
    """`other` was found under one of the forms of `owner`. Numbered accounts, `team-1` and `team-2`, are no look-alikes
    of each other."""
    if owner.lower() == other.lower():
        return False
    both = [_DIGITS.sub("", name.lower()) for name in (owner, other)]
    are_numbered = both[0] == both[1] and both[0] not in (owner.lower(), other.lower())
    return not are_numbered and bool(sought_forms(owner) & stored_forms(other))


def _base(owner: str) -> str:
    """What letters are compared of. Empty: it is too short for that."""
    if len(owner) < LONG_ENOUGH:
        return ""
    rest = stem(owner)
    return rest if len(rest) >= LONG_ENOUGH - 1 else skeleton(owner)


def _masked(base: str) -> set[str]:
    return {f"{base[:at]}*{base[at + 1 :]}" for at in range(len(base))}


ADDITIONS = frozenset(skeleton(word) for word in _ADDITIONS.split())
_JOINED_ON = tuple(
    skeleton(word) for word in _ADDITIONS.split() if (len(word) > 2 or word == "hq") and word not in ("the", "get")
)
