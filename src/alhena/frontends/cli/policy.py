"""alhena policy: explains the decision on a call, and tests the examples beside rules."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from alhena.config.home import user_policies_path
from alhena.display_text import escaped
from alhena.errors import ConfigError, InputError, UsageError
from alhena.frontends.shared.arguments import parse_command, split_tools
from alhena.frontends.shared.current_settings import Place, place_here
from alhena.frontends.shared.streams import (
    open_input,
    option_object,
    write_json,
    write_stderr,
    write_stdout,
)
from alhena.policy.engine import PolicyEngine, PolicyFilter, tighten
from alhena.policy.gather import (
    PolicyRequest,
    excluded_tools,
    gather_policy,
    join_problems,
    load_path,
    load_policies,
)
from alhena.policy.load import (
    LoadedPolicies,
    PolicyProblem,
    RuleReport,
    load_directory,
    load_tables,
)
from alhena.policy.model import (
    ApprovalMode,
    Decision,
    PolicyCall,
    PolicyContext,
    PolicyOutcome,
    PolicyRule,
    Tier,
)
from alhena.policy.parse import rule_fields
from alhena.policy.settings_rules import ToolNames, with_slips
from alhena.policy.surroundings import Surroundings
from alhena.tools.registry import (
    ALIASES,
    BUILT_IN,
    DELEGATE,
    called_names,
    declared_name,
    known_names,
)

if TYPE_CHECKING:
    from argparse import Namespace

    from alhena.policy.checker import SafetyChecker

USAGE = """\
usage: alhena policy explain --tool NAME [--args JSON] [options]
       alhena policy explain --batch FILE [options]
       alhena policy test [FILE ...] [--json]

explain: shows the decision on a tool call and the rule that made it. Runs nothing.

  --tool NAME          the tool
  --args JSON          its arguments, a JSON object (default {})
  --batch FILE         JSON lines {id, rules, tool, args, mode, interactive}, - for standard input;
                       the rules of a line replace your own for that line
  --policy FILE        more policies, a file or a directory; repeatable
  --allowed-tools LIST tools that need no approval
  --skip-trust         treat this folder as trusted
  --mode MODE          default, auto_edit, yolo or plan (--approval-mode is the same)
  --interactive        a person can be asked (the default)
  --non-interactive    no person can be asked
  --json               print {decision, reason, rule, parts}

