"""Text on standard input beside a prompt: late, silent, and in other encodings."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import BinaryIO
from unittest import mock

import pytest

from alhena.frontends.headless import run as headless
from tests.support.command import ALHENA, Ran, alhena, alhena_reads, keyed
from tests.support.each import for_each
from tests.support.patience import PATIENCE_S
from tests.support.server import ScriptedServer, sse, text


def asked(server: ScriptedServer) -> str:
    return server.requests[-1].json["contents"][-1]["parts"][0]["text"]


def set_timeout(home: Path, seconds: float) -> None:
    settings = home / ".gemini" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(json.dumps({"general": {"stdinTimeout": seconds}}), encoding="utf-8")


@contextmanager
def open_pipe() -> Iterator[tuple[BinaryIO, int]]:
    """A pipe to read from, and the descriptor of its writer."""
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as stream:
        yield stream, writer


@pytest.mark.requirement("WORLD-02")
def test_a_pipe_is_read_to_its_end_however_late_it_writes():
    said: list[str] = []

    def speak(line: str) -> None:
        said.append(line)
        os.write(writer, b"late ")
        Timer(0.05, lambda: (os.write(writer, b"later\n"), os.close(writer))).start()

    with open_pipe() as (stream, writer), mock.patch.object(headless, "ANNOUNCED_AFTER_S", 0.05):
        assert headless.piped_text(stream, 60, speak) == ("late later\n", None)
    assert said == ["waiting for the end of standard input; use </dev/null to skip it."]


def test_what_comes_early_and_ends_late_is_announced_and_whole():
    said: list[str] = []

    def end(line: str) -> None:
        said.append(line)
        os.write(writer, b" and done")
        os.close(writer)

    with open_pipe() as (stream, writer), mock.patch.object(headless, "ANNOUNCED_AFTER_S", 0.05):
        os.write(writer, b"begun")
        assert headless.piped_text(stream, 0.01, end) == ("begun and done", None)
    assert len(said) == 1


@pytest.mark.requirement("WORLD-02")
@for_each(("kind",), [("pipe",), ("socket",)])
def test_an_open_input_that_never_writes_is_left_out_with_a_warning(kind: str):
    ends = socket.socketpair() if kind == "socket" else os.pipe()
    reader = ends[0] if isinstance(ends[0], int) else ends[0].detach()
    with os.fdopen(reader, "rb", buffering=0) as stream:
        read, warning = headless.piped_text(stream, 0.05, lambda _: None)
    assert read == ""
    assert warning is not None
    assert "sent nothing in 0.05 s; it was left out" in warning
    assert "general.stdinTimeout" in warning
    os.close(ends[1]) if isinstance(ends[1], int) else ends[1].close()


def run_with_silent_pipe(server: ScriptedServer, *arguments: str) -> Ran:
    reader, writer = os.pipe()
    try:
        ran = subprocess.run(
            [ALHENA, *arguments], stdin=reader, capture_output=True, timeout=PATIENCE_S,
            env=os.environ | keyed(server), check=False,
        )  # fmt: skip
    finally:
        os.close(reader)
        os.close(writer)
    return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())


def test_the_command_goes_on_without_a_silent_pipe(server: ScriptedServer, home: Path):
    set_timeout(home, 0.1)
    server.reply(sse(text("Hm.")), sse(text("Hm.")))
    ran = run_with_silent_pipe(server, "-p", "why", "-o", "json")
    assert (ran.code, ran.err) == (0, "")
    assert any("sent nothing in 0.1 s" in each for each in ran.json["warnings"])
    assert asked(server) == "why"
    ran = run_with_silent_pipe(server, "-p", "why")
    assert ran.code == 0
    assert "alhena: warning: standard input is open but sent nothing in 0.1 s" in ran.err


@pytest.mark.requirement("WORLD-02")
def test_the_command_reads_a_pipe_that_writes_after_a_while(server: ScriptedServer):
    server.reply(sse(text("It failed.")))
    late = f"{sys.executable} -c 'import time; time.sleep(0.8); print(\"1 failed\")'"
    ran = subprocess.run(
        ["/bin/sh", "-c", f"{late} | {ALHENA} -p 'why did this fail'"],
        capture_output=True, timeout=PATIENCE_S, env=os.environ | keyed(server), check=False,
    )  # fmt: skip
    assert ran.stdout == b"It failed.\n"
    assert asked(server) == "1 failed\n\n\nwhy did this fail"


@pytest.mark.requirement("WORLD-02")
@for_each(
    ("written",),
    [
        ("größer\n".encode("utf-16"),),
        (b"\xff\xfe" + "größer\n".encode("utf-16-le"),),
        ("größer\n".encode("utf-8-sig"),),
        ("größer\n".encode("latin-1"),),
        ("größer\r\n".encode(),),
    ],
)
def test_piped_text_is_decoded_as_files_are(written: bytes, server: ScriptedServer):
    server.reply(sse(text("Hm.")))
    assert alhena_reads(written, "-p", "judge", **keyed(server)).code == 0
    assert asked(server) == "größer\n\n\njudge"


def test_no_input_is_not_waited_for(server: ScriptedServer):
    server.reply(sse(text("Hm.")))
    assert alhena("-p", "hi", **keyed(server)).err == ""
    with open(os.devnull, "rb") as nothing:
        assert headless.piped_text(nothing, 600, lambda _: None) == ("", None)
