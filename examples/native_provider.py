"""A loop of one's own over native tool calls, with the history in Anthropic's form."""

import asyncio
from pathlib import Path
from typing import Any

from alhena.native import AssistantMessageParser, NativeProvider, tool_results
from alhena.testing import Call, TestModel

PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
READ_FILE = {
    "type": "function",
    "function": {"name": "read_file", "description": "Reads a file.", "parameters": PATH},
}


def run(call: dict[str, Any]) -> dict[str, Any]:
    try:
        content, failed = Path(call["params"]["path"]).read_text(encoding="utf-8"), False
    except OSError as error:
        content, failed = str(error), True
    return {"tool_use_id": call["id"], "content": content, "is_error": failed}


async def main() -> None:
    model = TestModel(Call("read_file", path="none.json"), "There is no such file.")
    history: list[dict[str, Any]] = [{"role": "user", "content": "What does none.json say?"}]
    async with NativeProvider(model) as provider:
        while history[-1]["role"] == "user":
            parser = AssistantMessageParser()
            async for chunk in provider.create_message("Be brief.", history, [READ_FILE]):
                parser.feed(chunk)
            parser.finish()
            history.append(parser.message)
            calls = [block for block in parser.content_blocks if block["type"] == "tool_use"]
            history += [tool_results([run(call) for call in calls])] if calls else []
    print(history[-1]["content"])


asyncio.run(main())
