"""Every error the platform raises on purpose. Code decides by the type; the text is for people.

PlatformError
├── RequestError            the caller can fix it; `code` is stable, `details` says more
│   ├── InvalidRequest      400
│   ├── Unauthorized        401
│   │   └── BadSignature    401, for signed requests
│   ├── Forbidden           403
│   ├── NotFound            404
│   ├── WrongMethod         405, with the allowed methods
│   ├── Conflict            409
│   ├── TooLarge            413
│   ├── WrongMediaType      415
│   ├── Unprocessable       422
│   ├── TooManyRequests     429, with retry_after
│   │   └── ShareUsedUp     429: one address holds its share of the queue
│   ├── BadGateway          502: GitHub failed during an interactive request
│   └── DamagedArtifact     502: what is stored is not what was published
├── Unavailable             503: a required part is not reachable; try again
├── ConditionFailed         the condition of a write did not hold
├── IllegalMove             a state transition that the state table does not allow
├── LostLease               another worker, a person or the scan owns the record now: stop quietly
├── Refused                 the content is not acceptable; the reason is shown to its author
├── NeedsPerson             parked for a person to decide, with a reason
├── Deferred                an external service is down or its quota is used up: retried at `until`
├── TakesLong               a scan that this worker must not wait for: others do
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
    """`scheme` is sent as `www-authenticate`."""

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


class ShareUsedUp(TooManyRequests):
    """One address holds as much of the queue as it may."""

    code = "share_used_up"

    def __init__(self) -> None:
        super().__init__(
            "Your address has as many submissions in progress as one may have. Please submit again when some of them"
            " are finished.",
            retry_after=300,
        )


class BadGateway(RequestError):
    code = "upstream_failed"


class DamagedArtifact(RequestError):
    code = "artifact_damaged"


class Unavailable(PlatformError):
    code = "unavailable"
    retry_after = 5


class ConditionFailed(PlatformError):
    """`failed` are the positions of the writes whose condition did not hold."""

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
    """`parked_by` says what parked it, which decides who may reopen it."""

    def __init__(self, reason: str, parked_by: str) -> None:
        super().__init__(reason)
        self.parked_by = parked_by


class Deferred(PlatformError):
    """Costs no attempt. `what` is the service that is down; it is shown if the submission is parked after a day."""

    def __init__(self, reason: str, what: str, until: datetime, code: str) -> None:
        super().__init__(reason)
        self.what = what
        self.until = until
        self.code = code


class TakesLong(PlatformError):
    """Nothing is wrong with the skill: a worker for long scans scans it."""


class InvalidSettings(PlatformError):
    pass
