"""The programs of a shell script that send: which of their words are content, and which the address."""

import re
from collections.abc import Callable

from shared.scanner.flow.command_options import Options, read_options
from shared.scanner.flow.shell_commands import CommandCall, CommandHandler, named, openssl
from shared.scanner.flow.sinks import Channel
from shared.scanner.flow.values import EMPTY, HOLE, UNKNOWN, Value, constant, joined

_CURL_LONG = frozenset(
    (
        *(
            "--data",
            "--data-raw",
            "--data-binary",
            "--data-urlencode",
            "--data-ascii",
            "--json",
            "--form",
            "--form-string",
        ),
        *(
            "--upload-file",
            "--header",
            "--request",
            "--user",
            "--user-agent",
            "--referer",
            "--cookie",
            "--output",
            "--url",
        ),
        *("--proxy", "--max-time", "--connect-timeout", "--retry", "--retry-delay", "--write-out", "--cookie-jar"),
        *("--cacert", "--cert", "--key", "--config", "--resolve", "--oauth2-bearer", "--url-query", "--mail-from"),
        *("--mail-rcpt", "--range", "--limit-rate", "--interface", "--proto", "--aws-sigv4", "--proxy-user"),
    )
)


def _send(call: CommandCall, content: Value, address: Value, channel: Channel) -> None:
    call.shell.tracker.send(content, address, channel, call.at)


def _curl(call: CommandCall) -> Value:
    options = call.options("AbcCdDeEFhHKmoPQrtTuUwxXyYz", _CURL_LONG)
    addresses = [*options.get("--url"), *options.words] or [UNKNOWN]
    address = joined([addresses[0], *options.get("--url-query")], "?") if options.has("--url-query") else addresses[0]
    bodies = _curl_bodies(call, options)
    in_query = options.has("-G", "--get")
    for body in bodies:
        _send(call, body, address, Channel.ADDRESS if in_query else Channel.BODY)
    for header in _curl_headers(call, options):
        _send(call, header, address, Channel.HEADER)
    for one in [address, *addresses[1:]]:
        _send(call, EMPTY, one, Channel.ADDRESS)
    return UNKNOWN


def _curl_bodies(call: CommandCall, options: Options) -> list[Value]:
    data = options.get("-d", "--data", "--data-binary", "--data-ascii", "--json")
    encoded = options.get("--data-urlencode")
    forms = options.get("-F", "--form")
    uploads = options.get("-T", "--upload-file")
    return [
        *(_file_or_text(call, value, "@") for value in data),
        *options.get("--data-raw", "--form-string"),
        *(_named_file_or_text(call, value, ("@",)) for value in encoded),
        *(_named_file_or_text(call, value, ("=@", "=<")) for value in forms),
        *(_content_of(call, value) for value in uploads),
    ]


def _curl_headers(call: CommandCall, options: Options) -> list[Value]:
    return [
        *(_file_or_text(call, value, "@") for value in options.get("-H", "--header")),
        *(joined([constant("Authorization: "), value]) for value in options.get("-u", "--user", "--oauth2-bearer")),
        *(joined([constant("User-Agent: "), value]) for value in options.get("-A", "--user-agent")),
        *(joined([constant("Referer: "), value]) for value in options.get("-e", "--referer")),
        *(joined([constant("Cookie: "), value]) for value in options.get("-b", "--cookie")),
    ]


def _file_or_text(call: CommandCall, value: Value, mark: str) -> Value:
    return _content_of(call, value.with_text(value.text[1:])) if value.text.startswith(mark) else value


def _named_file_or_text(call: CommandCall, value: Value, marks: tuple[str, ...]) -> Value:
    """`file=@path;type=…`"""
    for mark in marks:
        name, found, path = value.text.partition(mark)
        if found and "=" not in name:
            return _content_of(call, value.with_text(path.partition(";")[0].strip("\"'")))
    return value


def _content_of(call: CommandCall, path: Value) -> Value:
    """A file that is sent. The path itself is not, but what it names may be a file that was written under it."""
    if path.text in ("-", ".", "/dev/stdin"):
        return call.stdin
    return call.shell.read(path)


_WGET_LONG = frozenset(
    (
        *("--post-data", "--post-file", "--body-data", "--body-file", "--header", "--method", "--output-document"),
        *("--user", "--password", "--timeout", "--tries", "--directory-prefix", "--user-agent", "--referer"),
    )
)


def _wget(call: CommandCall) -> Value:
    options = call.options("OoPTtUQ", _WGET_LONG)
    for address in options.words or [UNKNOWN]:
        for body in options.get("--post-data", "--body-data"):
            _send(call, body, address, Channel.BODY)
        for path in options.get("--post-file", "--body-file"):
            _send(call, _content_of(call, path), address, Channel.BODY)
        for header in options.get("--header"):
            _send(call, header, address, Channel.HEADER)
        for agent in options.get("--user-agent", "-U", "--referer"):
            _send(call, joined([constant("User-Agent: "), agent]), address, Channel.HEADER)
        _send(call, EMPTY, address, Channel.ADDRESS)
    return UNKNOWN