test: checks the examples beside rules (match, not_match), by default in your own policies. Exit
code 1 when a rule is wrong or contradicts its examples, 52 when a file cannot be read.
"""
_ARGUMENTS = {
    "explain": "--tool=NAME --args=JSON --batch=FILE --policy=FILE… --allowed-tools=LIST… "
    "--skip-trust --mode|--approval-mode=MODE --interactive --non-interactive --json",
    "test": "[FILE…] --json",
}


def run(argv: list[str]) -> int:
    """Carries out `alhena policy ARGV`; returns the exit code."""
    options = parse_command("alhena policy", argv, _ARGUMENTS)
    return (explain if options.command == "explain" else test)(options)


Checkers = tuple["SafetyChecker", ...]


def decision_json(decision: Decision, checkers: Checkers = ()) -> str:
    """`{decision, reason, rule, parts}` on a line; `rule` is null when none matched. `checkers` are
    those that would still be asked, and left out when there are none."""
    document: dict[str, Any] = {
        "decision": decision.outcome,
        "reason": decision.reason,
        "rule": None if decision.rule is None else rule_json(decision.rule),
        "parts": decision.parts,
    }
    if checkers:
        document["checkers"] = [
            {"name": each.name, "type": each.type, "source": each.rule.source} for each in checkers
        ]
    return msgspec.json.encode(document).decode("utf-8") + "\n"


def rule_json(rule: PolicyRule) -> dict[str, Any]:
    """A rule in the form of policy files, with its final priority and its file."""
    return {
        **rule_fields(rule),
        "priority": round(rule.final_priority, 4),
        "source": rule.source,
        "tier": rule.author,
        "file": rule.file,
        "line": rule.line,
    }


def decision_sentences(decision: Decision, checkers: Checkers = ()) -> str:
    """A decision in lines of words."""
    lines = [f"{decision.outcome}: {decision.reason}."]
    if decision.deny_message:
        lines.append(f"  the rule says: {decision.deny_message}")
    lines += [f"  decided by this part of the command: {part}" for part in decision.parts]
    lines += [f"  before it runs, {checker.label} is asked" for checker in checkers]
    return "".join(f"{escaped(line)}\n" for line in lines)


MAX_LINE_BYTES = 16 * 1024 * 1024


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """One line of a batch."""

    tool: str
    id: Any = None
    args: dict[str, Any] = {}
    rules: list[dict[str, Any]] | None = None
    mode: str | None = None
    interactive: bool | None = None


class _Policy(msgspec.Struct, frozen=True):
    """Rules, and the filters over them."""

    engine: PolicyEngine
    filters: tuple[PolicyFilter, ...] = ()

    def decide(self, call: PolicyCall, context: PolicyContext) -> Decision:
        """The decision a run would get."""
        return tighten(self.engine.decide(call, context), call, self.filters, context)


def explain(options: "Namespace") -> int:
    """Carries out `alhena policy explain`.

    Raises UsageError (2) for wrong arguments and ConfigError (52) for settings, or a `--policy`,
    that cannot be used. A batch with a bad line ends with 2, after all its lines are answered.
    """
    if (options.tool is None) == (options.batch is None):
        raise UsageError(
            "`alhena policy explain` takes either --tool or --batch.",
            remedy="See alhena policy --help.",
        )
    if options.batch is not None and options.args is not None:
        raise UsageError("--args goes with --tool.", remedy="In a batch, each line has its args.")
    place = place_here(skip_trust=options.skip_trust)
    cwd = place.cwd
    gathered = gather_policy(
        PolicyRequest(
            cwd=cwd,
            environ=place.environ,
            settings=place.settings,
            tool_names=ToolNames(BUILT_IN, tuple(ALIASES)),
            paths=tuple(options.policy or ()),
            allowed_tools=split_tools(options.allowed_tools),
            skip_trust=options.skip_trust,
            extensions=tuple((each.name, each.folder / "policies") for each in place.extensions),
            excluded=excluded_tools(place.extensions),
        )
    )
    if gathered.named_errors:
        told = join_problems(gathered.named_errors)
        raise ConfigError(
            f"policy {told}.",
            remedy="Or leave the file out.",
            page="policy",
        )
    for problem in gathered.problems:
        write_stderr(f"alhena: policy {problem.level}: {escaped(str(problem))}\n")
    for note in gathered.notes if options.debug else ():
        write_stderr(f"alhena: note: {escaped(note)}\n")
    context = PolicyContext(
        mode=_mode(options.mode or "default"),
        interactive=not options.non_interactive,
        surroundings=Surroundings(cwd, trusted=gathered.trusted),
    )
    policy = _Policy(PolicyEngine(gathered.rules), gathered.filters)
    if options.batch is not None:
        return _batch(options, policy, context)
    call = _call_in(place, options.tool, option_object("--args", options.args or "{}"))
    decision = policy.decide(call, context)
    checkers: Checkers = ()
    if gathered.checkers and decision.outcome is not PolicyOutcome.DENY:
        from alhena.policy.safety_checks import CheckerSelection

        checkers = CheckerSelection(gathered.checkers).active(call, context)
    words = decision_json if options.json else decision_sentences
    write_stdout(words(decision, checkers))
    return 0


def _mode(name: str) -> ApprovalMode:
    try:
        return ApprovalMode(name)
    except ValueError as error:
        raise UsageError(
            f"there is no mode {name!r}.", remedy="Use default, auto_edit, yolo or plan."
        ) from error


def _call(tool: str, arguments: dict[str, Any]) -> PolicyCall:
    names = called_names(known_names(tool), None, arguments)
    return PolicyCall(names=names, args=arguments, server_name=None)


def _call_in(place: Place, tool: str, arguments: dict[str, Any]) -> PolicyCall:
    """The call as a session in this place makes it: one of a server's tool, or of an agent, under
    all its names."""
    if declared_name(tool) in BUILT_IN:
        return _call(tool, arguments)
    for server in place.settings.mcp_servers:
        from alhena.mcp.listing import accepted_names

        prefixes = (name.removesuffix("x") for name in accepted_names(server, "x"))
        for prefix in prefixes:
            own = tool.removeprefix(prefix)
            if own and own != tool:
                names = (tool, *accepted_names(server, own), own)
                unique = tuple(dict.fromkeys(names))
                return PolicyCall(names=unique, args=arguments, server_name=server)
    from alhena.agent.subagents import builtin_agents
    from alhena.frontends.shared.listings import agent_files

    agents = (*builtin_agents(), *(each.definition for each in agent_files(place).usable))
    if any(agent.name == tool for agent in agents):
        return _call(DELEGATE, {**arguments, "agent_name": tool})
    return _call(tool, arguments)


def _batch(options: "Namespace", own: _Policy, context: PolicyContext) -> int:
    named = (load_path(Path(name), Tier.USER) for name in options.policy or ())
    fixed = LoadedPolicies.join((load_policies(None), *named)).rules
    # The first question about a command loads the shell analysis; no line is charged for it.
    own.decide(_call("run_shell_command", {"command": "true"}), context)
    bad = 0
    for number, line in enumerate(_lines(options.batch), start=1):
        if not line.strip():
            continue
        answer = _answer(line, number, (own, fixed), context)
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
    policies: tuple[_Policy, tuple[PolicyRule, ...]],
    context: PolicyContext,
) -> dict[str, Any]:
    """The answer to one line: by the policy of a run or, with rules of its own, by these and those
    that are not the user's."""
    import time

    own, fixed = policies
    identifier: Any = None
    try:
        raw = msgspec.json.decode(line)
        if isinstance(raw, dict):
            identifier = cast("dict[str, Any]", raw).get("id")
        item = msgspec.convert(raw, _Line)
        mode = context.mode if item.mode is None else _mode(item.mode)
        if item.rules is not None:
            own = _Policy(PolicyEngine((*_line_rules(item.rules, number), *fixed)))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return {"id": identifier, "error": f"line {number}: {error}"}
    except (UsageError, ConfigError) as error:
        return {"id": identifier, "error": f"line {number}: {error.message}"}
    interactive = context.interactive if item.interactive is None else item.interactive
    circumstances = msgspec.structs.replace(context, mode=mode, interactive=interactive)
    started = time.perf_counter()
    decision = own.decide(_call(item.tool, item.args), circumstances)
    spent = (time.perf_counter() - started) * 1000
    return {
        "id": identifier,
        "decision": decision.outcome,
        "reason": decision.reason,
        "ms": round(spent, 3),
    }


