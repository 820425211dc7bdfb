"""The shell's own commands, and the programs that run others."""

import re

from shared.scanner.flow.command_options import read_options
from shared.scanner.flow.shell_commands import CommandCall, CommandHandler, named, split_value
from shared.scanner.flow.tracker import Script
from shared.scanner.flow.values import EMPTY, HOLE, UNKNOWN, Value, constant, joined


def _cd(call: CommandCall) -> Value:
    target = next((argument.text for argument in call.arguments if not argument.text.startswith("-")), "~")
    absolute = target.startswith(("/", "~", HOLE))
    call.shell.folder = target.rstrip("/") if absolute or not call.shell.folder else f"{call.shell.folder}/{target}"
    return EMPTY


def _read(call: CommandCall) -> Value:
    options = call.options("dnNtupia")
    for name in [*options.get("-a"), *options.words]:
        if name.text.isidentifier():
            call.shell.assign(name.text, Value(_first_line(call.stdin), call.stdin.origins))
    return EMPTY


def _first_line(value: Value) -> str:
    lines = value.text.split()
    return " ".join(lines[:40]) if lines else HOLE


def _mapfile(call: CommandCall) -> Value:
    for name in call.options("dnOsuCct").words[:1]:
        call.shell.assign(name.text, call.stdin)
    return EMPTY


def _eval(call: CommandCall) -> Value:
    return call.shell.run_string(joined(call.arguments, " "), stdin=call.stdin)


def _source_file(call: CommandCall) -> Value:
    if not call.arguments:
        return UNKNOWN
    path, *rest = call.arguments
    if path.text.startswith("/dev/fd/"):
        return call.shell.run_string(call.shell.read(path))
    return call.shell.run_file(path, rest, call.stdin, sourced=True) or UNKNOWN


def _interpreter(call: CommandCall) -> Value:
    """`bash -c TEXT`, `bash FILE`, `… | bash`."""
    options = read_options(call.arguments, "cO", frozenset({"--rcfile", "--init-file"}), stop_at_word=True)
    for commands in options.get("-c"):
        return call.shell.run_string(commands, options.words[1:], call.stdin)
    if options.words and options.words[0].text not in ("-", "/dev/stdin"):
        path, *rest = options.words
        if path.text.startswith("/dev/fd/"):
            return call.shell.run_string(call.shell.read(path), rest)
        output = call.shell.run_file(path, rest, call.stdin)
        return UNKNOWN if output is None else output
    return call.shell.run_string(call.stdin, options.words[1:])


_CODE_OPTIONS = {"python": "-c", "node": "-e", "powershell": "-Command", "deno": "eval", "bun": "-e"}
_LANGUAGES = {"python": "python", "node": "script", "powershell": "powershell", "deno": "script", "bun": "script"}


def _program(call: CommandCall) -> Value:
    """`python -c CODE`, `python FILE`, `node - <<EOF`: followed in its own language."""
    name = {"pwsh": "powershell", "tsx": "node", "ts-node": "node"}.get(call.name, call.name.rstrip("0123456789."))
    option = _CODE_OPTIONS.get(name, "-c")
    arguments = [
        one for one in call.arguments if one.text not in ("run", "-u", "-I", "-B", "-S", "--", "-A", "-NoProfile")
    ]
    for at, argument in enumerate(arguments):
        if argument.text.lower() in (option.lower(), "--eval", "-p", "-c") and at + 1 < len(arguments):
            return _code(call, _LANGUAGES[name], arguments[at + 1], arguments[at + 2 :], call.stdin)
        if argument.text == "-":
            return _code(call, _LANGUAGES[name], call.stdin, arguments[at + 1 :], EMPTY)
        if not argument.text.startswith("-"):
            return _program_file(call, _LANGUAGES[name], argument, arguments[at + 1 :])
    return _code(call, _LANGUAGES[name], call.stdin, [], EMPTY) if call.stdin.text not in ("", HOLE) else UNKNOWN


def _program_file(call: CommandCall, language: str, path: Value, arguments: list[Value]) -> Value:
    written = call.shell.tracker.written(call.shell.resolved(path))
    if written is not None and written.is_known:
        return _code(call, language, written, arguments, call.stdin)
    shipped = call.shell.tracker.runs(path) if path.is_known else None
    return call.shell.tracker.run(shipped, tuple(arguments), call.stdin) if shipped else Value(HOLE, call.stdin.origins)


