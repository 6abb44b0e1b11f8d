"""A Starlette route that streams an answer as server-sent events; asked here without a network."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from alhena import Agent
from alhena.events import ContentEvent
from alhena.testing import TestModel


async def answer(prompt: str) -> AsyncIterator[str]:
    agent = Agent(TestModel(f"You said: {prompt}"), isolated=True, builtin_tools=())
    async with agent, agent.run(prompt) as run:  # a client that leaves ends the run
        async for event in run:
            if isinstance(event, ContentEvent):
                yield f"data: {json.dumps(event.text)}\n\n"


async def chat(request: Request) -> StreamingResponse:
    return StreamingResponse(answer(request.query_params["prompt"]), media_type="text/event-stream")


async def send(message: Any) -> None:
    print(message.get("body", b"").decode(), end="")


app = Starlette(routes=[Route("/chat", chat)])
query: Any = {"type": "http", "method": "GET", "path": "/chat", "query_string": b"prompt=Hi"}
asyncio.run(app({**query, "headers": []}, asyncio.Queue[Any]().get, send))
