"""alhena hooks: lists hooks, turns them on and off, trusts them, runs those of one event as a
test."""

import asyncio
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import msgspec

from alhena.config.checking import load_settings
from alhena.config.documents import settings_document
from alhena.config.environment import own_environment
from alhena.config.home import trusted_hooks_path, user_settings_path
from alhena.display_text import exact, one_line
from alhena.errors import UsageError
from alhena.frontends.shared.arguments import parse_command
from alhena.frontends.shared.current_settings import place_here
from alhena.frontends.shared.listings import (
    Listing,
    hook_rows,
    pinned_words,
    print_listing,
)
from alhena.frontends.shared.streams import (
    agrees,
    is_terminal,
    option_object,
    says_yes,
    write_json,
    write_stderr,
    write_stdout,
)
from alhena.hooks import inputs
from alhena.hooks.gather import GatheredHooks, HookEntry, HooksRequest, HookState, gather_hooks
from alhena.hooks.load import HookProblemLevel
from alhena.hooks.model import HookEvent, HookVerdict
from alhena.hooks.output import aggregate
from alhena.hooks.planning import plan
from alhena.hooks.running import HookFiring, HookResult, HookSurroundings, outcome_of
from alhena.system.processes import ProcessGroups
from alhena.system.workspace import current_directory
from alhena.tools.registry import ALIASES, BUILT_IN, all_names, declared_name

if TYPE_CHECKING:
    from argparse import Namespace

    from alhena.config.settings import Settings

USAGE = """\
usage: alhena hooks list [--json] [options]
       alhena hooks test EVENT [--tool NAME] [--input JSON] [--json] [options]
       alhena hooks enable NAME
       alhena hooks disable NAME
       alhena hooks trust [--yes] [options]
       alhena hooks migrate --from-claude [--consent]

list: shows the configured hooks, the file of each, and whether it runs.

test: runs the hooks for EVENT with a sample input and shows their output. Exit code 1 when a hook
fails.

  --tool NAME    for BeforeTool and AfterTool: the tool that is called (default write_file)
  --input JSON   fields that replace those of the sample

enable, disable: removes a hook, by its name or else its command, from hooksConfig.disabled of your
settings.json, or adds it.

trust: shows each new or changed hook of this project and asks whether it may run.

  --yes          accept all of them

migrate: converts the hooks in .claude/settings.json and settings.local.json of this folder, prints
them, and asks before it adds them to .gemini/settings.json. They run once they are trusted.

  --consent      add them without asking

options:
  --skip-trust   treat this folder as trusted
  --json         print JSON
"""

_ARGUMENTS = {
    "list": "--json --skip-trust",
    "test": "EVENT --tool=NAME --input=JSON --json --skip-trust",
    "enable": "NAME",
    "disable": "NAME",
    "trust": "--yes --skip-trust",
    "migrate": "--from-claude --consent",
}
Command = Callable[["Namespace"], int]


def run(argv: list[str]) -> int:
    """Carries out `alhena hooks ARGV`; returns the exit code."""
    options = parse_command("alhena hooks", argv, _ARGUMENTS)
    commands: dict[str, Command] = {
        "list": _list,
        "test": _test,
        "enable": _turn,
        "disable": _turn,
        "trust": _trust,
        "migrate": _migrate,
    }
    return commands[options.command](options)


def request_for(*, skip_trust: bool) -> HooksRequest:
    """A request for the hooks of this folder and this user."""
    place = place_here(skip_trust=skip_trust, told=False)
    return HooksRequest(
        cwd=place.cwd,
        environ=place.environ,
        settings=place.settings,
        extensions=place.extensions,
        skip_trust=skip_trust,
    )


def _list(options: "Namespace") -> int:
    gathered = gather_hooks(request_for(skip_trust=options.skip_trust))
    listing = Listing(noun="hook", rows=hook_rows(gathered.entries))
    print_listing(listing, as_json=options.json)
    tell_problems(gathered)
    return 0


def tell_problems(gathered: GatheredHooks) -> None:
    """Prints to stderr what is wrong or was left out."""
    for problem in gathered.problems:
        kind = "note" if problem.level is HookProblemLevel.NOTE else problem.level
        write_stderr(f"alhena: {kind}: {one_line(str(problem))}\n")
    for note in gathered.notes:
        write_stderr(f"alhena: note: {one_line(note)}\n")


def _turn(options: "Namespace") -> int:
    from alhena.frontends.shared.files import write_names

    name, file = options.name, user_settings_path(os.environ)
    hooks = [entry.hook for entry in gather_hooks(request_for(skip_trust=False)).entries]
    same = [hook for hook in hooks if name in (hook.label, hook.command)]
    names = {name, *(each for hook in same for each in (hook.label, hook.command))}
    disable = options.command == "disable"
    if disable and not same:
        known = ", ".join(dict.fromkeys(one_line(hook.label) for hook in hooks)) or "none"
        raise UsageError(f"there is no hook {name!r}.", remedy=f"There are: {known}.")
    if not disable and names.isdisjoint(load_settings(file).hooks_config.disabled):
        remedy = "See alhena hooks list."
        raise UsageError(f"no hook {name!r} is disabled in {file}.", remedy=remedy)

    def names_in(settings: "Settings") -> list[str]:
        kept = [each for each in settings.hooks_config.disabled if each not in names]
        return [*kept, name] if disable else kept

    write_names(file, ("hooksConfig", "disabled"), names_in)
    write_stdout(f"{one_line(name)} is {options.command}d.\n")
    return 0


