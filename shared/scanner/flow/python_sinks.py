"""Where values leave a Python program: requests, sockets, mail, uploads, name lookups, chats, commands."""

from collections.abc import Iterator

from shared.scanner.flow.expressions import Call
from shared.scanner.flow.interpreter import Handler, Interpreter, named
from shared.scanner.flow.objects import (
    UNKNOWN,
    Obj,
    as_values,
    concatenated,
    elements,
    join,
    origins_in,
    text_of,
    texts_of,
)
from shared.scanner.flow.python_files import read_file
from shared.scanner.flow.sinks import Channel
from shared.scanner.flow.values import EMPTY, Value

HTTP_ROOTS = {
    *("requests", "httpx", "aiohttp", "urllib3", "urllib", "http", "session", "client", "grequests", "requests_html"),
    *("cloudscraper", "tls_client", "curl_cffi", "async_client", "http_client", "s", "sess", "niquests", "treq"),
}
VERBS = {
    *("get", "post", "put", "patch", "delete", "head", "options", "request", "stream"),
    *("urlopen", "Request", "urlretrieve"),
}
BODY_NAMES = ("data", "json", "files", "content", "body", "fields")
ADDRESS = "address of the connection"


def is_request(call: Call) -> bool:
    """By what the method is called on, or by an address as its first argument: the object may be a parameter."""
    if call.method not in VERBS or not (call.arguments or call.named):
        return False
    root = call.ref.partition(".")[0].partition("(")[0].lower()
    if root in HTTP_ROOTS and "." in call.ref:
        return True
    return any(text.startswith(("http://", "https://")) for text in texts_of(_url(call)))


def _url(call: Call) -> Obj:
    at = 1 if call.method in ("request", "stream") else 0
    return call.argument(at, "url")


def send_request(run: Interpreter, call: Call) -> Obj:
    url = _address_of(run, call)
    for content, channel in _parts(call):
        send(run, content, url, channel, call)
    send(run, Obj(), url, Channel.ADDRESS, call)
    return (
        Obj(ref="response()", constants=())
        if call.method != "Request"
        else Obj(url.constants, url.origins, ref="request()")
    )


def _address_of(run: Interpreter, call: Call) -> Obj:
    """The address of a request, on top of the host that its connection or client was made for."""
    url = _url(call)
    items = call.target.items if call.target is not None and call.target.items is not None else {}
    if ADDRESS in items and not any("://" in text for text in texts_of(url)):
        return concatenated([items[ADDRESS], Obj(("/",)), url])
    return url


def _parts(call: Call) -> Iterator[tuple[Obj, Channel]]:
    for name in BODY_NAMES:
        if name in call.named:
            yield call.named[name], Channel.BODY
    first = 2 if call.method in ("request", "stream") else 1
    for at, value in enumerate(call.arguments[first:], first):
        is_query = call.method == "get" and at == first
        if at == 3 and value.items is not None:
            yield from headers_of(value)
        else:
            yield value, Channel.ADDRESS if is_query else Channel.BODY
    if "params" in call.named:
        yield call.named["params"], Channel.ADDRESS
    session = (call.target.items or {}).get("headers") if call.target is not None else None
    for headers in (call.named.get("headers"), session):
        if headers is not None:
            yield from headers_of(headers)
    for name, header in (("auth", "Authorization: "), ("cookies", "Cookie: ")):
        if name in call.named:
            yield Obj((header,), origins_in(call.named[name])), Channel.HEADER


def headers_of(value: Obj) -> Iterator[tuple[Obj, Channel]]:
    if value.items is None:
        yield value, Channel.HEADER
        return
    for name, content in value.items.items():
        yield concatenated([Obj((f"{name}: ",)), content]), Channel.HEADER


def send(run: Interpreter, content: Obj, address: Obj, channel: Channel, call: Call) -> None:
    """Only what carries a source is reported; every address it may go to is looked at."""
    origins = origins_in(content)
    if not origins and not address.origins:
        return
    for value in as_values(address):
        run.tracker.send(Value(text_of(content), origins) if origins else EMPTY, value, channel, call.at)


# Connections


def _connected(position: int, *names: str) -> Handler:
    """Something that is made for one host or address, to which its methods send later."""

    def handler(run: Interpreter, call: Call) -> Obj:
        given = call.argument(position, *names)
        return Obj(ref=f"{call.ref}()", items={ADDRESS: _host_of(given)})

    return handler


def _host_of(given: Obj) -> Obj:
    """Of an address, or of a pair of host and port."""
    parts = elements(given)
    return parts[0] if parts else given


def _connect(run: Interpreter, call: Call) -> Obj:
    if call.target is not None and call.target is not UNKNOWN:
        if call.target.items is None:
            call.target.items = {}
        call.target.items[ADDRESS] = _host_of(call.argument(0, "host", "hostname", "address"))
    return UNKNOWN


