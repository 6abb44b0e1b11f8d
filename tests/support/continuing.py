"""A service whose answers take several requests, as Gemini 4's do."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.server import Received, Reply, ScriptedServer, json_reply, sse

PROMPT = 100
"""Tokens of the first prompt; each part of an answer takes ten."""


@dataclass
class Drop:
    """The connection is lost after the parts before this; `token`: the number of parts that the
    last token covers, None without one."""

    token: int | None = None


class ContinuingServer(ScriptedServer):
    """Gives each of `answers`, lists of parts, in requests that end behind `limit` parts, streamed
    or not. A token covers the parts before it; `drops` says after how many parts of the answer a
    stream is lost, once each. Refuses a request that is not the first one with its token."""

    def __init__(
        self,
        *answers: Sequence[dict[str, Any]],
        limit: int = 1,
        drops: dict[int, Drop] | None = None,
    ) -> None:
        super().__init__()
        self._answers = [list(answer) for answer in answers]
        self._limit = limit
        self._drops = dict(drops or {})
        self._first: dict[str, Any] | None = None

    @property
    def tokens(self) -> list[str | None]:
        """The tokens of the requests."""
        return [request.json.get("continuationToken") for request in self.requests]

    def take(self, received: Received) -> Reply:
        self.requests.append(received)
        body = received.json
        token = body.pop("continuationToken", None)
        if token is None:
            self._first = body
        elif body != self._first or not token.startswith("at-"):
            return json_reply({"error": {"code": 400, "message": "not the same request"}}, 400)
        begin = 0 if token is None else int(token.removeprefix("at-"))
        parts = self._answers[0]
        stop = min(begin + self._limit, len(parts))
        ends = stop == len(parts)
        if ends and not any(at >= begin for at in self._drops):
            self._answers.pop(0)
        chunks = [self._chunk([parts[at]], begin, at + 1) for at in range(begin, stop)]
        if not chunks:
            chunks = [self._chunk([], begin, begin)]
        last = chunks[-1]["candidates"][0]
        last["finishReason"] = "STOP" if ends else "CONTINUATION"
        if not ends:
            last["continuationToken"] = f"at-{stop}"
        if "stream" not in received.path:
            everything = parts[begin:stop]
            last["content"]["parts"] = everything
            return json_reply(chunks[-1])
        for at, drop in sorted(self._drops.items()):
            if begin <= at <= stop:
                del self._drops[at]
                sent = chunks[: at - begin]
                for each in sent:
                    each["candidates"][0].pop("finishReason", None)
                    each["candidates"][0].pop("continuationToken", None)
                if drop.token is not None and drop.token > begin:
                    covered = sent[drop.token - begin - 1]["candidates"][0]
                    covered["continuationToken"] = f"at-{drop.token}"
                return sse(*sent, cut=True)
        return sse(*chunks)

    def _chunk(self, parts: list[dict[str, Any]], begin: int, end: int) -> dict[str, Any]:
        usage = {
            "promptTokenCount": PROMPT + 10 * begin,
            "candidatesTokenCount": 10 * (end - begin),
            "totalTokenCount": PROMPT + 10 * end,
        }
        return {
            "candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}],
            "usageMetadata": usage,
            "modelVersion": "gemini-4-argon",
        }


def words(*said: str) -> list[dict[str, Any]]:
    return [{"text": each} for each in said]


def piece(path: str, value: str, *, goes_on: bool = True, **call: Any) -> dict[str, Any]:
    """A piece of a call with a piece of an argument."""
    made = {"partialArgs": [{"jsonPath": path, "stringValue": value}], **call}
    return {"functionCall": made | ({"willContinue": True} if goes_on else {})}
