"""Modules loaded before the first request."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.google import GRANT, user_info, written
from tests.support.server import ScriptedServer, json_reply, sse, text

PROGRAM = """
import asyncio, json, sys
from alhena.models.providers.select import ModelChoice, choose_generator
from alhena.wire.content import text_content
from alhena.wire.encode import EncodedContent
from alhena.wire.request import GenerateContentRequest

async def main(environ):
    generator = choose_generator(ModelChoice(model="m", environ=environ)).generator
    contents = (EncodedContent(text_content("user", "hi")),)
    async for chunk in generator.stream(GenerateContentRequest(model="m", contents=contents)):
        pass
    await generator.aclose()

before = sorted(sys.modules)
asyncio.run(main(json.loads(sys.argv[1])))
print(json.dumps([before, sorted(sys.modules)]))
"""


def loaded(environ: dict[str, str]) -> tuple[set[str], set[str]]:
    """The modules loaded before and after a request, in a process of their own."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, json.dumps(environ)],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    before, after = json.loads(done.stdout)
    return set(before), set(after)


def test_a_direct_request_loads_no_full_http_client(server: ScriptedServer):
    server.reply(sse(text("ok")))
    before, after = loaded({"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": server.url})
    assert not after & {"httpx2", "httpcore2", "anyio", "email", "http.client", "truststore"}
    assert not after & {"importlib.metadata", "urllib.request", "zlib", "google.auth"}
    assert not {name for name in before if name.startswith("alhena.models.")} - {
        "alhena.models.providers.select",
        "alhena.models.catalogue",
        "alhena.models.errors",
        "alhena.models.generator",
        "alhena.models.retry",
        "alhena.models.providers",
    }
    assert not before & {"h11", "dataclasses"}
    rooms = ("alhena.models.", "alhena.http.")
    assert {name for name in after if name.startswith(rooms)} == {
        f"alhena.{name}"
        for name in (
            "http.addresses",
            "http.adoption",
            "http.client",
            "http.connect",
            "http.early",
            "http.exchange",
            "http.response",
            "http.transports",
            "models.catalogue",
            "models.errors",
            "models.providers.gemini_api",
            "models.generator",
            "models.providers",
            "models.retry",
            "models.providers.select",
            "models.service",
        )
    }


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "ALL_PROXY"])
def test_a_proxied_request_loads_no_other_client(server: ScriptedServer, variable: str):
    server.reply(sse(text("ok")))
    environ = {
        "GEMINI_API_KEY": "x",
        "GOOGLE_GEMINI_BASE_URL": "http://gemini.example",
        variable: server.url,
    }
    _, after = loaded(environ)
    assert "alhena.http.proxy" in after
    assert "httpx2" not in after
    assert server.requests[0].path.startswith("http://gemini.example/v1beta/models/m:")


@pytest.mark.parametrize("kind", ["token", "user"])
def test_vertex_loads_no_library_for_credentials_that_need_none(
    server: ScriptedServer, tmp_path: Path, kind: str
):
    environ = {
        "GOOGLE_GENAI_USE_VERTEXAI": "true",
        "GOOGLE_CLOUD_PROJECT": "p",
        "GOOGLE_CLOUD_LOCATION": "global",
        "GOOGLE_VERTEX_BASE_URL": server.url,
    }
    if kind == "token":
        server.reply(sse(text("ok")))
        environ["GOOGLE_CLOUD_ACCESS_TOKEN"] = "token"
    else:
        server.reply(json_reply(GRANT), sse(text("ok")))
        path = written(tmp_path / "adc.json", user_info(server.url))
        environ["GOOGLE_APPLICATION_CREDENTIALS"] = path
    before, after = loaded(environ)
    assert not after & {"google.auth", "cryptography", "httpx2", "alhena.models.auth.federated"}
    assert not {name for name in before if name.startswith("alhena.models.auth.")}
