"""ask_user: asks the user questions, answered as text or by choice."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import msgspec

from alhena.errors import AlhenaError
from alhena.tools.base import BaseInvocation, DeclarativeTool
from alhena.tools.contract import (
    AskUserConfirmation,
    ExecutionContext,
    Question,
    QuestionOption,
    ToolFailure,
    ToolInvocation,
    ToolResult,
)
from alhena.wire.json_values import scrub

Answers = Mapping[int, str]
"""Question index -> answer, without unanswered questions. Several choices are joined by ", "."""

Ask = Callable[[tuple[Question, ...]], Awaitable[Answers | None]]
"""Asks a person the questions; returns None when they are dismissed. May raise UnaskedError for
questions of servers."""

MAX_QUESTIONS = 4
MIN_OPTIONS, MAX_OPTIONS = 2, 4
NOBODY_THERE = (
    "No person is available to ask. Decide what is reasonable and say what was assumed, or end "
    "with the question as the answer."
)
DISMISSED = "User dismissed ask_user dialog without answering."


class UnaskedError(AlhenaError):
    """Questions of a server could not be put to the person: there is no way for an answer."""


async def agrees(
    ask: Ask | None, question: str, header: str, yes: QuestionOption, no: QuestionOption
) -> bool:
    """Asks a person a question with two answers; True for `yes`. Dismissing it is a no, and so is
    a missing `ask`."""
    if ask is None:
        return False
    choice = Question(question=question, header=header, type="choice", options=(yes, no))
    answers = await ask((choice,))
    return answers is not None and answers.get(0) == yes.label


class AskUser(DeclarativeTool):
    """Asks questions through `ask`. Without `ask` every call fails: use that only to list the tool,
    not to declare it to a model."""

    name = "ask_user"

    def __init__(self, ask: Ask | None) -> None:
        self._ask = ask

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Requires a non-empty question, and two to four different options for a choice."""
        for number, given in enumerate(params["questions"], 1):
            problem = _problem(given)
            if problem is not None:
                return ToolFailure.of_params(f"Question {number}: {problem}")
        return None

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """One round of questions."""
        return AskUserInvocation(self._ask, params)


def _scrub_texts(value: Any) -> Any:
    """Makes every text in `value` safe to display and to encode."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, dict):
        return {key: _scrub_texts(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_scrub_texts(item) for item in cast("list[Any]", value)]
    return value


class AskUserInvocation(BaseInvocation):
    """One round of questions."""

    def __init__(self, ask: Ask | None, params: dict[str, Any]) -> None:
        super().__init__(params)
        self._ask = ask
        self._questions = tuple(
            msgspec.convert({"type": "choice"} | _scrub_texts(given), Question)
            for given in params["questions"]
        )

    def with_answers(self, answers: Mapping[int, str]) -> ToolInvocation:
        """Returns the same call with the answers filled in."""

        async def give_answers(_questions: tuple[Question, ...]) -> Answers:
            return {index: scrub(text) for index, text in answers.items()}

        return AskUserInvocation(give_answers, self.params)

    def describe(self) -> str:
        """Lists the questions."""
        return "Asking user: " + ", ".join(each.question for each in self._questions)

    async def confirmation(self, context: ExecutionContext) -> AskUserConfirmation:
        """Returns the questions: answering them is the confirmation."""
        del context
        return AskUserConfirmation(title="Ask User", questions=self._questions)

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Waits for the answers."""
        del context
        if self._ask is None:
            return ToolResult.from_failure(NOBODY_THERE)
        answers = await self._ask(self._questions)
        if answers is None:
            return ToolResult(llm_content=DISMISSED, display=DISMISSED)
        known = {index: answers[index] for index in range(len(self._questions)) if index in answers}
        told = msgspec.json.encode({"answers": {str(index): text for index, text in known.items()}})
        shown = [f"  {self._questions[i].header} → {text}" for i, text in known.items()]
        return ToolResult(
            llm_content=told.decode("utf-8"),
            display="\n".join(["**User answered:**", *shown])
            if shown
            else "User submitted without answering questions.",
        )


def _problem(given: dict[str, Any]) -> str | None:
    if not given["question"].strip():
        return "the question must be non-empty."
    if given.get("type", "choice") != "choice":
        return None
    labels = [option["label"].strip() for option in given.get("options", ())]
    if not MIN_OPTIONS <= len(labels) <= MAX_OPTIONS:
        return (
            f"type 'choice' requires 'options' with {MIN_OPTIONS} to {MAX_OPTIONS} items, "
            f"not {len(labels)}."
        )
    if "" in labels or len(set(labels)) < len(labels):
        return "every option needs a label of its own."
    return None
