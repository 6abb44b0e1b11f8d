"""What a request says about where a conversation stands."""

import msgspec

from alhena.models.rehearsal.toolbox import Call, Outcome, Toolbox
from alhena.wire.content import MODEL, Content, FunctionResponse
from alhena.wire.request import GenerateContentRequest

Round = tuple[FunctionResponse, ...]
"""The responses that came back in one content."""


class Situation(msgspec.Struct, frozen=True):
    """The last prompt, the tools that may be called, and the rounds of responses since."""

    prompt: str
    tools: Toolbox
    rounds: tuple[Round, ...]


def situation(request: GenerateContentRequest) -> Situation:
    """Reads a request: the prompt is the last user content that holds no functionResponse."""
    rounds: list[Round] = []
    prompt = ""
    for encoded in reversed(request.contents):
        content = encoded.content
        if content.role == MODEL:
            continue
        responses = _responses(content)
        if not responses:
            prompt = "\n\n".join(
                part.text for part in content.parts if part.text and not part.thought
            )
            break
        rounds.append(responses)
    return Situation(prompt, Toolbox(request.config), tuple(reversed(rounds)))


def _responses(content: Content) -> Round:
    return tuple(part.function_response for part in content.parts if part.function_response)


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
            found.append(_outcome(call, response))
    return tuple(found)


def _outcome(call: Call, response: FunctionResponse) -> Outcome:
    body = response.response
    if "error" in body:
        return Outcome(call, error=_text(body["error"]) or "an error without a message")
    return Outcome(call, output=_text(body.get("output", body or "")))


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode("utf-8")
