"""Policy decisions: tool calls and shell commands against many rules, and the worst commands."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from alhena.policy.engine import PolicyEngine
from alhena.policy.load import load_tables
from alhena.policy.model import PolicyCall, PolicyContext, PolicyOutcome, PolicyRule, Tier
from bench.measure import row

SHELL = "run_shell_command"
ROUNDS = 3
CALLS = 20_000
LINES = 2_000
PROGRAMS = ("git", "npm", "cargo", "go", "make", "docker", "kubectl", "pip", "uv", "gh")
WORST = {
    "150 KB of nested substitutions": "echo " + "$(echo " * 21_500 + "x" + ")" * 21_500,
    "64 KiB of open substitutions": "$(" * 32_700,
    "64 KiB of open backticks": "`" * 65_000,
    "64 KiB of open quotes": '"$(' * 21_000,
    "64 KiB of open brackets": "(" * 65_000,
    "64 KiB of open expansions": "${" * 32_700,
    "64 KiB of commands": "a;" * 32_700,
    "64 KiB of words": "echo " + "a " * 32_700,
    "64 KiB of one word": "echo " + "a" * 65_000,
    "64 KiB of quoted words": "echo " + "'a' " * 16_000,
    "64 KiB of escapes": "echo " + "\\a" * 32_000,
    "64 KiB of braces": "echo " + "{a," * 21_000,
    "64 KiB of wrappers": "env " * 16_000,
    "64 KiB of code in code": "bash -c '" + "bash -c x;" * 6_000 + "'",
    "64 KiB of documents": "cat " + "<<E " * 16_000,
    "64 KiB of arithmetic": "echo $((" + "(1+" * 21_000,
    "64 KiB of pipes": "a|" * 32_700,
    "64 KiB of redirections": "a " + ">b " * 21_000,
    "64 KiB of conditions": "if a; then " * 5_900,
    "64 KiB of assignments": "A=1 " * 16_000,
    "64 KiB of sed's brackets": "sed -n '" + "{" * 65_000 + "'",
    "64 KiB of sed's commands": "sed -n '" + "p;" * 32_500 + "'",
    "64 KiB of a script of sed": "sed '" + "s/a/b/;" * 9_000 + "'",
    "64 KiB of a program of awk": "awk '{" + "(a > b);" * 8_000 + "}'",
    "seven programs of awk": ";".join("awk '{" + f"a+b*{n};" * 1_200 + "}'" for n in range(7)),
    "64 KiB of a program of jq": "jq '" + ".a|" * 21_000 + ".'",
    "64 KiB of a format": "printf '" + "%(" * 32_500 + "'",
    "64 KiB of a path": "cat " + "../" * 21_000 + "proc",
    "64 KiB of a pattern": "cat " + ("/" + "[" * 4_000 + " ") * 16,
    "390 nested substitutions": "echo " + "$(echo " * 97 + "x" + ")" * 97,
    "400 operators": "a;" * 399,
    "400 actions of find": "find " + "-exec " * 400,
    "1000 wrappers": "env " * 1000 + "a",
    "600 wrappers with input": "xargs " * 600 + "a",
}


def run(home: Path, cwd: Path) -> None:
    del home, cwd
    engine = PolicyEngine(_rules())
    context = PolicyContext()
    _rate("policy: tool calls, 500 rules", _tool_call, engine, CALLS, 100_000)
    _rate("policy: lines of three commands, 500 rules", _shell_call, engine, LINES, 5_000)
    # A pause of the machine does not count.
    slowest, name = max(
        (min(_seconds(engine, context, text + " " * n) for n in range(ROUNDS)), name)
        for name, text in WORST.items()
    )
    row(
        "policy: the worst command",
        f"{slowest * 1000:.1f} ms",
        name,
        None,
        "< 50 ms",
        ok=slowest < 0.05,
    )


def _rate(
    name: str, call: Callable[[int], PolicyCall], engine: PolicyEngine, count: int, limit: int
) -> None:
    """The best of some rounds, over distinct calls."""
    context = PolicyContext()
    best = 0.0
    for number in range(ROUNDS):
        calls = [call(number * count + at) for at in range(count)]
        start = time.perf_counter()
        for each in calls:
            decision = engine.decide(each, context)
            if decision.outcome is not PolicyOutcome.ALLOW:
                raise RuntimeError(f"{each.args}: {decision.reason}")
        best = max(best, count / (time.perf_counter() - start))
    row(name, f"{best:,.0f}/s", "", best / limit, f">= {limit:,}/s", ok=best >= limit)


def _seconds(engine: PolicyEngine, context: PolicyContext, command: str) -> float:
    call = PolicyCall(names=(SHELL,), args={"command": command})
    start = time.perf_counter()
    engine.decide(call, context)
    return time.perf_counter() - start


def _tool_call(number: int) -> PolicyCall:
    args = {"absolute_path": f"/project/src/module_{number}.py", "offset": number, "limit": 100}
    return PolicyCall(names=("read_file", "ReadFileTool"), args=args)


def _shell_call(number: int) -> PolicyCall:
    line = f"git status -s src/{number} && npm cmd2 | head -n {number}"
    return PolicyCall(names=(SHELL, "ShellTool"), args={"command": line})


def _rules() -> tuple[PolicyRule, ...]:
    """500 rules, as in a long-used installation: many approved commands, a few refusals."""
    tables: list[dict[str, Any]] = [
        _shell("allow", commandPrefix=f"{program} cmd{number}")
        for program in PROGRAMS
        for number in range(30)
    ]
    tables += [_shell("deny", priority=900, commandPrefix=f"danger{n} now") for n in range(18)]
    tables += [_shell("allow", priority=50, commandClass="read-only")]
    tables += [_table(f"mcp_server{n % 20}_tool{n}", "allow") for n in range(100)]
    tables += [_table(f"tool_{n}", "ask_user", argsPattern=f"secret{n}") for n in range(70)]
    tables += [_table("read_file", "deny", priority=800, argsPattern=r"\.(pem|key)\b")]
    tables += [_table("write_file", "ask_user") for _ in range(8)]
    tables += [_table("read_file", "allow", priority=10), _table("*", "ask_user", priority=1)]
    loaded = load_tables(tables, file="bench.toml", tier=Tier.USER)
    if loaded.problems or len(loaded.rules) != 500:
        raise RuntimeError(f"{len(loaded.rules)} rules, {loaded.problems[:1]}")
    return loaded.rules


def _shell(decision: str, *, priority: int = 100, **fields: Any) -> dict[str, Any]:
    return _table(SHELL, decision, priority=priority, **fields)


def _table(tool: str, decision: str, *, priority: int = 100, **fields: Any) -> dict[str, Any]:
    return {"toolName": tool, "decision": decision, "priority": priority, **fields}
