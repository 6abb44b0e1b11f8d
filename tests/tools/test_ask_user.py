import json
from pathlib import Path
from typing import Any

import pytest

from alhena.tools.builtin.ask_user import Answers, AskUser
from alhena.tools.contract import (
    AskUserConfirmation,
    ExecutionContext,
    Question,
    QuestionOption,
    ToolFailure,
)
from tests.tools.files import call, failure_type, text_of

CHOICE = {
    "question": "Which database?",
    "header": "Database",
    "options": [{"label": "SQLite", "description": "one file"}, {"label": "Postgres"}],
}
TEXT = {"question": "Its name?", "header": "Name", "type": "text", "placeholder": "app"}


def answering(answers: Answers | None, asked: list[Any] | None = None) -> AskUser:
    async def ask(questions: tuple[Question, ...]) -> Answers | None:
        if asked is not None:
            asked.extend(questions)
        return answers

    return AskUser(ask)


async def test_the_answers_come_back_by_index() -> None:
    asked: list[Question] = []
    tool = answering({0: "SQLite", 1: "caf\u00e9", 9: "nobody asked"}, asked)
    result = await call(tool, questions=[CHOICE, TEXT])
    assert json.loads(text_of(result)) == {"answers": {"0": "SQLite", "1": "caf\u00e9"}}
    assert result.display == (
        "**User answered:**\n  Database \u2192 SQLite\n  Name \u2192 caf\u00e9"
    )
    assert asked == [
        Question(
            question="Which database?",
            header="Database",
            type="choice",
            options=(
                QuestionOption(label="SQLite", description="one file"),
                QuestionOption(label="Postgres"),
            ),
        ),
        Question(question="Its name?", header="Name", type="text", placeholder="app"),
    ]


async def test_dismissing_and_leaving_open_are_told_apart() -> None:
    assert text_of(await call(answering(None), questions=[TEXT])) == (
        "User dismissed ask_user dialog without answering."
    )
    empty = await call(answering({}), questions=[TEXT])
    assert json.loads(text_of(empty)) == {"answers": {}}
    assert empty.display == "User submitted without answering questions."


@pytest.mark.parametrize(
    ("questions", "said"),
    [
        ([], "must NOT have fewer than 1 items"),
        ([TEXT] * 5, "must NOT have more than 4 items"),
        ([{**TEXT, "question": " "}], "Question 1: the question must be non-empty"),
        ([TEXT, {**CHOICE, "options": []}], "Question 2: type 'choice' requires 'options'"),
        ([{"question": "a?", "header": "b"}], "2 to 4 items, not 0"),
        ([{**CHOICE, "options": [{"label": "x"}]}], "2 to 4 items, not 1"),
        ([{**CHOICE, "options": [{"label": "x"}] * 2}], "a label of its own"),
        ([{**TEXT, "type": "essay"}], "must be equal to one of the allowed values"),
        ([{"header": "x"}], "must have required property 'question'"),
    ],
)
async def test_questions_that_cannot_be_asked_are_refused(questions: Any, said: str) -> None:
    asked: list[Any] = []
    result = await call(answering({}, asked), questions=questions)
    assert failure_type(result) == "invalid_tool_params"
    assert said in text_of(result)
    assert asked == []


async def test_the_confirmation_holds_the_questions() -> None:
    built = answering({}).build({"questions": [{**CHOICE, "multiSelect": True}]})
    assert not isinstance(built, ToolFailure)
    details = await built.confirmation(ExecutionContext(Path.cwd()))
    assert isinstance(details, AskUserConfirmation)
    assert details.questions[0].multi_select
    assert built.describe() == "Asking user: Which database?"
