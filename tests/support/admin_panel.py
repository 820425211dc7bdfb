"""The admin panel of a running platform, used over HTTP as a browser without JavaScript does."""

import re
from http.client import HTTPMessage
from urllib.parse import urlencode

from tests.support.platform import Platform


class Panel:
    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._cookie = ""
        sign_in_page = self._get()
        entered, headers, _ = self._post(
            "/admin/sign-in", token=platform.admin_token, csrf_token=_csrf_token_in(sign_in_page)
        )
        assert entered == 303, "the token was rejected"
        self._keep(headers)

    def decide(self, submission_id: str, action: str, why: str) -> int:
        """The status of the response: 303 on success."""
        csrf_token = _csrf_token_in(self._get())
        return self._post(f"/admin/review/{submission_id}", action=action, why=why, csrf_token=csrf_token)[0]

    def _get(self) -> str:
        status, headers, body = self._platform.request("GET", "/admin", headers={"cookie": self._cookie})
        assert status == 200
        if not self._cookie:
            self._keep(headers)
        return body.decode()

    def _post(self, path: str, **form: str) -> tuple[int, HTTPMessage, bytes]:
        sent = {"content-type": "application/x-www-form-urlencoded", "cookie": self._cookie}
        return self._platform.request("POST", path, urlencode(form), sent)

    def _keep(self, headers: HTTPMessage) -> None:
        cookies = (header.partition(";")[0] for header in headers.get_all("set-cookie", []))
        self._cookie = "; ".join(cookie for cookie in cookies if not cookie.endswith("="))


def _csrf_token_in(page: str) -> str:
    found = re.search(r'name="csrf_token" value="([0-9a-f]{64})"', page)
    assert found is not None
    return found[1]
