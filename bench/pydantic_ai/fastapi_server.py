"""FastAPI: an answer as server-sent events, and one over a websocket."""

from collections.abc import AsyncIterator

from fastapi import FastAPI, WebSocket
from fastapi.sse import EventSourceResponse
from fastapi.testclient import TestClient
from scripted import scripted

from pydantic_ai import Agent, UsageLimits

app = FastAPI()
agent = Agent(scripted("Hello.", "Hello."))
LIMITS = UsageLimits(request_limit=5)


@app.get("/chat", response_class=EventSourceResponse)
async def chat(prompt: str) -> AsyncIterator[str]:
    async with agent.run_stream(prompt, usage_limits=LIMITS) as result:
        async for text in result.stream_text(delta=True):
            yield text


@app.websocket("/talk")
async def talk(socket: WebSocket) -> None:
    await socket.accept()
    result = await agent.run(await socket.receive_text(), usage_limits=LIMITS)
    await socket.send_text(result.output)


client = TestClient(app)  # in place of `uvicorn fastapi_server:app`
with client.websocket_connect("/talk") as line:
    line.send_text("Hi")
    print(client.get("/chat?prompt=Hi").text.strip(), line.receive_text())
