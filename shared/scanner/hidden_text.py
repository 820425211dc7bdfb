"""Characters that people do not see but agents read, and their plain-text equivalents."""

import re
import unicodedata
from itertools import islice

from shared.scanner.file_text import unusual

TAG_CHARACTERS = re.compile("[\U000e0001-\U000e007f]+")
BIDI_CONTROLS = re.compile("[\u202a-\u202e\u2066-\u2069]")
ZERO_WIDTH_RUN = re.compile("[\u200b-\u200d\u2060\ufeff\u180e\u2061-\u2064]{4,}")
VARIATION_RUN = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4,}")
# A flag emoji is spelled in tag characters after a black flag; that is what they are for.
_SELECTED_LETTER = re.compile("(?<=[A-Za-z ,.])[\ufe00-\ufe0f]+")  # behind a sign they choose how it is drawn
FLAG_EMOJI = re.compile("\U0001f3f4[\U000e0020-\U000e007e]{2,8}\U000e007f")
# Any character that one of these patterns requires.
_UNSEEN = re.compile("[\u00ad\u180e\u200b-\u200d\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff\U000e0001-\U000e01ef]")
SPLIT_WORD = re.compile("(?<=[A-Za-z])[\u200b\u200c\u2060\ufeff\u180e\u00ad]+(?=[A-Za-z])")
# Letters that agents read as plain ones: full-width, mathematical, circled and small capital ones, and split words.
DISGUISED = re.compile(
    "[\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7ff\u24b6-\u24e9\u1d00-\u1d22\u00ad\u200b-\u200d\u2060\ufeff]"
)
MIN_DISGUISED = 3
MIN_SPLIT_WORDS = 4
MIN_MIXED_WORDS = 3
MIN_WORD_LENGTH = 4
MAX_REPLACED = 40  # different letters: for more, one pass over the text is faster than one per letter
WORD = re.compile(r"[A-Za-z\u0370-\u04ff]+")

