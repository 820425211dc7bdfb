"""The badge of a skill for a README: certification tier and current version as a small SVG."""

from html import escape

from shared.records.skills import Skill

LABEL = "skill"
GREEN, BLUE, GREY, RED = "#1a7f37", "#0969da", "#57606a", "#cf222e"  # white text is legible on each
COLOURS = {"SCANNED": BLUE, "VERIFIED": GREEN, "CERTIFIED": GREEN}
NARROW, WIDE = frozenset("fijlrt.,'"), frozenset("mwMW")  # an estimate; textLength makes the text fit
PADDING = 10


def badge_of(skill: Skill) -> bytes:
    if skill.is_blocked:
        return _svg(skill.name, "blocked", RED)
    if skill.changed_hands:
        return _svg(skill.name, "changed hands", RED)
    if skill.is_yanked:
        return _svg(skill.name, "yanked", GREY)
    if skill.is_withdrawn:
        return _svg(skill.name, "withdrawn", GREY)
    if skill.notice:
        return _svg(skill.name, "moved" if skill.transferred_to else "deprecated", GREY)
    status = f"{skill.cert_tier.lower()} {skill.current_version}"
    return _svg(skill.name, status, COLOURS.get(skill.cert_tier, GREY))


def _svg(name: str, status: str, colour: str) -> bytes:
    left, right = _width(LABEL), _width(status)
    title = _text(f"{name}: {status}")
    size = f'width="{left + right}" height="20"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{title}">
<title>{title}</title>
<rect width="{left}" height="20" fill="#24292f"/>
<rect x="{left}" width="{right}" height="20" fill="{colour}"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
{_word(LABEL, left / 2, left)}
{_word(status, left + right / 2, right)}
</g>
</svg>
""".encode()


def _word(text: str, middle: float, width: int) -> str:
    return f'<text x="{middle:g}" y="14" textLength="{width - PADDING}">{_text(text)}</text>'


def _width(text: str) -> int:
    """In pixels, approximately."""
    return sum(4 if letter in NARROW else 10 if letter in WIDE else 7 for letter in text) + PADDING


def _text(text: str) -> str:
    """XML allows no control characters, not even escaped."""
    return escape("".join(letter if letter.isprintable() else "\ufffd" for letter in text))
