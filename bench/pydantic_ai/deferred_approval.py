"""Pays after an approval that comes in another process: run it twice."""

from pathlib import Path

from pydantic_ai.conversation import ConversationTypeAdapter
from scripted import call, scripted

from pydantic_ai import Agent, DeferredToolRequests

STATE = Path("waiting.json")
agent = Agent(output_type=[str, DeferredToolRequests])


@agent.tool_plain(requires_approval=True)
def pay(amount: int, to: str) -> str:
    """Pays an amount."""
    return f"Paid {amount} to {to}."


if not STATE.exists():
    result = agent.run_sync("Pay Ada.", model=scripted(call("pay", amount=5, to="Ada")))
    assert isinstance(result.output, DeferredToolRequests)
    STATE.write_bytes(ConversationTypeAdapter.dump_json(result.conversation))
    for request in result.output.approvals:
        print("waits:", request.tool_call_id, request.tool_name, request.args)
else:
    conversation = ConversationTypeAdapter.validate_json(STATE.read_bytes())
    requests = conversation.deferred_tool_requests
    assert requests is not None
    approvals = {request.tool_call_id: True for request in requests.approvals}
    result = agent.run_sync(
        model=scripted("Ada has her money."),
        conversation=conversation,
        deferred_tool_results=requests.build_results(approvals=approvals),
    )
    print(result.output)
