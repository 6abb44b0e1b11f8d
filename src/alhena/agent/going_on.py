"""Whether a person wants to go on where a run would end."""

from typing import TYPE_CHECKING

from alhena.tools.confirmation import Question, QuestionOption

if TYPE_CHECKING:
    from alhena.tools.builtin.ask_user import Ask

_GO_ON = "Go on"


async def wants_more(ask: "Ask", what: str, more: str) -> bool:
    """Whether to go on although `what` is the case; `more` says for how long. A question that is
    dismissed is a no."""
    question = Question(
        question=f"The run {what} Go on?" if what[:1].islower() else f"{what} Go on?",
        header="Limit",
        type="choice",
        options=(
            QuestionOption(label=_GO_ON, description=more),
            QuestionOption(label="Stop", description="The run ends here; what was done stands."),
        ),
    )
    answers = await ask((question,))
    return answers is not None and answers.get(0) == _GO_ON
