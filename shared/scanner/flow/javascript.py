"""The front end for JavaScript and TypeScript: the interpreter of programs with the library of Node and browsers."""

import ast
import re
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from shared.scanner.flow.anchors import has_any
from shared.scanner.flow.expressions import Call, Scope, Unit
from shared.scanner.flow.interpreter import Handler, Interpreter, named
from shared.scanner.flow.javascript_library import FUNCTIONS, JS_METHODS, PYTHON_NAMES
from shared.scanner.flow.javascript_parser import parsed_script
from shared.scanner.flow.javascript_sinks import SINK_METHODS, SINKS, is_js_request, send_js_request
from shared.scanner.flow.methods import METHODS
from shared.scanner.flow.objects import (
    UNKNOWN,
    Code,
    Obj,
    concatenated,
    from_value,
    join,
    list_of,
    origins_in,
    text_of,
    texts_of,
)
from shared.scanner.flow.operations import item_of
from shared.scanner.flow.program_commands import run_code
from shared.scanner.flow.relevance import may_matter
from shared.scanner.flow.settings import settings_in
from shared.scanner.flow.sources import ENVIRONMENT
from shared.scanner.flow.tracker import Script, Tracker
from shared.scanner.flow.values import UNKNOWN as UNKNOWN_VALUE
from shared.scanner.flow.values import Value, from_source, joined

MAX_SOURCE = 300_000
MAX_MODULES = 60
MAX_PRINTED = 50
HOME_VARIABLES = {"HOME", "USERPROFILE"}
ENDINGS = ("", ".js", ".ts", ".mjs", ".cjs", ".tsx", ".jsx", "/index.js", "/index.ts")
_IMPORTED = re.compile(r"[\"'](\.{1,2}/[\w./-]{1,100})[\"']")
SINK_WORDS = (
    *("fetch(", "axios", "https.", "http.", ".post(", "websocket", "got(", "got.", "net.connect", "createconnection"),
    *("dns.", "sendmail", "octokit", "sendbeacon", "curl", "wget", "superagent", "needle", "undici", "putobject"),
    *("'https'", '"https"', "xmlhttprequest", "request(", "eval(", "function(", "vm."),
)
SOURCE_WORDS = (
    *("process[", "deno.env", "bun.env", "import.meta.env", "child_process", "execsync", "execa", "clipboard", "eval("),
    *(".ssh", ".aws/", ".kube", ".npmrc", "netrc", "keychain", "keytar", "_history", "wallet", "cookies", "login data"),
    *(".claude", ".openclaw", ".clawd", ".codex", "/etc/", ".git-cred", "id_rsa", ".docker/", ".gnupg", "atob("),
    *('".env', "'.env", "`.env", "/.env", "os.hostname", "userinfo(", ".config/", "**/"),
)
# For a file whose path it is given, or a string that it puts together.
MAKING_WORDS = (
    *("readfile", "createread", "from(", "charcode", "require", "import", "writefile", ".join(", "exec", "spawn"),
)
# A variable that is named like a secret, or all of them.
_ENVIRONMENT = re.compile(r"process\.env(?!\.\w)|process\.env\.\w*(?:key|token|secret|pass|cred|auth|pwd|dsn|url|pat)")


def follow_javascript(script: Script, tracker: Tracker) -> Value:
    """A file, or one of the blocks of a page, which run one after the other with the same names."""
    lowered = script.text.lower()
    has_word = not script.language or names_sink(lowered) or names_source(lowered)  # blocks of a page may have none
    if len(script.text) > MAX_SOURCE or not has_word or not may_matter(script, tracker, _imports, WORDS):
        return UNKNOWN_VALUE
    if tracker not in _interpreters:
        _interpreters[tracker] = JsInterpreter(tracker)
    return _interpreters[tracker].follow(script)


def _imports(text: str, tracker: Tracker) -> Iterator[str]:
    for name in set(_IMPORTED.findall(text)):
        if (path := shipped_module(name, tracker)) is not None:
            yield path


def names_sink(lowered: str) -> bool:
    return has_any(SINK_WORDS, lowered)