def _httpie(call: CommandCall) -> Value:
    """`http POST host/path field=value file@path Header:value`"""
    words = call.options("abo", ("--auth", "--raw", "--output", "--body")).words
    words = words[1:] if words and words[0].text.isupper() else words
    if not words:
        return UNKNOWN
    address, *items = words
    _send(call, call.stdin, address, Channel.BODY)
    for item in items:
        is_header = ":" in item.text.partition("=")[0] and ":=" not in item.text
        is_file = "@" in item.text.partition("=")[0]
        content = _content_of(call, item.with_text(item.text.rpartition("@")[2])) if is_file else item
        _send(call, content, address, Channel.HEADER if is_header else Channel.BODY)
    return UNKNOWN


def _netcat(call: CommandCall) -> Value:
    words = call.options("pswqioegGX").words
    if words:
        _send(call, call.stdin, words[0], Channel.SOCKET)
    return UNKNOWN


def _socat(call: CommandCall) -> Value:
    for word in call.options().words:
        kind, _, rest = word.text.partition(":")
        if kind.lower().startswith(("tcp", "udp", "openssl", "ssl")):
            _send(call, call.stdin, word.with_text(rest), Channel.SOCKET)
    return UNKNOWN


def _openssl(call: CommandCall) -> Value:
    if not call.arguments or call.arguments[0].text != "s_client":
        return openssl(call)
    options = read_options(call.arguments[1:], "", frozenset({"-connect", "-servername"}))
    for address in options.get("-connect"):
        _send(call, call.stdin, address, Channel.SOCKET)
    return UNKNOWN


def _resolve(call: CommandCall) -> Value:
    """A name that is looked up reaches the name server of its domain."""
    for argument in call.arguments:
        if argument.origins and not argument.text.startswith(("@", "-", "+")):
            _send(call, EMPTY, argument, Channel.HOST_NAME)
    return UNKNOWN


def _is_remote(word: Value) -> bool:
    before, found, _ = word.text.partition(":")
    return bool(found) and "/" not in before and len(before) > 1


def _remote_copy(call: CommandCall) -> Value:
    words = call.options("ePpiFJoloTfB", ("--rsh", "--exclude", "--include", "--files-from")).words
    if len(words) > 1 and _is_remote(words[-1]):
        content = joined([call.shell.read(word) for word in words[:-1]], "\n")
        _send(call, content, _host_part(words[-1]), Channel.PUSH)
    return UNKNOWN


def _host_part(word: Value) -> Value:
    if "://" in word.text:
        return word
    return word.with_text(word.text.partition(":")[0].rpartition("@")[2])


def _ssh(call: CommandCall) -> Value:
    words = call.options("bcDEeFIiJLlmOopQRSWw").words
    if words:
        _send(call, joined([call.stdin, *words[1:]]), _host_part(words[0]), Channel.PUSH)
    return UNKNOWN


def _object_store(call: CommandCall) -> Value:
    """`aws s3 cp FILE s3://bucket`, `gsutil cp`, `rclone copy FILE remote:path`, `az storage blob upload -f FILE`."""
    if (secret := call.source()) is not None:
        return secret
    options = call.options("fn", ("--file", "--body", "--bucket", "--key", "--endpoint-url", "--profile", "--region"))
    words = [word for word in options.words if word.text not in _STORE_WORDS]
    files = [*options.get("-f", "--file", "--body"), *(word for word in words if not _is_remote(word))]
    targets = [word for word in words if _is_remote(word)] or (
        [UNKNOWN] if options.has("--body", "-f", "--file") else []
    )
    content = joined([call.stdin if path.text == "-" else call.shell.read(path) for path in files], "\n")
    addresses = [*options.get("--endpoint-url"), *map(_bucket, targets)]
    for address in addresses[:1]:
        _send(call, content, address, Channel.PUSH)
    return UNKNOWN


_STORE_WORDS = frozenset(
    (
        *("s3", "s3api", "cp", "mv", "sync", "put", "put-object", "copy", "move", "copyto"),
        *("storage", "blob", "upload", "upload-batch"),
    )
)
_STORES = {"s3": "s3.amazonaws.com", "gs": "storage.googleapis.com"}


def _bucket(target: Value) -> Value:
    scheme, _, rest = target.text.partition("://")
    if scheme in _STORES:
        return target.with_text(f"https://{rest.partition('/')[0]}.{_STORES[scheme]}/")
    return UNKNOWN  # a remote whose address is in a configuration file


def _git(call: CommandCall) -> Value:
    words = call.options("Cc", ("--git-dir", "--work-tree")).words
    command = words[0].text if words else ""
    handler = _GIT.get(command)
    if handler is not None:
        return handler(call, words[1:])
    return call.source() or UNKNOWN


