"""Hooks: one takes secrets out of results, others change calls and answers."""

import re
from dataclasses import replace
from typing import Any

from pydantic_ai.capabilities import Hooks
from scripted import call, scripted

from pydantic_ai import Agent, ModelResponse, RunContext, SkipToolExecution, TextPart

SECRET = re.compile(r"sk-\w+")
hooks = Hooks()


@hooks.on.after_tool_execute
def redact(context: RunContext, *, result: Any, **rest: Any) -> Any:
    return SECRET.sub("[key]", result)


@hooks.on.before_tool_execute
def guard(context: RunContext, *, args: dict[str, Any], **rest: Any) -> dict[str, Any]:
    if args["name"] == "root":
        raise SkipToolExecution("Not that one.")
    return {"name": args["name"][:4]}


@hooks.on.after_model_request
def sign(context: RunContext, *, response: ModelResponse, **rest: Any) -> ModelResponse:
    parts = [
        replace(part, content=f"{part.content} (checked)") if isinstance(part, TextPart) else part
        for part in response.parts
    ]
    return replace(response, parts=parts)


model = scripted(
    [call("read_config", name="main.toml"), call("read_config", name="root")], "Both are read."
)
agent = Agent(model, capabilities=[hooks])


@agent.tool_plain
def read_config(name: str) -> str:
    """Reads a configuration."""
    return f"{name}: key=sk-1234"


print(agent.run_sync("Read main and root.").output)
for part in model.requests[1][-1].parts:
    print(part.content)
