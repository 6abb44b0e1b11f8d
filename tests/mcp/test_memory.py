"""Peak memory of `alhena -p` with hostile servers, measured at its end."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from alhena.mcp.message_guard import NO_ANSWER
from tests.mcp.bad_http import EVENTS, JSON, Bad, bomb, endless, head, listening, whole
from tests.mcp.beside import GOOD, hostile
from tests.mcp.kit import odd, tool
from tests.support.command import ALHENA
from tests.support.patience import PATIENCE_S
from tests.support.server import ScriptedServer, call, chunk, sse, text


class Measured(msgspec.Struct, frozen=True):
    """Exit code, output and peak memory of a run, in megabytes."""

    code: int
    out: str
    err: str
    peak: int


LAUNCH = """
import json, os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=open("err.txt", "w"))
out = process.stdout.read().decode()
_, status, usage = os.wait4(process.pid, 0)
code = os.waitstatus_to_exitcode(status)
err = open("err.txt").read()
print(json.dumps({"code": code, "out": out, "err": err, "peak": usage.ru_maxrss // 1024}))
"""
"""The system counts what a process took before it became another one, so a small one starts it."""


def measured(environ: Mapping[str, str]) -> Measured:
    """Runs a prompt."""
    command = [ALHENA, "-p", "go", "-m", "m", "--skip-trust"]
    ran = subprocess.run(
        [sys.executable, "-S", "-c", LAUNCH, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=os.environ | environ,
        timeout=PATIENCE_S,
        check=True,
    )
    return msgspec.json.decode(ran.stdout, type=Measured)


async def run(server: ScriptedServer, home: Path, entries: dict[str, Any], *calls: str) -> Measured:
    """A run with these servers and a good one; the model calls these tools, then the good one's."""
    good = odd(home, {"tools": [tool("fine")]}, "good")
    servers = {name: {**entry, "trust": True} for name, entry in (entries | {"good": good}).items()}
    (home / ".gemini").mkdir(exist_ok=True)
    (home / ".gemini" / "settings.json").write_text(
        json.dumps({"mcpServers": servers, "mcp": {"startupWait": PATIENCE_S}}), encoding="utf-8"
    )
    for name, args in (*((each, {}) for each in calls), GOOD):
        server.reply(sse(chunk(call(name, args, id=f"c-{name}"), finish="STOP")))
    server.reply(sse(text("all done")))
    variables = {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": server.url}
    ran = await asyncio.to_thread(measured, variables)
    assert (ran.code, ran.out) == (0, "all done\n"), ran.err
    (answer,) = server.requests[-1].json["contents"][-1]["parts"]
    assert answer["functionResponse"]["response"] == {"output": '{"n": 1}'}
    return ran


MOST = 220
"""Megabytes that a run may take. One with a good server takes about 75; a message may have 16."""


START = {
    "noise": "it did not answer within 1.5 s",
    "endless line at initialize": "more than 16,777,216 bytes",
    "stderr flood": "",
    "huge instructions": "",
}
LISTS = {
    "ten megabytes of words": "",
    "ten thousand tools": "has more tools than are taken",
    "another list each time": "",
}
CALLS = ("endless line in a call", "huge text", "much media", "deepest result", "huge refusal")


@pytest.mark.parametrize("group", [START, LISTS])
async def test_servers_that_send_much_at_the_start(
    server: ScriptedServer, home: Path, group: dict[str, str]
) -> None:
    entries = {what: hostile(what) for what in group}
    if "noise" in entries:
        entries["noise"]["timeout"] = 1_500  # it never says anything
    ran = await run(server, home, entries)
    assert ran.peak < MOST
    told = ran.err.splitlines()
    for what, said in group.items():
        lines = [line for line in told if f"MCP server '{what}'" in line]
        assert said in "".join(lines)
        assert len(lines) == bool(said), lines


async def test_servers_that_send_much_in_a_call(server: ScriptedServer, home: Path) -> None:
    entries = {what.replace(" ", "-"): hostile(what) for what in CALLS}
    ran = await run(server, home, entries, *(f"mcp_{name}_poke" for name in entries))
    assert ran.peak < MOST
    told = [each.json["contents"][-1]["parts"][0] for each in server.requests[1:6]]
    results = [each["functionResponse"]["response"] for each in told]
    assert "the connection was closed before it answered" in results[0]["error"]
    assert results[1]["output"].startswith("Output too large.")
    assert results[2]["output"].startswith("[Tool 'poke' provided the following image data")
    assert NO_ANSWER in results[3]["error"]
    assert "MCP error -32000: e e" in results[4]["error"]


async def test_servers_behind_urls_that_send_much(server: ScriptedServer, home: Path) -> None:
    packed = Bad(any=whole(bomb(), JSON, "Content-Encoding: gzip"))
    body = Bad(any=endless(head("200 OK", JSON), b" " * 100_000))
    event = Bad(any=endless(head("200 OK", EVENTS) + b"data: ", b"x" * 100_000))
    async with listening(packed), listening(body), listening(event):
        entries = {
            name: {"httpUrl": each.url}
            for name, each in (("packed", packed), ("body", body), ("event", event))
        }
        ran = await run(server, home, entries)
    assert ran.peak < MOST
    assert len(ran.err.splitlines()) == len(entries)