def _code(call: CommandCall, language: str, code: Value, arguments: list[Value], stdin: Value) -> Value:
    if code.text in ("", HOLE):
        return UNKNOWN
    script = Script(
        path=call.at.path,
        text=code.text,
        first_line=call.at.line,
        arguments=tuple(arguments),
        stdin=stdin,
        language=language,
    )
    return call.shell.tracker.interpret(script)


def _wrapper(call: CommandCall) -> Value:
    """`sudo`, `timeout 5`, `env A=b`: the rest is a command of its own."""
    values = {"timeout": "ks", "sudo": "ugpCh", "env": "uSC", "nice": "n", "xargs": "", "ionice": "cn", "doas": "u"}
    options = read_options(
        call.arguments, values.get(call.name, ""), frozenset({"--user", "--signal"}), stop_at_word=True
    )
    words = options.words[1:] if call.name in ("timeout", "flock", "watch") else options.words
    while words and call.name in ("env", "sudo") and re.match(r"\w{1,80}=", words[0].text):
        name, value = split_value(words[0], "=")
        call.shell.tracker.export(name, value)
        words = words[1:]
    return call.shell.call(words, call.stdin) if words else call.source() or UNKNOWN


def _xargs(call: CommandCall) -> Value:
    """What comes in becomes arguments: of the place marked by -I, or at the end."""
    options = read_options(
        call.arguments, "IiLnPdsaE", frozenset({"--replace", "--max-args", "--max-procs"}), stop_at_word=True
    )
    words = options.words or [constant("echo")]
    marks = [mark.text for mark in options.get("-I", "--replace")] or (["{}"] if options.has("-i") else [])
    if not marks:
        given = [Value(text, call.stdin.origins) for text in call.stdin.text.split()[:20]]
        return call.shell.call([*words, *given], EMPTY)
    filled = [_filled(word, marks[0], call.stdin) for word in words]
    return call.shell.call(filled, EMPTY)


def _filled(word: Value, mark: str, value: Value) -> Value:
    if mark not in word.text:
        return word
    return word.with_text(word.text.replace(mark, value.text.strip())).plus([value])


def _shift(call: CommandCall) -> Value:
    call.shell.shift()
    return EMPTY


def _trap(call: CommandCall) -> Value:
    return call.shell.run_string(call.arguments[0]) if call.arguments else EMPTY


def _declares(call: CommandCall) -> Value:
    """Prints all variables when it is given none."""
    return call.source() or EMPTY


def _silent(call: CommandCall) -> Value:
    return EMPTY


def _find(call: CommandCall) -> Value:
    """The paths it prints: its roots, joined with the name it looks for."""
    texts = [argument.text for argument in call.arguments]
    roots = _until_option(call.arguments) or [constant(".")]
    names = [
        texts[at + 1]
        for at, text in enumerate(texts[:-1])
        if text in ("-name", "-iname", "-path", "-ipath", "-wholename")
    ]
    paths = [f"{root.text}/{name}" for root in roots for name in names[:10]] or [root.text for root in roots]
    found = constant(" ".join(paths[:40]))
    at = next((at for at, text in enumerate(texts) if text in ("-exec", "-execdir", "-ok")), None)
    if at is None:
        return found
    command = [_filled(argument, "{}", found) for argument in call.arguments[at + 1 :]]
    ends = next((end for end, word in enumerate(command) if word.text in (";", "+", "\\;")), len(command))
    return call.shell.call(command[:ends], EMPTY) if command[:ends] else found


def _until_option(arguments: list[Value]) -> list[Value]:
    words = []
    for argument in arguments:
        if argument.text.startswith(("-", "(", "!")):
            break
        words.append(argument)
    return words


PROGRAMS: dict[str, CommandHandler] = {
    **named(_find, "find"),
    **named(_cd, "cd pushd"),
    **named(_read, "read"),
    **named(_mapfile, "mapfile readarray"),
    **named(_eval, "eval"),
    **named(_source_file, "source ."),
    **named(_interpreter, "sh bash zsh dash ksh ash fish"),
    **named(_program, "python python3 python2 node deno bun pwsh powershell tsx ts-node"),
    **named(_wrapper, "sudo env nohup time timeout exec command nice builtin busybox stdbuf doas setsid ionice watch"),
    **named(_wrapper, "flock unbuffer caffeinate chronic torsocks proxychains proxychains4"),
    **named(_xargs, "xargs parallel"),
    **named(_shift, "shift"),
    **named(_trap, "trap"),
    **named(_declares, "export declare set typeset"),
    **named(
        _silent, "alias local readonly unset true false : [ test exit return chmod mkdir rm sleep touch rmdir chown"
    ),
}