def _migrate(options: "Namespace") -> int:
    from alhena.config.home import workspace_settings_path
    from alhena.frontends.shared.files import write_setting
    from alhena.hooks.migration import FILES, migrate_hooks

    if not options.from_claude:
        raise UsageError("it is not said where from.", remedy="Add --from-claude.")
    cwd = current_directory()
    documents = [settings_document(cwd / name) for name in FILES]
    migrated = [migrate_hooks(document) for document in documents if document is not None]
    file = workspace_settings_path(cwd)
    hooks: dict[str, list[Any]] = {}
    for each in migrated:
        for event, groups in each.hooks.items():
            hooks.setdefault(event, []).extend(groups)
        for text in each.left_out:
            write_stderr(f"alhena: warning: not migrated: {one_line(text)}.\n")
    if not hooks:
        write_stdout(f"There are no hooks in {' or '.join(FILES)}.\n")
        return 0
    write_json({"hooks": hooks})
    if not agrees(f"Add these to {file}? [y/N] ", "nothing was changed", consent=options.consent):
        return 0
    written = settings_document(file)
    own = cast("dict[str, Any]", written).get("hooks") if isinstance(written, dict) else None
    for event, groups in hooks.items():
        before: Any = cast("dict[str, Any]", own).get(event) if isinstance(own, dict) else None
        before = cast("list[Any]", before) if isinstance(before, list) else []
        new = [group for group in groups if group not in before]
        write_setting(file, ("hooks", event), [*before, *new])
    write_stdout(f"They are in {one_line(str(file))}. To let them run: alhena hooks trust\n")
    return 0


def _trust(options: "Namespace") -> int:
    from alhena.hooks.trust import trust

    request = request_for(skip_trust=options.skip_trust)
    gathered = gather_hooks(request)
    tell_problems(gathered)
    waiting = [entry for entry in gathered.entries if entry.state is HookState.UNTRUSTED]
    new = [entry for entry in waiting if entry.hook.fingerprint]
    for entry in waiting:
        if not entry.hook.fingerprint:
            write_stderr(_hook_text(entry))
    if len(new) < len(waiting):
        write_stderr(f"alhena: warning: {len(waiting) - len(new)} cannot be trusted as they are.\n")
    if not new:
        write_stdout("No hook of this project needs to be trusted.\n")
        return 0
    asks = is_terminal(sys.stdin) and is_terminal(sys.stdout)
    if not options.yes and not asks:
        for entry in new:
            write_stdout(_hook_text(entry))
        raise UsageError(
            "these hooks need your approval.", remedy="Run it at a terminal, or add --yes."
        )
    accepted = [
        entry.hook.fingerprint for entry in gathered.entries if entry.state is HookState.ENABLED
    ]
    before = len(accepted)
    for entry in new:
        write_stdout(_hook_text(entry))
        if options.yes or says_yes("Allow it to run? [y/N] "):
            accepted.append(entry.hook.fingerprint)
    trust(trusted_hooks_path(os.environ), str(request.cwd), accepted)
    write_stdout(f"{len(accepted) - before} of {len(new)} may run.\n")
    return 0


def _hook_text(entry: HookEntry) -> str:
    """A hook in full, for its approval."""
    hook = entry.hook
    lines = [
        f"{entry.group.event}{f' of {entry.group.matcher}' if entry.group.matcher else ''}",
        *(f"    {line}" for line in exact(hook.command).splitlines()),
        *(f"    with {exact(f'{name}={value}')}" for name, value in hook.env.items()),
    ]
    if entry.pinned is not None:
        lines.append(f"    {one_line(pinned_words(entry.pinned))}")
    return "\n".join(lines) + "\n"


SAMPLE_TOOL = "write_file"
_REQUEST = {"model": "gemini-3.8-flash", "messages": [{"role": "user", "content": "Hello"}]}
_RESPONSE = {
    "text": "Hello!",
    "candidates": [{"content": {"role": "model", "parts": ["Hello!"]}, "finishReason": "STOP"}],
}
_TRIGGERS = {
    HookEvent.SESSION_START: "source",
    HookEvent.SESSION_END: "reason",
    HookEvent.PRE_COMPRESS: "trigger",
}


