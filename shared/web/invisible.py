"""Characters that a page would not show, or that would reorder what it shows: written out as their code points.

A reader must see what the program sees: after a mark that turns the text around, `abc` would read as `cba`.
"""

import re

_INVISIBLE = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200c\u200e\u200f\u2028-\u202f"
    "\u205f-\u206f\u2800\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    "|(?<![\u2190-\u2bff\U0001f000-\U0001faff])\ufe0f"  # else it makes a coloured symbol of the one before
    "|(?<![\ufe0f\U0001f000-\U0001faff])\u200d"  # else it joins two symbols
)


def show_invisible(text: str) -> str:
    return _INVISIBLE.sub(lambda match: f"\u2039U+{ord(match[0]):04X}\u203a", text)
