"""Tries clients of other people against the gateway, and prints a table for docs/gateway.md.

    python -m scripts.clients.run --npm DIR --python EXE [NAME...]

Behind the gateway a scripted service answers (`service`): each client reads two files by calls of
its own tools, and says the words in them. `works` means that both results and the signatures of
the calls arrived, and that the client printed the answer.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from scripts.clients.service import PROMPT, ScriptedService

TIMEOUT_S = 120
WORDS = ("plover", "dunlin")
ASK = f"Read one.txt and two.txt ({PROMPT}), and say the words in them."
KEY = "unused"


class Place(NamedTuple):
    """A trial's surroundings. `url` is the gateway's, `project` holds the files."""

    url: str
    home: Path
    project: Path

    def filled(self, text: str) -> str:
        """The text with the address and the home directory."""
        return text.replace("@URL@", self.url).replace("@HOME@", str(self.home))

    def write(self, name: str, text: str) -> None:
        """Writes a file below the home directory."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.filled(text), encoding="utf-8")


class Client(NamedTuple):
    """A client. `package` has the version (npm's, or a distribution of Python); `command` follows
    the directory of npm's programs, or the Python interpreter."""

    name: str
    form: str
    package: str
    command: tuple[str, ...]
    environ: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    python: bool = False


_CODEX = """model_provider = "alhena"
[model_providers.alhena]
name = "alhena"
base_url = "@URL@/v1"
wire_api = "responses"
"""
_GEMINI = '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'
_OPENCODE = """{
  "provider": {
    "anthropic": {"npm": "@ai-sdk/anthropic",
      "options": {"baseURL": "@URL@/v1", "apiKey": "unused"},
      "models": {"flash": {"name": "flash", "tool_call": true}}},
    "openai": {"npm": "@ai-sdk/openai", "options": {"baseURL": "@URL@/v1", "apiKey": "unused"},
      "models": {"flash": {"name": "flash", "tool_call": true}}},
    "google": {"npm": "@ai-sdk/google", "options": {"baseURL": "@URL@/v1beta", "apiKey": "unused"},
      "models": {"gemini-3.8-flash": {"name": "flash", "tool_call": true}}},
    "alhena": {"npm": "@ai-sdk/openai-compatible", "name": "alhena",
      "options": {"baseURL": "@URL@/v1", "apiKey": "unused"},
      "models": {"flash": {"name": "flash", "tool_call": true}}}
  }
}
"""
_PI = """{"providers": {
  "alhena": {"baseUrl": "@URL@/v1", "api": "openai-completions", "apiKey": "unused",
    "models": [{"id": "flash"}]},
  "alhena-responses": {"baseUrl": "@URL@/v1", "api": "openai-responses", "apiKey": "unused",
    "models": [{"id": "flash"}]},
  "alhena-messages": {"baseUrl": "@URL@", "api": "anthropic-messages", "apiKey": "unused",
    "models": [{"id": "flash"}]},
  "alhena-gemini": {"baseUrl": "@URL@/v1beta", "api": "google-generative-ai", "apiKey": "unused",
    "models": [{"id": "gemini-3.8-flash"}]}
}}
"""
_CONTINUE = """name: alhena
version: 1.0.0
schema: v1
models:
  - name: alhena
    provider: openai
    model: flash
    apiBase: @URL@/v1
    apiKey: unused
    roles: [chat]
    capabilities: [tool_use]
"""
_LLM = """- model_id: alhena
  model_name: flash
  api_base: @URL@/v1
  api_key_name: none
  supports_tools: true
"""
_LLM_TOOL = """
def read_word(path: str) -> str:
    "Reads a file."
    return open(path).read()
"""
_OPENCODE_FILE = {".config/opencode/opencode.json": _OPENCODE}
_PI_FILE = {".pi/agent/models.json": _PI}
_QUIET = {"DISABLE_TELEMETRY": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}


def _opencode(provider: str, model: str, form: str) -> Client:
    command = ("opencode", "run", "-m", f"{provider}/{model}", ASK)
    name = f"opencode, {provider.replace('alhena', 'openai-compatible')}"
    return Client(name, form, "opencode-ai", command, {}, _OPENCODE_FILE)


def _pi(provider: str, form: str, model: str = "flash") -> Client:
    command = ("pi", "-p", "--provider", provider, "--model", model, ASK)
    package = "@mariozechner/pi-coding-agent"
    return Client(f"pi, {form}", form, package, command, {}, _PI_FILE)


def _python(name: str, form: str, package: str, snippet: str) -> Client:
    command = ("python", str(Path(__file__).with_name("python_clients.py")), snippet)
    return Client(name, form, package, command, python=True)


def _ai_sdk(name: str, form: str, package: str) -> Client:
    command = ("node", str(Path(__file__).with_name("ai_sdk.mjs")), name)
    return Client(f"AI SDK, {name}", form, package, command)


