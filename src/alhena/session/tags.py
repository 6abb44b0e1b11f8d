"""Copies of a session's record: conversations that a person has put a name to, and sessions that
fork off before an earlier prompt."""

import errno
import hashlib
import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import msgspec

from alhena.session.journal import Extent, Take, read_session
from alhena.session.records import (
    SUFFIX,
    Header,
    KnownRecord,
    NoSessionError,
    NoTagError,
    Prompted,
    SessionError,
    Tagged,
    TakenTagError,
    Undone,
    line_of,
    now,
    record_of,
    reseal_line,
    title_of,
)
from alhena.session.store import require_readable
from alhena.system.errors import FileError, from_os_error, printable
from alhena.system.files import CREATE, alone_in, synchronise, synchronise_directory, temporary_name
from alhena.system.replacement import hold, remove_leftovers
from alhena.wire.json_values import scrub

MAX_NAME = 200
"""Characters that a tag may have."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_TAGGED, _PROMPT = b'{"type":"tagged",', b'{"type":"prompt",'


class Tag(msgspec.Struct, frozen=True, kw_only=True):
    """A name for a conversation. `saved` is the time in ISO form; `session_id` is the session that
    it was part of, `title` the beginning of its first prompt; `path` is where it is kept."""

    name: str
    saved: str
    session_id: str
    title: str
    path: str


class Tags:
    """The tags of one project, in `directory`, which need not exist; `sessions` is the directory of
    its sessions."""

    def __init__(self, directory: Path, sessions: Path) -> None:
        self.directory = directory
        self._sessions = sessions

    def all(self) -> tuple[Tag, ...]:
        """Those that there are, the oldest first; a file that cannot be read as one is left out.
        Raises SessionError."""
        try:
            names = os.listdir(self.directory)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise SessionError(str(from_os_error(error, self.directory))) from error
        found: list[Tag] = []
        for name in names:
            if name.endswith(SUFFIX):
                with suppress(SessionError):
                    found.append(_read(self.directory / name))
        return tuple(sorted(found, key=lambda tag: (tag.saved, tag.name)))

    def find(self, name: str) -> Tag:
        """The tag of this name. Raises NoTagError, SessionError."""
        try:
            return _read(self._path(name))
        except NoSessionError as error:
            raise NoTagError(
                f"no conversation is saved as {name!r}.", remedy="See which there are: /chat list."
            ) from error

    def save(self, name: str, journal: Path, *, replace: bool = False) -> Tag:
        """Keeps the conversation that a journal leads to, on the disk when it returns. No one
        writes the journal meanwhile. Raises TakenTagError where there is one of that name and it is
        not to be replaced; SessionError, and then what was there still is."""
        path = self._path(name)
        if not replace and os.path.lexists(path):
            raise _taken_tag_error(name)
        header, chain = True, 0
        try:
            with create_file(path, replace=replace) as file:

                def take(line: bytes) -> None:
                    nonlocal header, chain
                    if not line.startswith(_TAGGED):
                        sealed, chain = reseal_line(line, chain)
                        file.write(sealed)
                    if header:
                        header = False
                        sealed, chain = line_of(Tagged(at=now(), name=name), chain)
                        file.write(sealed)

                _require_whole(read_session(journal, take), journal)
        except FileExistsError as error:
            raise _taken_tag_error(name) from error
        return self.find(name)

    def begin(self, name: str, session_id: str, project: str, writer: str) -> Path:
        """Makes the record of a new session that begins with what was kept; its path. The tag stays
        as it is. Raises NoTagError, SessionError."""
        tag = self.find(name)
        path = self._sessions / f"{session_id}{SUFFIX}"
        with create_file(path, replace=False) as file:
            new = NewHeader(session_id, project, writer)
            extent = read_session(Path(tag.path), rewriting(file, new, Path(tag.path)))
            _require_whole(extent, Path(tag.path))
        return path

    def abandon(self, session_id: str) -> None:
        """Removes the record that `begin` made. Raises SessionError."""
        path = self._sessions / f"{session_id}{SUFFIX}"
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise SessionError(str(from_os_error(error, path, writing=True))) from error

    def delete(self, name: str) -> None:
        """Removes a tag. Raises NoTagError, SessionError."""
        path = self._path(name)
        try:
            path.unlink()
        except FileNotFoundError:
            self.find(name)  # says that there is none
        except OSError as error:
            raise SessionError(str(from_os_error(error, path, writing=True))) from error

    def _path(self, name: str) -> Path:
        """Any name becomes a file name: the real one is inside the file."""
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        return self.directory / f"{digest[:32]}{SUFFIX}"


def project_tags(temp: Path) -> Tags:
    """Those of the project whose temporary directory this is."""
    return Tags(temp / "tags", temp / "sessions")


def tag_name(said: str) -> str:
    """The name as tags have it: words with one blank between them. Raises SessionError."""
    name = " ".join(scrub(said).split())
    if not name:
        raise SessionError("a tag needs a name.", remedy="Say /chat save NAME.")
    if len(name) > MAX_NAME:
        raise SessionError(
            f"a tag has at most {MAX_NAME} characters, not {len(name):,}.",
            remedy="Take a shorter name.",
        )
    return name


class NewHeader(NamedTuple):
    """Changed header fields of a new session."""

    session_id: str
    project: str
    writer: str
    forked_from: str = ""
    forked_at: int = 0


def rewriting(file: BinaryIO, new: NewHeader, path: Path) -> Take:
    """Writes the lines of the journal in `path` as those of a new session."""
    chain = 0

    def take(line: bytes) -> None:
        nonlocal chain
        if line.startswith(_TAGGED):
            return
        if chain:
            sealed, chain = reseal_line(line, chain)
        else:
            header = record_of(line)
            if not isinstance(header, Header):
                raise msgspec.DecodeError("a journal begins with one header")
            require_readable(path, header)
            header = msgspec.structs.replace(header, at=now(), **new._asdict())
            sealed, chain = line_of(header, 0)
        file.write(sealed)

    return take


def _read(path: Path) -> Tag:
    """Reads a tag's file. Raises NoSessionError, SessionError."""
    head: list[KnownRecord | None] = []
    title = ""

    def take(line: bytes) -> bool:
        nonlocal title
        if len(head) < len((Header, Tagged)):
            head.append(record_of(line))
        elif line.startswith(_PROMPT) and isinstance(said := record_of(line), Prompted):
            title = title_of(said.text)
            return True
        return False

    read_session(path, take)
    match head:
        case [Header() as header, Tagged() as tagged]:
            pass
        case _:
            raise SessionError(
                f"{printable(path)} contains no saved conversation, or its beginning is damaged.",
                remedy="The file was left as it is.",
            )
    return Tag(
        name=tagged.name,
        saved=tagged.at,
        session_id=header.session_id,
        title=title,
        path=str(path),
    )


