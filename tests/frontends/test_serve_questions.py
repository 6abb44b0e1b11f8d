"""Approval questions to a client of `alhena mcp serve`."""

from alhena.frontends.mcp_server.server import PendingQuestion
from alhena.tools.contract import McpConfirmation
from tests.agent.test_isolation import asking


async def test_of_a_tool_of_a_server_it_is_shown_what_that_server_is() -> None:
    details = McpConfirmation(
        title="t",
        server_name="s",
        tool_name="pay",
        tool_display_name="pay",
        server=("npx pay\x1b[2J", "TOKEN"),
    )
    message = PendingQuestion.about(asking(details)).form().message
    assert "s: pay({})" in message
    assert "The server is: npx pay" in message
    assert ", TOKEN" in message
    assert "\x1b" not in message
