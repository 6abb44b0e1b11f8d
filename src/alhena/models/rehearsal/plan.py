"""The next move: a function of what was asked and of every response so far."""

from collections.abc import Generator
from typing import assert_never

import msgspec

from alhena.models.rehearsal import act_steps, docs_steps, look_steps, report
from alhena.models.rehearsal.handover import HAND_OVER, completion, find_root, findings
from alhena.models.rehearsal.intents import (
    LOOKING,
    CallTool,
    ConsultDocs,
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
from alhena.models.rehearsal.situation import Situation, outcome, outcomes
from alhena.models.rehearsal.steps import Steps, side_by_side
from alhena.models.rehearsal.toolbox import Call, Outcome, Toolbox

MAX_TURNS = 12
"""Model turns in answer to one prompt, the final one included."""


class Move(msgspec.Struct, frozen=True):
    """Calls to make, or (without calls) the final text."""

    calls: tuple[Call, ...] = ()
    text: str = ""


def next_move(intents: tuple[Intent, ...], now: Situation) -> Move:
    """Replays the rounds through the steps of the intents and returns what comes next. Where there
    is complete_task, that is what the work ends with."""
    handed_over = _handed_over(now)
    if handed_over is not None:
        return handed_over
    tools, rounds = now.tools, now.rounds
    reports: list[str] = []
    seen: list[Outcome] = []
    work = _work(intents, tools, reports, seen)
    try:
        calls = next(work)
        for responses in rounds:
            found = outcomes(calls, responses)
            seen.extend(found)
            calls = work.send(found)
    except StopIteration:
        return _end(reports, seen, tools)
    if now.last_turn or len(rounds) >= MAX_TURNS - 1:
        work.close()
        names = ", ".join(sorted({call.name for call in calls}))
        when = "This was the last turn" if now.last_turn else f"I stop after {MAX_TURNS} turns"
        note = f"{when}; not everything was done. Still to call: {names}."
        return _end([*reports, note], seen, tools)
    return Move(calls=calls)


def _end(reports: list[str], seen: list[Outcome], tools: Toolbox) -> Move:
    """The reports as the final text, or handed over."""
    text = "\n\n".join(reports)
    if HAND_OVER not in tools:
        return Move(text=text)
    call = completion(findings(f"{report.NOTICE}\n\n{text}", seen), tools)
    if call is None:
        note = f"`{HAND_OVER}` asks for a result of a form that these rules cannot give."
        return Move(text=f"{text}\n\n{note}")
    return Move(calls=(call,))


def _handed_over(now: Situation) -> Move | None:
    """What is left to say once the result was handed over, or refused."""
    if HAND_OVER not in now.tools:
        return None
    for responses in now.rounds:
        for response in responses:
            if response.name != HAND_OVER:
                continue
            ended = outcome(Call(HAND_OVER, {}), response)
            if ended.ok:
                return Move(text="The result is handed over.")
            return Move(text=report.trouble(ended, "hand the result over"))
    return None


def _work(
    intents: tuple[Intent, ...], tools: Toolbox, reports: list[str], seen: list[Outcome]
) -> Generator[tuple[Call, ...], tuple[Outcome, ...], None]:
    """All intents in order; those that only look run together with their neighbours. `seen` is
    what came of the calls so far."""
    at = 0
    while at < len(intents):
        end = at + 1
        if isinstance(intents[at], LOOKING):
            while end < len(intents) and isinstance(intents[end], LOOKING):
                end += 1
        running = [_steps(intent, tools) for intent in intents[at:end]]
        reports.extend((yield from side_by_side(running)))
        at = end
    if HAND_OVER in tools:
        yield from find_root(seen, tools)


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
        case ConsultDocs(question):
            return docs_steps.consult_docs(question, tools)
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
