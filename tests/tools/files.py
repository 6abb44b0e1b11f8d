"""Calls of a file tool as the model would make them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alhena.system.processes import ProcessGroups
from alhena.tools.builtin.background import ListBackgroundProcesses
from alhena.tools.contract import ExecutionContext, Tool, ToolFailure, ToolInvocation, ToolResult


async def call(tool: Tool, **params: Any) -> ToolResult:
    """Result of a call; a failure to build it counts as its result."""
    built = tool.build(params)
    if isinstance(built, ToolFailure):
        return ToolResult.from_failure(built.message, built.type)
    return await built.execute(ExecutionContext(Path.cwd()))


def built(tool: Tool, **params: Any) -> ToolInvocation:
    """A call; that it cannot be built fails the test."""
    invocation = tool.build(params)
    assert not isinstance(invocation, ToolFailure), invocation
    return invocation


async def run(shell: Tool, command: str, **params: Any) -> ToolResult:
    """Result of a command in the working directory."""
    return await built(shell, command=command, **params).execute(ExecutionContext(Path.cwd()))


async def listing(groups: ProcessGroups) -> str:
    """The background processes, as the model is told of them."""
    return text_of(await call(ListBackgroundProcesses(groups)))


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def text_of(result: ToolResult) -> str:
    assert isinstance(result.llm_content, str)
    return result.llm_content


def failure_type(result: ToolResult) -> str:
    assert result.error is not None, result.llm_content
    assert "\n" not in result.error.message
    return str(result.error.type)


@contextmanager
def unprivileged(directory: Path) -> Iterator[None]:
    """Runs what follows as a user whom permissions bind, with access to `directory`."""
    if os.geteuid() != 0:
        yield
        return
    import concurrent.futures.thread  # loaded now: that user may not read it

    assert concurrent.futures.thread
    modes = {
        parent: os.stat(parent).st_mode
        for parent in (directory, *directory.parents)
        if parent != Path(parent.anchor)
    }
    for parent, mode in modes.items():
        os.chmod(parent, mode | 0o055)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        for parent, mode in modes.items():
            os.chmod(parent, mode)
