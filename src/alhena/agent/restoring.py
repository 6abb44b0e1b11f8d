"""A session, or a project without one, goes back to a checkpoint: its files, its conversation;
conversations kept under names."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from alhena.agent.checkpointing import Checkpoints
from alhena.agent.loop import join_answers, run_calls, run_prompt
from alhena.agent.run import EventStream
from alhena.agent.saved_conversations import SavedConversations
from alhena.agent.session import ProposedCalls, Session
from alhena.errors import InputError
from alhena.events import CheckpointEvent, Event
from alhena.policy.engine import PolicyFilter
from alhena.policy.model import PolicyOutcome, PolicyRule
from alhena.scheduler.states import CompletedToolCall
from alhena.session.checkpoints.records import Checkpoint
from alhena.session.checkpoints.restore import EditingTurn, Restoration
from alhena.session.recording import notices_of, told_behind
from alhena.session.records import (
    Answered,
    Contents,
    Happened,
    NoSessionError,
    Undone,
    now,
)
from alhena.session.replay import Replay
from alhena.session.store import Resumed, project_store
from alhena.session.tags import (
    earlier_prompts,
)
from alhena.tools.contract import ToolErrorType
from alhena.values import Value
from alhena.version import __version__
from alhena.wire.content import MODEL, FunctionCall, Part, encode_value, request_info

UNDONE = (
    "This call was undone: the user has put the files back to what they were before it. It has no "
    "effect."
)

ASKED = PolicyFilter(
    "the checkpoint",
    (
        PolicyRule(
            decision=PolicyOutcome.ASK_USER,
            priority=1,
            layer="checkpoint",
            source="what was undone runs again only when you say so",
        ),
    ),
)
"""Forces confirmation of calls that were undone, whatever the policy and the mode."""


class AgentCheckpoints:
    """The checkpoints as an agent has them, and the conversations that were saved. What runs is
    ended before files are put back."""

    def __init__(
        self,
        opened: Callable[[], Session],
        idle: Callable[[], Awaitable[Session]],
        proposing: EventStream,
    ) -> None:
        self._opened = opened
        self._idle = idle
        self._proposing = proposing

    @property
    def conversations(self) -> "SavedConversations":
        """The conversations that a person keeps under names."""
        return self._opened().conversations()

    def list(self) -> tuple[tuple[str, Checkpoint], ...]:
        """Those of the project, the oldest first, with their names. Raises CheckpointError."""
        return self._opened().checkpoints.open().all()

    async def restore(self, name: str) -> "Restored":
        """Makes files and conversation what they were at a checkpoint: its name, its number in the
        list from 1, or `latest`. Raises NoCheckpointError, CheckpointError, SessionError,
        JournalError."""
        return await restore_session(await self._idle(), name)

    async def undo(self) -> "Restored | None":
        """Takes back what the last turn to change files has changed in them, None when there is
        none. What has changed since is left. The conversation stays. Said again, the turn before.
        Raises CheckpointError."""
        return await undo_turn(await self._idle())

    async def undo_since(self, checkpoints: Collection[str]) -> "Restored | None":
        """Like `undo`, for all turns that have these checkpoints, the last one first."""
        return await undo_turns(await self._idle(), checkpoints)

    def propose(self) -> EventStream:
        """Makes the calls again before which the session went back to a checkpoint, each if a
        person agrees; the model continues from there. Event by event, as `Agent.run`."""
        return self._proposing


class Restored(Value, frozen=True, kw_only=True):
    """Result of restoring checkpoint `name`: `files`, or why they were left (`problem`); whether
    the `conversation` was restored or is lost (`forgotten`); names of the calls `proposed` again.
    `tool_call`: the call the checkpoint precedes; `kept`: the checkpoint of the files before the
    restore. `notices`: notices about the session's journal."""

    name: str
    kept: str = ""
    files: Restoration | None
    problem: str = ""
    conversation: bool = False
    forgotten: bool = False
    proposed: tuple[str, ...] = ()
    tool_call: dict[str, Any] | None = None
    notices: tuple[str, ...] = ()


