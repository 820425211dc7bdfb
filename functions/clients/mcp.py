"""MCP with the Skills extension: one stateless JSON-RPC route. Only skills that keep to the specification are listed,
because one that does not makes a client drop the whole list."""

import base64
import mimetypes
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeGuard
from urllib.parse import quote, unquote

import msgspec

from functions.clients.artifacts import read_files
from functions.http.answer import Answer
from functions.http.request import Request
from functions.http.routes import Route
from shared.access.cursor import make_cursor, read_cursor
from shared.errors import InvalidRequest, RequestError
from shared.marketplace.client_listing import MCP, SKILLS_CLI, described, find_obstacles_of
from shared.marketplace.installable import Installable, find_recorded, read_installable, require_served
from shared.marketplace.skill_search import SkillQuery, list_skills, search_skills
from shared.records.skills import Skill, full_name
from shared.storage.documents import stamp

EXTENSION = "io.modelcontextprotocol/skills"
MODERN = "2026-07-28"
OLDER = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
SERVER = {"name": "vskill-platform", "version": "1.0.0"}
CAPABILITIES: dict[str, Any] = {"resources": {}, "tools": {}, "extensions": {EXTENSION: {}}}
INSTRUCTIONS = "Skills that were scanned before they were published. search_skills finds one by what it is for."
CACHING = {"ttlMs": 60_000, "cacheScope": "public"}
COMPLETE = {"resultType": "complete"}
SKILLS_PER_PAGE = 50
LARGEST_PAGE = 3_000_000  # bytes: a function returns at most 6 MB
LARGEST_FILE = 5_500_000  # as JSON
INVALID_PARAMS, NO_METHOD, INVALID_REQUEST, PARSE_ERROR = -32602, -32601, -32600, -32700
SEARCH_TOOL = {
    "name": "search_skills",
    "description": "Find published skills by what they are for. Says why each can be trusted and how to install it.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Words in name, owner, description or tags."},
            "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
        },
        "required": ["query"],
    },
    "annotations": {"readOnlyHint": True},
}
Json = dict[str, Any]
Params = Mapping[str, Any]


class RpcError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class RpcCall(NamedTuple):
    method: str
    params: Json
    id: int | str | None  # None: a notification, which gets no response


class FileAddress(NamedTuple):
    name: str  # of the skill, in full
    path: str


async def answer(request: Request) -> Answer:
    """Notifications and responses are accepted, and get no response."""
    sent: Any = None
    try:
        sent = _read_json(request)
        call = _read_call(sent)
        if call is None or call.id is None:
            return Answer(b"", 202)
        result = await _run(call.method, call.params, request)
    except RpcError as error:
        return Answer(_error(_id_of(sent), error))
    return Answer({"jsonrpc": "2.0", "id": call.id, "result": result})


ROUTES: dict[str, Route] = {"POST /mcp": answer}


async def _run(method: str, params: Params, request: Request) -> Json:
    if method not in METHODS:
        raise RpcError(NO_METHOD, f"There is no method {method[:80]!r}.")
    try:
        return await METHODS[method](params, request)
    except RequestError as error:  # what is blocked, unknown or no address of ours
        raise RpcError(INVALID_PARAMS, str(error)) from error


async def discover(params: Params, request: Request) -> Json:
    versions = {"supportedVersions": [MODERN, *OLDER]}
    return {**versions, "capabilities": CAPABILITIES, "serverInfo": SERVER, "instructions": INSTRUCTIONS, **_COMPLETE}


async def initialize(params: Params, request: Request) -> Json:
    asked = params.get("protocolVersion")
    version = asked if asked in (MODERN, *OLDER) else OLDER[0]
    return {
        "protocolVersion": version,
        "capabilities": CAPABILITIES,
        "serverInfo": SERVER,
        "instructions": INSTRUCTIONS,
    }


async def ping(params: Params, request: Request) -> Json:
    return {}


async def list_of_skills(params: Params, request: Request) -> Json:
    found, cursor = await _page(params)
    return {"skills": [_skill(each) for each in found], **await _next(cursor), **_COMPLETE}


