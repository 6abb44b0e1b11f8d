"""Questions of MCP servers at the terminal."""

from pathlib import Path

from tests.frontends.terminal.session import ENTER, answer, at, calling, leave
from tests.frontends.terminal.test_session_start import settings
from tests.mcp.kit import odd, tool
from tests.support.server import ScriptedServer, sse, text

SECRET = "hunter2-of-ada"
FORM = {
    "mode": "form",
    "message": "Sign in to the \x1b[31mshop",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "password": {"type": "string", "title": "Password"},
            "plan": {"type": "string", "enum": ["small", "large"]},
            "keep": {"type": "boolean", "title": "Stay signed in"},
            "seats": {"type": "integer", "maximum": 4},
        },
        "required": ["password", "plan", "keep", "seats"],
    },
}


def test_a_form_of_a_server_is_filled_in_and_its_password_is_recorded_nowhere(
    server: ScriptedServer, home: Path, project: Path
):
    script = {
        "tools": [tool("join")],
        "does": {"join": {"do": "ask", "params": FORM}},
    }
    entry = {**odd(project, script), "trust": True}
    settings(home, mcpServers={"shop": entry}, security={"folderTrust": {"enabled": False}})
    server.reply(calling("join", {}), sse(text("You are in.")))
    with at(server, columns=200, rows=40) as terminal:
        terminal.until("/help lists")
        terminal.send("/mcp" + ENTER)
        terminal.until("tool join")
        terminal.send("join" + ENTER)
        terminal.until("The MCP server 'shop' asks:")
        terminal.until("Password:")
        terminal.send(SECRET + ENTER)
        answer(terminal, "2" + ENTER)
        terminal.until("? The MCP server 'shop' asks:", times=3)
        answer(terminal, "y")
        terminal.until("seats:")
        terminal.send("9" + ENTER)
        terminal.until("it may be at most 4")
        terminal.send("3" + ENTER)
        terminal.until("You are in.")
        leave(terminal)
    assert '"content": {"keep": true' not in terminal.raw
    assert SECRET not in terminal.raw
    assert "looks like a password or key" in " ".join(terminal.screen.text.split())
    assert "\x1b[31mshop" not in terminal.raw
    assert SECRET not in server.requests[1].body.decode()
    told = server.requests[1].body.decode().replace("\\", "")
    assert '{"password": "[hidden]", "plan": "large", "keep": true, "seats": 3}' in told
    files = [each for each in home.rglob("*") if each.is_file()]
    assert [each for each in files if SECRET.encode() in each.read_bytes()] == []
