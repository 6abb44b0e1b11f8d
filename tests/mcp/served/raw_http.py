"""A streamable HTTP server without a library: `python raw_http.py SCRIPT.json PORT json|sse`.

It answers as JSON or as one event, whatever the script has for its tools.
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SCRIPT: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
AS_EVENT = sys.argv[3] == "sse"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(405)

    def do_DELETE(self) -> None:
        if SCRIPT.get("holds on"):
            time.sleep(60)

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in request:
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        match request["method"]:
            case "initialize":
                result: dict[str, Any] = {
                    "protocolVersion": request["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "raw", "version": "1"},
                }
            case "tools/list":
                result = {"tools": SCRIPT["tools"]}
            case _:
                result = {"content": [{"type": "text", "text": "ran"}]}
        body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()
        if AS_EVENT:
            body = b"event: message\ndata: " + body + b"\n\n"
        self.send_response(200)
        kind = "text/event-stream" if AS_EVENT else "application/json"
        self.send_header("Content-Type", kind)
        self.send_header("Mcp-Session-Id", "one")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        del format, args


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
