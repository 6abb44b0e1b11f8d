"""A stdio MCP server with one tool, of the standard library only."""

import json
import sys


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        match request["method"]:
            case "initialize":
                result = {
                    "protocolVersion": request["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "one", "version": "1"},
                }
            case "tools/list":
                schema = {"type": "object", "properties": {"text": {"type": "string"}}}
                result = {
                    "tools": [{"name": "echo", "description": "Echo.", "inputSchema": schema}]
                }
            case _:
                result = {}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
