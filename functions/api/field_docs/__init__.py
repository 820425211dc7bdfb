"""What the API reference says about each field: one table per schema, merged into the OpenAPI document.

An entry is the description, or the description and an example. A field that is declared with `msgspec.Meta` and a
description needs no entry. Examples make up the example responses: a field that is required, or has an example, is in
them. Adding a schema means adding its table to the module of its area; tests/unit/functions/http/test_openapi.py names
every field that has no description, and every string that has no example.
"""

from functions.api.field_docs import admin, notifications, owners, responses, scanners, skills, submissions
from functions.http.field_docs import FieldDocs

AREAS = (submissions, skills, admin, scanners, owners, notifications)
FIELD_DOCS = FieldDocs(
    fields={name: docs for area in AREAS for name, docs in area.FIELDS.items()},
    any_field=responses.ANY_FIELD,
    parameters=responses.PARAMETERS,
    media=responses.MEDIA,
    operations=responses.OPERATIONS,
)
