"""`alhena mcp serve` among the servers of its own settings."""

import json
from pathlib import Path

from tests.frontends.test_mcp_serve import connected
from tests.mcp.kit import odd, tool
from tests.support.command import ALHENA


async def test_a_server_that_stands_in_its_own_settings_does_not_start_itself(
    home: Path, project: Path
) -> None:
    heard = project / "heard"
    entries = {
        "itself": {"command": ALHENA, "args": ["mcp", "serve"]},
        "other": odd(project, {"tools": [tool("other")], "heard": str(heard)}),
    }
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(
        json.dumps({"mcpServers": entries}), encoding="utf-8"
    )
    async with connected() as client:
        names = {each.name for each in (await client.list_tools()).tools}
    assert "read_file" in names
    assert "other" not in names
    assert not heard.exists()