CHAT, RESPONSES, MESSAGES, GEMINI = "chat completions", "Responses", "Messages", "Gemini"
CLIENTS: tuple[Client, ...] = (
    Client("Claude Code", MESSAGES, "@anthropic-ai/claude-code",
           ("claude", "-p", ASK, "--allowedTools", "Read"),
           {"ANTHROPIC_BASE_URL": "@URL@", "ANTHROPIC_API_KEY": KEY, **_QUIET}),
    Client("Codex", RESPONSES, "@openai/codex",
           ("codex", "exec", "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox", ASK),
           {}, {".codex/config.toml": _CODEX}),
    Client("Gemini CLI", GEMINI, "@google/gemini-cli",
           ("gemini", "-m", "gemini-3.8-flash", "--yolo", "-p", ASK),
           {"GOOGLE_GEMINI_BASE_URL": "@URL@", "GEMINI_API_KEY": KEY,
            "GEMINI_CLI_TRUST_WORKSPACE": "true"},
           {".gemini/settings.json": _GEMINI}),
    Client("qwen-code", CHAT, "@qwen-code/qwen-code",
           ("qwen", "--auth-type", "openai", "--yolo", "-p", ASK),
           {"OPENAI_BASE_URL": "@URL@/v1", "OPENAI_API_KEY": KEY, "OPENAI_MODEL": "flash"}),
    _opencode("anthropic", "flash", MESSAGES),
    _opencode("openai", "flash", RESPONSES),
    _opencode("google", "gemini-3.8-flash", GEMINI),
    _opencode("alhena", "flash", CHAT),
    _pi("alhena", CHAT),
    _pi("alhena-responses", RESPONSES),
    _pi("alhena-messages", MESSAGES),
    _pi("alhena-gemini", GEMINI, "gemini-3.8-flash"),
    Client("Continue (cn)", CHAT, "@continuedev/cli",
           ("cn", "-p", "--auto", "--config", "@HOME@/continue.yaml", ASK),
           {}, {"continue.yaml": _CONTINUE}),
    Client("crush", CHAT, "@charmland/crush", ("crush", "run", ASK)),
    _ai_sdk("openai", RESPONSES, "@ai-sdk/openai"),
    _ai_sdk("openai-compatible", CHAT, "@ai-sdk/openai-compatible"),
    _ai_sdk("anthropic", MESSAGES, "@ai-sdk/anthropic"),
    _ai_sdk("google", GEMINI, "@ai-sdk/google"),
    Client("aider", CHAT, "aider-chat",
           ("aider", "--model", "openai/flash", "--yes-always", "--no-git",
            "--no-show-model-warnings",
            "--no-check-update", "--analytics-disable", "--message", ASK, "one.txt", "two.txt"),
           {"OPENAI_API_BASE": "@URL@/v1", "OPENAI_API_KEY": KEY}, python=True),
    Client("llm", CHAT, "llm",
           ("llm", "-m", "alhena", "--functions", _LLM_TOOL, ASK),
           {"LLM_USER_PATH": "@HOME@/llm", "OPENAI_API_KEY": KEY},
           {"llm/extra-openai-models.yaml": _LLM}, python=True),
    _python("LangChain ChatOpenAI", CHAT, "langchain-openai", "langchain_chat"),
    _python("LangChain ChatOpenAI, Responses", RESPONSES, "langchain-openai",
            "langchain_responses"),
    _python("LangChain ChatAnthropic", MESSAGES, "langchain-anthropic", "langchain_anthropic"),
    _python("LangChain ChatGoogleGenerativeAI", GEMINI, "langchain-google-genai",
            "langchain_google"),
    _python("LlamaIndex OpenAILike", CHAT, "llama-index-llms-openai-like", "llama_openai"),
    _python("LlamaIndex Anthropic", MESSAGES, "llama-index-llms-anthropic", "llama_anthropic"),
    _python("LlamaIndex GoogleGenAI", GEMINI, "llama-index-llms-google-genai", "llama_google"),
    _python("pydantic-ai OpenAIChatModel", CHAT, "pydantic-ai-slim", "pydantic_chat"),
    _python("pydantic-ai OpenAIResponsesModel", RESPONSES, "pydantic-ai-slim",
            "pydantic_responses"),
    _python("pydantic-ai AnthropicModel", MESSAGES, "pydantic-ai-slim", "pydantic_anthropic"),
    _python("pydantic-ai GoogleModel", GEMINI, "pydantic-ai-slim", "pydantic_google"),
    _python("openai-agents, Responses", RESPONSES, "openai-agents", "agents_responses"),
    _python("openai-agents, chat", CHAT, "openai-agents", "agents_chat"),
)  # fmt: skip


class Outcome(NamedTuple):
    """A row of the table."""

    client: Client
    version: str
    result: str


