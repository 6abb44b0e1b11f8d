"""Exceptions of a program's own code: an event for each, and the program hears of it."""

import traceback
from collections.abc import Callable

from alhena.events import CallExceptionEvent, Event
from alhena.tools.contract import HostProgram
from alhena.tools.threads import one_line
from alhena.values import FailedCall


def report_exception(
    program: HostProgram | None, emit: Callable[[Event], None], failed: FailedCall
) -> str:
    """Reports an exception of a tool, a predicate or a hook. Returns the text that the program
    wants the model to read in place of the usual one; "" for the usual one."""
    error = failed.exception
    emit(
        CallExceptionEvent(
            call_id=failed.call_id,
            name=failed.name,
            error_type=type(error).__name__,
            message=one_line(error),
            traceback="".join(traceback.format_exception(error)),
        )
    )
    return "" if program is None else program.note_failure(failed)
