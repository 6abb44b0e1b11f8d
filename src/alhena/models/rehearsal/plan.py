"""The next move: a function of what was asked and of every response so far."""

from collections.abc import Generator, Sequence
from typing import assert_never

import msgspec

from alhena.models.rehearsal import act_steps, look_steps
from alhena.models.rehearsal.intents import (
    LOOKING,
    CallTool,
    DescribeFolder,
    ExplainProject,
    FindFiles,
    Intent,
    ListFolder,
    NotUnderstood,
    OutlineFile,
    ReadFile,
    Remember,
    ReplaceText,
    RunCommand,
    SearchText,
    WriteFile,
)
from alhena.models.rehearsal.situation import Round, outcomes
from alhena.models.rehearsal.steps import Steps, side_by_side
from alhena.models.rehearsal.toolbox import Call, Outcome, Toolbox

MAX_TURNS = 12
"""Model turns in answer to one prompt, the final one included."""


class Move(msgspec.Struct, frozen=True):
    """Calls to make, or (without calls) the final text."""

    calls: tuple[Call, ...] = ()
    text: str = ""


def next_move(intents: tuple[Intent, ...], tools: Toolbox, rounds: Sequence[Round]) -> Move:
    """Replays the rounds through the steps of the intents and returns what comes next."""
    reports: list[str] = []
    work = _work(intents, tools, reports)
    try:
        calls = next(work)
        for responses in rounds:
            calls = work.send(outcomes(calls, responses))
    except StopIteration:
        return Move(text="\n\n".join(reports))
    if len(rounds) >= MAX_TURNS - 1:
        work.close()
        names = ", ".join(sorted({call.name for call in calls}))
        note = f"I stop after {MAX_TURNS} turns; not everything was done. Still to call: {names}."
        return Move(text="\n\n".join([*reports, note]))
    return Move(calls=calls)


def _work(
    intents: tuple[Intent, ...], tools: Toolbox, reports: list[str]
) -> Generator[tuple[Call, ...], tuple[Outcome, ...], None]:
    """All intents in order; those that only look run together with their neighbours."""
    at = 0
    while at < len(intents):
        end = at + 1
        if isinstance(intents[at], LOOKING):
            while end < len(intents) and isinstance(intents[end], LOOKING):
                end += 1
        running = [_steps(intent, tools) for intent in intents[at:end]]
        reports.extend((yield from side_by_side(running)))
        at = end


def _steps(intent: Intent, tools: Toolbox) -> Steps:
    match intent:
        case ListFolder(path) | DescribeFolder(path) | ReadFile(path) | OutlineFile(path):
            return _path_steps(intent, path, tools)
        case ExplainProject():
            return look_steps.explain_project(tools)
        case FindFiles():
            return look_steps.find_files(intent, tools)
        case SearchText():
            return look_steps.search_text(intent, tools)
        case NotUnderstood(text):
            return look_steps.guide(text, tools)
        case ReplaceText() | WriteFile() | RunCommand() | Remember() | CallTool():
            return _act_steps(intent, tools)
        case _:
            assert_never(intent)


def _path_steps(
    intent: ListFolder | DescribeFolder | ReadFile | OutlineFile, path: str, tools: Toolbox
) -> Steps:
    match intent:
        case ListFolder():
            return look_steps.list_folder(path, tools)
        case DescribeFolder():
            return look_steps.describe_folder(path, tools)
        case ReadFile():
            return look_steps.read_file(path, tools)
        case OutlineFile():
            return look_steps.outline_file(path, tools)
        case _:
            assert_never(intent)


def _act_steps(
    intent: ReplaceText | WriteFile | RunCommand | Remember | CallTool, tools: Toolbox
) -> Steps:
    match intent:
        case ReplaceText():
            return act_steps.replace_text(intent, tools)
        case WriteFile():
            return act_steps.write_file(intent, tools)
        case RunCommand():
            return act_steps.run_command(intent, tools)
        case Remember():
            return act_steps.remember(intent, tools)
        case CallTool():
            return act_steps.call_tool(intent, tools)
        case _:
            assert_never(intent)