async def get_skill(params: Params, request: Request) -> Json:
    address = _address(params)
    if address.path != "SKILL.md":
        raise RpcError(INVALID_PARAMS, "This is not the address of a SKILL.md.")
    return {"skill": _skill(await _get(address)), **_COMPLETE}


async def list_resources(params: Params, request: Request) -> Json:
    found, cursor = await _page(params)
    return {"resources": [_resource(each) for each in found], **await _next(cursor), **_COMPLETE}


async def list_templates(params: Params, request: Request) -> Json:
    return {"resourceTemplates": [], **_COMPLETE}


async def read_resource(params: Params, request: Request) -> Json:
    address = _address(params)
    content = (await read_files(await _get(address))).get(address.path)
    if content is None:
        raise RpcError(INVALID_PARAMS, "This skill has no such file.")
    shown = _content(address.path, content)
    if len(msgspec.json.encode(shown)) > LARGEST_FILE:  # as it is sent: a line end is two bytes there
        raise RpcError(INVALID_PARAMS, "This file is too large to be read here: install the skill.")
    return {"contents": [{"uri": params["uri"], **shown}], **_COMPLETE}


async def list_tools(params: Params, request: Request) -> Json:
    return {"tools": [SEARCH_TOOL], **_COMPLETE}


async def call_tool(params: Params, request: Request) -> Json:
    if params.get("name") != "search_skills":
        raise RpcError(INVALID_PARAMS, "There is no such tool.")
    arguments = _object(params.get("arguments") or {}, "arguments")
    query, limit = arguments.get("query"), arguments.get("limit", 10)
    if not isinstance(query, str) or not _is_whole(limit) or not 1 <= limit <= 50:
        raise RpcError(INVALID_PARAMS, "`query` must be text, and `limit` a whole number from 1 to 50.")
    page = await search_skills(query[:200], limit)
    found = [_found(each, request) for each in await read_installable(page.skills, SKILLS_CLI)]
    text = "\n\n".join(f"{each['name']}: {each['description']}\n{each['trust']}\n{each['install']}" for each in found)
    content = [{"type": "text", "text": text or "No skill was found."}]
    return {"content": content, "structuredContent": {"skills": found}, "isError": False, **COMPLETE}


_COMPLETE = {**CACHING, **COMPLETE}
METHODS: dict[str, Callable[[Params, Request], Awaitable[Json]]] = {
    "server/discover": discover,
    "initialize": initialize,
    "ping": ping,
    "skills/list": list_of_skills,
    "skills/get": get_skill,
    "resources/list": list_resources,
    "resources/templates/list": list_templates,
    "resources/read": read_resource,
    "tools/list": list_tools,
    "tools/call": call_tool,
}


# --- requests -------------------------------------------------------------------------------------------------------


def _read_json(request: Request) -> Any:
    try:
        return request.json(object)
    except InvalidRequest as error:
        raise RpcError(PARSE_ERROR, str(error)) from error


def _read_call(sent: Any) -> RpcCall | None:
    """None: a response to something that this server, which asks for nothing, never sent."""
    if isinstance(sent, list):
        raise RpcError(INVALID_REQUEST, "Send one request at a time: batches are not supported.")
    if not isinstance(sent, dict) or sent.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, "This is not a request of JSON-RPC 2.0.")
    if "method" not in sent and ("result" in sent or "error" in sent):
        return None
    params = sent.get("params")
    if not isinstance(sent.get("method"), str) or not isinstance(params, dict | None):
        raise RpcError(INVALID_REQUEST, "`method` must be text, and `params` an object.")
    if "id" in sent and _id_of(sent) is None:
        raise RpcError(INVALID_REQUEST, "`id` must be a whole number or text.")
    return RpcCall(sent["method"], params or {}, _id_of(sent))


def _id_of(sent: Any) -> int | str | None:
    """None where there is no usable one."""
    id_ = sent.get("id") if isinstance(sent, dict) else None
    return id_ if _is_whole(id_) or isinstance(id_, str) else None


