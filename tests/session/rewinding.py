"""Kills a rewind before each of its renames, and looks what is left.

`python -m tests.session.rewinding` works in the current directory and prints at how many places it
killed one.
"""

import asyncio
import os
import signal
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from alhena.config.home import project_temp
from alhena.config.settings import CheckpointingSettings, GeneralSettings, Settings
from alhena.policy.model import ApprovalMode
from alhena.session.journal import read_session
from alhena.session.store import open_store
from alhena.session.tags import EarlierPrompt, earlier_prompts
from tests.session.killing import require
from tests.support.agents import scripted_agent
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text

ID = "to-rewind"
FILES = ("a.txt", "b.txt")
ON: dict[str, Any] = {
    "settings": Settings(
        general=GeneralSettings(checkpointing=CheckpointingSettings(enabled=True))
    ),
    "approval_mode": ApprovalMode.YOLO,
}


def _write(name: str, content: str) -> Any:
    args = {"file_path": name, "content": content}
    return [chunk(call("write_file", args, id=f"{name}-{content}"), finish="STOP")]


async def prepare() -> None:
    """A session with two prompts, of which each changes both files."""
    turns = [
        turn
        for content in ("one", "two")
        for turn in (*(_write(name, content) for name in FILES), [text(f"{content} done.")])
    ]
    async with scripted_agent(ScriptedGenerator(*turns), session_id=ID, **ON) as agent:
        for prompt in ("first", "second"):
            await agent.ask(prompt)


async def rewind(at: int) -> None:
    """Goes back to before the first prompt, and is killed before its rename number `at`."""
    async with scripted_agent(ScriptedGenerator(), resume=ID, **ON) as agent:
        saved = agent.checkpoints.conversations
        prompts = await saved.prompts()
        _kill_before_rename(at)
        await agent.checkpoints.undo_since(_names(prompts))
        await agent.clear(await saved.fork(prompts, 0))
        assert agent.session_id != ID


def _names(prompts: Sequence[EarlierPrompt]) -> frozenset[str]:
    return frozenset(name for each in prompts for name in each.checkpoints)


def _kill_before_rename(at: int) -> None:
    left = at

    def deadly(rename: Any) -> Any:
        def rename_then_fail(*args: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            return rename(*args, **options)

        return rename_then_fail

    os.rename, os.replace = deadly(os.rename), deadly(os.replace)


def in_child(work: Any) -> int:
    """Runs a coroutine in a process of its own; how that ended."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            asyncio.run(work)
            code = 0
        finally:
            if code:
                traceback.print_exc()
            os._exit(code)
    work.close()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def look() -> int:
    """Finds the session as it was, whole forks, and whole files; the number of forks."""
    store = open_store(project_temp(os.environ, Path.cwd()))
    found = {item.session_id: item for item in store.summaries()}
    old = Path(found.pop(ID).path)
    require([each.text for each in earlier_prompts(old)] == ["first", "second"], "prompts are lost")
    for path in (old, *(Path(each.path) for each in found.values())):
        require(read_session(path, lambda _line: None).damage is None, f"{path} is damaged")
    require(all(each.forked_from == ID for each in found.values()))
    for name in FILES:
        require(Path(name).read_text() in ("old", "one", "two"), f"{name} is a mix")
    return len(found)


def main() -> int:
    for name in FILES:
        Path(name).write_text("old")
    require(in_child(prepare()) == 0)
    at = 1
    while (ended := in_child(rewind(at))) != 0:
        require(ended == -signal.SIGKILL, f"ended with {ended}")
        look()
        at += 1
    require(look() > 0, "there is no fork")
    require([Path(name).read_text() for name in FILES] == ["old", "old"], "files are not back")
    return at - 1


if __name__ == "__main__":
    print(main())
