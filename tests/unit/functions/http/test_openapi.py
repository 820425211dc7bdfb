"""The contract: valid OpenAPI 3.1, complete, and as strict as the code it is made of."""

import ast
import copy
import json
import re
from pathlib import Path

import msgspec
import pytest
from jsonschema import Draft202012Validator

from functions.api import skills
from functions.api.contract import contract, contract_text, operations
from functions.api.field_docs import FIELD_DOCS
from functions.http.error_codes import CODES
from functions.http.field_docs import UNKNOWN, find_undescribed
from functions.http.operations import Operation
from shared import errors
from shared.access.audit import plain_line
from tests.support.route_calls import FUNCTIONS, call

ROOT = Path(__file__).parents[4]
DOCUMENTED = {code for codes in CODES.values() for code in codes}
# They end a submission, and so are words of its record; no answer of the API has them.
NEVER_ANSWERED = {"archive_too_large", "bad_archive", "judge_down"}


def validate(description):
    # Imported late: it takes as long as the rest of the file, and every process that runs tests collects all files.
    from openapi_spec_validator import OpenAPIV31SpecValidator

    OpenAPIV31SpecValidator(description).validate()


def test_the_contract_is_valid_openapi_3_1():
    validate(contract())
    assert json.loads(contract_text()) == json.loads(msgspec.json.encode(contract()))


def test_the_validator_would_notice_a_mistake():
    broken = copy.deepcopy(contract())
    next(iter(broken["paths"].values()))["get"] = {"responses": {"200": {}}}
    from openapi_spec_validator.validation.exceptions import OpenAPIValidationError

    with pytest.raises(OpenAPIValidationError):
        validate(broken)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_every_route_under_api_is_declared(function):
    undeclared = [
        route for route, run in function.ROUTES.items() if " /api/v1/" in route and not isinstance(run, Operation)
    ]
    assert undeclared == [route for route in undeclared if route.endswith("/skills/{proxy+}")]
    assert all(isinstance(run, Operation) for run in skills.OPERATIONS.values())


def test_the_contract_describes_every_route_under_api():
    described = {f"{method} {path}" for method, path, _ in operations()}
    served = {route for function in FUNCTIONS for route in function.ROUTES if " /api/v1/" in route}
    assert {route for route in served if not route.endswith("{proxy+}")} <= described
    assert {skills.parse_skill_path("GET", "a/b/c/badge").route, "POST /api/v1/skills/installs"} <= described


def texts_that_people_write():
    """By schema and field, of bodies that are sent."""
    needed = {"reason", "sentence", "why", "text", "description"}
    for name, schema in contract()["components"]["schemas"].items():
        for field, about in schema.get("properties", {}).items():
            if field in needed and about.get("minLength") and name != "Concern":  # the judge writes it
                yield f"{name}.{field}", about


@pytest.mark.parametrize("blank", [" \n\u2003", "\b", "\x9d\x1a", "\u202e \u200f"])
def test_the_schema_of_a_text_refuses_what_its_code_takes_for_none(blank):
    """The code leaves control characters out before it looks whether anything was written."""
    described = dict(texts_that_people_write())
    assert {"WithReason.reason", "DeprecateBody.sentence", "NoteRequest.text"} <= set(described)
    trimmed_only = {"SentPoint.why", "ReportBody.description"}
    for name, about in described.items():
        is_blank = not (blank.strip() if name in trimmed_only else plain_line(blank))
        assert Draft202012Validator(about).is_valid(blank) != is_blank, name
        assert Draft202012Validator(about).is_valid(f"{blank}a"), name


def test_every_field_and_parameter_has_a_description():
    assert "\n".join(find_undescribed(contract())) == ""


def test_a_field_without_a_description_is_named_with_what_to_write():
    poorer = copy.deepcopy(contract())
    del poorer["components"]["schemas"]["Pause"]["properties"]["until"]["description"]
    del poorer["paths"]["/api/v1/admin/tokens/{id}/revoke"]["post"]["parameters"][0]["description"]
    assert list(find_undescribed(poorer)) == [
        'Pause.until: add `"until": ("what it means", example)` to "Pause" in a table of functions/api/field_docs',
        'POST /api/v1/admin/tokens/{id}/revoke id: add `"tokens/{id}": "…"` to PARAMETERS in'
        " functions/api/field_docs/responses.py",
    ]


def test_every_request_and_every_success_has_an_example_that_fits_its_schema():
    problems = [problem for route, content in contents() for problem in problems_of_example(route, content)]
    assert "\n".join(problems) == "", "give the fields named here an example in functions/api/field_docs"


def contents():
    for path, methods in contract()["paths"].items():
        for method, described in methods.items():
            answers = {f"{status}": a for status, a in described["responses"].items() if status.startswith("2")}
            parts = {"body": described.get("requestBody", {}), **answers}
            for part, of in parts.items():
                yield from ((f"{method.upper()} {path} {part} {m}", c) for m, c in of.get("content", {}).items())


