"""The front end for Python: parses a script, and follows it together with the modules that the skill ships."""

import ast
import re
import warnings
from collections.abc import Iterator
from pathlib import PurePosixPath
from weakref import WeakKeyDictionary

from shared.scanner.flow.anchors import has_any
from shared.scanner.flow.expressions import Call, Scope, Unit
from shared.scanner.flow.interpreter import Handler, Interpreter, named
from shared.scanner.flow.methods import call_method
from shared.scanner.flow.objects import (
    UNKNOWN,
    Obj,
    concatenated,
    elements,
    from_value,
    list_of,
    merged,
    origins_in,
    text_of,
    texts_of,
)
from shared.scanner.flow.program_commands import run_code, run_command
from shared.scanner.flow.python_files import FILE_FUNCTIONS, FILE_METHODS
from shared.scanner.flow.python_library import FUNCTIONS, PARTIAL, environment, variable
from shared.scanner.flow.python_sinks import SINK_METHODS, SINKS, is_request, send_request
from shared.scanner.flow.relevance import may_matter
from shared.scanner.flow.tracker import Script, Tracker
from shared.scanner.flow.values import UNKNOWN as UNKNOWN_VALUE
from shared.scanner.flow.values import Value, joined

MAX_SOURCE = 400_000
MAX_MODULES = 60
MAX_PRINTED = 50
SINK_WORDS = (
    *("requests.", "httpx", "urlopen", "urllib.request", "urllib3", "http.client", "aiohttp", "socket", "smtplib"),
    *("ftplib", "paramiko", "boto", "telegram", "slack", "webhook", "resolver", ".post(", ".put(", "sendall", "curl"),
    *("wget", "nslookup", "git push", '"push"', "scp ", "rsync", "gh gist", "gh issue", "netcat", "from requests"),
)
SOURCE_WORDS = (
    *("environ", "getenv", ".ssh", ".aws", ".env", ".kube", ".docker", ".gnupg", ".npmrc", "netrc", ".git-cred"),
    *("id_rsa", "id_ed25519", "credential", "keyring", "keychain", "_history", "wallet", "cookie", "login data"),
    *(".claude", ".codex", ".openclaw", ".clawd", ".gemini", ".cursor", "/etc/", "pyperclip", "memory.md", "soul.md"),
    *("os.walk(", "rglob(", "/**", '"**', "'**", "make_archive"),
    *("gethostname", "getuser", "platform.", "keystore", "win32crypt", ".pem", "whoami", "printenv", "find-generic"),
    *(
        "path.home",
        "expanduser",
        "auth token",
        "git config",
        "gcloud",
        "kubectl",
        "access-token",
        "secretsmanager",
        "find-internet",
    ),
)
# For a file whose path it is given, or a string that it puts together.
MAKING_WORDS = (
    *("open(", "read", "decode", "chr(", "getattr", "import", "write", "join(", "copy", "connect(", "path(", "run("),
)
HIDING_WORDS = ("exec", "eval", "__import__", "import_module")
_HIDES = re.compile(r"(?<![\w.])(?:exec|eval|__import__)\s*\(|import_module")
_IMPORTED = re.compile(r"^[ \t]*(?:from|import)[ \t]+\.*([\w.]+)", re.MULTILINE)
ENVIRONMENTS = {"os.environ", "environ", "os.environb"}


def follow_python(script: Script, tracker: Tracker) -> Value:
    """A file, or one of the blocks of a page, which run one after the other with the same names."""
    is_empty_block = script.language and not _names_either(script.text.lower())  # of a page where others are not
    if is_empty_block or not may_matter(script, tracker, _imports, (names_source, names_sink)):
        return UNKNOWN_VALUE
    return _interpreter_of(tracker).follow(script)


_interpreters: "WeakKeyDictionary[Tracker, PythonInterpreter]" = WeakKeyDictionary()


def _interpreter_of(tracker: Tracker) -> "PythonInterpreter":
    """One for all scripts of a skill, so that a module they share is followed once."""
    if tracker not in _interpreters:
        _interpreters[tracker] = PythonInterpreter(tracker)
    return _interpreters[tracker]


def names_source(lowered: str) -> bool:
    return has_any(SOURCE_WORDS, lowered) or _hides(lowered)


def names_sink(lowered: str) -> bool:
    return has_any(SINK_WORDS, lowered) or _hides(lowered)


def _names_either(lowered: str) -> bool:
    return names_source(lowered) or names_sink(lowered)


def _hides(lowered: str) -> bool:
    """It runs a string, in which both may be."""
    return has_any(HIDING_WORDS, lowered) and _HIDES.search(lowered) is not None


def _imports(text: str, tracker: Tracker) -> Iterator[str]:
    for module in set(_IMPORTED.findall(text)):
        if (path := tracker.runs(Value(module.replace(".", "/") + ".py"))) is not None:
            yield path


def parsed(text: str) -> list[ast.stmt] | None:
    """None for anything that is not Python 3: then only the patterns apply."""
    if len(text) > MAX_SOURCE:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


