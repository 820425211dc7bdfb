"""What one command does with code from another machine: brings it, passes it on, saves it, or runs it."""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import PurePosixPath

import msgspec

from shared.scanner.media import MEDIA_SUFFIXES
from shared.scanner.shell_commands import HOLE, Command, CommandPipeline, parse

_SHELLS_NAMES = "sh bash zsh dash ksh ash fish tcsh csh rbash pwsh powershell cmd iex invoke-expression"
SHELLS = frozenset(_SHELLS_NAMES.split())
_INTERPRETERS_NAMES = "python python2 python3 pypy pypy3 node perl ruby php lua osascript deno bun tsx rscript"
INTERPRETERS = frozenset(_INTERPRETERS_NAMES.split())
RUNNERS = SHELLS | INTERPRETERS | {"source", "."}
_DOWNLOADERS_NAMES = "curl wget wget2 aria2c axel iwr irm invoke-webrequest invoke-restmethod start-bitstransfer"
DOWNLOADERS = frozenset(_DOWNLOADERS_NAMES.split())
_TALKERS = frozenset(
    (
        *("nc", "ncat", "netcat", "socat", "telnet", "ssh", "dig", "nslookup", "host", "drill", "whois", "finger"),
        *("ftp", "lftp", "tftp", "sftp", "lynx", "w3m", "links", "elinks", "http", "https", "xh", "lwp-request"),
        *("lwp-download", "gsutil", "rclone", "s3cmd", "mosquitto_sub", "redis-cli", "smbclient"),
    )
)
_COPIERS = frozenset({"scp", "rsync"})
_SUBCOMMANDS = re.compile(
    r"gh (?:gist|api|release)|glab api|aws s3|az storage|gcloud storage|git archive|openssl s_client"
)
_COPIES_OBJECT = re.compile(
    r"(?:aws s3|gsutil(?: -m)?|gcloud storage|rclone|s3cmd|az storage) (?:cp|copy|copyto|get|sync|mv|blob)\b"
)
_WRAPPERS_NAMES = "sudo doas env nohup time nice command exec busybox setsid stdbuf timeout xargs ionice winpty"
_WRAPPERS = frozenset(_WRAPPERS_NAMES.split())
_WITH_VALUE = frozenset({"-I", "-n", "-P", "-L", "-u", "-d", "-s", "-i", "-o", "-e"})
_SOCKET = re.compile(r"/dev/(?:tcp|udp)/")
_CLONES = re.compile(r"(?:git clone|git submodule add|gh repo clone|hg clone|svn (?:co|checkout))\b")
_UNPACKS = re.compile(r"(?:bsd)?tar\b[^|]*x|unzip\b|7z[az]? [xe]\b|expand-archive")
_VIEWED = tuple(f".{suffix}" for suffix in (*MEDIA_SUFFIXES, "pdf"))  # opened in a viewer, and not run
_PACKAGE_TOOLS = {
    **dict.fromkeys(("pip", "pip3"), re.compile(r"\S{1,40} (?:install|download|wheel)\b")),
    **dict.fromkeys(("uv", "poetry", "pdm"), re.compile(r"\S{1,40} (?:add|tool|pip|run|install)\b")),
    **dict.fromkeys(
        ("npm", "pnpm", "yarn", "bun"), re.compile(r"\S{1,40} (?:i|install|add|exec|dlx|x|global|create|init)\b")
    ),
    **dict.fromkeys(("npx", "bunx", "uvx", "pipx", "gem", "easy_install"), re.compile("")),
    "cargo": re.compile(r"cargo install\b"),
    "deno": re.compile(r"deno (?:run|install|compile|cache|test|eval|x)\b"),
    "go": re.compile(r"go run\b"),
    **dict.fromkeys(("ansible-pull", "ansible-galaxy"), re.compile("")),
}
_NAMES_REGISTRY = frozenset(
    (
        "--index-url",
        "--extra-index-url",
        "--default-index",
        "--index",
        "-i",
        "--registry",
        "--source",
        "--find-links",
        "-f",
    )
)
_NAMES_PACKAGE = frozenset(("--from", "--spec", "--package", "-p", "--with"))
_IS_ADDRESS = re.compile(r"(?:git\+)?(?:https?|ssh|git|file)://|git@|(?:github|gitlab|bitbucket|gist):", re.IGNORECASE)
_IS_MODULE = re.compile(r"[\w-]+(?:\.[\w-]+)+/")
_IS_OWNER_AND_NAME = re.compile(r"[A-Za-z0-9][\w-]{0,38}/[\w.-]{1,100}(?:#[\w./-]{1,100})?")
_IS_HOME = re.compile(
    r"(?:^|[=,])(?:~|\$\{?HOME\}?|%USERPROFILE%|\$\{?env:USERPROFILE\}?|/root|/home(?:/[\w.-]+)?|/Users(?:/[\w.-]+)?|/)"
    r"/?(?:\.ssh|\.gnupg|\.config|\.aws|\.kube|\.claude)?/?(?:[:,]|$)"
)
_SYSTEM_CALL = re.compile(r"\bsystem\s*\(|\|\s*getline")
_RUNS_LINES = re.compile(r"/[gp]*e[gp]*\Z|\A\d*e\Z")
_VARIABLE = re.compile(r"\$(?:\{(\w{1,80})[^}]{0,80}\}|(\w{1,80}))")
_OUTPUT = re.compile(r"-[a-zA-Z]*o|--output(?:-document)?|--out|-outfile|--dir", re.IGNORECASE)
_REMOTE_NAME = re.compile(r"-[a-zA-Z]*O[a-zA-Z]*|--remote-name")
_MAKES_EXECUTABLE = re.compile(r".*\+.*x|[0-7]*[1357][0-7]*")


