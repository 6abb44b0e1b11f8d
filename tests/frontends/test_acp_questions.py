"""Questions of the model under `alhena --acp`."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from acp import text_block
from acp.schema import (
    AcceptElicitationResponse,
    AllowedOutcome,
    CancelElicitationResponse,
    ClientCapabilities,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
)

from alhena.frontends.acp.questions import IN_CHAT
from tests.mcp.kit import odd, tool
from tests.support.editor import Editor, connected, prompted
from tests.support.patience import PATIENCE_S
from tests.support.server import ScriptedServer, call, chunk, sse, text


@pytest.fixture
def scripted() -> Any:
    with ScriptedServer() as server:
        yield server


QUESTIONS = [
    {
        "question": "Which store?",
        "header": "Store",
        "options": [{"label": "SQLite", "description": "one file"}, {"label": "Postgres"}],
    },
    {
        "question": "Which checks?",
        "header": "Checks",
        "multiSelect": True,
        "options": [{"label": "lint"}, {"label": "types"}],
    },
    {"question": "Its name?", "header": "Name", "type": "text"},
    {"question": "Tests too?", "header": "Tests", "type": "yesno"},
]


def answers_of(scripted: ScriptedServer) -> Any:
    response = scripted.requests[1].json["contents"][-1]["parts"][0]["functionResponse"]
    output = response["response"]["output"]
    return json.loads(output)["answers"] if output.startswith("{") else output


class Form(Editor):
    """An editor that fills forms in with `content`; None: dismisses them."""

    def __init__(self, content: dict[str, Any] | None) -> None:
        super().__init__()
        self._content = content
        self.schema: dict[str, Any] = {}

    async def create_elicitation(self, message: str, mode: Any, **_more: Any) -> Any:
        assert message.splitlines()[0] == "Which store?"
        self.schema = mode.requested_schema.model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
        if self._content is None:
            return CancelElicitationResponse(action="cancel")
        return AcceptElicitationResponse(action="accept", content=self._content)


@pytest.mark.parametrize(
    ("content", "answers"),
    [
        (
            {"0_other": "files", "1": ["lint", "types"], "2": "Vega", "3": "No"},
            {"0": "files", "1": "lint, types", "2": "Vega", "3": "No"},
        ),
        ({"0": "SQLite"}, {"0": "SQLite"}),
        (None, "User dismissed ask_user dialog without answering."),
    ],
)
async def test_questions_of_the_model_are_a_form_for_a_client_that_has_forms(
    project: Path, scripted: ScriptedServer, content: dict[str, Any] | None, answers: Any
):
    asks = chunk(call("ask_user", {"questions": QUESTIONS}), finish="STOP")
    scripted.reply(sse(asks), sse(text("thanks")))
    editor = Form(content)
    forms = ElicitationCapabilities(form=ElicitationFormCapabilities())
    able = ClientCapabilities(elicitation=forms)
    async with connected(editor, scripted, able=able) as conn:
        session = await conn.new_session(cwd=str(project), mcp_servers=[])
        assert await prompted(conn, session.session_id, text_block("go")) == "end_turn"
    assert answers_of(scripted) == answers
    fields = editor.schema["properties"]
    assert fields["0"]["oneOf"][0] == {"const": "SQLite", "title": "SQLite: one file"}
    assert [each["const"] for each in fields["1"]["items"]["anyOf"]] == ["lint", "types"]
    assert fields["2"] == {"type": "string", "title": "Name", "description": "Its name?"}


@pytest.mark.parametrize(
    ("chosen", "answers"),
    [
        ("0", {"0": "SQLite", "1": "lint", "2": IN_CHAT, "3": "Yes"}),
        ("dismiss", "User dismissed ask_user dialog without answering."),
        ("zzz", "User dismissed ask_user dialog without answering."),
    ],
)
async def test_without_forms_each_question_is_a_permission_request(
    project: Path, scripted: ScriptedServer, chosen: str, answers: Any
):
    asks = chunk(call("ask_user", {"questions": QUESTIONS}), finish="STOP")
    scripted.reply(sse(asks), sse(text("thanks")))
    editor = Editor(lambda *_: AllowedOutcome(outcome="selected", option_id=chosen))
    async with connected(editor, scripted) as conn:
        session = await conn.new_session(cwd=str(project), mcp_servers=[])
        assert await prompted(conn, session.session_id, text_block("go")) == "end_turn"
    assert answers_of(scripted) == answers
    if chosen == "0":
        names = [each["name"] for each in editor.options]
        assert names == ["Yes", "No", "Answer in the chat", "Dismiss"]
    announced = [each["toolCallId"] for each in editor.of("tool_call")]
    ended = [each for each in editor.updates if each.get("status") in ("completed", "failed")]
    assert sorted(each["toolCallId"] for each in ended) == sorted(announced)


async def test_a_question_of_the_model_is_withdrawn_when_its_prompt_is_cancelled(
    project: Path, scripted: ScriptedServer
):
    asks = chunk(call("ask_user", {"questions": QUESTIONS}), finish="STOP")
    scripted.reply(sse(asks), sse(text("after")))
    editor = Editor()
    async with connected(editor, scripted) as conn:
        own = (await conn.new_session(cwd=str(project), mcp_servers=[])).session_id
        running = asyncio.create_task(prompted(conn, own, text_block("go")))
        await asyncio.wait_for(editor.asked.wait(), PATIENCE_S)
        await conn.cancel(session_id=own)
        assert await running == "cancelled"
        assert await prompted(conn, own, text_block("go on")) == "end_turn"
    assert editor.said() == "after"


NAME = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "size": {"type": "string", "enum": ["s", "l"]}},
    "required": ["name", "size"],
}


@pytest.mark.parametrize("forms", [True, False])
async def test_questions_of_servers_are_a_form_or_are_declined(
    home: Path, project: Path, scripted: ScriptedServer, forms: bool
):
    params = {"mode": "form", "message": "Which store?", "requestedSchema": NAME}
    script = {"tools": [tool("t")], "does": {"t": {"do": "ask", "params": params}}}
    (home / ".gemini").mkdir(exist_ok=True)
    entries = {
        "mcpServers": {"shop": {**odd(project, script), "trust": True}},
        "security": {"folderTrust": {"enabled": False}},
    }
    (home / ".gemini" / "settings.json").write_text(json.dumps(entries), encoding="utf-8")
    scripted.reply(sse(chunk(call("t", {}), finish="STOP")), sse(text("thanks")))
    asked: list[str] = []

    class Filling(Form):
        async def create_elicitation(self, message: str, mode: Any, **_more: Any) -> Any:
            asked.append(message)
            schema = mode.requested_schema.model_dump(mode="json", by_alias=True, exclude_none=True)
            assert sorted(schema["properties"]) == ["0", "1"]
            return AcceptElicitationResponse(action="accept", content={"0": "Ada", "1": "l"})

    able = ElicitationCapabilities(form=ElicitationFormCapabilities())
    client = ClientCapabilities(elicitation=able) if forms else ClientCapabilities()
    async with connected(Filling({}), scripted, able=client) as conn:
        session = await conn.new_session(cwd=str(project), mcp_servers=[])
        assert await prompted(conn, session.session_id, text_block("go")) == "end_turn"
    response = scripted.requests[1].json["contents"][-1]["parts"][0]["functionResponse"]
    output = response["response"]["output"]
    told = str(scripted.requests[1].json["contents"][-1])
    if forms:
        assert "The MCP server 'shop' asks: Which store?" in asked[0]
        assert json.loads(output)["content"] == {"name": "Ada", "size": "l"}
    else:
        assert '"decline"' in told
        assert "“Which store?”" in told
