"""Every error the platform raises on purpose. The type decides what happens, the text is for people.

PlatformError
├── RequestError            the caller can fix it; `code` is stable, `details` says more
│   ├── InvalidRequest      400
│   ├── Unauthorized        401
│   │   └── BadSignature    401, for signed requests
│   ├── Forbidden           403
│   ├── NotFound            404
│   ├── WrongMethod         405, with the methods that are allowed
│   ├── Conflict            409
│   ├── TooLarge            413
│   ├── WrongMediaType      415
│   ├── Unprocessable       422
│   ├── TooManyRequests     429, with retry_after
│   └── BadGateway          502: GitHub did not answer somebody who waits
├── Unavailable             503: a part we need does not answer; try again
├── ConditionFailed         a conditional write met another state of the record
├── IllegalMove             a move that the state table refuses
├── LostLease               another worker, a person or the scan has the record now: stop quietly
├── Refused                 a decision about the content, with the reason its author reads
├── NeedsPerson             cannot be decided here: parked with a reason
├── Deferred                something outside is down or its quota is used up: the same again at `until`
└── InvalidSettings         the process must not start
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class PlatformError(Exception):
    code = "internal_error"


class RequestError(PlatformError):
    def __init__(self, message: str, code: str | None = None, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code or type(self).code
        self.details = details


class InvalidRequest(RequestError):
    code = "invalid_request"


class Unauthorized(RequestError):
    """`scheme` is how to prove who you are, for the answer's `www-authenticate`."""

    code = "unauthorized"
    scheme = "Bearer"


class BadSignature(Unauthorized):
    code = "invalid_signature"
    scheme = "HMAC-SHA256"


class Forbidden(RequestError):
    code = "forbidden"


class NotFound(RequestError):
    code = "not_found"


class WrongMethod(RequestError):
    code = "method_not_allowed"

    def __init__(self, message: str, allowed: Sequence[str]) -> None:
        super().__init__(message)
        self.allowed = allowed


class Conflict(RequestError):
    code = "conflict"


class TooLarge(RequestError):
    code = "too_large"


class WrongMediaType(RequestError):
    code = "unsupported_media_type"


class Unprocessable(RequestError):
    code = "unprocessable"


class TooManyRequests(RequestError):
    code = "too_many_requests"

    def __init__(
        self, message: str, code: str | None = None, retry_after: int = 60, headers: Mapping[str, str] = NO_HEADERS
    ) -> None:
        super().__init__(message, code)
        self.retry_after = retry_after
        self.headers = headers


class BadGateway(RequestError):
    code = "upstream_failed"


class Unavailable(PlatformError):
    code = "unavailable"
    retry_after = 5


class ConditionFailed(PlatformError):
    """`failed` holds the positions of the writes whose condition did not hold."""

    def __init__(self, failed: Sequence[int]) -> None:
        super().__init__(f"the condition of write {', '.join(map(str, failed))} did not hold")
        self.failed = tuple(failed)


class IllegalMove(PlatformError):
    pass


class LostLease(PlatformError):
    pass


class Refused(PlatformError):
    def __init__(self, reason: str, code: str = "refused") -> None:
        super().__init__(reason)
        self.code = code


class NeedsPerson(PlatformError):
    """`parked_by` names what parked it, which decides who may reopen it."""

    def __init__(self, reason: str, parked_by: str) -> None:
        super().__init__(reason)
        self.parked_by = parked_by


class Deferred(PlatformError):
    """Costs no attempt. `what` names what is down, for the person who reads it when it stays down for a day."""

    def __init__(self, reason: str, what: str, until: datetime, code: str) -> None:
        super().__init__(reason)
        self.what = what
        self.until = until
        self.code = code


class InvalidSettings(PlatformError):
    pass
