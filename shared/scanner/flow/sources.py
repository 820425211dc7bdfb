"""Where a value that must not leave comes from: by the name of a variable, the path of a file, the words of a command.

Paths are compared as front ends fold them: every way to write the home folder is `~`, separators are `/`.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from shared.scanner.flow.values import HOLE, Source, SourceKind
from shared.scanner.pack import load_pack

_SECRET_WORD = re.compile(
    r"(?:^|_)(?:api_?keys?|keys?|tokens?|secrets?|passw(?:or)?ds?|passphrase|pass|pwd|credentials?|creds?|pat|auth"
    r"|cookies?|mnemonic|seed_phrase|dsn|database_url|kubeconfig|connection_string|private_?key|apikey)(?:_?(?:id|\d{1,3}|b64"
    r"|base64|value|prod|live|dev))?$"
)
_NOT_SECRET = re.compile(
    r"(?:^|_)(?:public|primary|cache|sort|partition|foreign|hot|max|min|num|n|count|total|author|oldpwd|key_?file"
    r"|idempotency|sub|object|s3|bucket|lock|row|map|dict|json|env|var|index|host|arrow|model)(?:_|$)|^(?:old)?pwd$|^key$"
)
_SIGNS = frozenset({"jwt", "session", "cookie", "signing", "encryption", "master", "hmac", "private"})
# The front end names of the whole environment.
ENVIRONMENT = Source(SourceKind.ENVIRONMENT, "all environment variables")
PIPELINE_SECRETS = "ALL_SECRETS_OF_THE_PIPELINE"  # the variable that stands for `toJSON(secrets)`


def variable_source(name: str) -> Source | None:
    """An environment variable that is named like a secret."""
    if len(name) > 80:
        return None
    if name == PIPELINE_SECRETS:
        return Source(SourceKind.ENVIRONMENT, "all secrets of the pipeline")
    lowered = name.lower()
    if not _SECRET_WORD.search(lowered) or _NOT_SECRET.search(lowered):
        return None
    return Source(SourceKind.SECRET, name, service_named(name))


def service_named(name: str) -> str:
    """The service that a variable is named after: `github` for GITHUB_TOKEN."""
    services = load_pack().hosts.services
    words = re.findall(r"[a-z0-9]+", name.lower())[:12]
    return next((word for word in words if word in services), _of_the_machine(words))


def _of_the_machine(words: Sequence[str]) -> str:
    """Secrets that no request carries: databases are not reached over the web, and what signs or encrypts stays."""
    if "database" in words:
        return "database"
    return "signing" if words[-1:] in (["secret"], ["key"]) and _SIGNS.intersection(words) else ""


_BEGIN = r"(?:^|(?<=[\s\"'=:@,(\[{/]))"
_END = r"(?![\w-]|/(?=\w)|\.(?:example|sample|template|dist|md|pub)\b)"
_REST = r"[\w.*/-]{0,100}"
# kind and service, then patterns of paths (lower case)
_PATHS: tuple[tuple[SourceKind, str, tuple[str, ...]], ...] = (
    (
        SourceKind.CREDENTIAL,
        "ssh",
        (
            r"\.ssh(?:/(?!known_hosts|authorized_keys|config\b|[\w*-]{0,40}\.pub\b)[\w.*?{},-]{0,60}|/?(?=[\s\"')]|$))",
            r"id_(?:rsa|dsa|ecdsa|ed25519|\*)",
        ),
    ),
    (SourceKind.CREDENTIAL, "aws", (rf"\.aws/(?:credentials|config|sso|cli|\*){_REST}", r"\.aws/?(?=[\s\"')]|$)")),
    (SourceKind.CREDENTIAL, "azure", (rf"\.azure(?:/{_REST})?",)),
    (SourceKind.CREDENTIAL, "google", (rf"gcloud/{_REST}", "application_default_credentials", r"\.gemini/oauth_creds")),
    (SourceKind.CREDENTIAL, "kubernetes", (r"\.kube(?:/(?:config|\*))?", rf"var/run/secrets/kubernetes\.io{_REST}")),
    (SourceKind.CREDENTIAL, "docker", (r"\.docker/(?:config\.json|\*)",)),
    (SourceKind.CREDENTIAL, "github", (r"\.config/gh(?:/(?:hosts\.yml|\*))?", r"\.git-credentials")),
    (SourceKind.CREDENTIAL, "npm", (r"\.npmrc",)),
    (SourceKind.CREDENTIAL, "pypi", (r"\.pypirc",)),
    (SourceKind.CREDENTIAL, "terraform", (rf"\.terraform\.d/credentials{_REST}", r"terraform\.tfstate")),
    (SourceKind.CREDENTIAL, "anthropic", (r"\.claude(?:/\.credentials)?\.json", r"\.claude/\.env")),
    (SourceKind.CREDENTIAL, "openai", (r"\.codex/auth\.json",)),
    (
        SourceKind.CREDENTIAL,
        "",
        (
            rf"\.gnupg(?:/{_REST})?",
            r"[._]netrc|\.vault-token|\.pgpass|\.my\.cnf|\.s3cfg|\.boto|rclone\.conf|\.oci/config",
            rf"\.password-store|login\.keychain(?:-db)?|library/keychains?{_REST}",
            rf"etc/(?:shadow|sudoers|ssl/private){_REST}",
            r"(?:[\w*-]{0,60}\.)(?:pem|p12|pfx|ppk|jks|keystore|kdbx)",
            # browsers
            r"login data(?: for account)?|(?:default|network|profile \d)/cookies|cookies\.(?:sqlite|binarycookies)",
            r"logins\.json|key[34]\.db|(?:user data|default)/(?:local state|web data)",
            # wallets
            rf"wallet\.dat|\.ethereum/keystore|\.electrum/wallets|exodus\.wallet|\.config/solana{_REST}",
            r"\.bitcoin|\.monero|metamask|nkbihfbeogaeaoehlefnkodbefgpgknn|keystore/utc--[\w-]{0,80}",
            # agents
            r"\.(?:openclaw|clawdbot|moltbot|clawd)/(?:\.env|credentials|auth|(?:openclaw|clawdbot|moltbot)\.json)"
            + _REST,
            r"auth-profiles\.json|claude_desktop_config\.json|\.cursor/mcp\.json",
            r"\.env(?:\.(?:local|production|prod|development|dev|staging|test|\*)|\*)?",
        ),
    ),
    (SourceKind.ENVIRONMENT, "", (r"proc/(?:self|\*|\d{1,9}|\$\$)/environ",)),
    (
        SourceKind.HISTORY,
        "",
        (r"\.(?:bash|zsh|sh|python|psql|mysql|node_repl|fish)_history|fish_history|consolehost_history\.txt",),
    ),
    (
        SourceKind.AGENT,
        "anthropic",
        (rf"\.claude(?:/(?:projects|history|settings|sessions|todos|transcripts|memory){_REST}|/?(?=[\s\"')]|$))",),
    ),
    (
        SourceKind.AGENT,
        "",
        (r"(?:soul|memory|identity|heartbeat)\.md", rf"\.(?:openclaw|clawdbot|moltbot|clawd|codex)(?:/{_REST})?"),
    ),
    (SourceKind.FACTS, "", (r"etc/(?:passwd|hosts|group|resolv\.conf|os-release|machine-id)",)),
)
_PATH = re.compile(
    "|".join(f"{_BEGIN}(?P<p{n}>{'|'.join(patterns)}){_END}" for n, (_, _, patterns) in enumerate(_PATHS))
)
# A cheap look before the pattern: a path that holds none of these matches none of it.
_PATH_WORDS = (
    *(".ssh", "id_", ".gnupg", ".aws", ".azure", "gcloud", "application_default", ".kube", "kubernetes", ".docker/"),
    *(".config/gh", ".git-cred", ".npmrc", ".pypirc", "netrc", ".vault", ".pgpass", ".my.cnf", ".s3cfg", ".boto"),
    *("rclone", ".oci", "terraform", ".password-store", ".kdbx", "keychain", "/etc/", ".pem", ".p12", ".pfx", ".ppk"),
    *(".jks", "keystore", "login", "cookies", "key3", "key4", "chrom", "brave", "edge", "firefox", "wallet", "solana"),
    *(".bitcoin", ".monero", "metamask", "nkbih", ".claude", ".openclaw", ".clawd", ".moltbot", ".codex", ".gemini"),
    *("auth-profiles", "claude_desktop", ".cursor", ".env", "environ", "_history", "soul.md", "memory.md"),
    *("identity.md", "heartbeat.md"),
)


# Names that a pattern for file names may stand for: `.s?h`, `.[a]ws`, `cred*`.
_GLOBBED = (".ssh", ".aws", ".gnupg", ".azure", ".kube", ".docker", ".netrc", ".npmrc", ".env", "credentials", "id_rsa")
_GLOB = re.compile(r"[^/\s\"'=@,]{0,40}[?\[][^/\s\"'=@,]{0,40}")
MAX_GLOBBED = 400  # characters of a path


def _without_globs(path: str) -> str:
    """With the names of credential files and folders where a pattern fits one of them; a star is left as it is."""
    if ("?" not in path and "[" not in path) or len(path) > MAX_GLOBBED:
        return path
    return _GLOB.sub(lambda found: next((name for name in _GLOBBED if fnmatchcase(name, found[0])), found[0]), path)


# Every file of the workspace or of the home folder: as a pattern, or as the folder itself.
_EVERYTHING = re.compile(r"(?:(?:\.|~|\$pwd)/)?\*\*(?:/.*)?|(?:\.|~|\$pwd)?/?\*?")


def path_source(path: str) -> Source | None:
    """A file or folder that holds what must not leave; `path` may list several, or have unknown parts."""
    if path and _EVERYTHING.fullmatch(path[:200].lower()):
        return Source(
            SourceKind.WORKSPACE, "all files of the home folder" if path[0] == "~" else "all files of the workspace"
        )
    lowered = _without_globs(path.lower().replace("\\", "/").replace(HOLE, "*"))
    if not any(word in lowered for word in _PATH_WORDS):
        return None
    match = _PATH.search(lowered)
    if match is None or match.lastgroup is None:
        return None
    kind, service, _ = _PATHS[int(match.lastgroup[1:])]
    start, end = match.span(match.lastgroup)
    begin = max(lowered.rfind(mark, 0, start) for mark in " \"'=@,") + 1
    return Source(kind, path[begin:end], service)


_PRINTS_SECRET = (
    ("gh auth token", "github", r"gh auth (?:token|status .*-t)"),
    ("gcloud auth print-access-token", "google", r"gcloud (?:auth|config) .*print-(?:access|identity)-token"),
    ("az account get-access-token", "azure", r"az account get-access-token"),
    ("aws credentials", "aws", r"aws (?:configure (?:get|export-credentials)|sts get-session-token)"),
    ("aws secrets", "aws", r"aws (?:secretsmanager get-secret-value|ssm get-parameter)"),
    ("the keychain", "", r"security (?:find-(?:generic|internet)-password|dump-keychain|export)"),
    ("the keyring", "", r"secret-tool (?:lookup|search)|kwallet-query|keyring get"),
    (
        "the password manager",
        "",
        r"pass (?:show|ls)|op (?:read|item get)|bw (?:get|list)|vault (?:kv get|read)|lpass show",
    ),
    ("gpg secret keys", "", r"gpg .*--export-secret"),
    ("kubectl secrets", "kubernetes", r"kubectl (?:get secrets?|config view)"),
    ("git credentials", "github", r"git credential(?:-\w+)? (?:fill|get)|git config .*credential"),
    ("npm token", "npm", r"npm (?:config get .*authtoken|token)"),
    ("ssh keys", "ssh", r"ssh-add -l"),
    ("the clipboard", "", r"pbpaste|xclip .*-o|xsel .*-o|wl-paste|get-clipboard"),
    ("Wi-Fi passwords", "", r"netsh wlan .*key=clear"),
    ("the credential manager", "", r"cmdkey /list|vaultcmd"),
)
_COMMANDS = (
    (
        SourceKind.ENVIRONMENT,
        "all environment variables",
        r"(?:env|printenv)(?: -0| --null)?$|export(?: -p)?$|set$|declare -[xp]+$|compgen -[ev]"
        r"|(?:get-childitem|gci|dir|ls) env:",
    ),
    (SourceKind.HISTORY, "the shell's history", r"history\b|fc -l|get-history"),
    (
        SourceKind.FACTS,
        "facts about the machine",
        r"hostname\b|whoami\b|id(?: -[a-z]+)?$|uname -\w{0,4}[an]|ifconfig|ip (?:a|addr|route)\b|ps (?:aux|-ef)"
        r"|systeminfo|ipconfig|sw_vers|system_profiler|lsb_release|netstat|last\b|w$|who$"
        r"|crontab -l|dpkg -l|get-computerinfo",
    ),
    (
        SourceKind.FILES,
        "files of the workspace",
        r"git (?:diff|log|show|config|remote|bundle|archive|ls-files)\b|ls\b|find\b|tree\b|pwd$|grep -r",
    ),
)
_PRINTS = re.compile("|".join(f"(?P<c{n}>{pattern})" for n, (_, _, pattern) in enumerate(_PRINTS_SECRET)))
_RUNS = re.compile("|".join(f"(?P<c{n}>{pattern})" for n, (_, _, pattern) in enumerate(_COMMANDS)))


def command_source(words: Sequence[str]) -> Source | None:
    """What a command prints, by its words (without redirections): `gh auth token`, `env`, `security find-…`."""
    found = _printed_by(words)
    without_options = [word for word in words if not word.startswith("-")]
    return found or (_printed_by(without_options) if len(without_options) < len(words) else None)


def _printed_by(words: Sequence[str]) -> Source | None:
    line = " ".join(words[:12])[:300].lower()
    if (match := _PRINTS.match(line)) and match.lastgroup:
        name, service, _ = _PRINTS_SECRET[int(match.lastgroup[1:])]
        return Source(SourceKind.CREDENTIAL, name, service)
    if (match := _RUNS.match(line)) and match.lastgroup:
        kind, what, _ = _COMMANDS[int(match.lastgroup[1:])]
        return Source(kind, what)
    return printed_variable(words)


def printed_variable(words: Sequence[str]) -> Source | None:
    """`printenv GITHUB_TOKEN`"""
    return variable_source(words[1]) if len(words) == 2 and words[0] == "printenv" else None