async def restore_session(session: Session, name: str) -> Restored:
    """Goes back to the checkpoint `name`. Raises NoCheckpointError, CheckpointError, SessionError
    (ForeignError), JournalError."""
    checkpoints = session.checkpoints.open()
    await checkpoints.ready()
    found, checkpoint = checkpoints.find_checkpoint(name)
    remembered = await asyncio.to_thread(checkpoints.conversation, found, checkpoint)
    kept, files = "", None
    if checkpoint.has_files:
        with session.checkpoints.pending.allow_stop() as stop:
            kept, files = await checkpoints.restore(found, checkpoint, stop)
    session.checkpoints.pending.propose(None)
    if remembered is not None:
        _go_back(session, found, remembered)
        await session.settle()
    return Restored(
        name=found,
        kept=kept,
        files=files,
        problem="" if checkpoint.has_files else "the checkpoint has no files",
        conversation=remembered is not None,
        forgotten=remembered is None,
        proposed=_names(session.checkpoints.pending.calls),
        tool_call=plain_call(checkpoint),
    )


async def undo_turn(session: Session) -> Restored | None:
    """Takes back what the last turn that was not undone has changed in the files; the conversation
    continues. None when there is no such turn. Raises CheckpointError."""
    checkpoints: Checkpoints = session.checkpoints.open()
    await checkpoints.ready()
    turn = checkpoints.last_turn(await _on_record(session))
    if turn is None:
        return None
    return await _undo_turn(session, turn)


async def _on_record(session: Session) -> frozenset[str]:
    """Names of the checkpoints on the session's record: a fork has some of another session."""
    recording = session.recording
    if recording is None or not recording.at_work:
        return frozenset()
    prompts = await asyncio.to_thread(earlier_prompts, recording.path)
    return frozenset(name for each in prompts for name in each.checkpoints)


async def undo_turns(session: Session, names: Collection[str]) -> Restored | None:
    """Takes back what all turns with checkpoints of these names have changed in the files, also
    turns of the session that this one is a fork of. Broken off, it is completed by repeating it.
    Raises CheckpointError."""
    checkpoints: Checkpoints = session.checkpoints.open()
    await checkpoints.ready()
    done: dict[str, Restored] = {}
    while (turn := checkpoints.last_turn(names)) is not None:
        if turn.name not in names or turn.name in done:
            break
        done[turn.name] = await _undo_turn(session, turn)
    first, *later = done.values() or (None,)
    return first and _join_results(first, later)


async def _undo_turn(session: Session, turn: EditingTurn) -> Restored:
    with session.checkpoints.pending.allow_stop() as stop:
        kept, files = await session.checkpoints.open().undo(turn, stop)
    session.checkpoints.pending.propose(None)
    return Restored(name=turn.name, kept=kept, files=files, tool_call=plain_call(turn.first))


def _join_results(first: Restored, later: Sequence[Restored]) -> Restored:
    """One result of several: of each path the last that became of it."""
    fates: dict[str, str | None] = {}
    left: dict[str, str] = {}
    for files in (each.files for each in (first, *later)):
        if files is not None:
            fates |= dict.fromkeys(files.written, "written") | dict.fromkeys(files.removed)
            left |= dict(files.left)
    files = first.files and msgspec.structs.replace(
        first.files,
        written=tuple(path for path, fate in fates.items() if fate),
        removed=tuple(path for path, fate in fates.items() if not fate),
        left=tuple(left.items()),
    )
    return msgspec.structs.replace(first, files=files)


async def propose(session: Session, prompt_id: str) -> None:
    """Makes the calls again that the session went back to, each of them if a person agrees, and
    lets the model continue with their results. Raises InputError when there are none."""
    proposal = session.checkpoints.pending.take_calls()
    chat = session.chat
    prompt_id = f"{prompt_id}-again"  # no prompt's, for it is none on record
    session.limits.new_prompt()
    session.guard.new_prompt(prompt_id)
    if proposal is None or len(chat.history) != proposal.length + 1:
        raise InputError("there is no call to be made again.", remedy="Restore a checkpoint first.")
    if session.recording is not None:
        session.recording.put(*proposal.known)
    chat.history.rollback(proposal.length)
    known = tuple(
        msgspec.json.decode(raw, type=Part) for answer in proposal.known for raw in answer.parts
    )
    searching = bool(session.bench.registry.search.note)
    requests = [
        request_info(call, call.id or "", prompt_id, searching=searching) for call in proposal.calls
    ]
    with session.bench.authority.stricter(ASKED):
        done = await run_calls(chat, session.scheduler(), requests, known)
    parts = (*known, *join_answers(done))
    if session.guard.is_over(done) or any(map(_is_denied, done)):
        chat.record_responses(parts)
        return
    await run_prompt(chat, session.scheduler, session.guard, parts)


