"""Has a real small model of this machine answer three prompts: in words, by a schema, and with a
tool call (`make try-local`). The model is Gemma 3 with 270 million parameters, not tuned for
conversations: what it says is often nonsense, and the template of `scripts/local` shows it each
tool by an example call. Exit code 1 if one of the three fails."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec

from alhena import Agent, AlhenaError
from alhena.library.options import AgentOptions

HERE = Path(__file__).parent
BUILD = HERE.parent / "build" / "local"
MODEL = "openai:gemma3-270m"
WINDOW = 4096
SETTINGS = {
    "modelConfigs": {
        "customOverrides": [
            {
                "match": {"model": MODEL},
                "modelConfig": {
                    "generateContentConfig": {
                        "temperature": 0,
                        "maxOutputTokens": 96,
                        "stopSequences": ["<|im_end|>"],
                    }
                },
            }
        ]
    }
}


class Capital(msgspec.Struct):
    """A capital."""

    city: Literal["Berlin", "Paris", "Rome"]


def main() -> int:
    """Starts the server, asks, prints what came, and ends the server."""
    command = [BUILD / "bin" / "python", HERE / "local" / "server.py"]
    with (
        tempfile.TemporaryDirectory() as folder,
        (BUILD / "server.log").open("wb") as log,
        subprocess.Popen(
            [*map(str, command), str(BUILD / "model.gguf"), str(WINDOW)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as server,
    ):
        try:
            address = next(filter(_is_address, server.stdout or ()), "").strip()
            if not address:
                print(f"The server did not start: see {BUILD / 'server.log'}.", file=sys.stderr)
                return 1
            return ask_all(Path(folder), address)
        finally:
            server.kill()


def _is_address(line: str) -> bool:
    return line.startswith("http")


def ask_all(folder: Path, address: str) -> int:
    """Asks the three prompts; the exit code."""
    home, project = folder / "home", folder / "project"
    (home / ".gemini").mkdir(parents=True)
    (home / ".gemini" / "settings.json").write_text(json.dumps(SETTINGS))
    project.mkdir()
    for name in ("beans.txt", "peas.txt"):
        (project / name).write_text(f"{name}\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GEMINI_")}
    environ = {
        **kept,
        "HOME": str(home),
        "OPENAI_BASE_URL": f"{address}/v1",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
    print(f"{MODEL}, llama.cpp at {address}, window {WINDOW:,} tokens")
    good = True
    for title, work in (
        ("1. In words: What is the capital of France?", in_words),
        ("2. By a schema: What is the capital of France?", by_schema),
        ("3. With tools: Call the tool list_directory.", with_tools),
    ):
        begun = time.perf_counter()
        print(f"\n{title}", flush=True)
        try:
            ended_well, lines = work(project, environ)
        except AlhenaError as error:
            ended_well, lines = False, [str(error)]
        for line in lines:
            print(f"   {line}")
        print(f"   ({time.perf_counter() - begun:.0f} s{'' if ended_well else ', FAILED'})")
        good = good and ended_well
    return 0 if good else 1


def run_agent(
    project: Path, environ: dict[str, str], output: Any, show: Callable[[Any], str]
) -> tuple[bool, list[str]]:
    """One prompt to an agent without tools."""

    async def run() -> tuple[bool, list[str]]:
        agent = Agent(
            MODEL,
            cwd=project,
            builtin_tools=[],
            options=AgentOptions(environ=environ, record=False),
        )
        async with agent:
            asked = {} if output is None else {"output": output}
            result = await agent.run("What is the capital of France?", **asked)
        usage = result.usage
        return bool(show(result)), [
            show(result),
            f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out",
        ]

    return asyncio.run(run())


def in_words(project: Path, environ: dict[str, str]) -> tuple[bool, list[str]]:
    """An answer as text."""
    return run_agent(project, environ, None, lambda result: " ".join(result.text.split()))


def by_schema(project: Path, environ: dict[str, str]) -> tuple[bool, list[str]]:
    """An answer of a type, by the server's `response_format`."""
    return run_agent(project, environ, Capital, lambda result: str(result.output))


def with_tools(project: Path, environ: dict[str, str]) -> tuple[bool, list[str]]:
    """A tool call and its result, by the command with its six tools."""
    alhena = str(Path(sys.executable).parent / "alhena")
    prompt = "Call the tool list_directory."
    ran = subprocess.run(
        [alhena, "-m", MODEL, "-y", "--max-turns", "2", "-o", "stream-json", "-p", prompt],
        cwd=project,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    lines: list[str] = []
    done = False
    for line in ran.stdout.splitlines():
        event = json.loads(line)
        match event["type"]:
            case "tool_use":
                lines.append(f"calls {event['tool_name']} {json.dumps(event['parameters'])}")
            case "tool_result":
                done = done or event["status"] == "success"
                lines.append(f"result: {event['status']}: {str(event.get('output'))[:200]!r}")
            case "message" if event.get("role") == "assistant":
                lines.append(f"says {str(event.get('content'))[:200]!r}")
            case "result":
                lines.append(f"ends: {event.get('status')}, {json.dumps(event.get('stats'))}")
            case _:
                pass
    lines += [f"stderr: {line}" for line in ran.stderr.splitlines()[:5]]
    return done, lines


if __name__ == "__main__":
    raise SystemExit(main())
