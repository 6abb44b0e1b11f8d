"""Arguments that `alhena serve` refuses, and its end when nobody reads its log."""

import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from alhena.errors import UsageError
from alhena.frontends.cli.serve import KEY_VARIABLE, run
from tests.support.patience import PATIENCE_S


def test_a_blank_key_in_the_environment_is_no_open_door(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(KEY_VARIABLE, "  ")
    with pytest.raises(UsageError, match=f"{KEY_VARIABLE} is no key"):
        run([])


def test_an_empty_host_is_not_every_address():
    with pytest.raises(UsageError, match="--host is empty"):
        run(["--host", "", "--api-key", "secret"])


def test_words_that_are_not_understood_are_named():
    with pytest.raises(UsageError, match="unrecognized arguments: extra --what"):
        run(["extra", "--what"])


@pytest.mark.parametrize(
    ("model", "mapped"),
    [
        ("gemini-2.5-flash", "openai:foo"),
        ("gemini-2.5-flash", "demo"),
        ("demo", "anthropic:foo"),
        ("openai:x", "anthropic:foo"),
        ("openai:x", "demo"),
    ],
)
def test_a_name_for_a_model_of_another_service_is_refused(
    monkeypatch: pytest.MonkeyPatch, model: str, mapped: str
):
    monkeypatch.setenv("GEMINI_API_KEY", "key")
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    with pytest.raises(UsageError, match=f"m={mapped} is of another service than {model}"):
        run(["-m", model, "--map", f"a={model}", "--map", f"m={mapped}"])


def test_a_log_that_nobody_reads_stops_neither_requests_nor_the_end(tmp_path: Path):
    environ = {"PATH": os.defpath, "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "alhena", "serve", "--port", "0", "-m", "demo"]
    with subprocess.Popen(
        command, env=environ, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            address = urlsplit(process.stdout.readline().decode("ascii").strip())
            assert address.hostname is not None
            with closing(HTTPConnection(address.hostname, address.port, PATIENCE_S)) as connection:
                for _ in range(700):  # more lines than a pipe of 64 KB holds
                    connection.request("GET", "/healthz")
                    assert json.load(connection.getresponse()) == {"status": "ok"}
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
            assert process.stderr.read().count(b"healthz") < 700
        finally:
            process.kill()  # one that goes on would be waited for without end
