"""A scripted Gemini service on loopback, for trials of clients of the gateway.

A prompt with `PROMPT` in it gets calls to read two files, one after the other, by a tool of the
client, and then an answer with the words of both. Everything else gets "ok". Calls are signed, and
a request that lacks a signature is refused, as the service does from Gemini 3 on.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

PROMPT = "kestrel"
SIGNATURE = "c2lnbmVkIGJ5IHRoZSBtb2RlbA=="
USAGE = {"promptTokenCount": 120, "candidatesTokenCount": 20, "totalTokenCount": 140}
_PREFERRED = (
    *("read_word", "read_file", "read", "view", "exec_command", "shell", "bash"),
    *("run_shell_command", "shell_command"),
)
_SCRIPTS = "functions__exec"
"""The tool of Codex that runs JavaScript, by which its default model reaches all others."""
_COMMANDS = ("cmd", "command")
_PATHS = ("file_path", "filepath", "absolute_path", "path", "filename")


def choose_call(declarations: list[dict[str, Any]], file: Path) -> dict[str, Any] | None:
    """A call that reads a file with one of the declared tools; None without such a tool."""
    named = {each["name"].lower(): each for each in declarations}
    if _SCRIPTS in named:
        script = f"text(await tools.exec_command({{cmd: 'cat {file}'}}));"
        return {"name": _SCRIPTS, "args": {"input": script}}
    for name in _PREFERRED:
        tool = named.get(name)
        if tool is not None:
            schema = tool.get("parametersJsonSchema") or tool.get("parameters") or {}
            return {"name": tool["name"], "args": fill_arguments(schema, file)}
    return None


def fill_arguments(schema: dict[str, Any], file: Path) -> dict[str, Any]:
    """Arguments for the required properties of a schema, and for a path or a command."""
    properties: dict[str, Any] = schema.get("properties", {})
    args: dict[str, Any] = {}
    for name, field in properties.items():
        plain = name.lower()
        kind = str(field.get("type", "")).lower()
        if plain in _COMMANDS:
            command = ["cat", str(file)] if kind == "array" else f"cat {file}"
            args[name] = command
        elif plain in _PATHS and not any(each in args for each in _PATHS):
            args[name] = str(file)
        elif name in schema.get("required", ()):
            args[name] = {"boolean": False, "integer": 1, "number": 1, "array": []}.get(kind, "x")
    return args


class ScriptedService:
    """The service; `files` are read in order. `requests` are those that came, `problems` are the
    reasons of failures, `conversations` counts the answers with the words of both files."""

    def __init__(self, files: list[Path]) -> None:
        self.files = files
        self.problems: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self.conversations = 0
        handler = type("BoundHandler", (_Handler,), {"service": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """The address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """The parts of the next answer."""
        contents: list[dict[str, Any]] = body.get("contents", [])
        parts = [part for content in contents for part in content.get("parts", [])]
        if not any(PROMPT in part.get("text", "") for part in parts):
            return [{"text": "ok"}]
        results = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if len(results) < len(self.files):
            declared = [
                each
                for tool in body.get("tools", [])
                for each in tool.get("functionDeclarations", [])
            ]
            call = choose_call(declared, self.files[len(results)])
            if call is None:
                return self._answer_from(parts)
            call["id"] = f"call-{len(results)}"
            return [
                {"text": "I have to look.", "thought": True},
                {"text": "Let me look. "},
                {"functionCall": call, "thoughtSignature": SIGNATURE},
            ]
        return self._answer_from(parts)

    def _answer_from(self, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The answer to a request with the words of both files."""
        said = json.dumps(parts)
        words = [file.read_text(encoding="utf-8").strip() for file in self.files]
        if missing := [word for word in words if word not in said]:
            if not any("functionResponse" in part for part in parts):
                return [{"text": "ok"}]  # a request besides the conversation, for a title or so
            self.problems.append(f"results lack {missing}")
            return [{"text": "The files could not be read."}]
        self.conversations += 1
        return [{"text": "The words "}, {"text": f"are {' and '.join(words)}."}]

    def refuse(self, body: dict[str, Any]) -> str:
        """The reason to refuse a request; "" for none."""
        for at, content in enumerate(body.get("contents", [])):
            calls = [part for part in content.get("parts", []) if "functionCall" in part]
            if calls and "thoughtSignature" not in calls[0]:
                return f"contents[{at}]: Function call is missing a thought_signature."
        return ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    service: ScriptedService

    def log_message(self, format: str, *args: object) -> None:
        del format, args

    def do_GET(self) -> None:
        self._send({"models": []})

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        path = urlsplit(self.path).path
        self.service.requests.append({"path": path, "body": body})
        if path.endswith(":countTokens"):
            self._send({"totalTokens": 140})
        elif path.endswith(":batchEmbedContents"):
            vector = {"values": [0.5, 0.25, -1.0]}
            self._send({"embeddings": [vector for _ in body.get("requests", [])]})
        elif reason := self.service.refuse(body):
            self.service.problems.append(reason)
            error = {"code": 400, "message": reason, "status": "INVALID_ARGUMENT"}
            self._send({"error": error}, 400)
        else:
            self._send_answer(self.service.answer(body), stream="stream" in path)

    def _send_answer(self, parts: list[dict[str, Any]], *, stream: bool) -> None:
        last = {"finishReason": "STOP", "index": 0}
        if not stream:
            content = {"role": "model", "parts": parts}
            self._send({"candidates": [{"content": content, **last}], "usageMetadata": USAGE})
            return
        chunks: list[dict[str, Any]] = [
            {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}
            for part in parts
        ]
        chunks[-1]["candidates"][0] |= last
        chunks[-1]["usageMetadata"] = USAGE
        data = b"".join(b"data: %b\r\n\r\n" % json.dumps(one).encode() for one in chunks)
        self._write(200, "text/event-stream", data)

    def _send(self, value: Any, status: int = 200) -> None:
        self._write(status, "application/json", json.dumps(value).encode())

    def _write(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
