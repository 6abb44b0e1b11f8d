"""The commands and the program of README.md, as a new user runs them: with a key made today, in a
fresh home, against a service that answers as today's."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from alhena.models.catalogue import FLASH, PRO, served_models, today
from tests.frontends.terminal.session import ENTER, PLACEHOLDER, assert_restored
from tests.support.command import ALHENA, alhena
from tests.support.each import for_each
from tests.support.pages import FENCE
from tests.support.patience import PATIENCE_S
from tests.support.server import Received, Reply, call, chunk, json_reply, sse
from tests.support.signing import SigningServer, signature
from tests.support.terminal import Terminal

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
NEW_KEY = "AIzaSyA-key-that-was-made-today"
ENDING = re.compile(r"gemini-2\.5-(?:pro|flash)$")
WITHOUT_MINIMAL = ("gemini-3.8-flash", "gemini-3.7-flash")
ROUTED = "gemini-3.9-flash"
"""The model that answers reviews in place of the one that is asked for."""


def blocks() -> list[str]:
    """The blocks of "First use"."""
    section = README.partition("## First use\n")[2].partition("\n## ")[0]
    return [match["text"] for match in FENCE.finditer(section)]


def commands() -> list[str]:
    lines = [line.partition("  #")[0].strip() for line in blocks()[0].splitlines()]
    return [line for line in lines if line]


def program() -> str:
    (found,) = [block for block in blocks() if block.startswith("from alhena import")]
    return found


class TodaysService(SigningServer):
    """Refuses what today's service refuses a key that was made today, and notes it in `refused`."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[str] = []
        self.continued = 0

    def take(self, received: Received) -> Reply:
        self.requests.append(received)
        if received.headers.get("x-goog-api-key") != NEW_KEY:
            return self._refuse(403, "PERMISSION_DENIED", "The request has no valid API key.")
        if received.method == "GET":
            return json_reply(
                {"models": [_described(each.name) for each in served_models(today())]}
            )
        model = received.path.rpartition("/")[2].partition(":")[0]
        self.models.append(model)
        if ENDING.match(model):
            words = f"models/{model} is no longer available to new users."
            return self._refuse(404, "NOT_FOUND", words)
        words = _refusal(model, received.json) or self._fault(received.json, model)
        if words:
            return self._refuse(400, "INVALID_ARGUMENT", words)
        answer = self._answer(received.json, model)
        return sse(answer) if "stream" in received.path else json_reply(answer)

    def _refuse(self, code: int, status: str, words: str) -> Reply:
        self.refused.append(words)
        return json_reply({"error": {"code": code, "message": words, "status": status}}, code)

    def _answer(self, body: dict[str, Any], model: str) -> dict[str, Any]:
        last = body["contents"][-1]["parts"]
        said = " ".join(part.get("text", "") for part in last)
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        version, token, parts = model, body.get("continuationToken"), [{"text": "Done."}]
        if token is not None:
            self.continued += 1
            parts = [{"text": "has no tests."}]
        elif any("functionResponse" in part for part in last):
            parts = [{"text": json.dumps(last[0]["functionResponse"]["response"])}]
        elif "which of these modules" in said.lower():
            candidate = {
                "content": {"role": "model", "parts": [{"text": "src/app.py "}]},
                "finishReason": "CONTINUATION",
                "continuationToken": "rest",
            }
            return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": version}
        elif "docstring" in said:
            path = str(Path.cwd() / "src" / "app.py")
            args = {
                "file_path": path,
                "old_string": "def run():\n",
                "new_string": 'def run():\n    """Run."""\n',
                "instruction": "Add a docstring.",
            }
            parts = [call("replace", args, thoughtSignature=signature(model))]
        elif "Bern" in said:
            parts = [call("population", {"city": "Bern"}, thoughtSignature=signature(model))]
        elif "Review" in said:
            assert "diff --git" in said
            version, parts = ROUTED, [{"text": "Looks good."}]
        return chunk(*parts, finish="STOP", usage=usage) | {"modelVersion": version}


def _described(name: str) -> dict[str, Any]:
    return {
        "name": f"models/{name}",
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent"],
    }


