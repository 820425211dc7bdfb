"""Words of programs that may send something away, or read what must not leave: flow/anchors.py looks for them."""

# An address may be put together from pieces, and a word may be in a string that is decoded and run.
HIDING = (
    *("b64decode", " exec(", "\nexec(", "\teval(", " eval(", "\neval(", "(eval(", 'eval "', "eval $", "__import__"),
    *("fromhex", "atob(", ", 'base64'", ', "base64"', ",'base64'", ',"base64"', "fromcharcode", "base64 -d"),
    *("base64 --d", "frombase64string", "xxd -r", "invoke-expression", "| iex", "iex ("),
)
# A sink of these has no address with a scheme.
NAMELESS = (
    *("/dev/tcp", "/dev/udp", " netcat ", " ncat ", " nc ", " socat ", "s_client", " scp ", " rsync ", " sftp "),
    *(" ftp ", " lftp ", " dig ", " nslookup ", " drill ", "dns.", " dns ", "node:dns", "createconnection"),
    *("gethostbyname", "getaddrinfo", "resolve-dnsname", "socket.socket", "import socket", "net.socket"),
    *("net.connect", "create_connection", "tcpclient", "smtp", "sendmail", " mail -", " mailx ", " mutt "),
    *("git push", "push_to", "gh gist", "gh issue", "gh pr", "aws s3", "gsutil", "rclone", "s3cmd", "boto"),
    *("paramiko", "ftplib", "http.client", "node:http", "storage blob upload", " ssh ", " telnet "),
)
NAMELESS_MODULES = ("'https'", '"https"', "'http'", '"http"')
SINK_WORDS = (
    *("curl", "wget", "fetch ", "requests", "httpx", "aiohttp", "urllib", "urlopen", ".post ", ".put ", ".request "),
    *("axios", "xmlhttprequest", "sendbeacon", " got ", "superagent", "websocket", "undici", "http post", "http put"),
    *("http -", " xh ", "invoke-webrequest", "invoke-restmethod", " iwr ", " irm ", "webclient", "httpclient"),
    *("bitstransfer", "send-mailmessage", " host $", " ping $", " ping -"),
    *NAMELESS,
)
# What must not be sent at all, whichever host receives it.
VALUABLE = (
    *(".ssh", "id_rsa", "id_ed", ".aws", ".azure", ".kube", ".docker/", ".gnupg", ".npmrc", ".pypirc", "netrc"),
    *("/.env", " .env ", "@.env", " .env.", ".git-credentials", "git credential", ".config/gh", "keychain"),
    *("keyring", "_history", "historysavepath", "get-history", " history ", "wallet", "login data", "cookies.sqlite"),
    *("/cookies", "logins.json", "local state", "/etc/shadow", "/proc/self", "/environ", " printenv ", "export -p"),
    *("declare -p", "declare -x", "auth token", "-generic-password", "-internet-password", "secret-tool"),
    *("get-access-token", "print-access-token", "get-secret", "auth.json", ".credentials", "configure get"),
    *("auth-profiles", "mcp.json", "desktop_config", ".kdbx", "getenvironmentvariables", "oauth_creds"),
    *(".password-store", ".pem", "gcloud", ".claude.json", "op read", "bw get", "kubectl get secret"),
    *("kubectl config view", "pbpaste", "clipboard", ".tfstate", "env.items", "ron.items"),
    # A name that the shell completes, or puts together.
    *("id_*", "/.?", "/.[", "/.s?", "/.ss?", "/.a?", "/.aw?", "$home/$", "${home}/$", "~/$"),
)
SOURCE_WORDS = (
    *("child_process", "subprocess", "environ", "getenv", "process.env", "$env:", "${env:", "import.meta.env"),
    *("dotenv", ".claude", ".openclaw", ".clawd", ".moltbot", ".codex", ".cursor", ".gemini", "memory.md", "soul.md"),
    *("identity.md", "whoami", "hostname", "uname -", "getuser", "platform.", "userinfo", "ifconfig", "/etc/"),
    *(
        "git diff",
        "git log",
        "git config",
        "git bundle",
        "os.walk",
        "rglob",
        "readdir",
        "glob.",
        "globsync",
        "globby",
        " id -",
        " id ",
    ),
    *("path.home ", "expanduser", "homedir", " tar ", " zip -", " find . ", "make_archive"),
    *VALUABLE,
)
# The same as they are written: the marks around them say what they do.
DUMPS = (
    *("env |", "env|", "(env)", "env >", "env>", "\nenv\n", "`env`", "set |", "(set)", "set >", "history |"),
    *(
        "tojson(secrets",
        "(history)",
        "history >",
        "\nhistory\n",
        "item env:",
        "gci env:",
        "dir env:",
        "ls env:",
        "env\nenv",
    ),
    *("env --null", "env -0"),
)
SECRET_NAMES = (
    *("TOKEN", "SECRET", "_KEY", "APIKEY", "PASSW", "_PAT", "_AUTH", "_CREDS", "DATABASE_URL", "MNEMONIC", "DSN"),
    "CREDENTIAL",
)
WORD_LISTS = {
    "sinks": SINK_WORDS,
    "sinks as written": HIDING + NAMELESS_MODULES,
    "sources": SOURCE_WORDS,
    "sources as written": HIDING + DUMPS,
    "secret names": SECRET_NAMES,
    "valuable": VALUABLE,
    "dumps": DUMPS,
    "nameless sinks": NAMELESS,
}
