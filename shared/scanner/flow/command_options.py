"""The words of a command line as options with their values, and what is left."""

from collections.abc import Iterator

import msgspec

from shared.scanner.flow.values import Value


class Options(msgspec.Struct, frozen=True):
    values: dict[str, list[Value]]  # by `-x` or `--name`; an option without a value has an empty list
    words: list[Value]

    def get(self, *names: str) -> list[Value]:
        return [value for name in names for value in self.values.get(name, ())]

    def has(self, *names: str) -> bool:
        return any(name in self.values for name in names)


def read_options(
    arguments: list[Value],
    with_value: str = "",
    long_with_value: frozenset[str] = frozenset(),
    stop_at_word: bool = False,
) -> Options:
    """`with_value` are the letters of short options that take a value; `long_with_value` the other options that do.

    `stop_at_word`: the first word and everything behind it belong to another command.
    """
    options = Options({}, [])
    remaining = iter(arguments)
    for argument in remaining:
        text = argument.text
        if text == "--":
            options.words.extend(remaining)
        elif not text.startswith("-") or text == "-":
            options.words.append(argument)
            if stop_at_word:
                options.words.extend(remaining)
        elif text.startswith("--") or text in long_with_value:
            _long(options, argument, long_with_value, remaining)
        else:
            _short(options, argument, with_value, remaining)
    return options


def _long(options: Options, argument: Value, with_value: frozenset[str], remaining: Iterator[Value]) -> None:
    name, separator, text = argument.text.partition("=")
    values = options.values.setdefault(name, [])
    if separator:
        values.append(argument.with_text(text))
    elif name in with_value:
        values.extend(_next(remaining))


def _short(options: Options, argument: Value, with_value: str, remaining: Iterator[Value]) -> None:
    letters = argument.text[1:]
    for at, letter in enumerate(letters[:20]):
        values = options.values.setdefault("-" + letter, [])
        if letter in with_value:
            rest = letters[at + 1 :]
            values.extend([argument.with_text(rest)] if rest else _next(remaining))
            return


def _next(remaining: Iterator[Value]) -> list[Value]:
    value = next(remaining, None)
    return [] if value is None else [value]