def _test(options: "Namespace") -> int:
    request = request_for(skip_trust=options.skip_trust)
    event = _event(options.event)
    tool: str = options.tool or SAMPLE_TOOL
    fields = {**sample(event, tool), **option_object("--input", options.input or "{}")}
    if event in (HookEvent.BEFORE_TOOL, HookEvent.AFTER_TOOL):
        tool = str(fields.get("tool_name", tool))
        names = tuple(dict.fromkeys((tool, *all_names(declared_name(tool)))))
    else:
        names = (str(fields.get(_TRIGGERS.get(event, ""), "")),)
    gathered = gather_hooks(request)
    tell_problems(gathered)
    waiting = [each for each in gathered.entries if each.state is HookState.UNTRUSTED]
    if waiting:
        write_stderr(f"alhena: note: untrusted hooks of this project: {len(waiting)}.\n")
    groups = gathered.groups()
    chosen = plan(event, names, groups, lambda name: name in BUILT_IN or name in ALIASES)
    cwd = str(request.cwd)
    around = HookSurroundings(
        session_id="hooks-test",
        cwd=cwd,
        environ=own_environment(request.environ),
        project_dir=cwd,
        redaction=request.settings.security.environment_variable_redaction,
    )

    async def run_once() -> list[HookResult]:
        around.groups = ProcessGroups()
        try:
            firing = HookFiring(event, groups, around, lambda _event: None)
            return await firing.run(chosen, fields)
        finally:
            await around.groups.close()

    heard = asyncio.run(run_once())
    verdict = aggregate([each.said for each in heard])
    if options.json:
        write_json({"hooks": [_as_json_test(each) for each in heard], "verdict": _plain(verdict)})
    else:
        _tell(event, fields, heard, verdict)
    return 1 if any(each.answer.failure for each in heard) else 0


def sample(event: HookEvent, tool: str) -> dict[str, Any]:
    """Sample input for an event."""
    arguments = {"file_path": "example.txt", "content": "Hello"} if tool == SAMPLE_TOOL else {}
    before = inputs.before_tool(tool, arguments)
    samples: dict[HookEvent, dict[str, Any]] = {
        HookEvent.BEFORE_TOOL: before,
        HookEvent.AFTER_TOOL: inputs.after_tool(before, "Done.", "Done."),
        HookEvent.BEFORE_AGENT: inputs.before_agent("Hello"),
        HookEvent.AFTER_AGENT: inputs.after_agent("Hello", "Hello!", stop_hook_active=False),
        HookEvent.NOTIFICATION: inputs.notification(
            f"{tool} needs your approval", {"type": "info", "title": "A sample"}
        ),
        HookEvent.SESSION_START: inputs.session_start("startup"),
        HookEvent.SESSION_END: inputs.session_end("exit"),
        HookEvent.PRE_COMPRESS: inputs.pre_compress("auto"),
        HookEvent.BEFORE_MODEL: inputs.before_model(_REQUEST),
        HookEvent.AFTER_MODEL: inputs.after_model(_REQUEST, _RESPONSE),
        HookEvent.BEFORE_TOOL_SELECTION: inputs.before_model(_REQUEST),
    }
    return samples[event]


def _event(name: str) -> HookEvent:
    try:
        return HookEvent(name)
    except ValueError as error:
        raise UsageError(
            f"there is no event {name!r}.", remedy=f"The events are {', '.join(HookEvent)}."
        ) from error


def _tell(
    event: HookEvent, fields: dict[str, Any], heard: list[HookResult], verdict: HookVerdict
) -> None:
    if not heard:
        write_stdout(f"No hook runs for this {event}.\n")
        return
    write_stdout(f"{event}: {one_line(msgspec.json.encode(fields).decode())}\n")
    for each in heard:
        run, failure = each.run, each.answer.failure
        code = "none" if run.exit_code is None else str(run.exit_code)
        outcome = outcome_of(each.said, failure)
        write_stdout(
            f"\n{one_line(each.hook.label)} ({each.hook.source}): {outcome}\n"
            f"    exit code {code}, {run.duration_ms:.0f} ms\n"
        )
        for label, text in (
            ("failed", failure),
            ("stdout", run.stdout.decode("utf-8", "replace")),
            ("stderr", run.stderr.decode("utf-8", "replace")),
            ("says", msgspec.json.encode(_plain(each.said)).decode()),
        ):
            if text.strip():
                write_stdout(f"    {label}: {one_line(text, 2000)}\n")
    write_stdout(f"\nTogether: {one_line(msgspec.json.encode(_plain(verdict)).decode())}\n")


def _as_json_test(heard: HookResult) -> dict[str, Any]:
    run = heard.run
    return {
        "name": heard.hook.label,
        "source": heard.hook.source,
        "input": heard.input,
        "exitCode": run.exit_code,
        "durationMs": run.duration_ms,
        "stdout": run.stdout.decode("utf-8", "replace"),
        "stderr": run.stderr.decode("utf-8", "replace"),
        "failure": heard.answer.failure or None,
        "outcome": outcome_of(heard.said, heard.answer.failure),
        "verdict": _plain(heard.said),
    }


def _plain(verdict: HookVerdict) -> dict[str, Any]:
    """A verdict as JSON, without the keys it does not set."""
    found = cast("dict[str, Any]", msgspec.to_builtins(verdict))
    silent = cast("dict[str, Any]", msgspec.to_builtins(HookVerdict()))
    return {key: value for key, value in found.items() if value != silent[key]}
