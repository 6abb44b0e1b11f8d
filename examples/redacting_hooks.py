"""Hooks as typed functions: one takes secrets out of results, others change calls and answers."""

import re

from alhena import Agent
from alhena.hooks import AfterModel, AfterTool, BeforeTool
from alhena.testing import Call, TestModel

SECRET = re.compile(r"sk-\w+")


def read_config(name: str) -> str:
    """Reads a configuration."""
    return f"{name}: key=sk-1234"


def redact(call: AfterTool) -> AfterTool:
    return call.replace(SECRET.sub("[key]", call.text))


def guard(call: BeforeTool) -> BeforeTool | None:
    name = str(call.args["name"])
    return call.block("Not that one.") if name == "root" else call.replace(args={"name": name[:4]})


def sign(answer: AfterModel) -> AfterModel | None:
    return answer.replace(f"{answer.text} (checked)") if answer.text else None


calls = [Call("read_config", name="main.toml"), Call("read_config", name="root")]
model = TestModel(calls, "Both are read.")
agent = Agent(
    model,
    tools=[read_config],
    hooks={"AfterTool": redact, "BeforeTool": guard, "AfterModel": sign},
    isolated=True,
)
print(agent.ask_sync("Read main and root."))
for part in model.requests[1]["contents"][-1]["parts"]:
    print(part["functionResponse"]["response"])
