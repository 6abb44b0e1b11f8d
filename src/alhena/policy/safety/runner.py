"""Asking a checker that is a program of its own.

It runs in a session of its own, away from the workspace, without secrets in its environment. The
question is a file on its standard input, so that a program which does not read it harms nobody.
Whatever it starts ends with it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from alhena.policy.safety.errors import CheckerError
from alhena.policy.safety.model import Verdict
from alhena.system.errors import ProcessStartError

if TYPE_CHECKING:
    from alhena.system.processes import Ending, ProcessGroups

SECONDS = 5.0
MAX_ANSWER_BYTES = 1 << 20
_CWD = "/"


class ExternalRunner:
    """Runs programs with the variables `env`, each for at most `seconds`. `groups` ends what runs
    when this process is killed."""

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        groups: "ProcessGroups | None" = None,
        seconds: float = SECONDS,
    ) -> None:
        self._env = dict(env)
        self._groups = groups
        self._seconds = seconds

    async def run(self, program: Path, question: bytes) -> Verdict:
        """The answer of `program`. Raises CheckerError when there is no valid one."""
        from alhena.system.processes import Command, Limits, run_process

        answer = _Answer()
        command = Command(
            argv=(str(program),),
            cwd=_CWD,
            env=self._env,
            merge_stderr=False,
            stdin=question,
            leaves_nothing=True,
            label=program.name,  # what makes a session of its own is ended, too
        )
        limits = Limits(inactivity=0, total=self._seconds, output=MAX_ANSWER_BYTES)
        try:
            ending = await run_process(command, answer.feed, limits=limits, groups=self._groups)
        except ProcessStartError as error:
            raise CheckerError(str(error)) from error
        failure = self._failure(ending, answer)
        if failure is not None:
            raise CheckerError(failure)
        return _verdict(bytes(answer.data))

    def _failure(self, ending: "Ending", answer: "_Answer") -> str | None:
        if answer.too_long:
            return f"it answered more than {MAX_ANSWER_BYTES} bytes"
        if ending.stopped is not None:
            return f"it did not answer within {self._seconds:g} s"
        if ending.signal is not None:
            return f"it was ended by signal {ending.signal}"
        if ending.exit_code != 0:
            return f"it ended with exit code {ending.exit_code}"
        return None


class _Answer:
    """What a program writes, up to one byte too many."""

    def __init__(self) -> None:
        self.data = bytearray()

    @property
    def too_long(self) -> bool:
        return len(self.data) > MAX_ANSWER_BYTES

    def feed(self, data: bytes) -> None:
        self.data += data[: MAX_ANSWER_BYTES + 1 - len(self.data)]


def _verdict(answer: bytes) -> Verdict:
    if not answer.strip():
        raise CheckerError("it answered nothing")
    try:
        return msgspec.json.decode(answer, type=Verdict)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise CheckerError(f"its answer is not valid: {error}") from error
