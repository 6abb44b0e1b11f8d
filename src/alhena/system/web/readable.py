"""Converts a fetched page to text for a model."""

import os
import sys

import msgspec

from alhena.system.errors import ProcessStartError
from alhena.system.own_programs import python_command
from alhena.system.processes import CommandLimits, ProcessCommand, run_process
from alhena.system.web.fetch import WebPage
from alhena.system.web.url import AnswerError

TIME_LIMIT = 10.0
"""Timeout in seconds of a page's conversion."""
MAX_CHARS = 1_000_000


class ReadableText(msgspec.Struct, frozen=True):
    """The text of a page, its title ("" without one); `cut` is True if truncated."""

    text: str
    title: str = ""
    cut: bool = False


async def readable(
    page: WebPage, *, limit: float = TIME_LIMIT, max_chars: int = MAX_CHARS
) -> ReadableText:
    """The text of a page; a separate process converts HTML. Raises AnswerError."""
    if not page.is_html:
        return ReadableText(page.text[:max_chars], cut=len(page.text) > max_chars)
    start = python_command(
        "alhena.system.web.page", str(page.url), str(max_chars), environ=_environment()
    )
    command = ProcessCommand(
        argv=start.argv,
        cwd=os.path.dirname(sys.executable) or os.sep,
        env=start.env,
        merge_stderr=False,
        stdin=page.text.encode("utf-8", "replace"),
        leaves_nothing=True,
    )
    output = bytearray()
    try:
        ending = await run_process(
            command, output.extend, limits=CommandLimits(inactivity=0, total=limit)
        )
    except ProcessStartError as error:
        reason = error.message.rstrip(".")
        raise AnswerError(f"the HTML of {page.url} cannot be converted: {reason}.") from error
    if ending.stopped is not None:
        raise AnswerError(f"the HTML of {page.url} takes too long to convert.")
    try:
        return msgspec.json.decode(output, type=ReadableText)
    except msgspec.DecodeError as error:
        raise AnswerError(f"the HTML of {page.url} cannot be converted.") from error


def _environment() -> dict[str, str]:
    here = os.path.realpath(os.curdir)
    paths = [path for path in sys.path if path and os.path.realpath(path) != here]
    return {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
