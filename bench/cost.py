"""The cost of a session of 40 tool calls at three services, beside the least that it can cost.

Thirty files are read, five searches made and five files edited, one call a turn. Tokens are a
quarter of the JSON bytes. At Google and OpenAI a request finds what it begins with in common with
the one before; at Anthropic what its marks find (`tests.support.caching`).
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.support.caching import PromptCache
from tests.support.server import Received, Reply, ScriptedServer, chunk, json_reply, sse

from alhena import Agent
from alhena.models import Anthropic, Gemini, OpenAICompatible
from alhena.models.prices import Prices, Tokens
from bench.measure import row

Step = tuple[str, dict[str, Any]] | None
Counts = tuple[int, int, int]
"""Fresh tokens of a request, those written to the cache, and those read from it."""


def session_steps() -> list[Step]:
    """The calls of the session in order, then its end."""
    reads: list[Step] = [("read_file", {"file_path": f"f{at}.py"}) for at in range(30)]
    searches: list[Step] = [
        ("search_file_content", {"pattern": f"value_{at}\\b"}) for at in range(5)
    ]
    edits: list[Step] = [
        (
            "replace",
            {"file_path": f"f{at}.py", "old_string": f"value_{at}_0 = 0", "new_string": "new = 0"},
        )
        for at in range(5)
    ]
    return [*reads, *searches, *edits, None]


class PricedServer(ScriptedServer):
    """Answers with the steps of the session, and keeps the bodies of the requests."""

    def __init__(self, answer: Callable[[int, Step], Reply]) -> None:
        super().__init__()
        self.bodies: list[dict[str, Any]] = []
        self._steps = session_steps()
        self._answer = answer

    def take(self, received: Received) -> Reply:
        if received.method == "GET":  # a list of models, which costs nothing
            return json_reply({"error": {"message": "there is no list"}}, 404)
        self.bodies.append(received.json)
        step = self._steps.pop(0) if self._steps else None
        return self._answer(len(self.bodies), step)


def answer_gemini(number: int, step: Step) -> Reply:
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    if step is None:
        return sse(chunk({"text": "done"}, finish="STOP", usage=usage))
    call = {"functionCall": {"id": f"c{number}", "name": step[0], "args": step[1]}}
    return sse(chunk({**call, "thoughtSignature": "c2ln"}, finish="STOP", usage=usage))


def answer_openai(number: int, step: Step) -> Reply:
    delta: dict[str, Any] = {"role": "assistant", "content": "done"}
    if step is not None:
        function = {"name": step[0], "arguments": json.dumps(step[1])}
        called = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
        delta = {"role": "assistant", "tool_calls": [called]}
    choice = {"index": 0, "delta": delta, "finish_reason": "stop" if step is None else "tool_calls"}
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5.2"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return sse({**head, "choices": [choice]}, {**head, "choices": [], "usage": usage})


def answer_anthropic(number: int, step: Step) -> Reply:
    block: dict[str, Any] = {"type": "text", "text": "done"}
    if step is not None:
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": step[0], "input": step[1]}
    stop = "end_turn" if step is None else "tool_use"
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = {"id": "m", "type": "message", "role": "assistant", "model": "claude-opus-4-6"}
    begun = block | ({"text": ""} if step is None else {"input": {}})
    delta = {"type": "text_delta", "text": "done"}
    if step is not None:
        delta = {"type": "input_json_delta", "partial_json": json.dumps(step[1])}
    return sse(
        {"type": "message_start", "message": {**head, "content": [], "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": begun},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage},
        {"type": "message_stop"},
    )


def common_prefix(bodies: Iterable[dict[str, Any]], places: Sequence[str]) -> list[Counts]:
    """The counts of requests that find what they have in common with the one before. `places` are
    the keys of a body in the order of the cache."""
    counts: list[Counts] = []
    before: list[str] = []
    for body in bodies:
        found = [body.get(place) or [] for place in places]
        lists = [each if isinstance(each, list) else [each] for each in found]
        blocks = [json.dumps(block) for each in lists for block in each]
        same = 0
        for one, other in zip(before, blocks, strict=False):
            if one != other:
                break
            same += len(one)
        whole = sum(map(len, blocks))
        counts.append(((whole - same) // 4, 0, same // 4))
        before = blocks
    return counts


def marked_prefix(bodies: Iterable[dict[str, Any]]) -> list[Counts]:
    """The counts of requests to Anthropic."""
    cache = PromptCache()
    return [cache.take(body) for body in bodies]


def sum_costs(model: str, counts: Iterable[Counts]) -> float:
    """US dollars of the requests, without what is answered."""
    prices = Prices({})
    costs = [
        prices.cost(model, Tokens(prompt=sum(each), written=each[1], cached=each[2])) or 0.0
        for each in counts
    ]
    return sum(costs)


def least_counts(counts: Sequence[Counts], *, writes: bool) -> list[Counts]:
    """The counts when each request reads all of the one before."""
    sizes = [sum(each) for each in counts]
    news = [now - before for before, now in zip([0, *sizes], sizes, strict=False)]
    return [
        (0, more, size - more) if writes else (more, 0, size - more)
        for more, size in zip(news, sizes, strict=True)
    ]


async def _run_session(model: Any, cwd: Path) -> None:
    async with Agent(model, cwd=cwd, isolated=True, approval_mode="yolo") as agent:
        await agent.ask("Read everything, search, then edit.")


SERVICES = {
    "gemini-3.8-flash": (
        answer_gemini,
        lambda url: Gemini("gemini-3.8-flash", api_key="k", base_url=url),
        lambda bodies: common_prefix(bodies, ("tools", "systemInstruction", "contents")),
    ),
    "claude-opus-4-6": (
        answer_anthropic,
        lambda url: Anthropic("claude-opus-4-6", api_key="k", base_url=url),
        marked_prefix,
    ),
    "gpt-5.2": (
        answer_openai,
        lambda url: OpenAICompatible("gpt-5.2", api_key="k", base_url=f"{url}/v1"),
        lambda bodies: common_prefix(bodies, ("tools", "messages")),
    ),
}


def measure_session(model: str, cwd: Path) -> tuple[float, float]:
    """The cost of the session with a model, and the least possible, in US dollars."""
    answer, make, count = SERVICES[model]
    for at in range(30):
        lines = "".join(f"value_{at}_{line} = {line}\n" for line in range(80))
        (cwd / f"f{at}.py").write_text(lines, encoding="utf-8")
    with PricedServer(answer) as server:
        asyncio.run(_run_session(make(server.url), cwd))
        counts = count(server.bodies)
    if len(counts) != len(session_steps()):
        raise RuntimeError(f"{model}: {len(counts)} requests")
    least = least_counts(counts, writes=model.startswith("claude"))
    return sum_costs(model, counts), sum_costs(model, least)


def run(_home: Path, cwd: Path) -> None:
    for model in SERVICES:
        folder = cwd / f"session-{model}"
        folder.mkdir()
        cost, least = measure_session(model, folder)
        ratio = cost / least
        row(
            f"40 calls, {model}",
            f"${cost:.4f}",
            f"least possible ${least:.4f}",
            ratio,
            "<= 1.15",
            ok=ratio <= 1.15,
        )
