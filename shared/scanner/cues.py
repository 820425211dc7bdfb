"""Words that show that a page describes something bad instead of doing it."""

import re

MARKS = "[❌🚫⛔⚠✗✘]"
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
    "should not|shouldn'?t|cannot|can'?t|won'?t|not (?:to|run|use|execute)|refuse|reject|block(?:s|ed|ing)?",
    "den(?:y|ies|ied)|check(?:s|ing)? (?:for|if|whether|that no)|identif\\w+|report(?:s|ed)? (?:any|if)|examples? of",
    "rather than|containing|mentions?|tries to|trying to|attempts?|warn\\w*|prevent\\w*|forbid\\w*|prohibit\\w*",
    "phrases? like|patterns? like",
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
# A line of code that defines what to look for: a detector, not the thing it detects.
DETECTOR_LINE = re.compile(
    r"re\.(?:compile|search|match|findall|sub)\(|\bregexp?\b|patterns?['\"]?\s*[:=]|new RegExp\(|\b[ef]?grep\s"
    r"|\brg\s+[-'\"]|=~|\\s[*+]|\\b[a-z(]|\\\.[a-z]|\(\?[:i]|\.\*[a-z|(]|\[\^",
    re.IGNORECASE,
)
# The opening line of a list of such things: DANGEROUS_COMMANDS = [
DETECTOR_LIST = re.compile(
    r"\b\w*(?:pattern|danger|block|deny|denied|forbid|suspicious|malicious|signature|indicator|unsafe|risky|banned"
    r"|destructive|sensitive|check|detector|rule|sink|ioc)\w*['\"]?"
    r"\s*(?::[\w\[\],.|\s]+)?[:=]\s*(?:new\s+\w+\()?[\[{(]",
    re.IGNORECASE,
)
COMMENT = re.compile(r"^\s*(?:#(?!!)|//|\*|/\*|--\s|;|rem\s|<!--|\"\"\"|''')", re.IGNORECASE)
# A skill whose name or description says that it is about attacks: its pages explain them or test for them.
ATTACK_SUBJECT = _any_of(
    "penetration test\\w*|pen-?test\\w*|red.?team\\w*|ctf|capture the flag|offensive security|ethical hack\\w*",
    "bug bounty|exploit(?:ation|s)?|privilege escalation|reverse shells?|metasploit",
    "attack (?:techniques?|patterns?|surface|paths?)|vulnerabilit\\w+|malware analy\\w+|forensics?|incident response",
    "threat (?:model\\w*|hunt\\w*|intel\\w*|detect\\w*)|owasp|mitre|detection engineering",
    "prompt injections?|jailbreaks?",
    "(?:cloud|web|api|network|container|kubernetes|application|mobile|cyber) ?security|hacking|osint",
    "reverse engineering",
    "secure coding|hardening|sast|dast|xss|csrf|ssrf|sql injection|burp|sqlmap|mimikatz|active directory|phishing",
    "security (?:engineer\\w*|analyst|expert|best practices|guid\\w+|patterns|issues|posture)",
    "security (?:review|audit|test\\w*|research|assessment|scan\\w*|checklist|hardening)",
)
# The target of an example: a name to fill in, not an address.
PLACEHOLDER_TARGET = re.compile(
    r"\b(?:ATTACKER|TARGET|VICTIM|KALI|YOUR|MY)_?(?:IP|HOST|PORT|SERVER|DOMAIN|MACHINE)\b|\b[LR]HOSTS?\b|\b[LR]PORT\b"
    r"|<(?:attacker|target|your|lhost|rhost|victim|ip|host)[^>\n]{0,20}>"
)
# An address that exists outside a lab: what is sent there arrives.
REAL_ADDRESS = re.compile(
    r"(?:https?|ftp|tcp)://(?!localhost|127\.|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|169\.254\.|[<${\[A-Z])"
    r"(?![a-z0-9.-]*(?:attacker|evil|malicious|target|victim|example)[a-z0-9-]*[.:/])[^\s/]+\.[a-z0-9]{2,}"
    r"|\b(?!127\.|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|0\.|169\.254\.)\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b"
)
