"""How a person is asked: about a tool call, and what the model wants to know."""

import asyncio
from collections.abc import Callable

from alhena.display_text import escaped
from alhena.frontends.terminal.asking import Outcome, choices, question_menu, request_blocks
from alhena.frontends.terminal.lines import Block, Lines, line, lines_of
from alhena.frontends.terminal.screen import Screen
from alhena.scheduler.confirmation import Answer, ConfirmationRequest, Payload
from alhena.tools.builtin.ask_user import Answers
from alhena.tools.confirmation import Question

REASON = "What should be done instead?"
REASON_HINT = "the model is told; Enter: just no"


class Consent:
    """Puts questions on a screen, one after the other, whoever has them. `own` are ids of calls
    that the person made."""

    def __init__(self, screen: Screen) -> None:
        self.own: set[str] = set()
        self._screen = screen
        self._turn = asyncio.Lock()

    async def answer(
        self, request: ConfirmationRequest, show: Callable[[tuple[Block, ...]], None]
    ) -> Answer:
        """The person's answer to a call that waits. Dismissing the question is a no."""
        async with self._turn:
            show(request_blocks(request))
            menu, answers = choices(request)
            picked = await self._screen.choose(menu)
            if not picked:
                return Answer(Outcome.CANCEL)
            answer = answers[min(picked)]
            if answer.outcome is not Outcome.CANCEL:
                return answer
            reason = await self._screen.ask_text(REASON, REASON_HINT)
            return Answer(Outcome.CANCEL, Payload(reason=reason or None))

    async def ask(
        self, questions: tuple[Question, ...], show: Callable[[tuple[Block, ...]], None]
    ) -> Answers | None:
        """The answers to the model's questions; None when one was dismissed."""
        async with self._turn:
            return await self._ask(questions, show)

    async def _ask(
        self, questions: tuple[Question, ...], show: Callable[[tuple[Block, ...]], None]
    ) -> Answers | None:
        answers: dict[int, str] = {}
        for index, question in enumerate(questions):
            show((Lines(((), line(f"? {escaped(question.question)}", "bold"))),))
            found = await self._one(question)
            told = lines_of(found, "accent", "  ") if found else [line("  no answer", "dim")]
            show((Lines(tuple(told)),))
            if found is None:
                return None
            if found:
                answers[index] = found
        return answers

    async def _one(self, question: Question) -> str | None:
        menu = question_menu(question)
        if menu is None:
            return await self._screen.ask_text(_label(question), question.placeholder)
        picked = await self._screen.choose(menu)
        if picked is None:
            return None
        labels = [menu.options[each].label for each in sorted(picked)]
        if question.type == "choice" and len(menu.options) - 1 in picked:
            other = await self._screen.ask_text(_label(question), question.placeholder)
            if other is None:
                return None
            labels[-1:] = [other] if other else []
        return ", ".join(labels)


def _label(question: Question) -> str:
    return f"{question.header or 'Your answer'}:"
