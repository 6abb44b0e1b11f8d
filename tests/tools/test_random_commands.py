"""Whatever a model gives the shell tool: a result or a typed failure, never an exception."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alhena.system.processes import ProcessGroups
from alhena.system.workspace import Workspace
from alhena.tools.builtin.run_shell_command import RunShellCommand
from alhena.tools.contract import ToolFailure, ToolResult
from tests.tools.test_random_arguments import JSON, TEXT, check, through

# Drawn from a list: text that is made at random is no text to give to a shell.
COMMANDS = st.sampled_from(
    [
        *(
            "true",
            "echo a",
            "exit 3",
            "printf '\\377\\0'",
            "kill -9 $$",
            "cat",
            "(",
            "'",
            "echo \\",
        ),
        *(
            "",
            " ",
            "\0",
            "\ud800",
            ":\n:",
            "yes | head -c 100000",
            "no-such-command",
            "cd /nowhere",
        ),
        *("echo x >&2; false", "sleep 0 & echo b", "read a; echo $a", "exec true", "ulimit -n"),
    ]
)
ARGUMENTS = st.fixed_dictionaries(
    {"command": COMMANDS},
    optional={
        "description": TEXT,
        "directory": st.sampled_from(["", ".", "sub", "a file", "..", "/", "\0", "missing"]),
        "is_background": st.booleans(),
        "unknown": JSON,
    },
)
ODD = st.dictionaries(st.sampled_from(["description", "directory", "is_background"]), JSON)


async def call_tool(directory: Path, params: dict[str, Any]) -> ToolResult | ToolFailure:
    groups = ProcessGroups()
    try:
        return await through(RunShellCommand(Workspace(directory), groups=groups), params)
    finally:
        await groups.close()


@settings(deadline=None, max_examples=15, suppress_health_check=list(HealthCheck))
@given(ARGUMENTS | ODD)
def test_any_arguments_of_a_command_give_a_result_or_a_typed_failure(
    params: dict[str, Any],
) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "sub").mkdir()
        (directory / "a file").write_text("x", encoding="utf-8")
        came = asyncio.run(call_tool(directory, params))
    check(came)