def names_source(lowered: str) -> bool:
    return has_any(SOURCE_WORDS, lowered) or _ENVIRONMENT.search(lowered) is not None


WORDS = (names_source, names_sink)


def shipped_module(name: str, tracker: Tracker) -> str | None:
    stem = name.removesuffix(".js")
    found = (tracker.runs(Value(stem + end)) for end in ENDINGS)
    return next((path for path in found if path is not None and path.endswith(ENDINGS[1:])), None)


class JsInterpreter(Interpreter):
    def __init__(self, tracker: Tracker) -> None:
        super().__init__(tracker)
        self._arguments: list[Obj] = []
        self._modules: dict[str, Obj] = {}  # by path

    def follow(self, script: Script) -> Value:
        printed, self.printed = self.printed, []
        is_page = script.path.lower().endswith((".md", ".mdx", ".ipynb"))
        if (script.path not in self._modules or script.arguments or is_page) and len(self._modules) < MAX_MODULES:
            self._arguments = [from_value(value) for value in script.arguments]
            self._follow_module(script)
        self.run_uncalled()
        output = [Value(text_of(value), origins_in(value)) for value in self.printed[:MAX_PRINTED]]
        self.printed = printed
        return joined(output, " ")

    def _follow_module(self, script: Script) -> None:
        module = self._modules.get(script.path)
        if module is None:
            exports = Obj(items={})
            module = Obj(items={"exports": exports, "module": Obj(items={"exports": exports})})
            self._modules[script.path] = module
        body = parsed_script(script.text)
        if body is not None:
            self.allow_steps(len(script.text))
            self.run(
                Scope(Unit(script.path, script.first_line, lines=script.text.split("\n")), None, module.items), body
            )

    def names_something(self, lowered: str) -> bool:
        return names_source(lowered) or names_sink(lowered) or has_any(MAKING_WORDS, lowered)

    # Names

    def read_name(self, ref: str, scope: Scope, line: int) -> Obj:
        if ref in ("process.env", "import.meta.env", "Bun.env"):
            return Obj(ref="process.env", origins=from_source(ENVIRONMENT, scope.unit.at(line)).origins)
        if ref.startswith("process.env."):
            return self._variable(ref[len("process.env.") :], scope, line)
        if ref == "process.argv":
            return list_of([Obj(("node",)), Obj((scope.unit.path,)), *self._arguments])
        if ref in ("__dirname", "import.meta.dirname"):
            return Obj((".",))
        if ref in ("globalThis", "window", "global", "self"):
            return Obj(items=scope.module.names)
        return Obj(ref=ref)

    def _variable(self, name: str, scope: Scope, line: int) -> Obj:
        if name in HOME_VARIABLES:
            return Obj(("~",))
        return from_value(self.tracker.variable(name, scope.unit.at(line)))

    def read_item(self, value: Obj, key: Obj, scope: Scope, line: int) -> Obj | None:
        names = texts_of(key)
        if value.ref == "process.env":
            found = [self._variable(name, scope, line) for name in names]
            return join([*found, Obj(origins=key.origins)])
        if names and value.items is None and value.ref and not value.constants:
            return self.read_name(f"{value.ref}.{names[0]}", scope, line)
        return None

    def member(self, value: Obj, name: str, scope: Scope, line: int) -> Obj:
        if name in ("length", "size", "status", "ok"):
            return UNKNOWN
        return super().member(value, name, scope, line)

    def path_joined(self, left: Obj, right: Obj) -> Obj:
        if any(text.startswith(("/", "~")) for text in texts_of(right)):
            return right
        return concatenated([left, Obj(("/",)), right])

    # Assignments

    def assign(self, scope: Scope, target: ast.AST, value: Obj) -> None:
        if isinstance(target, ast.Dict):
            self._take_apart(scope, target, value)
        elif isinstance(target, ast.NamedExpr):
            self.assign(scope, target.target, join([value, self.evaluate(scope, target.value)]))
        else:
            super().assign(scope, target, value)

    def _take_apart(self, scope: Scope, target: ast.Dict, value: Obj) -> None:
        """`const { a, b: c = 1, ...rest } = value`"""
        for key, part in zip(target.keys, target.values, strict=True):
            name = key.value if isinstance(key, ast.Constant) else None
            if isinstance(name, str):
                self.assign(scope, part, self.member(value, name, scope, target.lineno))
            else:
                self.assign(scope, part, value if key is None else item_of(value, self.evaluate(scope, key)))

    def _named(self, scope: Scope, node: ast.NamedExpr) -> Obj:
        """An assignment without a declaration changes the name where it was declared."""
        value = self.evaluate(scope, node.value)
        owner: Scope | None = scope
        if isinstance(node.target, ast.Name):
            while owner is not None and node.target.id not in owner.names:
                owner = owner.parent
        self.assign(owner or scope, node.target, value)
        return value

    def _function(self, scope: Scope, node: ast.AST) -> Obj:
        code = Code(node, scope)
        self._defined.append(code)
        return Obj(code=code)

    # Calls

    def call(self, callee: Obj, call: Call) -> Obj:
        if callee.code is not None:
            return self.call_code(callee.code, call, callee)
        if is_js_request(call):
            return send_js_request(self, call)
        handler = self._handler(call)
        if handler is not None:
            return handler(self, call)
        name = PYTHON_NAMES.get(call.method)
        if call.target is not None and name is not None:
            return METHODS[name](call.target, call)
        return self._call_unknown(call)

    def _handler(self, call: Call) -> Handler | None:
        ref = call.ref.removeprefix("node:")
        if ref:
            for name in (ref, ".".join(ref.rsplit(".", 2)[-2:]), ref.rpartition(".")[2] if "()" not in ref else ""):
                if name in LIBRARY:
                    return LIBRARY[name]
        return (SINK_METHODS.get(call.method) or JS_METHODS.get(call.method)) if call.target is not None else None

    def _call_unknown(self, call: Call) -> Obj:
        for value in call.arguments:
            if value.code is not None:
                self.call_back(value, [Obj(origins=origins_in(call.target or UNKNOWN))], call)
        return call.unknown_result()

    # Modules

    def required(self, call: Call) -> Obj:
        name = text_of(call.argument(0)).removeprefix("node:")
        if not name.startswith("."):
            return Obj(ref={"fs/promises": "fs", "child_process": "child_process"}.get(name, name))
        if name.endswith(".json"):
            shipped = self.tracker.runs(Value(name))
            return settings_in(self.tracker.shipped[shipped]) if shipped else UNKNOWN
        path = shipped_module(name, self.tracker)
        if path is None:
            return UNKNOWN
        if path not in self._modules and len(self._modules) < MAX_MODULES:
            self._follow_module(Script(path=path, text=self.tracker.shipped[path]))
        return _exported(self._modules.get(path, UNKNOWN))


