"""`alhena policy explain`: what the policy says of a call, and why."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from alhena.config.errors import ConfigError
from alhena.config.home import user_policies_path, user_settings_path
from alhena.config.settings import load_settings
from alhena.errors import InputError, UsageError
from alhena.frontends.cli.inputs import open_input
from alhena.frontends.streams import write_stderr, write_stdout
from alhena.policy.engine import PolicyEngine
from alhena.policy.load import LoadedPolicies, PolicyProblem, ProblemLevel, load_tables
from alhena.policy.model import (
    ApprovalMode,
    Decision,
    PolicyCall,
    PolicyContext,
    PolicyRule,
    Tier,
)
from alhena.policy.settings_rules import excluded_rules
from alhena.policy.sources import load_path, load_policies
from alhena.tools.names import all_names, declared_name

if TYPE_CHECKING:
    from argparse import Namespace

USAGE = """\
usage: alhena policy explain --tool NAME [--args JSON] [options]
       alhena policy explain --batch FILE [options]

What the policy says of a tool call, and why. Nothing is run.

  --tool NAME          the tool
  --args JSON          its arguments, a JSON object (default {})
  --batch FILE         JSON lines {id, rules, tool, args, mode, interactive}, - for standard input;
                       the rules of a line replace the user's own for that line
  --policy FILE        more policies, a file or a directory; may be repeated
  --mode MODE          default, auto_edit, yolo or plan (--approval-mode is the same)
  --interactive        somebody can be asked (the default)
  --non-interactive    nobody can be asked
  --json               {decision, reason, rule, parts} instead of sentences
