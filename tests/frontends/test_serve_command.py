"""`alhena serve` in a process of its own."""

import json
import os
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from alhena.errors import ConfigError
from alhena.gateway.server import listening_socket
from tests.support.command import ALHENA, alhena, message_lines
from tests.support.patience import PATIENCE_S
from tests.support.server import ScriptedServer, chunk, json_reply, sse, text

JSON = {"content-type": "application/json"}
BODY = {"model": "claude", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


@contextmanager
def serving(*arguments: str, **environ: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address that the command prints, and its process."""
    process = subprocess.Popen(
        [ALHENA, "serve", "--port", "0", *arguments],
        env=os.environ | environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.kill()
        process.communicate()


def _listens(url: str) -> bool:
    address = urllib.parse.urlsplit(url)
    try:
        socket.create_connection((address.hostname, address.port)).close()
    except OSError:
        return False
    return True


def post(url: str, body: Any, **headers: str) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), JSON | headers)
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return json.load(answer)


def test_it_prints_its_address_answers_and_ends_in_good_order(server: ScriptedServer):
    server.reply(json_reply(text("hello")))
    environ = {"GEMINI_API_KEY": "AIza-secret", "GOOGLE_GEMINI_BASE_URL": server.url}
    with serving("-m", "flash", "--map", "claude=gemini-2.5-pro", **environ) as (url, process):
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{url}/healthz", timeout=PATIENCE_S) as health:
            assert json.load(health) == {"status": "ok"}
        answer = post(f"{url}/v1/messages", BODY)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert answer["content"] == [{"type": "text", "text": "hello"}]
    assert process.returncode == 0
    assert out == ""
    lines = [json.loads(line) for line in err.splitlines()]
    assert [line["path"] for line in lines] == ["/healthz", "/v1/messages"]
    assert lines[1]["servedBy"] == "gemini-2.5-pro"
    assert "AIza-secret" not in err
    assert server.requests[0].path.endswith("/models/gemini-2.5-pro:generateContent")
    assert server.requests[0].headers["x-goog-api-key"] == "AIza-secret"


def test_the_first_signal_waits_for_answers_and_the_second_does_not(server: ScriptedServer):
    hold = threading.Event()
    server.reply(sse(chunk({"text": "half"}), text("whole"), hold=hold))
    environ = {"GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": server.url}
    with serving(**environ) as (url, process):
        request = urllib.request.Request(
            f"{url}/v1/messages", json.dumps(BODY | {"stream": True}).encode(), JSON
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            while b"half" not in answer.readline():
                pass
            process.send_signal(signal.SIGINT)
            while _listens(url):
                time.sleep(0.01)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.4)
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 128 + signal.SIGINT
    hold.set()


def test_a_client_that_leaves_closes_the_connection_to_the_service(server: ScriptedServer):
    server.reply(sse(chunk({"text": "half"}), text("whole"), hold=threading.Event()))
    environ = {"GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": server.url}
    with serving(**environ) as (url, _):
        request = urllib.request.Request(
            f"{url}/v1/chat/completions", json.dumps(BODY | {"stream": True}).encode(), JSON
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            while b"half" not in answer.readline():
                pass
        assert server.disconnected.wait(PATIENCE_S)


@pytest.mark.parametrize(
    "line",
    [
        "Origin: http://localhost:3000",
        "Origin: null",
        "Sec-Fetch-Site: cross-site",
        "Content-Type: text/plain",
        "Host: rebound.example",
    ],
)
def test_a_page_in_a_browser_of_this_machine_asks_nothing_without_a_key(
    server: ScriptedServer, line: str
):
    environ = {"GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": server.url}
    body = json.dumps(BODY)
    name = line.partition(":")[0]
    usual = ["Host: 127.0.0.1", "Content-Type: application/json", "Connection: close"]
    lines = [line, *(each for each in usual if not each.startswith(name))]
    with serving(**environ) as (url, _):
        port = int(url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as page:
            head = "\r\n".join(
                ["POST /v1/messages HTTP/1.1", *lines, f"Content-Length: {len(body)}"]
            )
            page.sendall(f"{head}\r\n\r\n{body}".encode())
            answer = b"".join(iter(lambda: page.recv(65536), b"")).decode()
    assert answer.startswith("HTTP/1.1 403 ")
    assert "with a key" in answer
    assert "access-control" not in answer.lower()
    assert server.requests == []


def test_the_key_of_the_environment_is_asked_for(server: ScriptedServer):
    environ = {"GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": server.url}
    server.reply(json_reply(text("hello")))
    with serving(**environ, ALHENA_GATEWAY_KEY="gate") as (url, _):
        with pytest.raises(urllib.error.HTTPError) as refused:
            post(f"{url}/v1/messages", BODY)
        refused.value.close()
        assert refused.value.code == 401
        assert post(f"{url}/v1/messages", BODY, authorization="Bearer gate")["role"] == "assistant"


def test_the_demo_model_and_a_foreign_server_can_stand_behind_it(server: ScriptedServer):
    with serving("-m", "demo") as (url, _):
        answer = post(f"{url}/v1/chat/completions", {**BODY, "model": "gemini-2.5-pro"})
        assert answer["choices"][0]["message"]["content"]
    message = {"role": "assistant", "content": "from afar"}
    server.reply(json_reply({"choices": [{"message": message, "finish_reason": "stop"}]}))
    with serving("-m", "openai:qwen", OPENAI_BASE_URL=f"{server.url}/v1") as (url, _):
        contents = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
        said = post(f"{url}/v1beta/models/gemini-2.5-pro:generateContent", contents)
    assert said["candidates"][0]["content"]["parts"] == [{"text": "from afar"}]
    assert server.requests[0].json["model"] == "qwen"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--host", "0.0.0.0"), 2, "needs a key"),
        (("--port", "99999"), 2, "no port"),
        (("--map", "gpt"), 2, "NAME=MODEL"),
        (("--api-key", ""), 2, "--api-key is no key"),
        (("--api-key", "two words"), 2, "a header can hold"),
        (("--max-concurrent", "0"), 2, "above 0"),
        (("--unheard-of",), 2, "--unheard-of"),
        ((), 41, "no API key found"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_line(
    arguments: tuple[str, ...], code: int, words: str
):
    ran = alhena("serve", *arguments)
    assert ran.code == code
    assert words in ran.err
    assert len(message_lines(ran.err)) == 1
    assert "two words" not in ran.err


def test_an_address_that_is_taken_is_said_in_one_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ran = alhena("serve", "--port", port, "-m", "demo")
    assert ran.code == 52
    assert f"cannot listen on 127.0.0.1, port {port}" in ran.err


def test_of_two_gateways_that_start_at_once_the_second_says_that_the_address_is_taken():
    """A bound socket keeps another one off only when it listens."""
    with listening_socket("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(ConfigError, match="cannot listen"):
            listening_socket("127.0.0.1", port)


def test_help_names_what_is_served():
    ran = alhena("serve", "--help")
    assert ran.code == 0
    assert "/v1/chat/completions" in ran.out


def test_without_its_extra_it_says_what_to_install(tmp_path: Any):
    script = (
        "import importlib.util as util, sys\n"
        "found = util.find_spec\n"
        "util.find_spec = lambda name: None if name == 'uvicorn' else found(name)\n"
        "from alhena.frontends.main import run\n"
        "sys.exit(run(['serve', '-m', 'demo']))\n"
    )
    ran = subprocess.run(
        [os.path.join(os.path.dirname(ALHENA), "python"), "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 52
    assert "needs uvicorn" in ran.stderr
    assert "[gateway]" in ran.stderr


def test_a_prompt_may_still_begin_with_the_word(server: ScriptedServer):
    server.reply(sse(text("served")))
    environ = {"GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": server.url}
    assert alhena("serve me a story", **environ).out.strip() == "served"
