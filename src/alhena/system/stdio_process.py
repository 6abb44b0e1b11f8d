"""A child with an open standard input, for interactive protocols.

It belongs to the session's process groups from the start: it ends with them, and with this process,
whatever happens to its client.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress

from alhena.system.child import Child, stop
from alhena.system.errors import ProcessStartError
from alhena.system.processes import Command, ProcessGroups


class ServedProcess(Child):
    """A child with a pipe to its standard input. Its output goes to the sink it was started with;
    `pause` leaves it in the pipe, so that the child has to wait."""

    _input_end: int | None = None
    _output_end: int | None = None
    _paused = False
    on_output_end: Callable[[], None] = staticmethod(lambda: None)

    @property
    def output_ended(self) -> bool:
        """True when its standard output is closed."""
        return self._output_end not in self._pipes

    def start(
        self,
        sink: Callable[[bytes], None],
        errors: Callable[[bytes], None] | None = None,
        *,
        mark: int = 0,
    ) -> None:
        """Starts it. Raises ProcessStartError."""
        super().start(sink, errors, mark=mark)
        self._output_end = next(iter(self._pipes))

    async def write(self, data: bytes) -> None:
        """Returns when the pipe has taken all of `data`. Raises OSError (BrokenPipeError) when the
        child has closed its input. Must not be called by two tasks at once."""
        left = memoryview(data)
        while left:
            if self._input_end is None:
                raise BrokenPipeError("the input of the process is closed")
            try:
                left = left[os.write(self._input_end, left) :]
            except BlockingIOError:
                await self._writable(self._input_end)

    def close_input(self) -> None:
        """Closes the child's input. Can be called again."""
        pipe, self._input_end = self._input_end, None
        if pipe is not None:
            self._loop.remove_writer(pipe)
            os.close(pipe)

    def pause(self) -> None:
        """Stops reading its output for now."""
        if not self._paused and not self.output_ended and self._output_end is not None:
            self._paused = True
            self._loop.remove_reader(self._output_end)

    def resume(self) -> None:
        """Resumes reading its output."""
        if self._paused and not self.output_ended and self._output_end is not None:
            self._paused = False
            self._loop.add_reader(self._output_end, self._read, self._output_end)

    def drop_output(self) -> None:
        """Does nothing: the client still needs its output."""

    def release(self) -> None:
        """Reads the rest of its pipes and closes them; the process is reaped now or at its end."""
        if not self._loop.is_closed():
            self.close_input()
        super().release()

    def _standard_input(self) -> int | None:
        try:
            reading, writing = os.pipe()
        except OSError as error:
            raise ProcessStartError(f"No pipe for the input: {error.strerror}.") from error
        os.set_blocking(writing, False)
        self._input_end = writing
        return reading

    def _close_pipe(self, pipe: int) -> None:
        super()._close_pipe(pipe)
        if pipe == self._output_end:
            self.on_output_end()

    async def _writable(self, pipe: int) -> None:
        ready: asyncio.Future[None] = self._loop.create_future()

        def wake() -> None:
            if not ready.done():
                ready.set_result(None)

        self._loop.add_writer(pipe, wake)
        try:
            await asyncio.wait({ready, self.exited}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if self._input_end == pipe:
                self._loop.remove_writer(pipe)
        if not ready.done():
            raise BrokenPipeError("the process has ended")


def start_served(
    command: Command,
    groups: ProcessGroups,
    sink: Callable[[bytes], None],
    errors: Callable[[bytes], None],
) -> ServedProcess:
    """Starts `command`, ignoring its `stdin`; its stderr goes to `errors`. Raises
    ProcessStartError."""
    child = ServedProcess(command.argv, command.cwd, command.env, merge_stderr=False)
    groups.watchdog.expect()
    try:
        child.start(sink, errors, mark=groups.marks.next())
    except BaseException:
        child.close_input()
        groups.watchdog.forget()
        raise
    try:
        groups.watch(child.pid)
    except BaseException:
        child.signal(signal.SIGKILL)
        child.release()
        raise
    groups.keep(child, command.label)
    return child


async def end_served(child: ServedProcess, groups: ProcessGroups, patience_s: float) -> None:
    """Ends it with its process tree: closes its input, waits `patience_s` seconds, then sends
    SIGTERM and SIGKILL."""
    child.close_input()
    try:
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(child.exited), patience_s)
    finally:
        await stop(child)
        child.release()
        groups.unwatch(child.pid)
