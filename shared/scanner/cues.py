"""Words that show that a page describes something bad instead of doing it."""

import re

from shared.scanner.anchored import AnchoredPattern

MARKS = "[❌🚫⛔✗✘]"  # not ⚠, which marks what matters, malicious demands included
BAD = "bad|wrong|incorrect|unsafe|insecure|dangerous|harmful|risky|suspicious|malicious|malware|vulnerab\\w+"
ATTACK = "attacks?|attackers?|adversar\\w+|exploit\\w*|injections?|payloads?|indicators?|red flags?|anti-?patterns?"
FORBID = "never|avoid|don'?t|do not|must not|instead of"
SEEK = "(?:look|search|scan|grep|watch)(?:s|es|ing|ning)? for|detect\\w*|flag(?:s|ged|ging)?"


def _any_of(*words: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(words)})\b|{MARKS}", re.IGNORECASE)


# Before a match, on the same line: the text warns about it, forbids it or searches for it.
WARNING = _any_of(
    BAD,
    ATTACK,
    FORBID,
    SEEK,
    "should not|shouldn'?t|cannot|can'?t|won'?t|not (?:to|run|use|execute)|refuse|reject(?:s|ed)?|block(?:s|ed|ing)?",
    "den(?:y|ies|ied)|check(?:s|ing)? (?:for|if|whether|that no)|identif\\w+|report(?:s|ed)? (?:any|if)|examples? of",
    "rather than|containing|mentions?|tries to|trying to|attempts?|warn\\w*|prevent\\w*|forbid\\w*|prohibit\\w*",
    "phrases? like|patterns? like",
)
# What sounds like a warning and is an order: "never skip this", "avoid problems: run", "a dangerous-looking step".
NO_WARNING = re.compile(
    r"\b(?:never|don'?t|do not|must not|cannot|can'?t|avoid) (?:skip\w*|forget\w*|omit\w*|miss\w*|neglect\w*|hesitat\w*"
    r"|problems?|errors?|delays?|trouble)\b|\b\w{3,12}-looking\b",
    re.IGNORECASE,
)
# Above a block of code: strong enough to apply to the whole block.
BAD_EXAMPLE = _any_of(
    BAD,
    "attacks?|attackers?|adversar\\w+|exploit(?:s|ation)?|injections?|indicators?|red flags?|anti-?patterns?",
    "(?:never|don'?t|do not|must not) (?:run|do|use|write|execute|copy|paste|install|trust|follow|say|put)",
    "avoid|instead of",
    "(?:look|search|scan|grep|watch)(?:s|es|ing|ning)? for|flag(?:s|ged)?|poc|proof of concept",
)
# A heading under which bad things are listed.
TEACHING_HEADING = _any_of(
    BAD,
    "attack(?:er)?s?|adversar\\w+|exploits?|injections?|payloads?|indicators?|red flags?|anti-?patterns?",
    "never|avoid|don'?t|do not|must not|what to (?:look for|flag|check|report)|threats?|iocs?|warning signs",
    "forbidden|prohibited|mistakes|pitfalls|false positives?|pentest\\w*|red team\\w*|cwe|owasp|cheat ?sheet",
    "detection",
)
# A heading that may as well lead in an order: "Avoid problems", "Never skip", "Detection".
WEAK_HEADING = re.compile(
    r"\b(?:never|avoid|don'?t|do not|must not|mistakes|pitfalls|false positives?|detection|cheat ?sheet"
    r"|warning signs)\b",
    re.IGNORECASE,
)
# The head of a table of things to do.
TO_DO = re.compile(r"\b(?:steps?|commands?|run|order|actions?|to do|when)\b", re.IGNORECASE)
# Before a command in a sentence: an order to run it.
RUN = re.compile(
    r"\b(?:run|runs|execut(?:e|ing)|running|paste|type|enter|launch|invoke|start|call|issue|perform|apply|use|try"
    r"|install|copy|do|follow|open)\b",
    re.IGNORECASE,
)
# Directly before such an order: it is a prohibition, or the deed of another.
FORBIDS = re.compile(
    r"\b(?:never|not|n't|avoid|without|instead of|attackers?|adversar\w{1,5}|malware|malicious|victims?|could|might"
    r"|would|can|may|tries to|attempts? to|trying to|tricks?|if|when|that|which|who)\b[^.;:!?]{0,30}$",
    re.IGNORECASE,
)
# A statement begins with its subject, an order with its verb.
SUBJECT = re.compile(
    r"[\s>*_+-]{0,12}(?:\d{1,3}[.)]\s)?[*_]{0,2}(?:the|an?|this|that|these|those|it|they|we|he|she|there|some|many|most"
    r"|each|every|all|any|both|another|one|its|their|typical|common|known|[a-z]{2,20}[^\Ws]s)\s",
    re.IGNORECASE,
)
# ... unless the reader is in it, or what the reader has to do.
ADDRESSES = re.compile(
    r"\b(?:you|your|yours|agents?|assistants?|claude|must|should|shall|will|needs?|ha(?:ve|s) to|required|then"
    r"|please)\b",
    re.IGNORECASE,
)
# A script that reads its own text may run its own comments.
_READS_ITSELF = re.compile(
    r"\b(?:sed|grep|awk|tail|head|cat|cut|tac|tr|source|bash|sh|perl|python3?)\b[^\n]{0,80}(?:\$0|\$\{0|BASH_SOURCE)"
    r"|<\s?[\"']?(?:\$0|\$\{0|\$\{?BASH_SOURCE)|__doc__|\bgetsource|\bgetdoc|\bgetcomments|PSCommandPath|%~f0|__DATA__"
    r"|(?:open|read\w{0,12}|Path)\(\s?(?:__file__|__filename|\$0|sys\.argv\[0\])|\.\./__file__|tokenize\."
)
READS_ITSELF = AnchoredPattern("reads itself", _READS_ITSELF)
# The quoted argument of a lone search, around a match.
SEARCH = re.compile(
    r"\s*(?:git )?(?:[ef]?grep|rg|ag) (?![^'\n]*(?:--pre|--pager|--open|--host|-O))[^|;&`$<>'\"\n]*'[^'\n]*"
)
SEARCH_END = re.compile(r"[^'\n]*'[^|;&`$<>'\"\n]*")
# A shell script that may run what another command prints.
RUNS_OUTPUT = re.compile(
    r"\|\s*(?:sudo\s+)?(?:[\w./]*/)?(?:ba|z|da|k|a|fi)?sh\b|\b(?:eval|source)\b|<\(|(?:^|[;&|])[ \t]{0,8}\.[ \t]",
    re.MULTILINE,
)
# ... or whose grep is another program: a function, an alias, a file found first, one that its settings start.
REDEFINES_SEARCH = re.compile(
    r"\b(?:[efz]?grep|rg|ag|git)\s{0,4}\(\)|\bfunction\s+(?:[efz]?grep|rg|ag|git)\b|\balias\s+(?:[efz]?grep|rg|ag|git)="
    r"|\bPATH=|\bRIPGREP_|\bhash\s+-p",
)
# The module that starts programs in JavaScript is named in a string.
LOADS_STARTER = re.compile(r"[\"'`](?:node:)?(?:child_process|vm|worker_threads|execa|zx|shelljs|cross-spawn)[\"'`/]")
# A file that starts programs, or evaluates text: a string of its skill may be what is started.
_STARTS_PROGRAMS = re.compile(
    r"\b(?:exec\w{0,12}|eval|system|popen\w{0,2}|spawn\w{0,8}|(?<!\.)compile|getattr|shell_exec|passthru|proc_open|shell)\s?\("
    r"|subprocess|child_process|\bpty\b|\bvm\b|Function\(|ProcessBuilder|Process\.Start|getRuntime|exec\.Command"
    r"|Command::new|Command\(|importlib|__import__|ctypes|Open3|%x|\bqx\b|\bexeca\b|\bzx\b|shelljs|Bun\.|ShellExecute"
    r"|\bInvoke-|pickle|marshal|\bos\.system|\bimport\s[^\n]{0,80}\b(?:system|popen|sh|plumbum|invoke|fabric|pexpect)\b"
    r"|posix_spawn|\bfrom (?:invoke|fabric|sh|plumbum|pexpect)\b|__dict__|__getattribute__|\bvars\(|\bglobals\("
    r"|builtins|attrgetter|methodcaller|\btimeit\b|cProfile|\brunpy\b|\brun(?:source|code|ctx|call)\(|Deno\.|\bsystem2"
    r"|\b(?:system|exec|execute)[ \t](?![ \t]*[=:,)\w.|&<>+*/-])",
    re.IGNORECASE,
)
STARTS_PROGRAMS = AnchoredPattern("starts programs", _STARTS_PROGRAMS)
TABLE_ORDERED = re.compile(
    r"(?<!not )(?<!never )\b(?:run|execute|paste|type|enter)\s[^.|\n]{0,60}\b(?:table|row)s?\b", re.IGNORECASE
)
ROWS_BELOW = 15  # lines below a row in which it may be ordered
# The title of a link and the attribute of a tag: quoted by syntax, and shown to nobody.
UNSHOWN_QUOTE = re.compile(r"(?:\]\([^()\s]{1,300}\s{1,9}|<[a-z][^<>]{0,300}=)[\"'][^\"']{0,300}\Z", re.IGNORECASE)


def table_is_ordered(lines: list[str]) -> bool:
    """The page has its reader run what is in a table above."""
    return any(TABLE_ORDERED.search(line[:1000]) for line in lines)


def instructs_to_run(before: str) -> bool:
    """The words before a command ask for it to be run, and do not forbid it."""
    orders = [match.start() for match in RUN.finditer(before)]
    return bool(orders) and not FORBIDS.search(before[max(0, orders[-1] - 30) : orders[-1]])


def states_something(clause: str) -> bool:
    """The words before inline code have a subject, and neither the reader nor an order in them."""
    return bool(SUBJECT.match(clause)) and not (ADDRESSES.search(clause) or RUN.search(clause) or ":" in clause)


def is_searched_for(text: str, start: int) -> bool:
    """The match is the quoted argument of a command that does nothing but search for it."""
    if len(text) > 1000:
        return False
    return bool(SEARCH.fullmatch(text[:start]) and SEARCH_END.fullmatch(text[start:]))