class Programs(NamedTuple):
    """The directories of installed clients: npm's, and those of virtual environments."""

    npm: Path
    environments: tuple[Path, ...]

    def find(self, client: Client) -> tuple[str, str]:
        """The program of a client and its version; "" for what is not installed."""
        if not client.python:
            manifest = self.npm / "node_modules" / client.package / "package.json"
            if not manifest.is_file():
                return "", ""
            name = client.command[0]
            program = self.npm / "node_modules" / ".bin" / name
            version = json.loads(manifest.read_text(encoding="utf-8"))["version"]
            return name if name == "node" else str(program), version
        for environment in self.environments:
            version = _python_version(environment / "bin" / "python", client.package)
            if version:
                return str(environment / "bin" / client.command[0]), version
        return "", ""


def _python_version(python: Path, package: str) -> str:
    code = f"from importlib.metadata import version; print(version({package!r}))"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return found.stdout.strip()


@contextmanager
def run_gateway(service: ScriptedService, log: Path) -> Iterator[str]:
    """Runs `alhena serve` in front of the service; yields its address."""
    with tempfile.TemporaryDirectory() as home, log.open("wb") as lines:
        environ = {"PATH": os.environ["PATH"], "HOME": home, "GEMINI_API_KEY": "x"}
        environ["GOOGLE_GEMINI_BASE_URL"] = service.url
        command = [sys.executable, "-m", "alhena", "serve", "--port", "0", "-m", "gemini-3.8-flash"]
        process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=lines)
        assert process.stdout is not None
        try:
            yield process.stdout.readline().decode().strip()
        finally:
            process.terminate()
            process.wait()


def try_client(client: Client, programs: Programs, keep: Path) -> Outcome:
    """Runs one client against a gateway of its own. Its output goes to a file in `keep`."""
    program, version = programs.find(client)
    if not program:
        return Outcome(client, "", "untried: not installed")
    base = re.sub(r"[^A-Za-z0-9]+", "-", client.name)
    with tempfile.TemporaryDirectory(dir=keep) as temporary:
        home, project = Path(temporary, "home"), Path(temporary, "project")
        project.mkdir()
        files = [project / "one.txt", project / "two.txt"]
        for file, word in zip(files, WORDS, strict=True):
            file.write_text(f"{word}\n", encoding="utf-8")
        with (
            ScriptedService(files) as service,
            run_gateway(service, keep / f"{base}.log") as url,
        ):
            place = Place(url, home, project)
            said = _run(client, program, place, programs.npm)
    sent = json.dumps(service.requests, indent=1)
    (keep / f"{base}.json").write_text(sent, encoding="utf-8")
    (keep / f"{base}.out").write_text(said, encoding="utf-8")
    return Outcome(client, version, _judge(service, said))


def _judge(service: ScriptedService, said: str) -> str:
    if service.problems:
        return f"fails: {service.problems[0][:160]}"
    if not service.conversations:
        return "fails: no conversation with both results arrived"
    answer = f"{WORDS[0]} and {WORDS[1]}."
    return "works" if answer in said else "fails: the client does not print the answer"


def _run(client: Client, program: str, place: Place, npm: Path) -> str:
    """The output of a client."""
    place.home.mkdir()
    for name, text in client.files.items():
        place.write(name, text)
    environ = {"PATH": os.environ["PATH"], "HOME": str(place.home), "NO_COLOR": "1"}
    environ |= {"GATEWAY": place.url, "NODE_PATH": str(npm / "node_modules"), "NPM": str(npm)}
    environ |= {name: place.filled(value) for name, value in client.environ.items()}
    command = [program, *(place.filled(each) for each in client.command[1:])]
    process = subprocess.Popen(
        command, cwd=place.project, env=environ, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        said, _ = process.communicate(timeout=TIMEOUT_S)
        ending = f"exit code {process.returncode}"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        ending = f"no end within {TIMEOUT_S} s"
    return f"{said.decode('utf-8', 'replace')}\n[{ending}]\n"


def main() -> None:
    """Prints the table, one row as soon as it is known."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--npm", type=Path, default=Path("node_modules").parent)
    parser.add_argument("--python", type=Path, action="append", default=[], help="an environment")
    parser.add_argument("--keep", type=Path, required=True, help="a folder for outputs and logs")
    parser.add_argument("names", nargs="*", help="beginnings of names; all if none")
    given = parser.parse_args()
    programs = Programs(given.npm.resolve(), tuple(each.resolve() for each in given.python))
    given.keep.mkdir(parents=True, exist_ok=True)
    print("| client | version | form | result |\n|---|---|---|---|", flush=True)
    for client in CLIENTS:
        if given.names and not client.name.lower().startswith(
            tuple(n.lower() for n in given.names)
        ):
            continue
        row = try_client(client, programs, given.keep.resolve())
        print(f"| {client.name} | {row.version} | {client.form} | {row.result} |", flush=True)


if __name__ == "__main__":
    main()
