"""What a program runs: commands, handed to the shell's front end with what they carry, and code in strings."""

import ast
from collections.abc import Iterable, Sequence

from shared.scanner.flow.expressions import Call, Scope
from shared.scanner.flow.interpreter import Interpreter
from shared.scanner.flow.objects import UNKNOWN, Obj, as_values, elements, from_value, join, origins_in
from shared.scanner.flow.shell import Shell
from shared.scanner.flow.values import HOLE, Value

MAX_COMMANDS = 2  # that one call may run, if its command is one of several


def run_command(run: Interpreter, command: Obj, stdin: Obj, call: Call) -> Obj:
    """What the command prints. A list is one command; a string may be many."""
    shell = Shell(call.at.path, run.tracker, line=call.at.line)
    given = Value(HOLE, origins_in(stdin))
    words = elements(command)
    if words:
        return from_value(shell.call([as_values(word)[0] for word in words], given))
    return join([from_value(shell.run_string(text, stdin=given)) for text in as_values(command)[:MAX_COMMANDS]])


def run_code(run: Interpreter, bodies: Iterable[Sequence[ast.stmt] | None], call: Call) -> Obj:
    """What the first of these programs that can be read and ends in an expression gives, in the scope of the call."""
    for body in bodies:
        if body:
            scope = Scope(run.unit_in(call), call.scope.parent, call.scope.names)
            run.execute(scope, body)
            if isinstance(body[-1], ast.Expr):
                return run.evaluate(scope, body[-1].value)
    return UNKNOWN
