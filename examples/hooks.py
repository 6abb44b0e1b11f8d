"""Python functions as hooks: one logs every call, one refuses some."""

from typing import Any

from alhena import Agent
from alhena.testing import Call, TestModel


def delete(name: str) -> str:
    """Deletes a record."""
    return f"{name} is gone."


def guard(call: dict[str, Any]) -> dict[str, Any] | None:
    print("about to run", call["tool_name"], call["tool_input"])
    if call["tool_input"].get("name") == "everything":
        return {"decision": "deny", "reason": "Not everything."}
    return None


model = TestModel([Call("delete", name="a"), Call("delete", name="everything")], "Done.")
agent = Agent(model, tools=[delete], hooks={"BeforeTool": guard})
print(agent.ask_sync("Delete."))
print([part["functionResponse"]["response"] for part in model.requests[1]["contents"][-1]["parts"]])
