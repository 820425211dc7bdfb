"""No form speaks of fields of the API: an error whose text does is listed with a sentence for forms."""

import ast
import re
from pathlib import Path

from shared.errors import Conflict, InvalidRequest, RequestError
from shared.web.form_words import FORM_SENTENCES, in_form_words

ROOT = Path(__file__).parents[3]
ERRORS = {error.__name__ for error in RequestError.__subclasses__()}
FIELD = re.compile(r"`[a-zA-Z]+`|\b[a-z]+[A-Z][a-zA-Z]+\b")
# Raised for what stands in an address, never for what is typed into a form.
OF_ADDRESSES = {
    "invalid_ids",
    "invalid_since",
    "invalid_cursor",
    "invalid_page",
    "invalid_month",
    "invalid_q",
    "invalid_theme",
}
SPOKEN = {"GitHub", "`uploads`"}  # words for people


def errors_raised() -> dict[str, str]:
    """The code of each error that pages can show, and its text."""
    found = {}
    for path in [*(ROOT / "shared").rglob("*.py"), *(ROOT / "functions/html").glob("*.py")]:
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") in ERRORS and call.args:
                code = next((ast.unparse(word.value) for word in call.keywords if word.arg == "code"), path.name)
                found[f"{path.name}:{call.lineno}"] = (code.strip("'\""), text_of(call.args[0]))
    return found


def text_of(node: ast.expr) -> str:
    return "".join(str(part.value) for part in ast.walk(node) if isinstance(part, ast.Constant))


def test_every_error_that_names_a_field_has_a_sentence_for_forms():
    raised = errors_raised()
    assert len(raised) > 50
    silent = {
        place: text
        for place, (code, text) in raised.items()
        if set(FIELD.findall(text)) - SPOKEN and code not in FORM_SENTENCES and code not in OF_ADDRESSES
    }
    assert silent == {}


def test_no_sentence_for_forms_names_a_field_or_ends_without_a_stop():
    for code, sentence in FORM_SENTENCES.items():
        assert not set(FIELD.findall(sentence)) - SPOKEN, code
        assert sentence.endswith(".")


def test_an_error_without_a_sentence_says_its_own():
    assert in_form_words(Conflict("Taken already.")) == "Taken already."
    assert in_form_words(InvalidRequest("Send `skillPath`.", code="invalid_skill_path")).startswith("Enter the folder")
