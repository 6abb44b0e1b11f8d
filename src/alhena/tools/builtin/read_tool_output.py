"""read_tool_output: reads a part of a truncated tool result."""

import codecs
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alhena.system.errors import FileError, from_os_error, printable
from alhena.system.files import open_regular
from alhena.tools.base import BaseInvocation, DeclarativeTool, failed_result, failure_of
from alhena.tools.contract import (
    ExecutionContext,
    ToolFailure,
    ToolLocation,
    ToolResult,
)
from alhena.tools.threads import run_blocking

if TYPE_CHECKING:
    from alhena.tools.output_store import OutputStore

LIMIT = 30_000
_HEADING = 500
_CHUNK = 1 << 20


class ReadToolOutput(DeclarativeTool):
    """Reads results stored in `outputs` by any session of the project, and nothing else."""

    name = "read_tool_output"

    def __init__(self, outputs: "OutputStore") -> None:
        self.outputs = outputs

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Requires exactly one of path and call_id."""
        if bool(params.get("path")) == bool(params.get("call_id")):
            return ToolFailure.of_params(
                "Give one of path (as the shortened result names it) and call_id.",
            )
        return None

    def invocation(self, params: dict[str, Any]) -> "OutputReading":
        """Builds the call."""
        return OutputReading(params, self.outputs)


class OutputReading(BaseInvocation):
    """A read of one part of a stored result."""

    def __init__(self, params: dict[str, Any], outputs: "OutputStore") -> None:
        super().__init__(params)
        self._outputs = outputs
        self._name: str = params.get("path") or params["call_id"]
        self._offset: int = params.get("offset", 0)
        most = LIMIT if outputs.threshold <= 0 else max(1, outputs.threshold - _HEADING)
        self._limit = min(params.get("limit", LIMIT), LIMIT, most)

    def describe(self) -> str:
        """Describes the call to people in one line."""
        return f"Read {printable(os.path.basename(self._name))} from character {self._offset:,}"

    def locations(self) -> tuple[ToolLocation, ...]:
        """The stored file, if it exists."""
        path = self._find_output()
        return () if isinstance(path, ToolFailure) else (ToolLocation(str(path)),)

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Returns the part below a line with its position and the start of the next part."""
        path = self._find_output()
        if isinstance(path, ToolFailure):
            return failed_result(path)
        try:
            text, start, total = await run_blocking(
                context.cancellation, self._read, path, context.cancellation
            )
        except FileError as error:
            return failed_result(failure_of(error))
        end = start + len(text)
        if not text:
            heading = (
                f"Nothing at character {self._offset:,}: {path.name} has {total:,} characters."
            )
        else:
            following = f" Continue with offset={end}." if end < total else " This is its end."
            heading = f"Characters {start:,} to {end:,} of {total:,} of {path.name}.{following}"
        return ToolResult(
            llm_content=f"{heading}\n{text}" if text else heading,
            display=heading,
            data={"offset": start, "characters": len(text), "total": total},
        )

    def _find_output(self) -> Path | ToolFailure:
        try:
            return self._outputs.find(self._name)
        except FileError as error:
            return failure_of(error)

    def _read(self, path: Path, cancellation: threading.Event) -> tuple[str, int, int]:
        """The part, its start, and the total number of characters. Raises FileError.

        The length is not known in advance, so the whole file is decoded, a chunk at a time.
        """
        try:
            total = -1
            if self._offset < 0:
                total = _length(path, cancellation)
            start = max(0, total + self._offset) if self._offset < 0 else self._offset
            pieces: list[str] = []
            position = 0
            for chunk in _chunks(path, cancellation):
                low, high = start - position, start + self._limit - position
                if high > 0 and low < len(chunk):
                    pieces.append(chunk[max(0, low) : high])
                position += len(chunk)
        except OSError as error:
            raise from_os_error(error, path) from error
        return "".join(pieces), start, position


def _length(path: Path, cancellation: threading.Event) -> int:
    return sum(map(len, _chunks(path, cancellation)))


def _chunks(path: Path, cancellation: threading.Event) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    with open(open_regular(path), "rb", buffering=0) as file:
        while not cancellation.is_set():
            data = file.read(_CHUNK)
            yield decoder.decode(data, not data)
            if not data:
                return