"""


MAX_LINE_BYTES = 16 * 1024 * 1024


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """One line of a batch."""

    tool: str
    id: Any = None
    args: dict[str, Any] = {}
    rules: list[dict[str, Any]] | None = None
    mode: str | None = None
    interactive: bool | None = None


def run(argv: list[str]) -> int:
    """Carries out `alhena policy ARGV`; returns the exit code."""
    if "-h" in argv or "--help" in argv:
        write_stdout(USAGE)
        return 0
    if argv[:1] != ["explain"]:
        raise UsageError("`alhena policy` takes `explain`.", remedy="See alhena policy --help.")
    return explain(argv[1:])


def explain(argv: list[str]) -> int:
    """Carries out `alhena policy explain ARGV`.

    Raises UsageError (2) for wrong arguments and ConfigError (52) for a `--policy` that cannot be
    used. A batch with a bad line ends with 2, after all its lines are answered.
    """
    options = _options(argv)
    extra = LoadedPolicies.joined(load_path(Path(name), Tier.USER) for name in options.policy or ())
    errors = [item for item in extra.problems if item.level is ProblemLevel.ERROR]
    if errors:
        raise ConfigError(
            f"policy {errors[0]}.",
            remedy="Correct the file, or leave it out."
            if len(errors) == 1
            else f"There are {len(errors) - 1} more such problems.",
        )
    _warn(extra.problems)
    context = PolicyContext(mode=_mode(options.mode), interactive=not options.non_interactive)
    if options.batch is not None:
        return _batch(options.batch, extra, context)
    settings = load_settings(user_settings_path(os.environ))
    loaded = load_policies(user_policies_path(os.environ), map(Path, settings.policy_paths))
    _warn(loaded.problems)
    excluded = excluded_rules(settings.tools.exclude)
    engine = PolicyEngine((*loaded.rules, *excluded, *extra.rules))
    decision = engine.decide(_call(options.tool, _arguments(options.args)), context)
    write_stdout(_json(decision) if options.json else _sentences(decision))
    return 0


def _options(argv: list[str]) -> "Namespace":
    from alhena.frontends.cli.arguments import Parser

    parser = Parser(prog="alhena policy explain", add_help=False, allow_abbrev=False)
    add = parser.add_argument
    add("--tool")
    add("--args")
    add("--batch")
    add("--policy", action="append")
    add("--mode", "--approval-mode", dest="mode", default="default")
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--interactive", action="store_true")
    who.add_argument("--non-interactive", action="store_true")
    add("--json", action="store_true")
    add("-d", "--debug", action="store_true")
    options = parser.parse_args(argv)
    if (options.tool is None) == (options.batch is None):
        raise UsageError(
            "`alhena policy explain` takes either --tool or --batch.",
            remedy="See alhena policy --help.",
        )
    if options.batch is not None and options.args is not None:
        raise UsageError("--args goes with --tool.", remedy="In a batch, each line has its args.")
    return options


def _mode(name: str) -> ApprovalMode:
    try:
        return ApprovalMode.parse(name)
    except ValueError as error:
        raise UsageError(
            f"there is no mode {name!r}.", remedy="Use default, auto_edit, yolo or plan."
        ) from error


def _arguments(text: str | None) -> dict[str, Any]:
    try:
        return msgspec.json.decode((text or "{}").encode("utf-8"), type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise UsageError(
            f"--args is no JSON object: {error}.", remedy="""Write --args '{"key": "value"}'."""
        ) from error


def _call(tool: str, arguments: dict[str, Any]) -> PolicyCall:
    declared = declared_name(tool)
    names = dict.fromkeys((tool, *all_names(declared)))
    return PolicyCall(names=tuple(names), args=arguments, server_name=None)


def _warn(problems: tuple[PolicyProblem, ...]) -> None:
    for problem in problems:
        write_stderr(f"alhena: policy {problem.level}: {_visible(str(problem))}\n")


def _batch(name: str, extra: LoadedPolicies, context: PolicyContext) -> int:
    fixed = load_policies(None)
    own = load_policies(user_policies_path(os.environ))
    _warn(own.problems)
    # The first question about a command loads the shell analysis; no line is charged for it.
    PolicyEngine(own.rules).decide(_call("run_shell_command", {"command": "true"}), context)
    bad = 0
    for number, line in enumerate(_lines(name), start=1):
        if not line.strip():
            continue
        answer = _answer(line, number, (own, fixed, extra), context)
        bad += "error" in answer
        write_stdout(msgspec.json.encode(answer).decode("utf-8") + "\n")
    return UsageError.exit_code if bad else 0


def _lines(name: str) -> Iterator[bytes]:
    file = open_input(name)
    try:
        while line := file.readline(MAX_LINE_BYTES):
            yield line
    except OSError as error:
        raise InputError(
            f"cannot read {name}: {error.strerror or error}.",
            remedy="Name a file of JSON lines, or - for standard input.",
        ) from error
    finally:
        if name != "-":
            file.close()


def _answer(
    line: bytes,
    number: int,
    tiers: tuple[LoadedPolicies, LoadedPolicies, LoadedPolicies],
    context: PolicyContext,
) -> dict[str, Any]:
    import time

    own, fixed, extra = tiers
    identifier: Any = None
    try:
        raw = msgspec.json.decode(line)
        if isinstance(raw, dict):
            identifier = cast("dict[str, Any]", raw).get("id")
        item = msgspec.convert(raw, _Line)
        mode = context.mode if item.mode is None else _mode(item.mode)
        rules = own.rules if item.rules is None else fixed.rules + _given(item.rules, number)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return {"id": identifier, "error": f"line {number}: {error}"}
    except (UsageError, ConfigError) as error:
        return {"id": identifier, "error": f"line {number}: {error.message}"}
    engine = PolicyEngine((*rules, *extra.rules))
    interactive = context.interactive if item.interactive is None else item.interactive
    started = time.perf_counter()
    decision = engine.decide(
        _call(item.tool, item.args), PolicyContext(mode=mode, interactive=interactive)
    )
    spent = (time.perf_counter() - started) * 1000
    return {
        "id": identifier,
        "decision": decision.outcome,
        "reason": decision.reason,
        "ms": round(spent, 3),
    }


def _given(tables: list[dict[str, Any]], number: int) -> tuple[PolicyRule, ...]:
    """The rules of a batch line; a bad one would change the question, so it is an error."""
    loaded = load_tables(tables, file=f"line {number}", tier=Tier.USER)
    for problem in loaded.problems:
        if problem.level is ProblemLevel.ERROR:
            raise ConfigError(f"rule {problem.rule}, {problem.field}: {problem.message}")
    return loaded.rules


def _json(decision: Decision) -> str:
    rule = None if decision.rule is None else _rule(decision.rule)
    document = {
        "decision": decision.outcome,
        "reason": decision.reason,
        "rule": rule,
        "parts": decision.parts,
    }
    return msgspec.json.encode(document).decode("utf-8") + "\n"


def _rule(rule: PolicyRule) -> dict[str, Any]:
    """A rule as policy files write it: only what it sets, with its final priority and source."""
    fields: dict[str, Any] = {
        "toolName": rule.tool_names,
        "mcpName": rule.mcp_name,
        "argsPattern": rule.args_pattern,
        "commandPrefix": rule.command_prefixes,
        "commandRegex": rule.command_regex,
        "modes": rule.modes,
        "interactive": rule.interactive,
        "allowRedirection": rule.allow_redirection or None,
        "denyMessage": rule.deny_message,
    }
    given = {key: value for key, value in fields.items() if value not in (None, ())}
    return {
        **given,
        "decision": rule.decision,
        "priority": round(rule.priority, 3),
        "source": rule.source,
    }


def _sentences(decision: Decision) -> str:
    lines = [f"{decision.outcome}: {decision.reason}."]
    if decision.deny_message:
        lines.append(f"  the rule says: {decision.deny_message}")
    lines += [f"  decided by this part of the command: {part}" for part in decision.parts]
    return "".join(f"{_visible(line)}\n" for line in lines)


def _visible(text: str) -> str:
    """`text` with control characters escaped: a command must not act on the terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