def problems_of_example(route, content):
    if "example" not in content:
        return [f"{route}: no example"]
    schema = {**content.get("schema", {}), "components": contract()["components"]}
    wrong = [
        f"{route} {error.json_path}: {error.message}"
        for error in Draft202012Validator(schema).iter_errors(content["example"])
    ]
    return wrong + [f"{route} {at}: no example" for at in unknown_in(content["example"], "$")]


def unknown_in(value, at):
    if isinstance(value, dict):
        return [found for key, of in value.items() for found in unknown_in(of, f"{at}.{key}")]
    if isinstance(value, list):
        return [found for of in value for found in unknown_in(of, f"{at}[]")]
    return [at] if value == UNKNOWN else []


def test_every_description_belongs_to_a_field_that_exists():
    schemas = contract()["components"]["schemas"]
    unknown = [
        f"{name}.{field}"
        for name, fields in FIELD_DOCS.fields.items()
        for field in fields
        if field not in schemas.get(name, {}).get("properties", {})
    ]
    assert unknown == []


def test_parameters_carry_what_is_checked():
    parameters = {p["name"]: p for p in contract()["paths"]["/api/v1/submissions"]["get"]["parameters"]}
    assert parameters["limit"]["schema"] == {"type": "integer", "minimum": 1, "maximum": 500, "default": 50}
    assert parameters["sortDir"]["schema"]["enum"] == ["asc", "desc"]
    assert not parameters["cursor"]["required"]
    assert "null" not in json.dumps(parameters)


def test_signed_routes_name_the_three_headers():
    described = contract()["paths"]["/api/v1/webhooks/scan-results"]["post"]
    assert set(described["security"][0]) == {"scanProvider", "scanTimestamp", "scanSignature"}


def test_operation_ids_are_unique():
    ids = [operation["operationId"] for path in contract()["paths"].values() for operation in path.values()]
    assert len(set(ids)) == len(ids) == len(list(operations()))


def test_every_operation_says_what_it_refuses_and_who_may_ask():
    for method, path, declared in operations():
        described = contract()["paths"][path][method.lower()]
        answers = set(described["responses"])
        assert {"400", "503"} <= answers, path
        is_open = declared.role is None and declared.signed is None and not declared.owned
        assert (described["security"] == []) == is_open, path
        assert not (declared.role or declared.owned) or {"401", "403", "429"} <= answers, path
        assert not declared.limit or "429" in answers, path
        assert declared.body is None or {"413", "415"} <= answers, path
        assert "{" not in path or "404" in answers, path
        assert not declared.cached or "304" in answers, path


async def test_the_contract_is_served_with_an_etag(env):
    answer = await call(env, "GET /api/v1/openapi.json")
    assert (answer.status, answer.json["openapi"]) == (200, "3.1.0")
    again = await call(env, "GET /api/v1/openapi.json", headers={"if-none-match": answer.headers["etag"]})
    assert again.status == 304


def test_every_error_code_in_the_code_is_documented():
    raised = set().union(*(codes_in(path) for path in sources()))
    assert {"unavailable", "github_quota", "repo_not_found", "not_found"} <= raised, "the search finds nothing"
    assert sorted(raised - DOCUMENTED - NEVER_ANSWERED) == []


def test_a_code_is_documented_under_the_status_it_comes_with():
    own = {error.code: status for error, status in _statuses().items()}
    assert {code: status for code, status in own.items() if code not in CODES[status]} == {}


def test_no_code_is_documented_under_two_statuses():
    assert sum(map(len, CODES.values())) == len(DOCUMENTED)


def _statuses():
    from functions.http.answer import STATUS

    return {**STATUS, errors.Unavailable: 503}


def sources() -> list[Path]:
    return [path for folder in ("functions", "shared") for path in (ROOT / folder).rglob("*.py")]


def codes_in(path: Path) -> set[str]:
    """Codes as they are written down: `code="…"`, and the places where errors take one without its name."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            found |= {k.value.value for k in node.keywords if k.arg == "code" and isinstance(k.value, ast.Constant)}
            found |= _by_position(node)
        if isinstance(node, ast.ClassDef) and path.name == "errors.py":
            found |= {n.value.value for n in node.body if isinstance(n, ast.Assign) and n.targets[0].id == "code"}
    return {code for code in found if isinstance(code, str) and re.fullmatch(r"[a-z_A-Z]+", code)}


def _by_position(call_: ast.Call) -> set[str]:
    position = {"Refused": 1, "Problem": 1, "Deferred": 3} | {error.__name__: 1 for error in _statuses()}
    place = position.get(getattr(call_.func, "id", getattr(call_.func, "attr", "")))
    if place is None or len(call_.args) <= place or not isinstance(call_.args[place], ast.Constant):
        return set()
    return {call_.args[place].value}