def _refusal(model: str, body: dict[str, Any]) -> str:
    generation = body.get("generationConfig", {})
    thinking = generation.get("thinkingConfig", {})
    if thinking.get("thinkingLevel", "").upper() == "MINIMAL" and model in WITHOUT_MINIMAL:
        return "Thinking level MINIMAL is not supported for this model."
    if "thinkingLevel" in thinking and "thinkingBudget" in thinking:
        return "Use thinking_level or thinking_budget, not both."
    last = body["contents"][-1]
    if last["role"] == "model" and any("text" in part for part in last["parts"]):
        return "The request ends with a model turn."
    return ""


@pytest.fixture
def service() -> Iterator[TodaysService]:
    with TodaysService() as running:
        yield running


@pytest.fixture
def workspace(project: Path) -> Path:
    (project / "src").mkdir()
    (project / "src" / "app.py").write_text("def run():\n    return 1\n", encoding="utf-8")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com")
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "Begin")):
        subprocess.run([*git, *arguments], check=True, cwd=project)
    return project


def environment(service: TodaysService) -> dict[str, str]:
    """Only a key, and the address of the stand-in for Google's."""
    path = f"{Path(ALHENA).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {
        "GEMINI_API_KEY": NEW_KEY,
        "GOOGLE_GEMINI_BASE_URL": service.url,
        "PATH": path,
    }


def shell(service: TodaysService, line: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        env=environment(service),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.requirement("TODAY-01")
@pytest.mark.requirement("TODAY-03")
def test_the_commands_of_the_readme_work_for_a_new_user(service: TodaysService, workspace: Path):
    lines = commands()
    assert lines[0] == "alhena"
    assert "export GEMINI_API_KEY=..." in lines
    said: dict[str, str] = {}
    for line in lines[1:]:
        if line.startswith("export "):
            continue  # the environment has the key
        ran = shell(service, line)
        assert ran.returncode == 0, (line, ran.stderr)
        said[line] = ran.stdout + ran.stderr
    told = " ".join(said.values())
    assert "src/app.py has no tests." in told
    assert service.continued == 1
    assert "Run." in (workspace / "src" / "app.py").read_text(encoding="utf-8")
    (review,) = [text for line, text in said.items() if line.startswith("git diff")]
    assert review.splitlines()[-1] == "Looks good."
    assert not service.refused
    assert set(service.models) == {FLASH}


def test_the_first_command_opens_a_session_that_answers(service: TodaysService, workspace: Path):
    environ = environment(service)
    with Terminal("--skip-trust", **environ) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send(f"Which of these modules has no tests?{ENTER}")
        terminal.until("src/app.py has no tests.")
        terminal.send(f"/quit{ENTER}")
        assert terminal.ended() == 0
        assert_restored(terminal)
    assert not service.refused


def test_the_program_of_the_readme_works_for_a_new_user(service: TodaysService, workspace: Path):
    (workspace / "first.py").write_text(program(), encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "first.py"],
        env=environment(service),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "134000" in ran.stdout
    assert not service.refused


def test_an_answer_under_another_name_is_said(service: TodaysService, workspace: Path):
    ran = alhena("-p", "Review diff --git", "-o", "json", **environment(service))
    assert ran.json["response"] == "Looks good."
    assert any(ROUTED in line and FLASH in line for line in ran.json["warnings"])


@for_each("model", ["gemini-2.5-pro", "gemini-2.5-flash"])
def test_a_model_that_is_closed_to_new_keys_ends_with_names_of_served_ones(
    service: TodaysService, model: str
):
    ran = alhena("-m", model, "-p", "hi", **environment(service))
    assert ran.code == 1
    assert "no longer available" in ran.err
    assert "gemini-3" in ran.err


def test_a_level_that_the_default_lacks_is_refused_before_anything_is_sent(
    service: TodaysService, home: Path
):
    override = {
        "match": {"model": FLASH},
        "modelConfig": {"generateContentConfig": {"thinkingConfig": {"thinkingLevel": "MINIMAL"}}},
    }
    (home / ".gemini").mkdir()
    settings = {"modelConfigs": {"customOverrides": [override]}}
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    ran = alhena("-p", "hi", **environment(service))
    assert ran.code == 52
    assert "MINIMAL" in ran.err
    assert not service.requests


def test_a_session_goes_on_with_another_model_without_its_signatures(
    service: TodaysService, workspace: Path
):
    first = "Add a docstring"
    for arguments in (("-p", first), ("-r", "latest", "-m", PRO, "-p", "And?")):
        ran = alhena(*arguments, "--skip-trust", "-y", **environment(service))
        assert ran.code == 0, ran.err
    assert service.models == [FLASH, FLASH, PRO]
    assert not service.refused
