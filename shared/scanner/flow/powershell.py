"""PowerShell scripts: variables, pipelines, .NET calls and cmdlets, with every branch taken once."""

import re

from shared.scanner.flow.powershell_calls import CMDLETS, PsCall, call_method, call_static
from shared.scanner.flow.powershell_tokens import PsGroup, PsItem, PsToken, pieces, read_powershell, statements
from shared.scanner.flow.sources import ENVIRONMENT, command_source
from shared.scanner.flow.tracker import Script, Tracker
from shared.scanner.flow.values import (
    EMPTY,
    HOLE,
    UNKNOWN,
    Location,
    Source,
    SourceKind,
    Value,
    constant,
    from_source,
    joined,
)

MAX_VARIABLES = 1000
MAX_CALLS_OF_ONE = 5
MAX_NESTED = 60
MAX_TEXTS = 40
_FOLDERS = {"userprofile": "~", "home": "~", "homepath": "~", "appdata": "~/AppData/Roaming", "temp": "/tmp"}  # noqa: S108
_FOLDERS |= {"localappdata": "~/AppData/Local", "programdata": "/ProgramData", "tmp": "/tmp"}  # noqa: S108
_FACTS = frozenset({"computername", "username", "userdomain", "logonserver"})
_INTERPOLATED = re.compile(r"`(.)|\$\(([^()]{0,400}(?:\([^()]{0,200}\)[^()]{0,200})?)\)|\$\{?((?:env:)?\w+)\}?|\"\"")
_FORMAT = re.compile(r"\{(\d{1,2})[^{}\n]{0,20}\}")
_KEYWORDS = frozenset(
    {"if", "elseif", "else", "while", "until", "do", "try", "catch", "finally", "switch", "for", "return"}
)


def follow_powershell(script: Script, tracker: Tracker) -> Value:
    shell = PowerShell(script.path, tracker)
    shell.variables["args"] = joined(script.arguments, " ")
    return shell.run(read_powershell(script.text, script.first_line), script.stdin)


