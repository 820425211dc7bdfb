"""Requests as an external scanner sends them, signed as the documentation says and not with the platform's code."""

import hashlib
import hmac
import itertools
import json
import uuid
from typing import Any

from tests.support.memory import WEBHOOK_SECRETS

CLAIM = "/api/v1/internal/scans/claim"
FILES = "/api/v1/internal/scans/files"
RESULTS = "/api/v1/webhooks/scan-results"

_nonces = itertools.count()


def signed_body(**fields: Any) -> bytes:
    return json.dumps({"nonce": f"nonce-{uuid.uuid4().hex}-{next(_nonces)}", **fields}).encode()


def signed_headers(path: str, body: bytes, at: float, provider: str = "bandit", secret: str | None = None) -> dict:
    key = (secret or WEBHOOK_SECRETS[provider]).encode()
    message = b"\n".join([b"POST", path.encode(), str(int(at)).encode(), body])
    return {
        "content-type": "application/json",
        "x-scan-provider": provider,
        "x-scan-timestamp": str(int(at)),
        "x-scan-signature": hmac.new(key, message, hashlib.sha256).hexdigest(),
    }