# Letters that look like Latin ones: only those that people confuse in running text.
LOOK_ALIKES = dict(
    zip(
        "асеорхуіјѕԁһԛԝмткнвгАВСЕНІЈКМОРЅТХУΑΒΕΖΗΙΚΜΝΟΡΤΥΧαορυνι",
        "aceopxyijsdhqwmtkhbrABCEHIJKMOPSTXYABEZHIKMNOPTYXaopuvi",
        strict=True,
    )
)
_LOOK_ALIKES = frozenset(LOOK_ALIKES)
_INVISIBLE = [*range(0x200B, 0x2010), *range(0x2060, 0x2065), 0xFEFF, 0x180E, 0xAD, 0x34F]
_INVISIBLE += [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]
# Without a shape: fillers, selectors of other scripts, marks of annotations and of music.
_INVISIBLE += [0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x3164, 0xFFA0, *range(0xFFF0, 0xFFFC)]
_INVISIBLE += [0x2065, *range(0x206A, 0x2070), *range(0x1D173, 0x1D17B), *range(0xE0100, 0xE01F0)]
# Behind each letter those that agents read as it: of phonetic and of rarer scripts.
_RARE = (
    "AᎪꓮⲀ aɑɐⲁ BᏴꓐⲂ bʙɓ CᏟꓚⲤ cɕⲥ DᎠꓓ dɖɗđԁ EᎬꓰⲈ eǝəɘⲉ Fꓝ fƒ Gꓖ gɡɠɢց HᎻꓧⲎ hħɦɥհⲏ IᏆꓲⲒ iɪıɨᎥⲓ JᎫꓙ jɟʝյ "
    "KᏦꓗⲔ kƙʞⲕ LԼᏞꓡ lłɫɬʟ MᎷꓟⲘ mɯɱⲙ NᏁꓠⲚ nɲɴŋոⲛ OՕᎾꓳⲞ oøɵɔօⲟ PᏢꓑⲢ pƥƿքⲣ RᎡꓣ rɹɾʀʁ SՏᎦᏚꓢ sʂſ TᎢꓔⲦ tƭŧʈʇⲧ "
    "UՍꓴ uʉʊս VᏙꓦ vʋʌ WᎳꓪ wʍա XꓫⲬ xⲭ YᎩꓬⲨ yʏʎⲩ ZᏃꓜ zƶʐʑ"
)
_PLAIN = {ord(alike): word[0] for word in _RARE.split() for alike in word[1:]}
# Letters in circles and boxes; those of flags are spelled in pairs.
_PLAIN |= {first + at: chr(65 + at) for first in (0x1F150, 0x1F170, 0x1F1E6) for at in range(26)}
_PLAIN |= {ord(alike): letter for alike, letter in LOOK_ALIKES.items()}
_PLAIN |= dict.fromkeys(_INVISIBLE)
_PLAIN |= {0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"', 0x00A0: " ", 0x2028: " ", 0x2029: " ", 0x85: " "}
_PLAIN |= {0x0B: " ", 0x0C: " ", 0x0D: " ", 0x00: " "}
_PLAIN |= dict.fromkeys({*range(1, 32), 127, *range(0x80, 0xA0)} - {9, 10, 11, 12, 13, 0x85})
_PLAIN |= {
    ord(small): letter for small, letter in zip("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnoprstuvwyz", strict=True)
}
# Tag characters encode ASCII, which is what the agent reads.
_PLAIN |= {0xE0020 + offset: chr(0x20 + offset) for offset in range(95)}


class _Folding(dict[int, str | int | None]):
    """Further letters by their compatibility form (NFKD): mathematical, full-width, circled and accented ones."""

    def __missing__(self, code: int) -> str | int | None:
        letters = "".join(c for c in unicodedata.normalize("NFKD", chr(code)) if not unicodedata.combining(c))
        # A lone accent is dropped; what is no ASCII letter or sign in another form stays as it is.
        folded = letters if letters.isascii() and (len(letters) < 2 or letters.isalnum()) else code
        if len(self) < 20_000:
            self[code] = folded
        return folded


_FOLDING = _Folding(_PLAIN)


def plain(text: str) -> str:
    """Text as an agent understands it. The number of lines never changes."""
    text = _SELECTED_LETTER.sub("", text) if not text.isascii() else text
    odd = set(unusual(text))
    if len(odd) > MAX_REPLACED:
        return text.translate(_FOLDING)
    for c in odd:  # a replacement is never replaced again: it is printable ASCII, or the same letter
        folded = _FOLDING[ord(c)]
        if folded != ord(c):
            text = text.replace(c, folded if isinstance(folded, str) else "")
    return text


def mixed_script_words(text: str) -> list[str]:
    """Words in which one script imitates another, like a Cyrillic а in a Latin name."""
    if text.isascii() or _LOOK_ALIKES.isdisjoint(text):
        return []
    return [word for word in WORD.findall(text) if not word.isascii() and _imitates(word)]


def _imitates(word: str) -> bool:
    if len(word) < MIN_WORD_LENGTH or not any(letter.isascii() for letter in word):
        return False
    return all(letter.isascii() or letter in LOOK_ALIKES for letter in word)


def spelled_in_tags(text: str) -> str:
    return "".join(chr(ord(c) - 0xE0000) for c in text if 0xE0020 <= ord(c) <= 0xE007E)


def find_hidden(text: str) -> list[tuple[str, int, str]]:
    """(rule, offset, excerpt) for the first of each kind of hidden character in a text."""
    found: list[tuple[str, int, str]] = []
    letters = unusual(text)
    if not _UNSEEN.search(letters) and _LOOK_ALIKES.isdisjoint(letters):
        return found
    cleaned = FLAG_EMOJI.sub(lambda m: " " * len(m.group()), text)
    if (match := TAG_CHARACTERS.search(cleaned)) and len(match.group()) >= 3:
        found.append(("UNICODE-TAGS", match.start(), f"hidden text: {spelled_in_tags(cleaned)[:200]}"))
    if match := BIDI_CONTROLS.search(cleaned):
        found.append(("UNICODE-BIDI", match.start(), f"U+{ord(match.group()):04X}, a character that reorders text"))
    if match := ZERO_WIDTH_RUN.search(cleaned) or _split_word(cleaned):
        found.append(
            ("UNICODE-ZERO-WIDTH", match.start(), f"invisible characters, first {len(match.group())} in a row")
        )
    if match := VARIATION_RUN.search(cleaned):
        found.append(("UNICODE-VARIATION", match.start(), f"{len(match.group())} variation selectors in a row"))
    if len(words := mixed_script_words(cleaned)) >= MIN_MIXED_WORDS:
        found.append(("UNICODE-MIXED-TEXT", cleaned.find(words[0]), " ".join(words[:8])))
    return found


def _split_word(text: str) -> re.Match[str] | None:
    """Words split by invisible characters; a single one may be an editing accident."""
    splits = list(islice(SPLIT_WORD.finditer(text), MIN_SPLIT_WORDS))
    return splits[0] if len(splits) >= MIN_SPLIT_WORDS else None
