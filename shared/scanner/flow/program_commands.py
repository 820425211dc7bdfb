"""Commands that a program of another language runs: handed to the shell's front end, with what they carry."""

from shared.scanner.flow.expressions import Call
from shared.scanner.flow.interpreter import Interpreter
from shared.scanner.flow.objects import Obj, as_values, elements, from_value, join, origins_in
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
