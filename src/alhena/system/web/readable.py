"""Converts a fetched page to text for a model."""

import asyncio
import contextlib
import os
import signal
import sys

import msgspec

from alhena.system.environment import shield_memory
from alhena.system.errors import ProcessStartError
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
    try:
        async with asyncio.timeout(limit):
            output = await _converted(page, max_chars)
    except TimeoutError as error:
        raise AnswerError(f"the HTML of {page.url} takes too long to convert.") from error
    try:
        return msgspec.json.decode(output, type=ReadableText)
    except msgspec.DecodeError as error:
        raise AnswerError(f"the HTML of {page.url} cannot be converted.") from error


async def _converted(page: WebPage, max_chars: int) -> bytes:
    """The converter's output; empty on failure. The process never outlives this call."""
    try:
        shield_memory()
        # -P and absolute paths: import nothing from a directory the user works in.
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "alhena.system.web.page", str(page.url), str(max_chars)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=os.path.dirname(sys.executable) or None,
            env=_environment(),
            start_new_session=True,
        )
    except (OSError, ProcessStartError) as error:
        reason = str(error).rstrip(".")
        raise AnswerError(f"the HTML of {page.url} cannot be converted: {reason}.") from error
    try:
        output, _nothing = await process.communicate(page.text.encode("utf-8", "replace"))
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                if sys.platform == "win32":
                    process.kill()
                else:
                    os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return output


def _environment() -> dict[str, str]:
    paths = [path for path in sys.path if os.path.isabs(path)]
    environ = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    if "SYSTEMROOT" in os.environ:
        environ["SYSTEMROOT"] = os.environ["SYSTEMROOT"]
    return environ