def unwrapped(command: Command) -> tuple[Command, bool]:
    """Without `sudo`, `env A=b` and the like, and whether xargs gives it its words."""
    words, through_xargs = list(command.words), False
    while words and base(words[0]) in _WRAPPERS:
        wrapper = base(words.pop(0))
        through_xargs = through_xargs or wrapper == "xargs"
        while words and (words[0].startswith("-") or "=" in words[0] or words[0][:1].isdigit()):
            option = words.pop(0)
            if wrapper in ("xargs", "sudo", "nice", "stdbuf") and option in _WITH_VALUE and words:
                words.pop(0)
    return msgspec.structs.replace(command, words=words), through_xargs


def is_remote(command: Command) -> bool:
    """Whether it prints or saves what another machine sends."""
    name = base(command.name)
    if name in DOWNLOADERS or name in _TALKERS or name in _COPIERS:
        return True
    return any(map(_SOCKET.search, (*command.reads, *command.words))) or bool(_SUBCOMMANDS.match(shown(command)))


def passes_on(command: Command) -> bool:
    """What a filter prints of a download is still a download, unless it picks a value out of it."""
    return base(command.name) not in ("jq", "grep", "wc", "less", "more", "cut", "yq", "tar")


def runs_input(command: Command) -> bool:
    name, words = base(command.name), command.words[1:]
    operands = [word for word in words if not word.startswith("-") or word == "-"]
    if name in SHELLS:
        return name[:1] == "i" or ("-c" not in words and (operands[:1] in ([], ["-"], ["/dev/stdin"]) or "-s" in words))
    if name in INTERPRETERS:
        operands = operands[1:] if operands[:1] == ["run"] else operands
        flags = "".join(word[1:] for word in words if word.startswith("-"))
        return operands[:1] in ([], ["-"], ["/dev/stdin"]) and not set(flags) & set("cempnV")
    if name in ("source", ".", "crontab"):
        return operands[:1] in (["/dev/stdin"], ["-"])
    if name in ("awk", "gawk", "mawk", "sed"):
        return any(map((_RUNS_LINES if name == "sed" else _SYSTEM_CALL).search, words))
    return name in ("parallel", "at", "batch")


