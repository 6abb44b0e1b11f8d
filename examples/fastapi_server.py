"""FastAPI: an answer as server-sent events, and one over a websocket."""

from collections.abc import AsyncIterator

from fastapi import FastAPI, WebSocket
from fastapi.sse import EventSourceResponse
from fastapi.testclient import TestClient

from alhena import Agent, Limits
from alhena.testing import TestModel

app = FastAPI()


def make_agent() -> Agent:
    return Agent(TestModel("Hello."), isolated=True, builtin_tools=(), limits=Limits(turns=5))


@app.get("/chat", response_class=EventSourceResponse)
async def chat(prompt: str) -> AsyncIterator[str]:
    async for text in make_agent().run(prompt).stream_text():
        yield text


@app.websocket("/talk")
async def talk(socket: WebSocket) -> None:
    await socket.accept()
    await socket.send_text(await make_agent().ask(await socket.receive_text()))


client = TestClient(app)  # in place of `uvicorn fastapi_server:app`
with client.websocket_connect("/talk") as line:
    line.send_text("Hi")
    print(client.get("/chat?prompt=Hi").text.strip(), line.receive_text())
