"""Compares two prompts on three cases."""

from dataclasses import dataclass

from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import Evaluator, EvaluatorContext
from scripted import call, scripted

from pydantic_ai import Agent


@dataclass
class Correct(Evaluator[str, int, None]):
    def evaluate(self, ctx: EvaluatorContext[str, int, None]) -> bool:
        return ctx.output == ctx.expected_output


CASES = {"2 + 2": 4, "3 * 3": 9, "10 - 7": 3}
dataset = Dataset(
    name="sums",
    cases=[Case(name=each, inputs=each, expected_output=CASES[each]) for each in CASES],
    evaluators=[Correct()],
)


def solve(instructions: str):
    async def ask(question: str) -> int:  # in a real program one model for all
        answer = CASES[question] if "step by step" in instructions else 4
        model = scripted(call("final_result", response=answer))
        agent = Agent(model, instructions=instructions, output_type=int)
        return (await agent.run(question)).output

    return ask


plain = dataset.evaluate_sync(solve("Calculate."), progress=False)
careful = dataset.evaluate_sync(solve("Calculate step by step."), progress=False)
careful.print(baseline=plain)
