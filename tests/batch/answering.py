"""A server that answers each task by a function of its conversation, and the command `alhena batch`
as processes that can be killed."""

import json
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.command import ALHENA, keyed
from tests.support.patience import PATIENCE_S
from tests.support.server import Received, Reply, ScriptedServer, chunk, sse

USAGE = {"promptTokenCount": 1000, "candidatesTokenCount": 100, "totalTokenCount": 1100}


class AnsweringServer(ScriptedServer):
    """`answer` gives the parts of the answer to the contents of a request, or a reply. `asked` are
    the prompts of all requests, as they came. The request of number `held_from`, and those after
    it, are answered when `go_on` is set."""

    def __init__(
        self,
        answer: Callable[[list[dict[str, Any]]], Any],
        *,
        held_from: float = float("inf"),
        host: str = "127.0.0.1",
    ) -> None:
        super().__init__(host=host)
        self.answer = answer
        self._held_from = held_from
        self._lock = threading.Condition()
        self.go_on = threading.Event()
        self.asked: list[str] = []

    def reached(self, count: int, process: "subprocess.Popen[str] | None" = None) -> bool:
        """Waits for so many requests in all; False if the process ends before."""
        with self._lock:
            while not self._lock.wait_for(lambda: len(self.asked) >= count, 0.1):
                if process is not None and process.poll() is not None:
                    return False
            return True

    def take(self, received: Received) -> Reply:
        contents = received.json["contents"]
        with self._lock:
            self.requests.append(received)
            self.asked.append(prompt_of(contents))
            self._lock.notify_all()
            held = len(self.asked) >= self._held_from
        if held:
            self.go_on.wait()
        found = self.answer(contents)
        if isinstance(found, Reply):
            return found
        return sse(chunk(*found, finish="STOP", usage=USAGE))


def prompt_of(contents: list[dict[str, Any]]) -> str:
    """The task's own words."""
    texts = [part["text"] for each in contents for part in each["parts"] if "text" in part]
    return next((text for text in texts if text.startswith("task ")), texts[-1])


def echo(contents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"text": f"answer to {prompt_of(contents)}"}]


def write_tasks(path: Path, count: int, **fields: Any) -> Path:
    lines = [json.dumps({"id": f"t{n}", "prompt": f"task {n}", **fields}) for n in range(count)]
    path.write_text("\n".join(lines) + "\n")
    return path


def results(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def started(server: ScriptedServer, *arguments: str) -> "subprocess.Popen[str]":
    """The command, at work in a process group of its own."""
    return subprocess.Popen(
        [ALHENA, "batch", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **keyed(server)},
        text=True,
        start_new_session=True,
    )


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Exit code and standard error of the command."""
    _, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, err
