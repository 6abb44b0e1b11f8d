"""The program of `make demo`: runs `alhena` on this repository's own files, without a key or a
network.

The run writes JSON lines (`-o stream-json`); this shows each tool call, the beginning of its
result, and the answer.
"""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PROMPT = (
    'What is this project? Then search for "class Scheduler" in src and run `git log --oneline -3`'
)
SHOWN_LINES = 8


def show(event: dict[str, Any], names: dict[str, str]) -> None:
    """Prints one event for a person. `names` are the tools of the calls so far, by call id."""
    match event["type"]:
        case "init":
            print(f"[model {event['model']}]")
        case "message" if event["role"] == "user":
            print(f"> {event['content']}\n")
        case "message":
            print(event["content"], end="", flush=True)
        case "tool_use":
            names[event["tool_id"]] = event["tool_name"]
            print(f"\n● {event['tool_name']} {json.dumps(event['parameters'])}", flush=True)
        case "tool_result":
            text = event.get("output") or event.get("error", {}).get("message", "")
            lines = text.splitlines()
            print(f"  └ {names[event['tool_id']]}: {event['status']}")
            print("".join(f"    {line}\n" for line in lines[:SHOWN_LINES]), end="")
            if len(lines) > SHOWN_LINES:
                print(f"    … {len(lines) - SHOWN_LINES} more lines")
        case "result":
            stats = event["stats"]
            print(
                f"\n[{event['status']}: {stats['tool_calls']} tool calls, "
                f"{stats['duration_ms']} ms]"
            )
        case _:
            print(f"\n[{event['type']}] {event.get('message', '')}")


def main() -> int:
    arguments = ["--model", "demo", "--approval-mode", "yolo", "--skip-trust", "-o", "stream-json"]
    print(f"$ alhena {shlex.join([*arguments, '-p', PROMPT])}\n", flush=True)
    command = [str(Path(sys.executable).parent / "alhena"), *arguments, "-p", PROMPT]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, encoding="utf-8"
    ) as run:
        assert run.stdout is not None
        names: dict[str, str] = {}
        for line in run.stdout:
            show(json.loads(line), names)
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