@contextmanager
def create_file(path: Path, *, replace: bool) -> Generator[BinaryIO]:
    """A file that is there whole, and on the disk, or not at all. Raises FileExistsError where one
    is there that is not to be replaced, SessionError."""
    temporary = temporary_name()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with ExitStack() as end:
            directory = os.open(path.parent, _DIRECTORY)
            end.callback(os.close, directory)
            remove_leftovers(directory)
            descriptor = os.open(temporary, CREATE, 0o600, dir_fd=directory)
            end.callback((path.parent / temporary).unlink, missing_ok=True)
            with open(descriptor, "wb", buffering=1 << 20) as file, hold(descriptor):
                yield file
                file.flush()
                synchronise(descriptor)
                with alone_in(directory, path):
                    if not replace and os.path.lexists(path):
                        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
                    os.replace(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)
            synchronise_directory(directory)
    except FileExistsError:
        raise
    except OSError as error:
        raise SessionError(str(from_os_error(error, path, writing=True))) from error
    except FileError as error:
        raise SessionError(str(error)) from error


def _require_whole(extent: Extent, path: Path) -> None:
    if extent.damage is not None:
        raise SessionError(
            f"{printable(path)} is damaged from line {extent.damage.line} on.",
            remedy="Nothing was written; the file was left as it is.",
        )


def _taken_tag_error(name: str) -> TakenTagError:
    return TakenTagError(
        f"a conversation is saved as {name!r} already.",
        remedy="Take another name, or replace it: /chat save NAME --replace.",
    )


_UNDONE, _EVENT = b'{"type":"undone",', b'{"type":"event",'
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
    with create_file(path, replace=False) as file:
        write, left = rewriting(file, new, journal), lines

        def take(line: bytes) -> bool:
            nonlocal left
            left -= 1
            write(line)
            return not left

        read_session(journal, take)
        if left:
            raise SessionError("the session's record is shorter than it was.")
    return path