def runs_words(command: Command) -> bool:
    """Whether it runs what a substitution gives it in its words or as a file."""
    name, words = base(command.name), command.words[1:]
    if command.name == HOLE or name in SHELLS or name in ("eval", "source", "."):
        return name not in ("source", ".") or any(word.startswith((HOLE, "$")) for word in (*words[:1], *command.reads))
    if name in INTERPRETERS:
        is_inline = any(word in ("-c", "-e", "-r", "--eval") for word in words)
        return (
            is_inline and any(word.startswith(HOLE) or _VARIABLE.fullmatch(word) for word in words)
        ) or f"{HOLE}<" in words[:2]
    return name in ("make", "vim", "vi", "nvim", "gdb") and f"{HOLE}<" in words


def variables_in(words: list[str]) -> set[str]:
    return {match[1] or match[2] for word in words for match in _VARIABLE.finditer(word)}


def saved_names(command: Command) -> Iterator[str]:
    """Where a download goes: the name after -o or -O, or the last part of its address."""
    words, name = command.words[1:], base(command.name)
    plain = [word for word in words if not word.startswith("-")]
    for at, word in enumerate(words):
        if _OUTPUT.fullmatch(word) or (name.startswith("wget") and _REMOTE_NAME.fullmatch(word)):
            yield from words[at + 1 : at + 2]
        elif word.startswith("--output"):
            yield word.partition("=")[2]
    if name in _COPIERS or _COPIES_OBJECT.match(shown(command)):
        yield from plain[-2:]
    elif name in DOWNLOADERS and (name != "curl" or any(map(_REMOTE_NAME.fullmatch, words))):
        yield from (word.split("?")[0] for word in plain if "/" in word)


def cloned(command: Command) -> tuple[str, str] | None:
    """The address of a repository that it copies, and the folder it copies it to."""
    if not _CLONES.match(shown(command)):
        return None
    words = [
        word
        for word in command.words[2:]
        if not word.startswith("-") and word not in ("add", "clone", "main", "master")
    ]
    at = next((at for at, word in enumerate(words) if "/" in word or ":" in word), None)
    if at is None:
        return None
    return words[at], last_name(words[at + 1]) if at + 1 < len(words) else last_name(words[at]).removesuffix(".git")


def package_addresses(command: Command) -> Iterator[str]:
    """Addresses of code that a package manager or a runtime fetches and runs, instead of a package of its registry."""
    name, words = base(command.name), command.words[1:]
    pattern = _PACKAGE_TOOLS.get(name)
    if pattern is None or not pattern.match(shown(command)):
        return
    if words[:1] in (["create"], ["init"]) and "--" in words[2:]:  # the rest are words for the program itself
        words = words[: words.index("--", 2)]
    given = list(zip(["", *words], words, strict=False))
    if name in ("npx", "bunx", "uvx", "pipx") or {"exec", "dlx", "x"} & set(
        words[:1]
    ):  # the rest are words for the program itself
        given = [pair for pair in given if pair[0] in _NAMES_PACKAGE] + [pair for pair in given if _is_operand(*pair)][
            :1
        ]
    for before, written in given:
        word = written.rpartition("@ ")[2].rpartition("--from=")[2]
        if before in _NAMES_REGISTRY or word.startswith("-"):
            continue
        if _IS_ADDRESS.match(word) or (name == "go" and _IS_MODULE.match(word)):
            yield word
        elif name in ("npx", "npm", "pnpm", "bunx") and _IS_OWNER_AND_NAME.fullmatch(word):
            yield f"github:{word}"


_BUILDS = re.compile(
    r"kubectl (?:apply|create|replace)\b|helm (?:install|upgrade|template)\b"
    r"|nix (?:run|shell|develop|profile install|build)\b"
    r"|nix-env -i|asdf plugin[- ]add\b|mise plugins? install\b|docker(?: buildx)? build\b"
    r"|podman build\b|brew tap \S+ \S+|code --install-extension\b"
)


