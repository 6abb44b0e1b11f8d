"""Stands in for a model in these programs, as TestModel does in ours; its lines are not counted."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from pydantic_ai import ModelMessage, ModelResponse, TextPart, ToolCallPart

Step = str | ToolCallPart | list[ToolCallPart] | Callable[[list[ModelMessage]], str]


def call(tool: str, /, **args: Any) -> ToolCallPart:
    """A call of a tool, or of an output's tool, by the model."""
    return ToolCallPart(tool, args)


def scripted(*steps: Step) -> FunctionModel:
    """A model that gives these answers, one a request. Its `requests` are what it was sent."""
    left = iter(steps)
    requests: list[list[ModelMessage]] = []

    def take(messages: list[ModelMessage]) -> str | list[ToolCallPart]:
        requests.append(list(messages))
        step = next(left)
        if callable(step):
            step = step(messages)
        calls = [step] if isinstance(step, ToolCallPart) else step
        if isinstance(calls, str):
            return calls
        return [ToolCallPart(each.tool_name, each.args) for each in calls]  # with new ids

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        step = take(messages)
        return ModelResponse(parts=[TextPart(step)] if isinstance(step, str) else step)

    async def stream(
        messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        step = take(messages)
        if isinstance(step, str):
            yield step
            return
        for place, each in enumerate(step):
            args = json.dumps(each.args)
            yield {place: DeltaToolCall(each.tool_name, args[:9], tool_call_id=each.tool_call_id)}
            yield {place: DeltaToolCall(json_args=args[9:])}

    model = FunctionModel(answer, stream_function=stream)
    model.requests = requests
    return model
