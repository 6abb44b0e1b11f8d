"""A model of a local server with OpenAI's API, such as Ollama; here a stand-in of ten lines."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from alhena import Agent
from alhena.models import OpenAICompatible


class StandIn(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        chunk = {"choices": [{"delta": {"content": "Hello from here."}, "finish_reason": "stop"}]}
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


async def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    threading.Thread(target=server.serve_forever).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"  # Ollama: http://localhost:11434/v1
    async with OpenAICompatible("llama3.2", base_url=url) as model:
        print(await Agent(model, isolated=True, builtin_tools=()).ask("Hello?"))
    server.shutdown()
    server.server_close()


asyncio.run(main())
