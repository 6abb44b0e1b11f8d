"""For tests of programs: records what models answer, replays it, and forbids real requests."""

import os
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

import msgspec

from alhena.chat.prompt import GREETING
from alhena.models.catalogue import is_foreign_model
from alhena.models.errors import RecordingError
from alhena.models.providers.recorded import (
    AnswerRecorder,
    Method,
    RecordedAnswer,
    RecordedGenerator,
)
from alhena.models.providers.select import RECORDINGS, ChosenGenerator, is_demo
from alhena.models.retry import REPLAY, RetryingGenerator
from alhena.tools.shell_output import without_ids

_CWD = "{cwd}"
_SHOWN = 60
_BEFORE = 15


@contextmanager
def record(path: str | os.PathLike[str]) -> Generator[None]:
    """Records the requests and answers of all agents inside, for `replay`.

        with record("answers.jsonl"):
            Agent("gemini-3.8-flash").ask_sync("Which files are there?")

    The file has a JSON line per answer and is readable by its owner only: it quotes what the model
    was shown, but contains no key. It is replaced when the block ends; if the block raises, it is
    left unchanged. Raises RecordingError when it cannot be written.
    """
    target = os.fspath(path)
    recording = _Recording(f"{target}.part")
    RECORDINGS.append(recording)
    try:
        yield
        recording.keep_as(target)
    finally:
        RECORDINGS.remove(recording)
        recording.close()


@contextmanager
def replay(path: str | os.PathLike[str]) -> Generator[None]:
    """Answers all agents inside with what `record` has written; no model is asked.

    At the end of the block a RuntimeWarning names the answers that were not asked for.

    Each recorded answer is given once, to a request equal to the recorded one; a request that
    equals none raises RecordingError with the first difference. Not compared are the description of
    the environment that begins a conversation, ids of calls, and process ids of commands. The
    agent's working directory may be another one. Files of `--record-responses` have no requests:
    their answers are given in order.
    """
    answers = _Answers(os.fspath(path))
    RECORDINGS.append(answers)
    try:
        yield
        answers.tell_left_over()
    finally:
        RECORDINGS.remove(answers)


@contextmanager
def no_real_requests() -> Generator[None]:
    """Lets no request inside leave to a model, a proxy or a web page, loopback included.

    A request to a model raises ProgramError with the host; web_fetch fails with the same words.
    Agents with a TestModel or a replay still work, as do MCP servers and
    shell commands.
    """
    from alhena.http import addresses

    addresses.forbidden += 1
    try:
        yield
    finally:
        addresses.forbidden -= 1


class _Recording:
    def __init__(self, path: str) -> None:
        self._path = path
        self._recorders: list[AnswerRecorder] = []
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        try:
            os.close(os.open(path, flags, 0o600))
        except (OSError, ValueError) as error:
            raise _unwritable(path, error) from error

    def generator(
        self, choose: Callable[[], ChosenGenerator], model: str, cwd: str
    ) -> ChosenGenerator:
        del model
        chosen = choose()
        retrying = chosen.generator
        inner = retrying.inner if isinstance(retrying, RetryingGenerator) else retrying
        recorder = AnswerRecorder(inner, self._path, cwd=cwd)
        self._recorders.append(recorder)
        recorded = retrying.over(recorder) if isinstance(retrying, RetryingGenerator) else recorder
        return msgspec.structs.replace(chosen, generator=recorded)

    def keep_as(self, path: str) -> None:
        try:
            os.replace(self._path, path)
        except OSError as error:
            raise _unwritable(path, error) from error

    def close(self) -> None:
        for recorder in self._recorders:
            recorder.close_file()
        if os.path.lexists(self._path):
            os.unlink(self._path)


def _unwritable(path: str, error: OSError | ValueError) -> RecordingError:
    reason = error.strerror if isinstance(error, OSError) else "no usable path"
    return RecordingError(f"cannot record to {path!r}: {reason}.", remedy="Check the path.")


class _RecordedAnswer(msgspec.Struct):
    """A recorded answer that was not given yet. `asked` is its request as it is compared; None: it
    was not recorded."""

    number: int
    line: RecordedAnswer
    asked: Any


