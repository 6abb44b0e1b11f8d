"""`RunContext`, what a function for the instructions of a run knows."""

from pathlib import Path
from typing import Generic

import msgspec

from alhena.tools.function import DepsT


class RunContext(msgspec.Struct, Generic[DepsT], frozen=True, kw_only=True):
    """A run that begins, for `instructions=` as a function: `deps` of the run or of its agent, the
    text of the `prompt`, the name of the `model`, the workspace `cwd` and the `session_id`.

        def instructions(context: RunContext[User]) -> str:
            return f"You help {context.deps.name}."
    """

    deps: DepsT
    prompt: str
    model: str
    cwd: Path
    session_id: str
