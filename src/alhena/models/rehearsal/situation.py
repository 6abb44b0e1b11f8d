"""What a request says about where a conversation stands."""

import msgspec

from alhena.models.rehearsal.handover import HAND_OVER, is_last_call
from alhena.models.rehearsal.toolbox import Call, Outcome, Toolbox
from alhena.wire.content import MODEL, Content, FunctionResponse
from alhena.wire.request import GenerateContentRequest

Round = tuple[FunctionResponse, ...]
"""The responses that came back in one content."""


class Situation(msgspec.Struct, frozen=True):
    """The last prompt, the tools that may be called, and the rounds of responses since.

    `last_turn`: the result was asked for at once, by words that are no prompt of their own.
    """

    prompt: str
    tools: Toolbox
    rounds: tuple[Round, ...]
    last_turn: bool = False


def situation(request: GenerateContentRequest) -> Situation:
    """Reads a request: the prompt is the last user content that holds no functionResponse. Where
    the work ends with complete_task, being told to call it now is no prompt."""
    tools = Toolbox(request.config)
    rounds: list[Round] = []
    prompt = ""
    last_turn = False
    for encoded in reversed(request.contents):
        content = encoded.content
        if content.role == MODEL:
            continue
        responses = _responses(content)
        words = _words(content)
        told = HAND_OVER in tools and is_last_call(words)
        last_turn = last_turn or told
        if responses:
            rounds.append(responses)
        elif not told:
            prompt = words
            break
    return Situation(prompt, tools, tuple(reversed(rounds)), last_turn)


def _responses(content: Content) -> Round:
    return tuple(part.function_response for part in content.parts if part.function_response)


def _words(content: Content) -> str:
    return "\n\n".join(part.text for part in content.parts if part.text and not part.thought)


def outcomes(calls: tuple[Call, ...], responses: Round) -> tuple[Outcome, ...]:
    """One outcome for each call: the first response not yet taken that bears its name."""
    left = list(responses)
    found: list[Outcome] = []
    for call in calls:
        response = next((item for item in left if item.name == call.name), None)
        if response is None:
            found.append(Outcome(call, error="no response came back for this call"))
        else:
            left.remove(response)
            found.append(outcome(call, response))
    return tuple(found)


def outcome(call: Call, response: FunctionResponse) -> Outcome:
    """How a call ended, by its response."""
    body = response.response
    if "error" in body:
        return Outcome(call, error=_text(body["error"]) or "an error without a message")
    return Outcome(call, output=_text(body.get("output", body or "")))


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode("utf-8")
