"""Published skills behind the real handlers: some by the pipeline, others stored as it leaves them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from functions.consumer import handler as consumer
from functions.skills_api import handler as skills_api
from functions.submissions_api import handler as submissions_api
from shared import runtime
from tests.support.builders import a_bundle, an_sqs_record
from tests.support.gateway_events import Context, Response, an_http_event, call
from tests.support.stored_skills import put_skills

LIST = "GET /api/v1/skills"
READ = "GET /api/v1/skills/{proxy+}"
POST_SKILLS = "POST /api/v1/skills/{proxy+}"


def publish(name: str, description: str = "Greets people.", token: str | None = None, **files: str) -> dict[str, Any]:
    """An upload, scanned and published. What the first answer said; its `uploadToken` publishes a new version."""
    bundle = a_bundle(name, description, **files)["files"]
    body = {"bundle": {"name": name, "files": [{"path": path, "content": content} for path, content in bundle]}}
    created = call(submissions_api, "POST /api/v1/submissions", body=body | ({"uploadToken": token} if token else {}))
    assert created.status in (200, 201), created
    assert consumer({"Records": [an_sqs_record(created.body["id"])]}, Context(60)) == {"batchItemFailures": []}
    return {"uploadToken": token, **created.body, "text": bundle[0][1]}


def put(*skills, installs: dict[str, int] | None = None) -> None:
    run(lambda: put_skills(runtime.request_env().kv, *skills, installs=installs))


def run(fn) -> Any:
    """Store code, in the process of the handlers."""
    return runtime.run(fn, timedelta(seconds=30))


def read(path: str, query: Any = "", **event) -> Response:
    return call(skills_api, READ, path={"proxy": path}, query=query, **event)


def raw(path: str, query: Any = "", headers: dict[str, str] | None = None) -> dict[str, Any]:
    """The answer as the gateway gets it: not every answer is JSON."""
    return skills_api(an_http_event(READ, path={"proxy": path}, query=query, headers=headers), Context())


def post(path: str, body: Any = None, **event) -> Response:
    return call(skills_api, POST_SKILLS, path={"proxy": path}, body=body, **event)


def list_(query: Any = "", **event) -> Response:
    return call(skills_api, LIST, query=query, **event)


def twice(ask: Callable[[], Response]) -> Response:
    """The second call is the warm one."""
    first, second = ask(), ask()
    assert (first.status, first.body) == (second.status, second.body)
    return second
