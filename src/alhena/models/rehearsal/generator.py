"""The rehearsal as a ContentGenerator: a pure function of the request.

No network, no clock, no randomness, nothing kept between requests: the same request gives the same
chunks.
"""

import zlib
from collections.abc import AsyncIterator, Sequence

import msgspec

from alhena.models.errors import RequestRejectedError
from alhena.models.rehearsal.embedding import embedding
from alhena.models.rehearsal.handover import HAND_OVER
from alhena.models.rehearsal.inquiry import of_inquiry
from alhena.models.rehearsal.intents import Intent
from alhena.models.rehearsal.phrases import parse
from alhena.models.rehearsal.plan import Move, next_move
from alhena.models.rehearsal.report import NOTICE
from alhena.models.rehearsal.situation import Situation, situation
from alhena.models.rehearsal.toolbox import Call
from alhena.models.select import REHEARSAL
from alhena.wire.content import MODEL, Content, FunctionCall, Part
from alhena.wire.encode import EncodedContent
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import (
    Candidate,
    EmbedContentResponse,
    FinishReason,
    GenerateContentResponse,
    UsageMetadata,
)

_BYTES_PER_TOKEN = 4
_FEWEST_CHARACTERS_PER_CHUNK = 120
_CHUNKS = 8


class RehearsalGenerator:
    """Answers plain requests about the workspace by fixed rules, through the declared tools."""

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """The whole answer in one piece. Raises RequestRejectedError when JSON is asked for."""
        answer = _Answer(request)
        return answer.response(answer.parts, last=True)

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncIterator[GenerateContentResponse]:
        """A thought, then the text in a few chunks or all calls in one; the last chunk bears the
        finish reason and the usage. Raises RequestRejectedError when JSON is asked for."""
        answer = _Answer(request)
        chunks = answer.chunks()
        for number, parts in enumerate(chunks, 1):
            yield answer.response(parts, last=number == len(chunks))

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """An estimate by size: a token for every four bytes of JSON, rounded up."""
        del model  # sizes do not depend on it
        return _tokens(sum(map(len, contents)))

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        """One vector of hashed words per content: alike where words are shared."""
        del model  # there is one embedding
        return EmbedContentResponse(embeddings=tuple(embedding(item.content) for item in contents))

    async def aclose(self) -> None:
        """Nothing is held open."""


class _Answer:
    """The parts that answer a request: a thought, then text or calls."""

    def __init__(self, request: GenerateContentRequest) -> None:
        generation = request.config.generation_config
        if generation and (
            generation.response_mime_type == "application/json"
            or generation.response_schema is not None
            or generation.response_json_schema is not None
        ):
            raise RequestRejectedError(
                "the rehearsal cannot answer in JSON: it is no language model.",
                remedy="Set GEMINI_API_KEY to use a model that can.",
            )
        now = situation(request)
        move = next_move(_wanted(now), now)
        self._thought = Part(text=_thought(move), thought=True)
        self._text = "" if move.calls else f"{NOTICE}\n\n{move.text}".rstrip()
        self._request = request
        self._stamp = stamp = _stamp(request)
        self._calls = tuple(
            Part(
                function_call=FunctionCall(
                    id=f"{REHEARSAL}-{stamp}-{number}", name=call.name, args=call.args
                )
            )
            for number, call in enumerate(move.calls, 1)
        )

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts, the text in one."""
        return (self._thought, *self._calls, *((Part(text=self._text),) if self._text else ()))

    def chunks(self) -> list[tuple[Part, ...]]:
        """The parts as they stream."""
        if self._calls:
            return [(self._thought,), self._calls]
        return [(self._thought,), *((Part(text=piece),) for piece in _pieces(self._text))]

    def response(self, parts: tuple[Part, ...], *, last: bool) -> GenerateContentResponse:
        """Parts of this answer as a response; the last one says that the answer ended."""
        candidate = Candidate(
            content=Content(role=MODEL, parts=parts),
            finish_reason=FinishReason.STOP if last else None,
        )
        return GenerateContentResponse(
            candidates=(candidate,),
            usage_metadata=self._usage() if last else None,
            model_version=REHEARSAL,
            response_id=f"{REHEARSAL}-{self._stamp}",
        )

    def _usage(self) -> UsageMetadata:
        config = msgspec.json.encode(self._request.config)
        prompt = _tokens(sum(map(len, self._request.contents)) + len(config))
        thoughts = _tokens(len(self._thought.text or ""))
        said = _tokens(sum(len(msgspec.json.encode(part)) for part in self.parts[1:]))
        return UsageMetadata(
            prompt_token_count=prompt,
            candidates_token_count=said,
            thoughts_token_count=thoughts,
            total_token_count=prompt + said + thoughts,
        )


def _wanted(now: Situation) -> tuple[Intent, ...]:
    """What the prompt asks for; of one that asks for a report, something can always be found."""
    intents = parse(now.prompt)
    return of_inquiry(intents, now.prompt, now.tools) if HAND_OVER in now.tools else intents


def _thought(move: Move) -> str:
    if not move.calls:
        return "**Answering** The results so far are enough for an answer."
    return f"**Using the workspace** Next: {'; '.join(map(_told, move.calls[:5]))}."


def _told(call: Call) -> str:
    told = ", ".join(f"{key} {str(value)[:60]!r}" for key, value in call.args.items())
    return f"{call.name} with {told}" if told else call.name


def _pieces(text: str) -> list[str]:
    """The text in at most `_CHUNKS` pieces and a rest, cut behind whitespace where there is any."""
    size = max(_FEWEST_CHARACTERS_PER_CHUNK, len(text) // _CHUNKS)
    pieces: list[str] = []
    start = 0
    while len(text) - start > size:
        end = max(text.rfind(space, start, start + size) for space in " \n") + 1
        end = end if end > start else start + size
        pieces.append(text[start:end])
        start = end
    return [*pieces, text[start:]]


def _stamp(request: GenerateContentRequest) -> str:
    """Names a request by its contents. Its length keeps ids of a growing history apart for sure,
    its checksum those of histories that were compressed in between."""
    checksum = 0
    for content in request.contents:
        checksum = zlib.crc32(bytes(content.raw), checksum)
    return f"{len(request.contents)}-{checksum:08x}"


def _tokens(size: int) -> int:
    return -(-size // _BYTES_PER_TOKEN)
