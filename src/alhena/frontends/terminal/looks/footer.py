"""Facts of the footer that are found out beside the session: branch, changes, a line of one's
own."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from alhena.config.settings import UiSettings
from alhena.display_text import money, one_line
from alhena.system.environment import child_environment, shield_memory
from alhena.system.errors import ProcessStartError
from alhena.system.own_programs import OwnCommand, repository_command

LIMIT_S = 2.0
"""Seconds that a command may take."""
PAUSE_S = 0.3
"""Least seconds between two starts of the commands."""
MAX_BYTES = 65_536
MAX_LINE = 200
SHORT_NAME = 8
_STATUS = ("--no-optional-locks", "status", "--porcelain", "--ignore-submodules")


class FooterRequest(msgspec.Struct, frozen=True, kw_only=True):
    """All that the facts depend on. `told` is the object that a status line's command gets."""

    cwd: Path
    environ: Mapping[str, str]
    trusted: bool
    command: str | None
    told: dict[str, object]


class FooterFacts:
    """`branch` with a `*` if files have changed, and `custom`, the first line of the command of
    `ui.statusLine`. They are found out in the background; `changed` is called when one is new."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.branch = ""
        self.custom = ""
        self._changed = changed
        self._wanted: FooterRequest | None = None
        self._work: asyncio.Task[None] | None = None

    def refresh(self, request: FooterRequest) -> None:
        """Has the facts found out again."""
        self._wanted = request
        if self._work is None:
            self._work = asyncio.create_task(self._find())

    async def close(self) -> None:
        """Ends the work."""
        work, self._work = self._work, None
        if work is not None:
            work.cancel()
            await asyncio.wait({work})

    async def _find(self) -> None:
        try:
            while (wanted := self._wanted) is not None:
                self._wanted = None
                before = (self.branch, self.custom)
                name = branch_of(wanted.cwd)
                dirty = name and wanted.trusted and await _is_dirty(wanted)
                self.branch = f"{name}{'*' if dirty else ''}"
                if wanted.command:
                    told = {**wanted.told, "branch": name}
                    shell = OwnCommand(
                        ("/bin/sh", "-c", wanted.command),
                        child_environment(wanted.environ).variables,
                    )
                    self.custom = await _first_line(shell, wanted.cwd, msgspec.json.encode(told))
                if before != (self.branch, self.custom):
                    self._changed()
                await asyncio.sleep(PAUSE_S)
        finally:
            if self._work is asyncio.current_task():
                self._work = None


def branch_of(cwd: Path) -> str:
    """The branch of the repository around a directory; the commit's first digits where there is
    none, "" where there is no repository."""
    for folder in (cwd, *cwd.parents):
        entry = folder / ".git"
        try:
            if entry.is_file():
                target = entry.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
                entry = folder / target
            elif not entry.is_dir():
                continue
            with (entry / "HEAD").open(encoding="utf-8") as file:
                head = file.read(1_000).strip()
        except (OSError, ValueError):
            return ""
        name = head.removeprefix("ref: refs/heads/")
        return one_line(name if name != head else head[:SHORT_NAME], 60)
    return ""


async def _is_dirty(wanted: FooterRequest) -> bool:
    try:
        command = await asyncio.to_thread(repository_command, wanted.cwd, wanted.environ, _STATUS)
    except ProcessStartError:
        return False
    return bool(await _first_line(command, wanted.cwd))


async def _first_line(command: OwnCommand, cwd: Path, given: bytes = b"") -> str:
    """The first line that a command writes within LIMIT_S; "" where it fails."""
    try:
        shield_memory()
        process = await asyncio.create_subprocess_exec(
            *command.argv,
            cwd=cwd,
            env=command.env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ProcessStartError):
        return ""
    try:
        async with asyncio.timeout(LIMIT_S):
            with suppress(BrokenPipeError, ConnectionResetError):
                await _feed(process, given)
            written = await process.stdout.read(MAX_BYTES) if process.stdout else b""
    except TimeoutError:
        return ""
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return one_line(written.decode("utf-8", "replace").partition("\n")[0].strip(), MAX_LINE)


async def _feed(process: asyncio.subprocess.Process, given: bytes) -> None:
    if process.stdin is not None:
        process.stdin.write(given)
        await process.stdin.drain()
        process.stdin.close()


def shown_items(
    ui: UiSettings, facts: FooterFacts, sandbox: str, cost: float | None
) -> tuple[str, ...]:
    """The items of the footer behind the directory, as the settings have them."""
    if ui.hide_footer:
        return (facts.custom,) if facts.custom else ()
    footer = ui.footer
    branch = f"({facts.branch})" if facts.branch and not footer.hide_cwd else ""
    place = "" if footer.hide_sandbox_status else sandbox or "no sandbox"
    spent = money(cost) if cost else ""
    memory = _memory_use() if ui.show_memory_usage else ""
    return tuple(each for each in (branch, place, spent, memory, facts.custom) if each)


def _memory_use() -> str:
    """The memory that this process takes."""
    import resource

    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return f"{largest / (1024**2 if sys.platform == 'darwin' else 1024):,.0f} MB"