class _Answers:
    """The answers of a file, for all agents together."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._refused = False
        self._left = [_answer(*numbered) for numbered in RecordedGenerator(path).lines()]

    def generator(
        self, choose: Callable[[], ChosenGenerator], model: str, cwd: str
    ) -> ChosenGenerator:
        del choose
        replayed = _Replay(self._path, self, cwd)
        return ChosenGenerator(
            generator=RetryingGenerator(replayed, REPLAY),
            model=model,
            speaks_gemini=not (is_foreign_model(model) or is_demo(model)),
        )

    def tell_left_over(self) -> None:
        """Warns of recorded answers that were not asked for."""
        if self._left and not self._refused:
            lines = ", ".join(str(answer.number) for answer in self._left)
            warnings.warn(
                f"{self._path} has recorded answers that were not asked for, in line {lines}.",
                RuntimeWarning,
                stacklevel=4,
            )

    def take(self, method: Method, asked: Any) -> _RecordedAnswer:
        """The first answer to this request that was not given yet."""
        same = [answer for answer in self._left if answer.line.method is method]
        for answer in same:
            if answer.asked is None or answer.asked == asked:
                self._left.remove(answer)
                return answer
        if not same:
            raise RecordingError(
                f"{self._path} has no answer to {method} left.", remedy="Record it again."
            )
        self._refused = True
        where, recorded, now = _difference(same[0].asked, asked, "")
        raise RecordingError(
            f"the request differs from the one recorded in {self._path}, line "
            f"{same[0].number}, at {where}: recorded {recorded}, now {now}.",
            remedy="Record it again if the program was changed on purpose.",
        )


class _Replay(RecordedGenerator):
    """The answers for one agent, with its working directory in place of the recorded one."""

    def __init__(self, path: str, answers: _Answers, cwd: str) -> None:
        super().__init__(path)
        self._answers = answers
        self._cwd = cwd

    def take(self, method: Method, model: str, body: Callable[[], bytes]) -> tuple[int, bytes]:
        answer = self._answers.take(method, _comparable(body(), model, self._cwd))
        response = bytes(answer.line.response)
        if answer.line.cwd:
            response = response.replace(_quote_text(answer.line.cwd), _quote_text(self._cwd))
        return answer.number, response


def _answer(number: int, line: RecordedAnswer) -> _RecordedAnswer:
    body = bytes(line.request)
    return _RecordedAnswer(number, line, _comparable(body, line.model, line.cwd) if body else None)


def _quote_text(text: str) -> bytes:
    """The text as JSON holds it."""
    return msgspec.json.encode(text)[1:-1]


def _comparable(body: bytes, model: str, cwd: str) -> dict[str, Any]:
    """A request without what differs from run to run."""
    if len(cwd) > 1:
        body = body.replace(_quote_text(cwd), _CWD.encode())
    request: dict[str, Any] = {"model": model, **msgspec.json.decode(body)}
    for content in request.get("contents", ()):
        for part in content.get("parts", ()):
            _mask(part)
    return request


def _mask(part: dict[str, Any]) -> None:
    if part.get("text", "").startswith(GREETING):
        part["text"] = GREETING
    for kind in ("functionCall", "functionResponse"):
        part.get(kind, {}).pop("id", None)
    response = part.get("functionResponse", {}).get("response", {})
    for name, value in response.items():
        if isinstance(value, str):
            response[name] = without_ids(value)


def _difference(recorded: Any, now: Any, path: str) -> tuple[str, str, str]:
    """The path to the first difference of two JSON values, and both values there."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        old, new = cast("dict[str, Any]", recorded), cast("dict[str, Any]", now)
        for name in (*old, *(name for name in new if name not in old)):
            if old.get(name) != new.get(name):
                deeper = f"{path}.{name}" if path else name
                return _difference(old.get(name), new.get(name), deeper)
    if isinstance(recorded, list) and isinstance(now, list):
        olds, news = cast("list[Any]", recorded), cast("list[Any]", now)
        for number, (old, new) in enumerate(zip(olds, news, strict=False)):
            if old != new:
                return _difference(old, new, f"{path}[{number}]")
        return path, f"{len(olds)} items", f"{len(news)} items"
    if isinstance(recorded, str) and isinstance(now, str):
        pairs = enumerate(zip(recorded, now, strict=False))
        differs = next(
            (at for at, (old, new) in pairs if old != new), min(map(len, (recorded, now)))
        )
        begin = max(0, differs - _BEFORE)
        return path, repr(recorded[begin:][:_SHOWN]), repr(now[begin:][:_SHOWN])
    return path, _short(recorded), _short(now)


def _short(value: Any) -> str:
    text = "nothing" if value is None else msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
