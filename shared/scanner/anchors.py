"""Where a slow pattern of `re` may begin, or the lines it may match: the same pattern for yara-x, or a part of it.

An anchor finds at least every place that its pattern matches: it has no lookarounds, repetitions are bounded (yara-x
stops after 4 KB), and a byte that is not ASCII may be a letter, a digit or a space. Case makes no difference.
"""

_LETTER = r"[\w\x80-\xff]"
_SPACE = r"[\s\x80-\xff]"
_SHELL = r"((ba|z|da|k|a|fi|c|tc)?sh|pwsh|powershell|cmd)"
_ONE_SPACE = r"(^|\s|[\x80-\xff]{1,4})"  # begins a match, so all bytes of the character belong to it

ANCHORS = {
    "starts programs": (
        rf"\b(exec{_LETTER}{{0,48}}|eval|system|popen{_LETTER}{{0,8}}|spawn{_LETTER}{{0,32}}|compile|getattr|shell_exec"
        rf"|passthru|proc_open|shell){_SPACE}{{0,4}}\("
        r"|subprocess|child_process|\bpty\b|\bvm\b|function\(|processbuilder|process\.start|getruntime|exec\.command"
        r"|command::new|command\(|importlib|__import__|ctypes|open3|%x|\bqx\b|\bexeca\b|\bzx\b|shelljs|bun\."
        rf"|shellexecute|\binvoke-|pickle|marshal|\bos\.system|\bimport{_SPACE}[^\n]{{0,320}}"
        r"\b(system|popen|sh|plumbum|invoke|fabric|pexpect)\b|posix_spawn|\bfrom (invoke|fabric|sh|plumbum|pexpect)\b"
        r"|__dict__|__getattribute__|\bvars\(|\bglobals\(|builtins|attrgetter|methodcaller|\btimeit\b|cprofile|\brunpy\b"
        r"|\brun(source|code|ctx|call)\(|deno\.|\bsystem2|\b(system|exec|execute)[ \t]{1,100}([^=:,)\w.|&<>+*\/ \t-]|$)"
        r"|\b(system|exec|execute)[ \t]{100}"
    ),
    "reads itself": (
        r"\b(sed|grep|awk|tail|head|cat|cut|tac|tr|source|bash|sh|perl|python3?)\b[^\n]{0,320}(\$0|\$\{0|bash_source)"
        rf"|<{_SPACE}{{0,4}}[\x22']?(\$0|\$\{{0|\$\{{?bash_source)|__doc__|\bgetsource|\bgetdoc|\bgetcomments"
        rf"|pscommandpath|%~f0|__data__|(open|read{_LETTER}{{0,48}}|path)\({_SPACE}{{0,4}}"
        r"(__file__|__filename|\$0|sys\.argv\[0\])|\.\.\/__file__|tokenize\."
    ),
    "redefines": (
        rf"({_ONE_SPACE}|[;&{{])(function{_SPACE}|(curl|wget|(ba|z|da|k)?sh|sudo|tee|gpg|tar){_SPACE}{{0,40}}\(|(curl|wget"
        rf"|(ba|z|da|k)?sh|sudo|tee|gpg|tar){_SPACE}{{40}})|\balias{_SPACE}|\b(https?|all)_proxy=|\.(curlrc|wgetrc)\b"
        rf"|\/etc\/hosts\b|\bhash{_SPACE}|\bld_preload=|\bpath=[\x22']?(\.|\/tmp|\/var\/tmp|\$\(?pwd"
        r"|\$\{?(skill|script|dir|here)|assets|scripts|bin\b|\x22?\$\(dirname)"
    ),
    "remote word": (
        r"\b((curl|wget2?|aria2c|axel|iwr|irm|n(et)?c(at)?|socat|telnet|ssh|scp|rsync|dig|nslookup|host|drill|whois|finger"
        r"|[lts]?ftp|lynx|w3m|e?links|https?|xh|gsutil|rclone|s3cmd|mosquitto_sub|redis-cli|smbclient|openssl|gh|glab|aws"
        r"|az|gcloud|git|hg|svn|pip3?|pipx|uvx?|poetry|npm|npx|pnpm|yarn|bunx?|cargo|deno|go|gem|docker|podman|nerdctl|kubectl|helm"
        r"|nix|nix-env|asdf|mise|brew|code|claude)"
        r"[ \t]|invoke-|start-bits|lwp-|ansible-)|\/dev\/(tcp|udp)\/"
    ),
    "other source": (
        r"\b(rustup_|nvm_|homebrew_|uv_|bun_|github|remote|deno_|pnpm_|volta_|fnm_|pyenv_|nix_|k3s_|cargo_|go_?proxy"
        rf"|go_?lang_|mirror){_LETTER}{{0,200}}=|\binsteadof\b|\bgit_config_"
    ),
    "runs output": (
        rf"\|{_SPACE}{{0,8}}(sudo{_SPACE}|[\w.\/\x80-\xff]{{0,200}}{_SHELL}\b|[\w.\/\x80-\xff]{{200}}|{_SPACE}{{8}})"
        rf"|\b(eval|source|{_SHELL})\b[^\n]{{0,80}}(\$\(|<\(|`)"
    ),
    "runs file": rf"[\s`|;&($\x22'\/\x80-\xff]({_SHELL}|source|\.|python|node)[\d.\x80-\xff]{{0,200}}[ \t]",
    "runs script": (
        r"(python3?|bash|sh|zsh|node|source|bun|tsx|ruby|perl|pwsh|uv run|chmod \+x)[ \t]"
        rf"|({_ONE_SPACE}|[`;&|(])\.\/"
    ),
}
