"""The shop's agent as a web service: python -m uvicorn web:app

A question whose calls need approval is answered with their list. The answer of a person may come
days later, and to another process: the state of the run is in the database until then.
"""

import json
import secrets
import sqlite3
from contextlib import closing
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from alhena import Answer, Model, Result
from alhena.models import Gemini

from shop import make_agent, open_shop


class Service:
    """The routes of one shop. All agents share a model object, and so its connections."""

    def __init__(self, path: Path, model: Model) -> None:
        self.path, self.model = open_shop(path), model
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("CREATE TABLE IF NOT EXISTS waiting (id PRIMARY KEY, state, calls)")

    async def ask(self, request: Request) -> JSONResponse:
        """POST {"question"}: runs an agent."""
        question = (await request.json())["question"]
        return self._reply(await make_agent(self.path, "defer", self.model).run(question))

    async def answer(self, request: Request) -> JSONResponse:
        """POST {"approve", "reason"}: continues a run that waits, once."""
        said = await request.json()
        with closing(sqlite3.connect(self.path)) as database, database:
            key = (request.path_params["id"],)
            found = database.execute("DELETE FROM waiting WHERE id = ? RETURNING *", key).fetchone()
        if found is None:
            return JSONResponse({"error": "Nothing waits under this id."}, 404)
        answer = Answer.yes() if said["approve"] else Answer.no(said.get("reason") or "No.")
        agent = make_agent(self.path, "defer", self.model)
        return self._reply(
            await agent.resume(found[1], dict.fromkeys(json.loads(found[2]), answer))
        )

    def _reply(self, result: Result[str]) -> JSONResponse:
        """The answer, or what waits for a person."""
        if result.stop_reason != "pending":
            return JSONResponse({"answer": result.text})
        key, calls = secrets.token_urlsafe(8), [call.call_id for call in result.pending]
        with closing(sqlite3.connect(self.path)) as database, database:
            row = (key, result.state(), json.dumps(calls))
            database.execute("INSERT INTO waiting VALUES (?, ?, ?)", row)
        waiting = [{"tool": call.tool_name, "args": call.args} for call in result.pending]
        return JSONResponse({"waiting": key, "calls": waiting}, 202)

    def app(self) -> Starlette:
        """The application."""
        ask = Route("/ask", self.ask, methods=["POST"])
        answer = Route("/answers/{id}", self.answer, methods=["POST"])
        return Starlette(routes=[ask, answer])


def __getattr__(name: str) -> Starlette:
    if name == "app":  # made when uvicorn asks for it, not when a test imports this module
        return Service(Path("shop.db").resolve(), Gemini("gemini-3.8-flash")).app()
    raise AttributeError(name)