def _line_rules(tables: list[dict[str, Any]], number: int) -> tuple[PolicyRule, ...]:
    """The rules of a batch line; a bad one would change the question, so it is an error."""
    loaded = load_tables(tables, file=f"line {number}", tier=Tier.USER)
    if loaded.errors:
        problem = loaded.errors[0]
        remedy = "" if problem.remedy is None else f". {problem.remedy}"
        raise ConfigError(f"rule {problem.rule}, {problem.field} {problem.message}{remedy}")
    return loaded.rules


FAILED = 1


def test(options: "Namespace") -> int:
    """Carries out `alhena policy test`: 0 when all is well, 1 when a rule is wrong or does not
    keep its examples, 52 when a file cannot be read as one of rules."""
    loaded = _load_files(options.file) if options.file else _own()
    loaded = with_slips(loaded, {*BUILT_IN, *ALIASES})
    unusable = [item for item in loaded.errors if item.rule is None]
    failed = [item for item in loaded.errors if item.rule is not None]
    others = [item for item in failed if item.table != "rule"]
    if options.json:
        write_json(_document(loaded, [*others, *unusable]))
    else:
        lines = [*_words(loaded.reports), *(f"FAILED {item}" for item in others)]
        write_stdout("".join(f"{escaped(line)}\n" for line in lines))
        write_stdout(f"{_summary(loaded)}\n")
        for problem in unusable:
            write_stderr(f"alhena: {escaped(str(problem))}\n")
    if unusable:
        return ConfigError.exit_code
    return FAILED if failed else 0


def _load_files(names: list[str]) -> LoadedPolicies:
    return LoadedPolicies.join(load_path(Path(name), Tier.USER) for name in names)


def _own() -> LoadedPolicies:
    settings = place_here().settings
    own = load_directory(user_policies_path(os.environ), Tier.USER)
    return LoadedPolicies.join((own, _load_files(list(settings.policy_paths))))


def _words(reports: tuple[RuleReport, ...]) -> list[str]:
    """One line a rule; each warning on a line below."""
    from alhena.frontends.shared.listings import count_noun

    lines: list[str] = []
    for report in reports:
        place = report.file if report.line is None else f"{report.file}:{report.line}"
        head = f"{place} {report.table} {report.number}"
        if report.rule is None:
            lines.append(f"FAILED {head}: {_problem_text(report.problems[0])}")
            continue
        count = count_noun(report.examples, "example")
        what = f": {report.rule.decision}, {count}" if report.table == "rule" else ""
        lines.append(f"ok     {head}{what}")
        lines += [f"       {each.level}: {_problem_text(each)}" for each in report.problems]
    return lines


def _problem_text(problem: PolicyProblem) -> str:
    field = "" if problem.field is None else f"{problem.field} "
    return f"{field}{problem.message}" + (f". {problem.remedy}" if problem.remedy else "")


def _summary(loaded: LoadedPolicies) -> str:
    from alhena.frontends.shared.listings import count_noun

    counts = _counts(loaded)
    words = (count_noun(counts[f"{noun}s"], noun) for noun in ("rule", "example"))
    return f"{', '.join(words)}, {counts['failed']} failed"


def _counts(loaded: LoadedPolicies) -> dict[str, int]:
    return {
        "rules": len(loaded.reports),
        "examples": sum(report.examples for report in loaded.reports),
        "failed": sum(item.rule is not None for item in loaded.errors),
    }


def _document(loaded: LoadedPolicies, problems: list[PolicyProblem]) -> dict[str, Any]:
    """{ok, rules: [{file, number, line, ok, examples, rule, problems}], problems, summary};
    `problems` are those of no rule."""
    return {
        "ok": not loaded.errors,
        "rules": [
            {
                "file": report.file,
                "number": report.number,
                "line": report.line,
                "ok": report.rule is not None,
                "examples": report.examples,
                "rule": None if report.rule is None else rule_json(report.rule),
                "problems": report.problems,
            }
            for report in loaded.reports
        ],
        "problems": problems,
        "summary": _counts(loaded),
    }