class PowerShell:
    def __init__(self, path: str, tracker: Tracker) -> None:
        self.path = path
        self.tracker = tracker
        self.variables: dict[str, Value] = {"home": constant("~"), "pwd": constant("."), "psscriptroot": constant(".")}
        self._functions: dict[str, PsGroup] = {}
        self._declared: dict[str, list[str]] = {}
        self._calls: dict[str, int] = {}
        self._line = 1
        self._nested = 0
        self._texts = 0

    @property
    def at(self) -> Location:
        return Location(self.path, self._line)

    def run(self, items: list[PsItem], given: Value = EMPTY) -> Value:
        self._nested += 1
        outputs = [self._statement(one, given) for one in statements(items)] if self._nested <= MAX_NESTED else []
        self._nested -= 1
        kept = [output for output in outputs if output != EMPTY]
        return kept[0] if len(kept) == 1 else joined(kept, "\n")

    def run_string(self, commands: Value) -> Value:
        self._texts += 1
        if self._texts > MAX_TEXTS or commands.text in ("", HOLE):
            return UNKNOWN
        return self.run(read_powershell(commands.text, self._line))

    def _statement(self, items: list[PsItem], given: Value) -> Value:
        self.tracker.check()
        first = items[0]
        self._line = first.line
        word = first.text.lower() if isinstance(first, PsToken) else ""
        if word == "function":
            return self._define(items)
        if word == "foreach" and len(items) > 1 and isinstance(items[1], PsGroup):
            return self._foreach(items[1], items[2:])
        if word in _KEYWORDS:
            return self._branches(items[1:], given)
        if word == "param":
            return EMPTY
        return self._assigned(items, given)

    def _define(self, items: list[PsItem]) -> Value:
        """`function F($a) {…}` or `function F { param($a) …}`"""
        groups = {item.opener: item for item in items if isinstance(item, PsGroup)}
        if "{" in groups and len(items) > 1 and isinstance(items[1], PsToken):
            self._functions[items[1].text.lower()] = groups["{"]
            declared = groups.get("(")
            self._declared[items[1].text.lower()] = _variables(declared) if declared else _parameters(groups["{"])
        return EMPTY

    def _foreach(self, head: PsGroup, rest: list[PsItem]) -> Value:
        """`foreach ($x in …) { … }`"""
        if len(head.items) > 2 and isinstance(head.items[0], PsToken):
            self.assign(head.items[0].text, self.pipeline(head.items[2:]))
        return self._branches(rest, EMPTY)

    def _branches(self, items: list[PsItem], given: Value) -> Value:
        """Conditions are evaluated and blocks are run, all of them."""
        groups = [item for item in items if isinstance(item, PsGroup) and item.opener in ("{", "(")]
        if not groups:
            return self.pipeline(items, given) if items else EMPTY
        return joined([self.run(group.items, given) for group in groups])

    def _assigned(self, items: list[PsItem], given: Value) -> Value:
        at = next((n for n, item in enumerate(items[:6]) if isinstance(item, PsToken) and item.text in ("=", "+=")), 0)
        target = next((item for item in items[:at] if isinstance(item, PsToken) and item.kind == "variable"), None)
        if at == 0 or target is None:
            return self.pipeline(items, given)
        value = self.pipeline(items[at + 1 :], given) if len(items) > at + 1 else EMPTY
        name = _name(target.text)
        known = self.variables.get(name)
        is_partial = known is not None and (items[at].text == "+=" or at > 1)  # type: ignore[union-attr]
        self.assign(target.text, joined([known, value]) if is_partial and known is not None else value)
        return EMPTY

    def assign(self, name: str, value: Value) -> None:
        if len(self.variables) < MAX_VARIABLES:
            self.variables[_name(name)] = value

    def pipeline(self, items: list[PsItem], given: Value = EMPTY) -> Value:
        for part in pieces(items, "|"):
            given = self._command(part, given)
        return given

    def _command(self, items: list[PsItem], given: Value) -> Value:
        items = items[1:] if _is_call_mark(items[0]) and len(items) > 1 else items
        first = items[0]
        if not isinstance(first, PsToken) or first.kind not in ("word", "member") or _is_number(first.text):
            return self.expression(items)
        name = first.text.lower().removesuffix(".exe")
        if name in self._functions:
            return self._call_function(name, items[1:], given)
        handler = CMDLETS.get(name)
        if handler is not None:
            return handler(PsCall(self, name, items[1:], given))
        words = [first.text, *(self.value(item).text for item in items[1:13])]
        source = command_source(words)
        if source is not None:
            return from_source(source, self.at)
        shipped = self.tracker.runs(constant(first.text))
        return self.tracker.run(shipped, tuple(map(self.value, items[1:]))) if shipped else Value(HOLE, given.origins)

    def _call_function(self, name: str, items: list[PsItem], given: Value) -> Value:
        self._calls[name] = self._calls.get(name, 0) + 1
        if self._calls[name] > MAX_CALLS_OF_ONE:
            return UNKNOWN
        call = PsCall(self, name, items, given)
        body = self._functions[name]
        for position, parameter in enumerate(self._declared[name]):
            value = call.option(parameter) or (call.words[position] if position < len(call.words) else None)
            if value is not None:
                self.assign(parameter, value)
        self.assign("args", joined(call.words, " "))
        return self.run(body.items, given)

    # Expressions

    def expression(self, items: list[PsItem]) -> Value:
        """Joined, for `+`, or all that it is made of: what an operator does to a secret leaves it one."""
        at = next((n for n, item in enumerate(items) if _is_operator(item, "parameter")), None)
        if at is not None:
            return self._operation(items[:at], items[at], items[at + 1 :])
        parts = pieces(items, ",")
        return self._sum(items) if len(parts) < 2 else joined([self._sum(part) for part in parts], " ")

    def _operation(self, left: list[PsItem], operator: PsItem, right: list[PsItem]) -> Value:
        name = operator.text.lower() if isinstance(operator, PsToken) else ""
        if name == "-join" and left:
            return joined([self._sum(part) for part in pieces(left, ",")], self.expression(right).text)
        if name == "-f":
            return self._formatted(self._sum(left), [self.expression(part) for part in pieces(right, ",")])
        return Value(HOLE, joined([self._sum(left), self.expression(right)]).origins)

    def _formatted(self, pattern: Value, values: list[Value]) -> Value:
        def text_of(match: re.Match[str]) -> str:
            position = int(match.group(1))
            return values[position].text if position < len(values) else HOLE

        return joined([pattern, *values]).with_text(_FORMAT.sub(text_of, pattern.text))

    def _sum(self, items: list[PsItem]) -> Value:
        values: list[Value] = []
        at = 0
        while at < len(items):
            value, at = self._chain(items, at)
            values.append(value)
        known = [value for value in values if value != EMPTY]
        return known[0] if len(known) == 1 else joined(known)

    def _chain(self, items: list[PsItem], at: int) -> tuple[Value, int]:
        """A value with its members and calls: `[A]::B(x).C`, `$x.D($y)[0]`."""
        item = items[at]
        is_type = isinstance(item, PsToken) and item.kind == "type"
        value = EMPTY if is_type or _is_operator(item) else self.value(item)
        type_name = item.text.strip("[]").lower() if isinstance(item, PsToken) and is_type else ""
        at += 1
        member = ""
        history = False
        while at < len(items) and _continues(items[at], bool(member)):
            item = items[at]
            if isinstance(item, PsToken):
                member = item.text.lstrip(".:").lower() or member
                history = history or member == "historysavepath"
                if item.text == "::" and at + 1 < len(items) and isinstance(items[at + 1], PsToken):
                    at += 1
                    member = items[at].text.lower()  # type: ignore[union-attr]
            elif item.opener == "(" and member:
                arguments = [self.expression(one) for one in pieces(item.items, ",")]
                static = call_static(self, type_name, member, arguments) if type_name else None
                value = static if static is not None else call_method(self, value, member, arguments)
                type_name, member = "", ""
            at += 1
        return (constant("~/ConsoleHost_history.txt") if history else value), at

    def value(self, item: PsItem) -> Value:
        if isinstance(item, PsGroup):
            return self._group(item)
        if item.kind == "variable":
            return self.lookup(item.text)
        if item.kind == "single":
            return constant(item.text[1:].removesuffix("'").replace("''", "'"))
        if item.kind == "here":
            body = item.text.partition("\n")[2].rpartition("\n")[0]
            return constant(body) if item.text[1] == "'" else self.interpolated(body)
        if item.kind in ("double", "word"):
            return self.interpolated(item.text.strip('"') if item.kind == "double" else item.text)
        return constant(item.text) if item.kind not in ("mark", "parameter", "type") else EMPTY

    def _group(self, group: PsGroup) -> Value:
        if group.opener == "@{":
            return joined([self._entry(entry) for entry in statements(group.items)], "\n")
        if group.opener == "[":
            return EMPTY
        if group.opener == "{":
            return EMPTY  # a block runs where it is called
        return joined([self.pipeline(one) for one in statements(group.items)], " ")

    def _entry(self, items: list[PsItem]) -> Value:
        """`Name = value`, as a header would be written."""
        at = next((n for n, item in enumerate(items) if isinstance(item, PsToken) and item.text == "="), -1)
        if at < 0:
            return self.expression(items)
        value = self.pipeline(items[at + 1 :]) if items[at + 1 :] else EMPTY
        return joined([self.expression(items[:at]), constant(": "), value])

    def interpolated(self, text: str) -> Value:
        parts: list[Value] = []
        at = 0
        for match in _INTERPOLATED.finditer(text):
            parts.append(constant(text[at : match.start()]))
            parts.append(self._interpolation(match))
            at = match.end()
        return joined([*parts, constant(text[at:])])

    def _interpolation(self, match: re.Match[str]) -> Value:
        escaped, code, name = match.groups()
        if escaped is not None:
            return constant({"n": "\n", "t": "\t"}.get(escaped, escaped))
        if code is not None:
            return self.run(read_powershell(code, self._line))
        return self.lookup(name) if name else constant('"')

    def lookup(self, text: str) -> Value:
        name = _name(text)
        if not name.startswith("env:"):
            return self.variables.get(name, UNKNOWN)
        variable = name.removeprefix("env:")
        if name in self.variables:
            return self.variables[name]
        if variable in _FOLDERS:
            return constant(_FOLDERS[variable])
        if variable in _FACTS:
            return from_source(Source(SourceKind.FACTS, f"${text.lstrip('$')}"), self.at)
        return self.tracker.variable(text.rpartition(":")[2].strip("}"), self.at)

    def run_block(self, group: PsGroup, item: Value) -> Value:
        """The block of ForEach-Object: `$_` is what comes in."""
        kept = self.variables.get("_", EMPTY)
        self.variables["_"] = item
        output = self.run(group.items)
        self.variables["_"] = kept
        return output

    def environment(self) -> Value:
        return from_source(ENVIRONMENT, self.at)


