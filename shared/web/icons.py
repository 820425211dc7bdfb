"""Icons as inline SVG, drawn on a 16-pixel grid in the text colour."""

from markupsafe import Markup

_PATHS = {
    "clock": '<circle cx="8" cy="8" r="6"/><path d="M8 4.8V8l2.2 1.6"/>',
    "scan": '<circle cx="7" cy="7" r="4.4"/><path d="m10.4 10.4 3.4 3.4"/>',
    "upload": '<path d="M8 13V3.4M4.4 6.8 8 3.2l3.6 3.6"/>',
    "check": '<circle cx="8" cy="8" r="6"/><path d="m5.4 8.2 1.8 1.8 3.5-3.8"/>',
    "cross": '<circle cx="8" cy="8" r="6"/><path d="m6 6 4 4m0-4-4 4"/>',
    "lock": '<rect x="3.4" y="7.2" width="9.2" height="6.2" rx="1.4"/><path d="M5.4 7V5.2a2.6 2.6 0 0 1 5.2 0V7"/>',
    "hold": '<circle cx="8" cy="8" r="6"/><path d="M6.5 5.8v4.4m3-4.4v4.4"/>',
    "alert": '<path d="M8 2.6 14.4 13.4H1.6z"/><path d="M8 6.6v3m0 1.8v.2"/>',
    "file": '<path d="M4 2.4h5l3 3v8.2H4z"/><path d="M9 2.4v3h3"/>',
    "copy": '<rect x="5.4" y="5.4" width="7.8" height="7.8" rx="1.4"/><path d="M10.6 5.2V3.4H2.8v7.8h2.4"/>',
    "theme": '<circle cx="8" cy="8" r="5.6"/><path d="M8 2.4v11.2a5.6 5.6 0 0 0 0-11.2z" fill="currentColor"/>',
    "arrow": '<path d="M3 8h9.4M9 4.6 12.4 8 9 11.4"/>',
    "down": '<path d="M8 3v9.4M4.6 9 8 12.4 11.4 9"/>',
    "up": '<path d="M8 13V3.6M4.6 7 8 3.6 11.4 7"/>',
    "out": '<path d="M6.4 3.4H3.2v9.4h9.4V9.6M9 3.2h4v4M13 3.2 7.6 8.6"/>',
    "terminal": '<rect x="2" y="3" width="12" height="10" rx="1.4"/><path d="m4.6 6.2 2 1.8-2 1.8m3.6.2h3"/>',
    "network": '<circle cx="8" cy="8" r="6"/><path d="M2 8h12M8 2c2 2 2 10 0 12M8 2c-2 2-2 10 0 12"/>',
    "key": '<circle cx="5.4" cy="10.6" r="2.8"/><path d="m7.4 8.6 5.8-5.8m-2 2 1.8 1.8"/>',
}


def icon(name: str) -> Markup:
    """Always next to a word, so it is hidden from screen readers."""
    return Markup('<svg class="icon" viewBox="0 0 16 16" aria-hidden="true">%s</svg>') % Markup(_PATHS[name])  # noqa: S704 - our own drawings
