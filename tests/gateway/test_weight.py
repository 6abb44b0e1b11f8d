"""Bodies that are small on the wire and large in memory."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.gateway.access_log import AccessLog
from alhena.gateway.app import Gateway, Guard
from alhena.gateway.body import MB, Closing, weight_of
from alhena.gateway.dialects import reads_anthropic
from alhena.gateway.exchange import AnswerTerms
from alhena.gateway.faults import GatewayRefusalError
from alhena.gateway.upstream import ModelNames, Upstream
from tests.gateway.kit import LIMITS, MODEL, client, gateway
from tests.gateway.sources import HeldGenerator
from tests.gateway.test_streams import ANTHROPIC, GOOGLE, OPENAI
from tests.support.patience import PATIENCE_S
from tests.support.scripted import ScriptedGenerator
from tests.support.server import text

SIZE = 30 * MB
LIMIT = LIMITS.values_bytes
GEMINI_PATH = GOOGLE[0].replace(":streamGenerate", ":generate")
NOISE = 'a, b: [c] {d}, "e", \\ \\" \\\\" \n'

values = st.recursive(
    st.none() | st.integers() | st.booleans() | st.text() | st.sampled_from([NOISE, "\\", '"']),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def counted(value: Any) -> int:
    """The weight of a value, from the value itself."""
    if isinstance(value, dict):
        inner = sum(map(counted, value.values()))
        return 150 + 60 * len(value) + 50 * max(0, len(value) - 1) + inner
    if isinstance(value, list):
        return 80 + 50 * max(0, len(value) - 1) + sum(map(counted, value))
    return 0


@given(values, st.booleans())
def test_the_weight_is_that_of_the_values_and_not_of_what_texts_hold(value: Any, plain: bool):
    body = json.dumps(value).encode() if plain else msgspec.json.encode(value)
    weight = counted(value)
    assert weight_of(body, weight) == weight
    if weight:
        with pytest.raises(GatewayRefusalError):
            weight_of(body, weight - 1)


@given(st.binary(max_size=60) | st.text(alphabet='{}[]:,"\\a', max_size=40).map(str.encode))
def test_anything_has_a_weight_or_is_refused(body: bytes):
    with suppress(GatewayRefusalError):
        assert 0 <= weight_of(body, 200) <= 200


def test_a_long_text_full_of_brackets_weighs_nothing():
    body = json.dumps({"text": NOISE * 100_000}).encode()
    assert weight_of(body, 1_000) == 150 + 60


async def test_values_in_memory_count_among_the_bodies_of_all():
    body = json.dumps({**ANTHROPIC[1], "stream": False, "metadata": {"a": [[]] * 100_000}}).encode()
    tight = msgspec.structs.replace(LIMITS, bodies_bytes=len(body) + 1000)
    async with gateway(ScriptedGenerator(), limits=tight) as running, client(running) as http:
        answer = await http.post(ANTHROPIC[0], content=body)
        assert answer.status_code == 529
    generator = ScriptedGenerator([text("fine")], [text("fine")])
    async with gateway(generator, limits=LIMITS) as running, client(running) as http:
        for _ in range(2):
            assert (await http.post(ANTHROPIC[0], content=body)).status_code == 200


def filled(head: bytes, unit: bytes, tail: bytes, size: int) -> bytes:
    count = (size - len(head) - len(tail)) // (len(unit) + 1)
    return head + b",".join([unit] * count) + tail


def peak_mb(process: "subprocess.Popen[bytes]") -> float:
    """The largest resident memory that a process has had."""
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def posted(url: str, body: bytes) -> tuple[int, Any]:
    request = urllib.request.Request(url, data=body, headers={"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


MESSAGES = b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":['
CONTENTS = b'{"contents":[{"role":"user","parts":['
JUNK: dict[str, tuple[bytes, bytes, bytes, Callable[[Any], Any], Any]] = {
    ANTHROPIC[0]: (MESSAGES, b"[]", b"]}]}", lambda e: e["error"]["type"], "request_too_large"),
    OPENAI[0]: (b"[", b'{"a":1}', b"]", lambda e: e["error"]["code"], "request_too_large"),
    GEMINI_PATH: (CONTENTS, b'{"text":"x"}', b"]}]}", lambda e: e["error"]["code"], 413),
}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc")
def test_thirty_megabytes_of_junk_take_no_multiple_of_it_in_memory(tmp_path: Path):
    environ = {"PATH": os.defpath, "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "alhena", "serve", "--port", "0", "-m", "demo"]
    with subprocess.Popen(
        command, env=environ, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().decode("ascii").strip()
        idle = peak_mb(process)
        for path, (head, unit, tail, kind, expected) in JUNK.items():
            status, told = posted(url + path, filled(head, unit, tail, SIZE))
            assert status == 413
            assert kind(told) == expected
            assert "too many values" in told["error"]["message"]
        assert peak_mb(process) - idle < 120
        # As much as is taken: the values of a body, and what is made of them.
        largest = filled(CONTENTS, b'{"text":"x"}', b"]}]}", LIMIT // 280 * 13)
        assert weight_of(largest, LIMIT) > LIMIT * 0.9
        assert posted(url + GEMINI_PATH, largest)[0] == 200
        assert peak_mb(process) - idle < 220
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


def asking(parts: int) -> bytes:
    content = [{"type": "text", "text": "a"}] * parts
    asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": content}]}
    return msgspec.json.encode(asked)


@pytest.mark.parametrize(
    ("body", "beside"),
    [(asking(10), False), (asking(6_000), True), (asking(1)[:-1] + b" " * 300_000 + b"}", True)],
    ids=["light", "heavy", "large"],
)
async def test_a_body_is_read_beside_the_loop_for_its_weight_as_for_its_size(
    body: bytes, beside: bool
):
    readers: list[int] = []

    def reading(value: Any, request: Any) -> Any:
        readers.append(threading.get_ident())
        return reads_anthropic(value, request)

    upstream = Upstream(ScriptedGenerator([text("fine")]), ModelNames(MODEL))
    lines: list[str] = []
    posting = Gateway(upstream, Guard(), AnswerTerms(LIMITS, Closing())).posting(reading)
    app: Any = AccessLog(posting, lines.append)
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app), base_url="http://localhost"
    ) as http:
        assert (await http.post(ANTHROPIC[0], content=body)).status_code == 200
    assert [reader != threading.get_ident() for reader in readers] == [beside]


async def test_many_bodies_that_are_small_on_the_wire_have_their_limit_together():
    body = asking(3_500)
    weight = weight_of(body, LIMIT)
    assert len(body) < 256 * 1024
    assert weight > 4 * len(body)
    generator = HeldGenerator(chunks=0)
    limits = msgspec.structs.replace(LIMITS, bodies_bytes=3 * (weight + len(body)) + 1000)
    async with gateway(generator, limits=limits) as running, client(running) as http:
        held = [asyncio.create_task(http.post(ANTHROPIC[0], content=body)) for _ in range(3)]
        while generator.running < 3:
            await asyncio.sleep(0.001)
        for _ in range(20):
            assert (await http.post(ANTHROPIC[0], content=body)).status_code == 529
        assert (await http.get("/healthz")).status_code == 200
        generator.go.set()
        assert [(await one).status_code for one in held] == [200] * 3
        assert (await http.post(ANTHROPIC[0], content=body)).status_code == 200