def open_calls(remembered: Replay) -> ProposedCalls:
    """Results of the calls that end a conversation, and the calls without one."""
    undone: list[FunctionCall] = []
    known: list[Answered] = []
    contents = remembered.contents
    last = contents[-1].content if contents else None
    for part in () if last is None or last.role != MODEL else last.parts:
        call = part.function_call
        if call is None:
            continue
        parts = remembered.result(call.id or "")
        if parts is None:
            undone.append(call)
        else:
            raws = tuple(map(msgspec.Raw, parts))
            known.append(Answered(at=now(), call_id=call.id or "", name=call.name, parts=raws))
    return ProposedCalls(length=len(contents), calls=tuple(undone), known=tuple(known))


def undone_record(name: str, calls: ProposedCalls) -> Undone:
    """The journal record of restoring a checkpoint."""
    return Undone(at=now(), checkpoint=name, calls=tuple(call.id or "" for call in calls.calls))


def _go_back(session: Session, name: str, remembered: Replay) -> None:
    """Makes the conversation what it was, with an answer to every call in it."""
    chat, contents = session.chat, tuple(remembered.contents)
    calls = open_calls(remembered)
    if session.recording is not None:
        session.recording.put(undone_record(name, calls))
    if chat.history.contents[: len(contents)] == contents:
        chat.history.rollback(len(contents))
    else:
        chat.replace_history(contents)
        if remembered.model:
            chat.continue_from(remembered.model, remembered.version)
    ends = remembered.pending_responses(UNDONE)
    if ends is not None:
        chat.history.add_user(ends.parts)
        if calls.calls:
            session.checkpoints.pending.propose(calls)


def _is_denied(call: CompletedToolCall) -> bool:
    """True for a call that the policy denied."""
    return call.response.error_type is ToolErrorType.POLICY_VIOLATION


def _names(proposal: ProposedCalls | None) -> tuple[str, ...]:
    return () if proposal is None else tuple(call.name for call in proposal.calls)


def plain_call(checkpoint: Checkpoint) -> dict[str, Any] | None:
    """The call of a checkpoint as JSON values."""
    call = checkpoint.tool_call
    return None if call is None else {"name": call.name, "args": call.args}


def restore_project(cwd: Path, environ: Mapping[str, str], name: str) -> Restored:
    """Makes the files what they were at a checkpoint, and the conversation of its session, when
    that is recorded: resuming it continues from there. Raises NoCheckpointError,
    CheckpointError, HeldSessionError while a process is at work on the session, ForeignError for
    what is another project's, SessionError, JournalError."""
    checkpoints = Checkpoints(cwd, environ, "", _nobody)
    found, checkpoint = checkpoints.find_checkpoint(name)
    remembered = checkpoints.conversation(found, checkpoint)
    resumed = None if remembered is None else _open_record(cwd, environ, checkpoint)
    try:
        before = Checkpoint(kind="restore", session_id=checkpoint.session_id, back_to=found)
        kept, files = checkpoints.put_back(found, checkpoint, before, threading.Event())
        if resumed is not None and remembered is not None:
            _record(resumed, remembered, found, kept, files)
    finally:
        if resumed is not None:
            resumed.journal.close()
    return Restored(
        name=found,
        kept=kept,
        files=files,
        conversation=resumed is not None,
        forgotten=resumed is None,
        tool_call=plain_call(checkpoint),
        notices=() if resumed is None else notices_of(resumed),
    )


def _open_record(cwd: Path, environ: Mapping[str, str], checkpoint: Checkpoint) -> Resumed | None:
    """The session, for this process alone; None when it is gone."""
    try:
        return project_store(environ, cwd).resume(checkpoint.session_id, __version__)
    except NoSessionError:
        return None


def _record(resumed: Resumed, remembered: Replay, name: str, kept: str, files: Restoration) -> None:
    """Has the journal say that the conversation is what it was, every call in it answered."""
    journal = resumed.journal
    made = CheckpointEvent(name=kept, tree=files.before)
    journal.append(Happened(at=now(), event=msgspec.Raw(encode_value(made))))
    journal.append(undone_record(name, open_calls(remembered)))
    ends = remembered.pending_responses(UNDONE)
    told = told_behind(resumed, remembered.contents, ends)
    contents = (*remembered.contents, *told)
    present = resumed.replay.contents
    keep = 0
    while keep < min(len(present), len(contents)) and present[keep] == contents[keep]:
        keep += 1
    fresh = tuple(entry.raw for entry in contents[keep:])
    journal.append(Contents(at=now(), keep=keep, contents=fresh))


def _nobody(_event: Event) -> None:
    """Without listeners: a command reports at its end."""
