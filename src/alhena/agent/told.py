"""The conversation as safety checkers are told of it."""

from collections.abc import Iterable

from alhena.policy.safety.model import (
    ConversationHistory,
    ConversationTurn,
    ModelTurn,
    ToolCall,
    UserTurn,
)
from alhena.wire.content import USER, Content


def conversation(contents: Iterable[Content]) -> ConversationHistory:
    """`contents` as turns: what the user said, then the model's words and calls until the user
    speaks again. Results of tools and the model's thoughts are left out."""
    turns: list[_Turn] = []
    for content in contents:
        words = "".join(part.text for part in content.parts if part.text and not part.thought)
        if content.role == USER:
            if any(part.function_response is None for part in content.parts):
                turns.append(_Turn(words))
            continue
        if not turns:
            turns.append(_Turn(""))
        turns[-1].words.append(words)
        turns[-1].calls += (
            ToolCall(name=part.function_call.name, args=part.function_call.args or {})
            for part in content.parts
            if part.function_call is not None
        )
    return ConversationHistory(turns=tuple(turn.finished() for turn in turns))


class _Turn:
    """A turn that may go on."""

    def __init__(self, prompt: str) -> None:
        self.prompt = prompt
        self.words: list[str] = []
        self.calls: list[ToolCall] = []

    def finished(self) -> ConversationTurn:
        text = "\n".join(filter(None, self.words))
        return ConversationTurn(
            user=UserTurn(text=self.prompt),
            model=ModelTurn(text=text or None, tool_calls=tuple(self.calls)),
        )
