"""Start to exit, start to first request, and peak memory."""

import json
import ssl
import sys
import time
from pathlib import Path

from tests.support.certificates import certificate

from bench.measure import (
    ALHENA,
    PASS,
    environment,
    median_ms,
    peak_rss_mb,
    reference,
    row,
    row_above,
    signed_in_reference,
    wall,
)
from bench.server import BenchServer, text_answer

ROUNDS = 15
HANDSHAKE_S = 0.2
MCP_SERVER = Path(__file__).parent / "mcp_server.py"


def _first_request(
    command: list[str],
    cwd: Path,
    env: dict[str, str],
    tls: ssl.SSLContext | None = None,
    handshake_s: float = 0.0,
) -> float:
    """Seconds from start to the first byte of the first request."""
    with BenchServer(text_answer, tls, handshake_s) as server:
        start = time.perf_counter()
        wall(command, cwd, env | {"GOOGLE_GEMINI_BASE_URL": server.url, "GEMINI_API_KEY": "x"})
        return server.first_bytes[0] - start if server.first_bytes else float("nan")


def run(home: Path, cwd: Path) -> None:
    env = environment(home)
    prompt = [*ALHENA, "-m", "gemini-3.8-flash", "-p", "hi"]
    bare, version, first = [], [], []
    for _ in range(ROUNDS):
        bare.append(wall(PASS, cwd, env))
        version.append(wall([*ALHENA, "--version"], cwd, env))
        first.append(_first_request(prompt, cwd, env))
    base = median_ms(bare)
    shown = f"python -c pass {base:.1f} ms"
    ratio = median_ms(version) / base
    row("alhena --version", f"{median_ms(version):.1f} ms", shown, ratio, "<= 2.5", ok=ratio <= 2.5)
    ratio = median_ms(first) / base
    row(
        "-p hi, start to first request",
        f"{median_ms(first):.1f} ms",
        shown,
        ratio,
        "<= 5",
        ok=ratio <= 5,
    )
    _over_tls(prompt, home, cwd)
    _with_filled_home(prompt, home, cwd)
    with BenchServer(text_answer) as server:
        loopback = env | {"GOOGLE_GEMINI_BASE_URL": server.url, "GEMINI_API_KEY": "x"}
        rss = peak_rss_mb(prompt, cwd, loopback)
    base_rss = peak_rss_mb(PASS, cwd, env)
    row(
        "-p hi, peak memory",
        f"{rss:.1f} MB",
        f"python -c pass {base_rss:.1f} MB",
        rss / base_rss,
        "<= 45 MB",
        ok=rss <= 45,
    )
    _against_reference(median_ms(first), env, cwd)


def _over_tls(prompt: list[str], home: Path, cwd: Path) -> None:
    """The first request over https, and there after a handshake of HANDSHAKE_S, by turns with one
    over http. The certificate is trusted beside those of the system."""
    public, tls = certificate(home)
    env = environment(home, NODE_EXTRA_CA_CERTS=str(public))
    plain, secure, far = [], [], []
    for _ in range(ROUNDS):
        plain.append(_first_request(prompt, cwd, env))
        secure.append(_first_request(prompt, cwd, env, tls))
        far.append(_first_request(prompt, cwd, env, tls, HANDSHAKE_S))
    http, https, later = median_ms(plain), median_ms(secure), median_ms(far)
    row_above("-p hi over https, first request later by", https, "over http", http, 10)
    row_above("the same, handshake of 200 ms, later by", later, "without", https, 150)


def filled(home: Path, *, commands: int, skills: int, agents: int, extensions: int) -> None:
    """Fills a home with that many of each kind, agents in both of their forms."""

    def write(path: str, *lines: str) -> None:
        file = home / ".gemini" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines), encoding="utf-8")

    body = "Do it step by step, and say what was done. " * 50
    for each in range(commands):
        write(f"commands/g{each % 10}/c{each}.toml", f'description = "c"\nprompt = """{body}"""')
    for each in range(skills):
        head = ("---", f"name: skill-{each}", "description: knows how", "---")
        write(f"skills/s{each}/SKILL.md", *head, body)
    for each in range(agents):
        head = (f"name: agent-{each}", "description: does it", "tools:", "  - read_file")
        toml = (f'name = "agent-{each}"', 'description = "does it"', "[prompts]")
        if each % 2:
            write(f"agents/a{each}.md", "---", *head, "---", body)
        else:
            write(f"agents/a{each}.toml", *toml, f'system_prompt = "{body}"')
    for each in range(extensions):
        folder = f"extensions/e{each}"
        write(f"{folder}/gemini-extension.json", f'{{"name": "e{each}", "version": "1.0.0"}}')
        write(f"{folder}/GEMINI.md", f"context {each}")
        write(f"{folder}/commands/x{each}.toml", f'prompt = "{body}"')
        head = ("---", f"name: of-{each}", "description: knows how", "---")
        write(f"{folder}/skills/k/SKILL.md", *head, body)


def _with_filled_home(prompt: list[str], home: Path, cwd: Path) -> None:
    """The first request with a home full of commands, skills, agents and extensions, by turns with
    an empty one."""
    full = home.parent / "filled"
    filled(full, commands=200, skills=50, agents=30, extensions=10)
    before, after = [], []
    for _ in range(ROUNDS):
        before.append(_first_request(prompt, cwd, environment(home)))
        after.append(_first_request(prompt, cwd, environment(full)))
    more = median_ms([late - early for early, late in zip(before, after, strict=True)])
    row(
        "-p hi, with a home of 290 definitions",
        f"{more:.1f} ms more",
        f"empty home {median_ms(before):.1f} ms",
        median_ms(after) / median_ms(before),
        "<= 15 ms more",
        ok=more <= 15,
    )


def _against_reference(ours_ms: float, env: dict[str, str], cwd: Path) -> None:
    command = reference("-p hi, first request against the reference")
    if command is None:
        return
    settings, chosen = signed_in_reference(env)
    prompt = [*command, "-m", "gemini-3.8-flash", "--skip-trust", "-p", "hi"]
    theirs = median_ms([_first_request(prompt, cwd, env) for _ in range(3)])
    ratio = ours_ms / theirs
    row(
        "-p hi, first request against the reference",
        f"{ours_ms:.1f} ms",
        f"reference {theirs:.0f} ms",
        ratio,
        "<= 0.06",
        ok=ratio <= 0.06,
    )
    served = {"one": {"command": sys.executable, "args": ["-I", str(MCP_SERVER)]}}
    settings.write_text(json.dumps(chosen | {"mcpServers": served}), encoding="utf-8")
    ours, reference_s = [], []
    for _ in range(3):
        ours.append(_whole_run([*ALHENA, *prompt[len(command) :], "-y"], cwd, env))
        reference_s.append(_whole_run([*prompt, "-y"], cwd, env))
    ratio = median_ms(ours) / median_ms(reference_s)
    row(
        "-p hi with one MCP server against the reference",
        f"{median_ms(ours):.1f} ms",
        f"reference {median_ms(reference_s):.0f} ms",
        ratio,
        "<= 0.35",
        ok=ratio <= 0.35,
    )


def _whole_run(command: list[str], cwd: Path, env: dict[str, str]) -> float:
    with BenchServer(text_answer) as server:
        loopback = env | {"GOOGLE_GEMINI_BASE_URL": server.url, "GEMINI_API_KEY": "x"}
        return wall(command, cwd, loopback)