def _git_add(call: CommandCall, words: list[Value]) -> Value:
    paths = words or [constant(call.shell.folder or ".")]  # -A, or everything below
    paths = [constant(call.shell.folder) if word.text == "." and call.shell.folder else word for word in paths]
    call.shell.staged = call.shell.staged.plus([call.shell.read(path) for path in paths])
    return EMPTY


def _git_commit(call: CommandCall, words: list[Value]) -> Value:
    messages = call.options("mFC", ("--message", "--file", "--author")).get("-m", "--message")
    call.shell.staged = call.shell.staged.plus(messages)
    return EMPTY


def _git_remote(call: CommandCall, words: list[Value]) -> Value:
    if len(words) > 2 and words[0].text in ("add", "set-url"):
        call.shell.remotes[words[-2].text] = words[-1]
    return EMPTY


def _git_push(call: CommandCall, words: list[Value]) -> Value:
    remote = next((word for word in words if not word.text.startswith("-")), constant("origin"))
    address = call.shell.remotes.get(remote.text, remote if ":" in remote.text or "/" in remote.text else UNKNOWN)
    _send(call, call.shell.staged, address, Channel.PUSH)
    names = [word for word in words if word.origins and word is not remote]  # a branch that is named after a secret
    _send(call, joined(names), address, Channel.PUSH)
    return EMPTY


_GIT: dict[str, Callable[[CommandCall, list[Value]], Value]] = {
    "add": _git_add,
    "commit": _git_commit,
    "remote": _git_remote,
    "push": _git_push,
}


def _forge_tool(call: CommandCall) -> Value:
    """`gh gist create FILE`, `gh issue create --body TEXT`: others read it."""
    if (secret := call.source()) is not None:
        return secret
    options = call.options(
        "btFfRlamHn", ("--body", "--body-file", "--title", "--field", "--raw-field", "--repo", "--notes")
    )
    words = [word.text for word in options.words[:2]]
    texts = options.get("-b", "--body", "-t", "--title", "-f", "--field", "--raw-field", "-n", "--notes", "-F")
    contents = [_named_file_or_text(call, text, ("=@",)) for text in texts]
    contents += [_content_of(call, path) for path in options.get("--body-file", "-F")]
    if words[:1] == ["gist"]:
        contents += [call.shell.read(path) for path in options.words[2:]] + [call.stdin]
    elif options.has("--input") or any(path.text == "-" for path in options.get("--body-file", "-F")):
        contents.append(call.stdin)
    if words[:1] != ["secret"] and words[:1] != ["auth"]:
        _send(
            call,
            joined(contents, "\n"),
            constant("gist.github.com" if words[:1] == ["gist"] else "github.com"),
            Channel.POST,
        )
    return UNKNOWN


_RECIPIENT = re.compile(r"^(?:to|cc|bcc):[^\n]{0,200}?([\w.+-]{1,64}@[\w.-]{1,200})", re.IGNORECASE | re.MULTILINE)


def _mail(call: CommandCall) -> Value:
    options = call.options("sacrbSAqe", ("--attach", "--subject", "--to", "--server", "--body", "--header"))
    attached = [_content_of(call, path) for path in options.get("-a", "-A", "--attach")]
    content = joined([call.stdin, *attached, *options.get("-s", "--subject", "--body")], "\n")
    named = [call.stdin.with_text(text) for text in _RECIPIENT.findall(call.stdin.text[:4000])[:10]]
    recipients = [*options.get("--to"), *(word for word in options.words if "@" in word.text), *named] or [UNKNOWN]
    for recipient in recipients:
        _send(call, content, constant(recipient.text.rpartition("@")[2] or HOLE), Channel.POST)
    return UNKNOWN


def _transfer(call: CommandCall) -> Value:
    """ftp and its relatives: the commands come from the standard input or an option, the host is a word."""
    options = call.options("uepPn", ("--user",))
    for address in options.words[:1]:
        commands = joined([call.stdin, *options.get("-e")], "\n")
        files = [call.shell.read(constant(word)) for word in commands.text.split()[:60] if "/" in word or "." in word]
        _send(call, joined([commands, *files]), _host_part(address), Channel.PUSH)
    return UNKNOWN


NETWORK: dict[str, CommandHandler] = {
    **named(_curl, "curl"),
    **named(_wget, "wget wget2"),
    **named(_httpie, "http https xh"),
    **named(_netcat, "nc ncat netcat telnet nc.traditional"),
    **named(_socat, "socat"),
    **named(_openssl, "openssl"),
    **named(_resolve, "dig nslookup host drill getent ping ping6 resolvectl kdig traceroute whois"),
    **named(_remote_copy, "scp rsync"),
    **named(_ssh, "ssh sshpass"),
    **named(_object_store, "aws gsutil rclone s3cmd mc az gcloud s5cmd"),
    **named(_git, "git"),
    **named(_forge_tool, "gh glab"),
    **named(_mail, "mail mailx sendmail mutt msmtp swaks s-nail send_email send-email sendemail send_mail send-mail"),
    **named(_transfer, "ftp lftp tftp sftp ncftpput"),
}