def _name(text: str) -> str:
    name = text.strip("${}@").lower()
    return name.rpartition(":")[2] if name.startswith(("script:", "global:", "local:", "private:")) else name


def _parameters(body: PsGroup) -> list[str]:
    """Of `param(…)` at the beginning of the body."""
    for at, item in enumerate(body.items[:6]):
        if isinstance(item, PsToken) and item.text.lower() == "param" and at + 1 < len(body.items):
            declared = body.items[at + 1]
            if isinstance(declared, PsGroup):
                return _variables(declared)
    return []


def _variables(group: PsGroup) -> list[str]:
    return [item.text for item in group.items if isinstance(item, PsToken) and item.kind == "variable"]


def _is_call_mark(item: PsItem) -> bool:
    return isinstance(item, PsToken) and item.text in ("&", ".")


def _is_number(text: str) -> bool:
    return text[:1].isdigit()


def _is_operator(item: PsItem, kind: str = "") -> bool:
    return isinstance(item, PsToken) and item.kind in ((kind,) if kind else ("mark", "parameter"))


def _continues(item: PsItem, after_member: bool) -> bool:
    if not item.glued:
        return False
    if isinstance(item, PsToken):
        return item.kind == "member" or item.text == "::"
    return item.opener == "[" or (item.opener == "(" and after_member)