def _exported(module: Obj) -> Obj:
    items = module.items or {}
    assigned = (items["module"].items or {}).get("exports", UNKNOWN) if "module" in items else UNKNOWN
    if assigned.code is not None:
        return assigned
    default = items.get("default", UNKNOWN)
    return Obj(items={**items, **(default.items or {}), **(assigned.items or {})}, code=default.code)


def _require(run: Interpreter, call: Call) -> Obj:
    assert isinstance(run, JsInterpreter)
    return run.required(call)


def _eval(run: Interpreter, call: Call) -> Obj:
    """A string that is run; a function that is made of one, and called at once or later."""
    texts = texts_of(call.arguments[-1] if call.arguments else UNKNOWN)[:2]
    return run_code(run, (parsed_script(text) for text in texts if text.strip()), call)


def _later(run: Interpreter, call: Call) -> Obj:
    """`setTimeout(f, 10)`"""
    return run.call_back(call.argument(0), call.arguments[2:], call)


LIBRARY = {**FUNCTIONS, **SINKS}
LIBRARY |= named(
    (_require, "require import"),
    (_eval, "eval Function vm.runInThisContext vm.runInNewContext"),
    (_later, "setTimeout setInterval setImmediate queueMicrotask process.nextTick"),
)
_interpreters: WeakKeyDictionary[Tracker, JsInterpreter] = WeakKeyDictionary()
