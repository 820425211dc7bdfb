"""Which commit a reference is: what GitHub answered to one worker, replayed for the others.

The questions are kept with their answers, and the code that asks them runs again on the answers: so every check of a
repository holds for a shared answer as it does for a new one.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TypeVar

import msgspec

from shared.errors import PlatformError, Refused
from shared.github.http import GetJson, Missing
from shared.github.repo_cache import RepoCache
from shared.storage.documents import encode
from shared.storage.kv import Key
from shared.timing import PIN_AGE

T = TypeVar("T")
Pin = Callable[[GetJson], Awaitable[T]]  # asks what it needs to know


class RecordedAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """To one question: what was parsed of it, or a refusal; neither: GitHub knows no such thing."""

    body: str | None = None
    code: str = ""
    message: str = ""


Answers = dict[str, RecordedAnswer]  # by path


class NotAnswered(PlatformError):
    """The recorded answers do not include this one."""


class Recorder:
    """Asks GitHub, and keeps its answers for others."""

    def __init__(self, get_json: GetJson) -> None:
        self._get_json = get_json
        self.answers: Answers = {}

    async def get_json(self, path: str, type_: type[T], missing: Refused) -> T:
        try:
            answer = await self._get_json(path, type_, Missing("not found"))
        except Missing:
            self.answers[path] = RecordedAnswer()
            raise missing from None
        except Refused as refusal:
            self.answers[path] = RecordedAnswer(code=refusal.code, message=str(refusal))
            raise
        self.answers[path] = RecordedAnswer(msgspec.json.encode(answer).decode())
        return answer


class Replay:
    """Answers as they were recorded."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    async def get_json(self, path: str, type_: type[T], missing: Refused) -> T:
        answer = self._answers.get(path)
        if answer is None:
            raise NotAnswered(path)
        if answer.body is not None:
            return msgspec.json.decode(answer.body, type=type_)
        raise Refused(answer.message, answer.code) if answer.code else missing


class SharedPins:
    def __init__(self, cache: RepoCache, clock: Callable[[], datetime]) -> None:
        self._cache = cache
        self._clock = clock

    async def pin(self, key: Key, get_json: GetJson, pin: Pin[T], since: datetime | None) -> T:
        """As GitHub answered at most PIN_AGE ago, and not before `since`."""

        async def use(found: str) -> T | Refused | None:
            return await replayed(_ANSWERS.decode(found), pin)

        async def fetch(_: str | None) -> tuple[T | Refused, str]:
            outcome, answers = await _recorded(get_json, pin)
            return outcome, encode(answers)

        return unless_refused(await self._cache.share(key, PIN_AGE, use, fetch, since))

    async def ask_afresh(self, key: Key, get_json: GetJson, pin: Pin[T]) -> Answers:
        """As GitHub answers now, which the workers that come later need not ask again."""
        asked_at = self._clock()
        _, answers = await _recorded(get_json, pin)
        await self._cache.replace(key, PIN_AGE, asked_at, encode(answers))
        return answers


async def replayed(answers: Answers, pin: Pin[T]) -> T | Refused | None:
    """None if these answers are not enough."""
    try:
        return await _outcome_of(pin(Replay(answers).get_json))
    except NotAnswered:
        return None


def unless_refused(outcome: T | Refused) -> T:
    if isinstance(outcome, Refused):
        raise outcome
    return outcome


async def _recorded(get_json: GetJson, pin: Pin[T]) -> tuple[T | Refused, Answers]:
    recorder = Recorder(get_json)
    return await _outcome_of(pin(recorder.get_json)), recorder.answers


async def _outcome_of(asking: Awaitable[T]) -> T | Refused:
    try:
        return await asking
    except Refused as refusal:
        return refusal


_ANSWERS = msgspec.json.Decoder(Answers)
