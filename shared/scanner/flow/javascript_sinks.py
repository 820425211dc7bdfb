"""Where values leave a JavaScript program: requests, sockets, name lookups, mail, issues."""

from collections.abc import Iterator

from shared.scanner.flow.expressions import Call
from shared.scanner.flow.interpreter import Handler, Interpreter, named
from shared.scanner.flow.objects import UNKNOWN, Obj, concatenated, elements, join, origins_in, texts_of
from shared.scanner.flow.python_sinks import ADDRESS, headers_of, send
from shared.scanner.flow.sinks import Channel

CLIENTS = {
    *("axios", "got", "ky", "superagent", "request", "needle", "$", "jQuery", "http", "https", "undici", "$http"),
    *(
        "node-fetch",
        "phin",
        "bent",
        "wretch",
        "ofetch",
        "client",
        "api",
        "instance",
        "rp",
        "request-promise",
        "httpClient",
    ),
}
VERBS = {"get", "post", "put", "patch", "delete", "request", "ajax", "head"}
BODY_NAMES = ("body", "data", "json", "form", "formData", "payload", "multipart", "searchParams")
QUERY_NAMES = ("params", "qs", "query")
ADDRESS_NAMES = ("url", "uri", "href")


def is_js_request(call: Call) -> bool:
    """`fetch(…)`, `axios.post(…)`, `axios({…})`"""
    if call.method in ("fetch", "fetchJson", "$fetch", "ofetch", "sendBeacon") and call.arguments:
        return True
    root, _, rest = call.ref.partition(".")
    root = root.partition("(")[0]
    if root in CLIENTS and (not rest or call.method in VERBS):
        return bool(call.arguments)
    return call.method in VERBS and any(text.startswith(("http://", "https://")) for text in texts_of(call.argument(0)))


def send_js_request(run: Interpreter, call: Call) -> Obj:
    address, options = _address(call)
    for content, channel in _parts(call, options):
        send(run, content, address, channel, call)
    send(run, Obj(), address, Channel.ADDRESS, call)
    for function in (value for value in call.arguments if value.code is not None):
        run.call_back(function, [Obj(ref="response()")], call)
    return Obj(ref="response()", items={ADDRESS: address})


def _address(call: Call) -> tuple[Obj, list[Obj]]:
    """The address, and the objects that may hold the rest of the request."""
    first, rest = call.argument(0), call.arguments[1:]
    options = [value for value in rest if value.items is not None]
    if first.items is None or first.is_list:
        return _with_prefix(call, first), options
    items = first.items
    for name in ADDRESS_NAMES:
        if name in items:
            return _with_prefix(call, items[name]), [first, *options]
    host = items.get("hostname") or items.get("host") or UNKNOWN
    return concatenated([Obj(("https://",)), host, items.get("path", Obj(("",)))]), [first, *options]


def _with_prefix(call: Call, address: Obj) -> Obj:
    base = (call.target.items or {}).get(ADDRESS) if call.target is not None else None
    if base is None or any("://" in text for text in texts_of(address)):
        return address
    return concatenated([base, address])


def _parts(call: Call, options: list[Obj]) -> Iterator[tuple[Obj, Channel]]:
    posts = call.method in ("post", "put", "patch", "sendBeacon") and len(call.arguments) > 1
    if posts:
        first = call.arguments[1]
        known = {*BODY_NAMES, "headers"} & {key for key in first.items or {} if isinstance(key, str)}
        if not known or call.ref.startswith("axios"):
            yield first, Channel.BODY
    for value in options:
        items = value.items or {}
        yield from ((items[name], Channel.BODY) for name in BODY_NAMES if name in items)
        yield from ((items[name], Channel.ADDRESS) for name in QUERY_NAMES if name in items)
        if "headers" in items:
            yield from headers_of(items["headers"])
        if "auth" in items:
            yield Obj(("Authorization: ",), origins_in(items["auth"])), Channel.HEADER


def _connected(run: Interpreter, call: Call) -> Obj:
    """`new WebSocket(url)`, `net.connect(port, host)`, `net.connect({ host })`, `axios.create({ baseURL })`"""
    given = next((value for value in call.arguments if texts_of(value)), call.argument(0))
    for value in call.arguments:
        for name in ("host", "hostname", "baseURL", "prefixUrl", "url"):
            given = (value.items or {}).get(name, given) if not value.is_list else given
    return Obj(ref=f"{call.ref}()", items={ADDRESS: given})


def _address_of(call: Call) -> Obj:
    return ((call.target.items or {}) if call.target is not None else {}).get(ADDRESS, UNKNOWN)


def _writes(run: Interpreter, call: Call) -> Obj:
    """`request.write(data)`, `request.end(data)`, `socket.send(data)`"""
    address = _address_of(call)
    if address is UNKNOWN:
        return UNKNOWN
    for value in call.arguments:
        if value.code is None:
            send(run, value, address, Channel.BODY, call)
    return call.target or UNKNOWN


def _sets_header(run: Interpreter, call: Call) -> Obj:
    header = concatenated([call.argument(0), Obj((": ",)), call.argument(1)])
    send(run, header, _address_of(call), Channel.HEADER, call)
    return call.target or UNKNOWN


def _opens(run: Interpreter, call: Call) -> Obj:
    """`xhr.open("POST", url)`"""
    if call.target is not None and call.target.items is not None and len(call.arguments) > 1:
        call.target.items[ADDRESS] = call.arguments[1]
    return UNKNOWN


def _looks_up(run: Interpreter, call: Call) -> Obj:
    send(run, Obj(), call.argument(0), Channel.HOST_NAME, call)
    return UNKNOWN


def _mails(run: Interpreter, call: Call) -> Obj:
    items = call.argument(0).items or {}
    to = items.get("to", UNKNOWN)
    send(run, call.argument(0), join(elements(to) or [to]), Channel.POST, call)
    return UNKNOWN


def _posts_issue(run: Interpreter, call: Call) -> Obj:
    """Octokit: `octokit.rest.issues.create({ owner, repo, body })`"""
    items = call.argument(0).items or {}
    if "repo" not in items and "files" not in items:
        return UNKNOWN
    place = [Obj(("https://github.com/",)), items.get("owner", UNKNOWN), Obj(("/",)), items.get("repo", UNKNOWN)]
    send(run, call.argument(0), concatenated(place), Channel.POST, call)
    return UNKNOWN


def _uploads(run: Interpreter, call: Call) -> Obj:
    """`new PutObjectCommand({ Bucket, Body })`"""
    items = call.argument(0).items or {}
    address = concatenated([Obj(("s3://",)), items.get("Bucket", UNKNOWN)])
    send(run, items.get("Body", UNKNOWN), address, Channel.PUSH, call)
    return UNKNOWN


SINKS: dict[str, Handler] = named(
    (_connected, "WebSocket ws.WebSocket net.connect net.createConnection tls.connect axios.create got.extend"),
    (_connected, "EventSource io socket.io-client.io XMLHttpRequest"),
    (
        _looks_up,
        "dns.lookup dns.resolve resolve4 resolve6 resolveTxt resolveMx resolveCname resolveAny promises.lookup",
    ),
    (_looks_up, "promises.resolve"),
    (_mails, "sendMail"),
    (_uploads, "PutObjectCommand s3.putObject s3.upload putObject"),
)
SINK_METHODS: dict[str, Handler] = named(
    (_writes, "write end send emit"),
    (_sets_header, "setHeader setRequestHeader"),
    (_opens, "open"),
    (_mails, "sendMail"),
    (_posts_issue, "create createComment createOrUpdateFileContents createGist"),
)
