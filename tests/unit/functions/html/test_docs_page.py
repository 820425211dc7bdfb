"""/docs: the whole contract, for people."""

import re
import shlex

import pytest

from functions.api.contract import contract, operations
from functions.html.docs_page import type_of
from functions.http.error_codes import CODES
from functions.http.field_docs import sample_of
from tests.support.route_calls import call

SCHEMAS = {"Name": {"type": "object", "properties": {"name": {"type": "string"}, "n": {}}, "required": ["name"]}}
REF = {"$ref": "#/components/schemas/Name"}
LARGEST_PAGE = 300_000
PAGES = ["GET /docs", "GET /docs/admin"]


async def shown_pages(env):
    return [await call(env, page) for page in PAGES]


async def test_every_operation_is_there_once_with_an_example_and_every_code_with_its_meaning(env):
    pages = await shown_pages(env)
    assert [page.status for page in pages] == [200, 200]
    text = "".join(page.text for page in pages)
    ids = re.findall(r'<article class="operation" id="(\w+)"', text)
    assert len(ids) == len(set(ids)) == len(declared_operations())
    for method, path, declared in operations():
        assert f"<code>{path}</code>" in text, f"{method} {path}"
        assert declared.summary in text
    for code in {code for codes in CODES.values() for code in codes}:
        assert all(f"<code>{code}</code>" in page.text for page in pages)


@pytest.mark.parametrize("page", PAGES)
async def test_a_page_is_complete_without_script_and_light(env, page):
    shown = await call(env, page)
    assert len(shown.text.encode()) < LARGEST_PAGE
    assert " hidden>" not in shown.text.replace("data-search hidden>", ""), "only the search needs the script"


async def test_every_schema_is_described_on_a_page_that_uses_it(env):
    text = "".join(page.text for page in await shown_pages(env))
    for name, schema in contract()["components"]["schemas"].items():
        section = text.partition(f'id="schema-{name}" data-view')[2].partition("</section>")[0]
        assert section, name
        assert all(f"<code>{field}</code>" in section for field in schema.get("properties", {})), name


async def test_the_example_of_an_owners_route_has_an_owner_token(env):
    shown = await call(env, "GET /docs")
    article = shown.text.partition('<article class="operation" id="getOwnerTokens"')[2].partition("</article>")[0]
    assert 'data-auth="OWNER_TOKEN"' in article
    assert "Bearer $OWNER_TOKEN" in article


def declared_operations():
    return {id(declared) for _, _, declared in operations()}


@pytest.mark.parametrize("page", PAGES)
async def test_every_link_within_a_page_leads_somewhere(env, page):
    shown = await call(env, page)
    targets = set(re.findall(r' id="([^"]+)"', shown.text))
    links = set(re.findall(r'href="#([^"]+)"', shown.text))
    assert links
    assert links - targets == set()


async def test_examples_are_commands_a_shell_reads(env):
    text = "".join(page.text for page in await shown_pages(env))
    examples = re.findall(r"<code>(curl .*?)</code>", text, re.DOTALL)
    assert len(examples) == len(declared_operations())
    for example in examples:
        words = shlex.split(example.replace("&#34;", '"').replace("&#39;", "'").replace("&amp;", "&"))
        assert words[0] == "curl"
        assert words[2].startswith("$URL/api/v1/")
        assert not {"{", "…", "%"} & set(words[2]), "a reader sees what to fill in"


async def test_a_signed_route_says_how_it_is_signed(env):
    shown = await call(env, "GET /docs")
    claim = shown.text[shown.text.index('id="postInternalScansClaim"') :]
    assert "<code>x-scan-signature</code>" in claim
    assert "Hex of HMAC-SHA256 under the scanner" in claim


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 500}, "integer, 1 to 500"),
        ({"type": "string", "maxLength": 9}, "string, at most 9 characters"),
        ({"type": "string", "minLength": 1, "maxLength": 9}, "string, 1 to 9 characters"),
        ({"type": "string", "minLength": 64, "maxLength": 64}, "string, 64 characters"),
        ({"type": "string", "format": "date-time"}, "time"),
        ({"type": "array", "items": REF}, "list of Name"),
        ({"anyOf": [REF, {"type": "null"}]}, "Name or null"),
        ({"enum": ["a", "b"]}, "a, b"),
        ({"type": "object", "additionalProperties": REF}, "map to Name"),
        ({}, "anything"),
    ],
    ids=str,
)
def test_a_type_is_described_in_words(schema, words):
    assert "".join(piece["text"] for piece in type_of(schema)) == words


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (REF, {"name": "…"}),
        ({"type": "array", "items": REF}, [{"name": "…"}]),
        ({"anyOf": [{"type": "integer", "minimum": 7}, {"type": "null"}]}, 7),
        ({"type": "string", "examples": ["pdf"]}, "pdf"),
        ({"enum": ["a", "b"]}, "a"),
        ({"type": "boolean"}, False),
    ],
    ids=str,
)
def test_a_sample_has_what_is_needed_and_nothing_else(schema, value):
    assert sample_of(schema, SCHEMAS) == value
