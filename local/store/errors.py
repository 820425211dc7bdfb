"""What the store answers instead of a result."""

from typing import Any


class RequestError(Exception):
    """An error as AWS reports it: a code that clients act on, and a sentence for people."""

    def __init__(self, code: str, message: str, status: int = 400, **more: Any) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.status, self.more = code, message, status, more


def invalid(message: str) -> RequestError:
    return RequestError("ValidationException", message)


def unsupported(what: str) -> RequestError:
    """Never ignored: a request that silently does something else is worse than one that fails."""
    return invalid(f"The store of one machine does not support {what}.")
