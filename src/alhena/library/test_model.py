"""A model for tests of programs: it gives the answers it was made with."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

import msgspec

from alhena.errors import ProgramError
from alhena.wire.content import MODEL, Content, FunctionCall, Part
from alhena.wire.encode import EncodedContent, encode_request
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import (
    Candidate,
    EmbedContentResponse,
    FinishReason,
    GenerateContentResponse,
    UsageMetadata,
)


class Call:
    """A tool call that a TestModel makes: `Call("lookup", q="abc")`."""

    def __init__(self, name: str, /, **args: Any) -> None:
        self.name = name
        self.args = args

    def __repr__(self) -> str:
        return f"Call({self.name!r}, {self.args})"


Answer = (
    str | Call | Exception | Sequence[str | Call] | Callable[[dict[str, Any]], "str | Call | Any"]
)
"""Text; a call; several of them in one turn; an exception to raise; or a function of the request
that returns any of these."""


class TestModel:
    """A model that gives these answers in turn.

        model = TestModel(Call("lookup", q="abc"), "It is there.")
        result = await Agent(model, tools=[lookup]).run("Where is abc?")

    `requests` holds the requests so far, as the Gemini API is sent them. A request after the last
    answer raises ProgramError.
    """

    __test__ = False  # no test, whatever its name
    name = "test"

    def __init__(self, *answers: Answer) -> None:
        self.requests: list[dict[str, Any]] = []
        self._answers = answers

    def __repr__(self) -> str:
        return f"TestModel({len(self._answers)} answers, {len(self.requests)} requests)"

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """The next answer."""
        body = encode_request(request)
        self.requests.append(msgspec.json.decode(body))
        if len(self.requests) > len(self._answers):
            raise ProgramError(
                f"this TestModel has no answer left: it was made with {len(self._answers)}, and "
                f"this is request {len(self.requests)}."
            )
        answer: Any = self._answers[len(self.requests) - 1]
        if callable(answer):
            answer = answer(self.requests[-1])
        if isinstance(answer, Exception):
            raise answer
        several = isinstance(answer, list | tuple)
        given = list(cast("Sequence[Any]", answer)) if several else [answer]
        parts = tuple(map(_part, given))
        candidate = Candidate(
            content=Content(role=MODEL, parts=parts), finish_reason=FinishReason.STOP
        )
        prompt, output = len(body) // 4, sum(len(str(part)) for part in given) // 4
        usage = UsageMetadata(
            prompt_token_count=prompt,
            candidates_token_count=output,
            total_token_count=prompt + output,
        )
        return GenerateContentResponse(
            candidates=(candidate,), usage_metadata=usage, model_version=self.name
        )

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncIterator[GenerateContentResponse]:
        """The next answer, in one piece."""
        yield await self.generate(request)

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """An estimate: a quarter of the bytes."""
        del model
        return sum(map(len, contents)) // 4

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        """No vectors."""
        del contents, model
        return EmbedContentResponse()

    async def aclose(self) -> None:
        """Nothing to close."""


def _part(item: Any) -> Part:
    if isinstance(item, str):
        return Part(text=item)
    if isinstance(item, Call):
        return Part(function_call=FunctionCall(name=item.name, args=item.args))
    raise TypeError(f"an answer of a TestModel is text or a Call, not {type(item).__name__}")
