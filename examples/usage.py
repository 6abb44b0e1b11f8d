"""Usage and cost of a run, and of all runs of an agent."""

from alhena import Agent, Usage
from alhena.testing import Call, TestModel


def lookup(word: str) -> str:
    """Looks a word up."""
    return f"{word}: a star"


agent = Agent(
    TestModel(Call("lookup", word="alhena"), "A star in Gemini.", "You are welcome."),
    tools=[lookup],
    isolated=True,
)
total = Usage()
for prompt in ("What is alhena?", "Thank you."):
    result = agent.run_sync(prompt)
    usage = result.usage
    total += usage
    cost = "unknown" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
    print(f"{usage.requests} requests, {usage.input_tokens} tokens in, {usage.output_tokens} out,")
    print(f"  {usage.tool_calls} tool calls, cost {cost}")
print("together", total.input_tokens + total.output_tokens, "tokens")