def built_addresses(command: Command) -> Iterator[str]:
    """Addresses whose content a tool builds, applies or plugs in."""
    if not _BUILDS.match(shown(command)):
        return
    yield from (word for word in command.words[1:] if _IS_ADDRESS.match(word))


def passed_on(command: Command) -> Command | None:
    """The command that another one is given behind `--`: `claude mcp add notes -- npx …`."""
    if "--" not in command.words[1:]:
        return None
    rest = command.words[command.words.index("--", 1) + 1 :]
    return Command(words=rest) if rest and base(rest[0]) in _PACKAGE_TOOLS else None


def _is_operand(before: str, word: str) -> bool:
    return (
        not word.startswith("-")
        and before not in _NAMES_PACKAGE
        and word not in ("run", "install", "inject", "exec", "dlx", "x")
    )


def mounts_home(command: Command) -> bool:
    """A container that gets the user's home folder, or the keys in it."""
    words = command.words[1:]
    if base(command.name) not in ("docker", "podman", "nerdctl") or not {"run", "create"} & set(words[:3]):
        return False
    mounts = [word for before, word in pairwise(words) if before in ("-v", "--volume", "--mount")]
    mounts += [word.partition("=")[2] for word in words if word.startswith(("--volume=", "--mount=", "-v="))]
    return any(map(_IS_HOME.search, mounts))


def unpacks(command: Command) -> bool:
    return _UNPACKS.match(shown(command)) is not None


def started_paths(command: Command) -> Iterator[str]:
    """The files that it runs or makes executable."""
    name, words = base(command.name), command.words[1:]
    operands = [word for word in words if not word.startswith("-")]
    if name in RUNNERS:
        if not {"-c", "-e", "-m"} & set(words):
            yield from [word for word in operands if word != "run"][:1] or command.reads
    elif name == "chmod" and operands and _MAKES_EXECUTABLE.fullmatch(operands[0]):
        yield from operands[1:]
    elif command.name.startswith(("./", "/", "~/", "../", "$", ".\\")):
        yield command.name
    elif name == "make":
        yield next((words[at + 1] for at, word in enumerate(words[:-1]) if word in ("-C", "-f")), ".") + "/Makefile"
    elif name in ("pip", "pip3", "npm", "uv") and "install" in words[:2]:
        yield from (f"{word}/setup" for word in operands if word.startswith((".", "/")))
    elif name in ("start-process", "open", "start", "invoke-item"):
        yield from [word for word in operands[:1] if not word.lower().endswith(_VIEWED)]


def is_plain_download(line: str) -> bool:
    """Whether a line does nothing but download and run: nothing is changed on the way, added or redefined."""
    return all(map(_is_plain, parse(line)))


def _is_plain(pipeline: CommandPipeline) -> bool:
    for stage in pipeline:
        command, _ = unwrapped(stage)
        name = base(command.name)
        is_piped = len(pipeline) > 1 and name not in RUNNERS | DOWNLOADERS | {"gpg", "tee", "tar", "apt-key"}
        is_given_more = (
            name in RUNNERS and len(pipeline) > 1 and (stage.assigned or command.inner or stage.name == "env")
        )
        if is_piped or is_given_more or (not command.words and command.inner) or command.reads:
            return False
        if not all(map(_is_plain, command.inner)):
            return False
    return True


def shown(command: Command) -> str:
    return " ".join((base(command.name), *command.words[1:6])).lower()


@lru_cache(1024)
def base(name: str) -> str:
    return name if name == "." else PurePosixPath(name.lower()).name.removesuffix(".exe")


def last_name(path: str) -> str:
    """The last name of a path or address; of a variable, the variable."""
    if match := _VARIABLE.fullmatch(path):
        return f"${match[1] or match[2]}"
    return path.rstrip("/").rpartition("/")[2].rpartition(":")[2].lower()