def _sends(channel: Channel) -> Handler:
    def handler(run: Interpreter, call: Call) -> Obj:
        address = ((call.target.items or {}) if call.target is not None else {}).get(ADDRESS, UNKNOWN)
        if call.method == "sendto":
            address = _host_of(call.arguments[-1]) if call.arguments else UNKNOWN
        for value in call.everything():
            send(run, value, address, channel, call)
        return UNKNOWN

    return handler


def _looks_up(run: Interpreter, call: Call) -> Obj:
    send(run, Obj(), call.argument(0, "host", "qname", "hostname"), Channel.HOST_NAME, call)
    return UNKNOWN


# Mail, uploads, chats


def _mails(run: Interpreter, call: Call) -> Obj:
    """To whom a mail goes matters more than the server it is handed to."""
    message = call.argument(2 if call.method == "sendmail" else 0, "msg")
    items = message.items or {}
    to = [call.argument(1, "to_addrs"), *(items[name] for name in ("To", "Cc", "Bcc") if name in items)]
    known = [receiver for value in to for receiver in elements(value) or [value] if texts_of(receiver)]
    server = ((call.target.items or {}) if call.target is not None else {}).get(ADDRESS, UNKNOWN)
    send(run, message, join(known) if known else server, Channel.POST, call)
    return UNKNOWN


def _uploads(run: Interpreter, call: Call) -> Obj:
    """`s3.upload_file(path, bucket, key)`, `sftp.put(path, remote)`"""
    path = call.argument(0, "Filename", "localpath")
    items = (call.target.items or {}) if call.target is not None else {}
    bucket = call.argument(1, "Bucket", "bucket")
    address = items.get(ADDRESS) or concatenated([Obj(("s3://",)), bucket])
    content = join([read_file(run, path, call.at), Obj(origins=path.origins)])
    send(run, content, address, Channel.PUSH, call)
    return UNKNOWN


def _puts_object(run: Interpreter, call: Call) -> Obj:
    address = concatenated([Obj(("s3://",)), call.argument(0, "Bucket")])
    send(run, call.argument(2, "Body", "Fileobj"), address, Channel.PUSH, call)
    return UNKNOWN


def _posts_to(address: str) -> Handler:
    def handler(run: Interpreter, call: Call) -> Obj:
        own = ((call.target.items or {}) if call.target is not None else {}).get(ADDRESS)
        for value in call.everything():
            send(run, value, own if own is not None and texts_of(own) else Obj((address,)), Channel.POST, call)
        return UNKNOWN

    return handler


def _made_with_content(run: Interpreter, call: Call) -> Obj:
    """`DiscordWebhook(url=…, content=…)`"""
    url = call.argument(0, "url", "webhook_url")
    for value in call.everything()[1:]:
        send(run, value, url, Channel.POST, call)
    return Obj(ref=f"{call.ref}()", items={ADDRESS: url})


SINKS = named(
    (_connected(0, "host"), "client.HTTPSConnection client.HTTPConnection HTTPSConnection HTTPConnection"),
    (_connected(0, "host"), "ftplib.FTP ftplib.FTP_TLS FTP paramiko.Transport fabric.Connection smtplib.SMTP"),
    (_connected(0, "host"), "smtplib.SMTP_SSL SMTP telnetlib.Telnet"),
    (_connected(0, "address", "host"), "socket.create_connection asyncio.open_connection"),
    (_connected(0, "uri", "url"), "websocket.create_connection websockets.connect websocket.WebSocketApp"),
    (_connected(0, "base_url"), "httpx.Client httpx.AsyncClient aiohttp.ClientSession"),
    (_connected(0, "url"), "WebhookClient webhook.WebhookClient Webhook SyncWebhook.from_url Webhook.from_url"),
    (_looks_up, "socket.gethostbyname socket.getaddrinfo socket.gethostbyname_ex"),
    (_looks_up, "resolver.resolve resolver.query Resolver().resolve Resolver().query"),
    (_made_with_content, "DiscordWebhook discord_webhook.DiscordWebhook"),
)
SINK_METHODS = named(
    (_connect, "connect"),
    (_sends(Channel.SOCKET), "send sendall sendto send_bytes send_json send_str send_text"),
    (_sends(Channel.PUSH), "storbinary storlines"),
    (_mails, "sendmail send_message"),
    (_uploads, "upload_file put upload_from_filename"),
    (_puts_object, "put_object upload_fileobj"),
    (_posts_to("https://api.telegram.org/bot"), "send_document send_photo sendMessage sendDocument"),
    (_posts_to("https://github.com"), "create_issue create_comment create_file create_gist"),
    (_posts_to("https://slack.com"), "chat_postMessage files_upload files_upload_v2"),
)
