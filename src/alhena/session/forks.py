"""The earlier prompts of a session, and sessions that fork off before one of them."""

from pathlib import Path
from typing import Any, cast

import msgspec

from alhena.session.journal import read_session
from alhena.session.records import SUFFIX, Prompted, SessionError, Undone, record_of
from alhena.session.tags import NewHeader, made, rewriting
from alhena.system.errors import FileError, from_os_error

_PROMPT, _UNDONE, _EVENT = (b'{"type":"%b",' % each for each in (b"prompt", b"undone", b"event"))
_STARTED, _CHECKPOINT = b'"event":{"type":"run_started"', b'"event":{"type":"checkpoint"'
_RESPONSE, _DIFF = b'"event":{"type":"tool_call_response"', b'"type":"file_diff"'
_KIND_WITHIN = 120


class EarlierPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt of the conversation, sent `at` (UTC, ISO form). `lines`: those of the journal before
    its run. `files`: paths that edits of the run changed; `checkpoints`: names of those made."""

    text: str
    at: str
    lines: int
    files: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()


class _Event(msgspec.Struct):
    name: str = ""
    status: str = ""
    display: Any = None


class _Happened(msgspec.Struct):
    event: _Event


def earlier_prompts(journal: Path) -> tuple[EarlierPrompt, ...]:
    """The prompts of a recorded conversation, oldest first, without those before which it was
    restored to a checkpoint. Takes its time. Raises SessionError."""
    found: list[EarlierPrompt] = []
    prompts_at: dict[str, int] = {}
    number, begun = 0, None

    def take(line: bytes) -> None:
        nonlocal number, begun
        if line.startswith(_EVENT):
            if line.find(_STARTED, 0, _KIND_WITHIN) > 0:
                begun = number
            elif found:
                found[-1] = _after(found[-1], line, prompts_at, len(found))
        elif line.startswith(_PROMPT) and isinstance(said := record_of(line), Prompted):
            lines = number if begun is None else begun
            found.append(EarlierPrompt(text=said.text, at=said.at, lines=lines))
            begun = None
        elif line.startswith(_UNDONE) and isinstance(undone := record_of(line), Undone):
            del found[prompts_at.get(undone.checkpoint, 0) :]
        number += 1

    read_session(journal, take)
    return tuple(found)


def _after(
    prompt: EarlierPrompt, line: bytes, prompts_at: dict[str, int], count: int
) -> EarlierPrompt:
    """The last of `count` prompts after an event of its run."""
    if line.find(_CHECKPOINT, 0, _KIND_WITHIN) > 0:
        name = msgspec.json.decode(line, type=_Happened).event.name
        prompts_at[name] = count
        return msgspec.structs.replace(prompt, checkpoints=(*prompt.checkpoints, name))
    if line.find(_RESPONSE, 0, _KIND_WITHIN) > 0 and _DIFF in line:
        event = msgspec.json.decode(line, type=_Happened).event
        display: Any = event.display
        if event.status == "success" and isinstance(display, dict):
            path = str(cast("dict[str, Any]", display).get("filePath"))
            files = tuple(dict.fromkeys((*prompt.files, path)))
            return msgspec.structs.replace(prompt, files=files)
    return prompt


def fork(journal: Path, lines: int, new: NewHeader) -> Path:
    """Makes the record of a new session, which begins with the first `lines` of a journal; its
    path. It is there whole, and on the disk, or not at all. Raises SessionError."""
    path = journal.with_name(f"{new.session_id}{SUFFIX}")
    try:
        with made(path, replace=False) as file:
            write, left = rewriting(file, new, journal), lines

            def take(line: bytes) -> bool:
                nonlocal left
                left -= 1
                write(line)
                return not left

            read_session(journal, take)
            if left:
                raise SessionError("the session's record is shorter than it was.")
    except OSError as error:
        raise SessionError(str(from_os_error(error, path, writing=True))) from error
    except FileError as error:
        raise SessionError(str(error)) from error
    return path