class PythonInterpreter(Interpreter):
    def __init__(self, tracker: Tracker) -> None:
        super().__init__(tracker)
        self.arguments: list[Obj] = []
        self.stdin: Obj = UNKNOWN
        self._modules: dict[str, Obj] = {}  # by path

    def follow(self, script: Script) -> Value:
        printed, self.printed = self.printed, []
        module = self._modules.get(script.path)
        is_new = module is None or script.arguments or script.stdin.origins or not script.path.endswith(".py")
        if is_new and len(self._modules) < MAX_MODULES:
            self._follow_module(script)
        self.run_uncalled()
        output = [Value(text_of(value), origins_in(value)) for value in self.printed[:MAX_PRINTED]]
        self.printed = printed
        return joined(output, " ")

    def _follow_module(self, script: Script) -> None:
        """With the names that an earlier block of the same page left."""
        body = parsed(script.text)
        module = self._modules.setdefault(script.path, Obj(items={}))  # before it runs: it may import itself
        if body is not None:
            self.arguments = [from_value(value) for value in script.arguments]
            self.stdin = from_value(script.stdin)
            self.allow_steps(len(script.text))
            self.run(
                Scope(Unit(script.path, script.first_line, lines=script.text.split("\n")), None, module.items), body
            )

    def names_something(self, lowered: str) -> bool:
        return _names_either(lowered) or has_any(MAKING_WORDS, lowered)

    # Names

    def read_name(self, ref: str, scope: Scope, line: int) -> Obj:
        if ref in ENVIRONMENTS:
            return environment(scope.unit.at(line))
        if ref == "sys.argv":
            return list_of([Obj((scope.unit.path,)), *self.arguments])
        if ref == "__file__":
            return Obj((scope.unit.path,))
        if ref.startswith("sys.stdin"):
            return Obj(origins=self.stdin.origins, ref=ref)
        return Obj(ref=ref)

    def read_item(self, value: Obj, key: Obj, scope: Scope, line: int) -> Obj | None:
        return variable(self, key, UNKNOWN, scope.unit.at(line)) if value.ref == "os.environ" else None

    def path_joined(self, left: Obj, right: Obj) -> Obj:
        """An absolute path on the right replaces the one on the left."""
        if any(text.startswith(("/", "~")) for text in texts_of(right)):
            return right
        return concatenated([left, Obj(("/",)), right])

    def imported(self, scope: Scope, name: str) -> Obj:
        path = self.tracker.runs(Value(name.replace(".", "/") + ".py")) if name else None
        if path is None or PurePosixPath(path).stem != name.rpartition(".")[2]:
            return Obj(ref=name)
        if path not in self._modules and len(self._modules) < MAX_MODULES:
            self._follow_module(Script(path=path, text=self.tracker.shipped[path]))
        return self._modules.get(path) or Obj(ref=name)

    # Calls

    def call(self, callee: Obj, call: Call) -> Obj:
        if callee.code is not None:
            return self.call_code(callee.code, call, callee)
        if callee.ref == PARTIAL:
            return self._call_partial(callee, call)
        if is_request(call):
            return send_request(self, call)
        handler = _handler(call.ref) or _method_handler(call)
        if handler is not None:
            return handler(self, call)
        made = call_method(call.target, call) if call.target is not None else None
        return self._call_unknown(call) if made is None else made

    def _call_partial(self, callee: Obj, call: Call) -> Obj:
        items = callee.items or {}
        first, *rest = elements(items[0]) or [UNKNOWN]
        call.arguments = rest + call.arguments
        call.named = {**(items[1].items or {}), **call.named}
        call.ref, call.target, call.method = first.ref, None, first.ref.rpartition(".")[2]
        return self.call(first, call)

    def _call_unknown(self, call: Call) -> Obj:
        self._call_back_all(call)
        return call.unknown_result()

    def _call_back_all(self, call: Call) -> None:
        """A function that is handed to a library is called by it, with what is handed over beside it."""
        for at, value in enumerate(call.arguments):
            if value.code is not None:
                self.call_back(value, call.arguments[at + 1 :], call)
        for name, value in call.named.items():
            if value.code is not None:
                given = elements(call.named.get("args", UNKNOWN)) if name == "target" else None
                self.call_back(value, given or [], call)


def _handler(ref: str) -> Handler | None:
    """By the whole dotted name, or its last two or its last part: modules are imported in many ways."""
    if not ref:
        return None
    for name in (ref, ".".join(ref.rsplit(".", 2)[-2:]), ref.rpartition(".")[2] if "()" not in ref else ""):
        if name in LIBRARY:
            return LIBRARY[name]
    return None


def _method_handler(call: Call) -> Handler | None:
    if call.target is None or (call.target.is_list and call.method in ("put", "add", "send")):
        return None
    return SINK_METHODS.get(call.method) or FILE_METHODS.get(call.method)


# Code in strings


def _exec(run: Interpreter, call: Call) -> Obj:
    return run_code(run, (parsed(text) for text in texts_of(call.argument(0))[:2]), call)


def _command(run: Interpreter, call: Call) -> Obj:
    """A command line or a list of words; what is printed is in whatever the call returns."""
    command = list_of(call.arguments) if call.method == "create_subprocess_exec" else call.argument(0, "args", "cmd")
    given = merged(origins_in(call.named.get("input", UNKNOWN)), origins_in(call.named.get("stdin", UNKNOWN)))
    return run_command(run, command, Obj(origins=given), call)


LIBRARY = {**FUNCTIONS, **FILE_FUNCTIONS, **SINKS}
LIBRARY |= named(
    (_exec, "exec eval builtins.exec builtins.eval"),
    (_command, "os.system os.popen subprocess.run subprocess.call subprocess.check_output subprocess.check_call"),
    (_command, "subprocess.Popen subprocess.getoutput subprocess.getstatusoutput asyncio.create_subprocess_shell"),
    (_command, "asyncio.create_subprocess_exec pexpect.run commands.getoutput check_output Popen"),
)