def _object(value: Any, name: str) -> Json:
    if not isinstance(value, dict):
        raise RpcError(INVALID_PARAMS, f"`{name}` must be an object.")
    return value


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _address(params: Params) -> FileAddress:
    """skill://owner/repo/folder/path"""
    uri = params.get("uri")
    if not isinstance(uri, str) or not uri.startswith("skill://") or len(uri) > 2000:
        raise RpcError(INVALID_PARAMS, "`uri` must be an address like skill://owner/repo/name/SKILL.md.")
    parts = [unquote(part) for part in uri.removeprefix("skill://").split("/")]
    if len(parts) < 4 or not all(parts[:3]):
        raise RpcError(INVALID_PARAMS, "`uri` must be an address like skill://owner/repo/name/SKILL.md.")
    return FileAddress("/".join(parts[:3]), "/".join(parts[3:]))


def _error(id_: int | str | None, error: RpcError) -> Json:
    return {"jsonrpc": "2.0", "id": id_, "error": {"code": error.code, "message": str(error)}}


# --- skills ---------------------------------------------------------------------------------------------------------


async def _get(address: FileAddress) -> Installable:
    skill = require_served(next(iter(await find_recorded([address.name])), None), address.name)
    found = await read_installable([skill], MCP)
    if not found:
        raise RpcError(INVALID_PARAMS, f"The skill {address.name[:80]!r} cannot be listed here; its page says why.")
    return found[0]


async def _page(params: Params) -> tuple[list[Installable], str | None]:
    """Newest first. A page that would be too large ends early."""
    cursor = params.get("cursor")
    if not isinstance(cursor, str | None):
        raise RpcError(INVALID_PARAMS, "`cursor` must be text.")
    after = await read_cursor(cursor, MCP)
    page = await list_skills(SkillQuery(limit=SKILLS_PER_PAGE, after=after))
    found = await read_installable(page.skills, MCP)
    left, shown = LARGEST_PAGE, list[Installable]()
    for each in found:
        left -= len(msgspec.json.encode(_skill(each)))
        if left < 0 and shown:
            return shown, _position(shown[-1].skill)
        shown.append(each)
    return shown, page.next_position


def _position(skill: Skill) -> str:
    """In the list of all skills, as skill_put writes it."""
    return f"{stamp(skill.published_at)}#{skill.name}"


async def _next(position: str | None) -> Json:
    return {} if position is None else {"nextCursor": await make_cursor(position, MCP)}


def _skill(found: Installable) -> Json:
    assert found.manifest  # what has none is not listed
    root = _root(found.skill)
    resources = [
        {"uri": f"{root}{quote(each.path)}", "digest": f"sha256:{each.sha256}", "size": each.size}
        for each in found.manifest.files
    ]
    return {"uri": f"{root}SKILL.md", "frontmatter": found.manifest.front_matter, "resources": resources}


def _resource(found: Installable) -> Json:
    skill = found.skill
    uri = f"{_root(skill)}SKILL.md"
    return {"uri": uri, "name": full_name(skill), "description": described(skill), "mimeType": "text/markdown"}


def _root(skill: Skill) -> str:
    return f"skill://{quote(full_name(skill).lower())}/"


def _content(path: str, content: bytes) -> Json:
    kind = mimetypes.guess_type(path)[0]
    try:
        return {"mimeType": "text/markdown" if path.endswith(".md") else kind or "text/plain", "text": content.decode()}
    except UnicodeDecodeError:
        return {"mimeType": kind or "application/octet-stream", "blob": base64.b64encode(content).decode()}


def _found(found: Installable, request: Request) -> Json:
    """`uri` is null where MCP cannot list it: it can be installed only."""
    skill, name = found.skill, full_name(found.skill)
    return {
        "name": name,
        "description": described(skill),
        "version": skill.current_version,
        "trust": f"{skill.cert_tier}: verdict {skill.verdict}, score {skill.score}.",
        "install": f"npx skills add {request.site}/{name}",
        "uri": None if find_obstacles_of(MCP, *found) else f"{_root(skill)}SKILL.md",
    }
