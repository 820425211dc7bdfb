"""All operations of the API, and their OpenAPI 3.1 document."""

from functools import cache
from typing import Any

import msgspec

from functions.http.answer import Answer
from functions.http.openapi import Described, describe
from functions.http.operations import operation
from functions.http.request import Request


@operation("This API as an OpenAPI 3.1 document", gives=dict, cached=True)
async def openapi(request: Request) -> Answer:
    headers = {"content-type": "application/json; charset=utf-8"}
    return Answer(contract_text(), headers=headers, cache="public, max-age=300")


ROUTES = {"GET /api/v1/openapi.json": openapi}


@cache
def contract() -> dict[str, Any]:
    from functions.api.field_docs import FIELD_DOCS  # on first use, like the routes it describes

    return describe(operations(), FIELD_DOCS)


@cache
def contract_text() -> bytes:
    return msgspec.json.encode(contract())


@cache
def operations() -> list[Described]:
    """Method, path and declaration of everything under /api/, in the order of the document."""
    # Imported on first use: pages need none of them.
    from functions.api import (
        admin_maintenance,
        admin_reviews,
        admin_skills,
        admin_submissions,
        appeals,
        blocklist,
        external_scans,
        owner_actions,
        owner_notifications,
        owners,
        runs,
        skills,
        submissions,
    )

    tables = [submissions.ROUTES, runs.ROUTES, skills.OPERATIONS, blocklist.ROUTES, admin_submissions.ROUTES]
    tables += [admin_reviews.ROUTES, admin_skills.ROUTES]
    tables += [owners.ROUTES, owner_actions.ROUTES, owner_notifications.ROUTES]
    tables += [appeals.OF_OWNERS, appeals.OF_REVIEWERS, admin_maintenance.ROUTES, external_scans.ROUTES, ROUTES]
    declared = {route: run for table in tables for route, run in table.items()}
    return [(*_parts(route), run) for route, run in declared.items()]


def _parts(route: str) -> tuple[str, str]:
    method, _, path = route.partition(" ")
    return method, path
