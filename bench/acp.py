"""`alhena --acp`: from its start to the answer to `initialize`, and from the model to an update."""

import json
import subprocess
import time
from pathlib import Path
from typing import Any

from bench.measure import ALHENA, PASS, environment, median_ms, row, wall
from bench.server import BenchServer, text_answer

ROUNDS = 15
PROMPTS = 50


class _Editor:
    """A client of one agent, over its pipes."""

    def __init__(self, cwd: Path, env: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [*ALHENA, "--acp"], cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def ask(self, method: str, params: dict[str, Any]) -> tuple[Any, float]:
        """The result of a request, and when the first message of the agent's text came."""
        reading, writing = self._process.stdout, self._process.stdin
        assert reading
        assert writing
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        writing.write(json.dumps(body).encode() + b"\n")
        writing.flush()
        shown = 0.0
        for line in reading:
            if not shown and b"agent_message_chunk" in line:
                shown = time.perf_counter()
            if b'"result":' in line:
                return json.loads(line)["result"], shown
        raise RuntimeError("the agent has gone")

    def close(self) -> None:
        """Ends the agent."""
        self._process.communicate(timeout=30)


def run(home: Path, cwd: Path) -> None:
    env = environment(home)
    ready, bare = [], []
    for _ in range(ROUNDS):
        bare.append(wall(PASS, cwd, env))
        begun = time.perf_counter()
        editor = _Editor(cwd, env)
        editor.ask("initialize", {"protocolVersion": 1})
        ready.append(time.perf_counter() - begun)
        editor.close()
    value, base = median_ms(ready), median_ms(bare)
    shown = f"python -c pass {base:.1f} ms"
    row(
        "--acp, start to initialize",
        f"{value:.1f} ms",
        shown,
        value / base,
        "<= 350 ms",
        ok=value <= 350,
    )
    with BenchServer(text_answer) as server:
        editor = _Editor(cwd, env | {"GOOGLE_GEMINI_BASE_URL": server.url, "GEMINI_API_KEY": "x"})
        editor.ask("initialize", {"protocolVersion": 1})
        own = editor.ask("session/new", {"cwd": str(cwd), "mcpServers": []})[0]["sessionId"]
        late = []
        prompt = [{"type": "text", "text": "hi"}]
        for _ in range(PROMPTS):
            _, at = editor.ask("session/prompt", {"sessionId": own, "prompt": prompt})
            late.append(at - server.sent[-1])
        editor.close()
    value = median_ms(late)
    row(
        "--acp, model's bytes to their update",
        f"{value:.2f} ms",
        "-",
        None,
        "<= 2 ms",
        ok=value <= 2,
    )
