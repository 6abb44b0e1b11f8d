"""Asks a model whether the session's model goes in circles, in ways that no comparison finds."""

from typing import TYPE_CHECKING

import msgspec

from alhena.agent.links import SessionLinks
from alhena.agent.model_access import SessionModel
from alhena.chat.chat import Chat, for_another_model
from alhena.chat.loops import Loop, LoopKind, loop_question
from alhena.errors import AlhenaError
from alhena.events import LoopCheckEvent
from alhena.models.catalogue import FLASH
from alhena.wire.conformance.history import slice_history
from alhena.wire.content import MODEL, USER, Content, text_content

if TYPE_CHECKING:
    from alhena.wire.response import GenerateContentResponse

ROLE = "utility_loop_detector"
LOOKED_AT = 20
"""Contents at the end of the history that are judged."""
SURE = 0.9
"""Confidence from which on an answer counts."""
INTERVAL = (5, 15)
"""The least and the most turns between two questions: the surer the answer, the fewer."""

_LEAD = "[What was said before is left out.]"
_SCHEMA = {
    "type": "object",
    "properties": {
        "unproductive_state_analysis": {"type": "string"},
        "unproductive_state_confidence": {"type": "number"},
    },
    "required": ["unproductive_state_analysis", "unproductive_state_confidence"],
}


class _Verdict(msgspec.Struct):
    unproductive_state_confidence: float
    unproductive_state_analysis: str = ""


class LoopJudge:
    """Asks first after `first` turns of a prompt, then now and then. Where the session's model is a
    Gemini model a quick one is asked first, and the session's own only when that one is sure.

    An answer that fails, or is none, says nothing; its failure is an event of its own.
    """

    def __init__(self, chat: Chat, links: SessionLinks, first: int) -> None:
        self._chat = chat
        self._model = SessionModel(links.answering, links.emit, texts=links.texts, role=ROLE)
        self._emit = links.emit
        self._first = first
        self._turns = 0
        self._next = first

    def new_prompt(self) -> None:
        """Begins anew for a prompt."""
        self._turns = 0
        self._next = self._first

    async def after_turn(self, prompt_id: str) -> Loop | None:
        """The loop that the models are sure of, if they are asked after this turn."""
        self._turns += 1
        if self._turns < self._next:
            return None
        own = self._chat.model.name
        quick = FLASH if own.startswith("gemini-") else own
        first = await self._asked(quick)
        second = None
        if first is not None and first.unproductive_state_confidence >= SURE and quick != own:
            second = await self._asked(own)
        confidence = 0.0 if first is None else first.unproductive_state_confidence
        least, most = INTERVAL
        self._next = self._turns + round(least + (most - least) * (1 - confidence))
        if first is None:
            return None
        self._emit(
            LoopCheckEvent(
                prompt_id=prompt_id,
                model=quick,
                confidence=confidence,
                second_model="" if second is None else own,
                second_confidence=0.0 if second is None else second.unproductive_state_confidence,
            )
        )
        last = first if quick == own else second
        if last is None or last.unproductive_state_confidence < SURE or confidence < SURE:
            return None
        analysis = " ".join(last.unproductive_state_analysis.split())[:500].rstrip(".")
        return Loop(LoopKind.JUDGED, analysis or "no progress was made for many turns")

    async def _asked(self, model: str) -> _Verdict | None:
        try:
            answer = await self._model.generate(self._contents(), model=model, schema=_SCHEMA)
        except AlhenaError:  # which is an event of its own
            return None
        return _verdict(answer)

    def _contents(self) -> tuple[Content, ...]:
        """The end of the conversation, and the question."""
        contents = [entry.content for entry in self._chat.history.contents]
        end = slice_history(contents, -LOOKED_AT, lead=text_content(USER, _LEAD))
        shown = [for_another_model(content, sign_calls=False) for content in end]
        if shown and shown[-1].role == USER:
            shown.append(text_content(MODEL, "[I am about to go on.]"))
        return (*shown, text_content(USER, loop_question()))


def _verdict(answer: "GenerateContentResponse") -> _Verdict | None:
    text = "".join(part.text or "" for part in answer.parts if not part.thought)
    try:
        verdict = msgspec.json.decode(text, type=_Verdict)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    sure = min(max(verdict.unproductive_state_confidence, 0.0), 1.0)
    return msgspec.structs.replace(verdict, unproductive_state_confidence=sure)
