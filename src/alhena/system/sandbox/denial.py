"""Whether a command that failed seems to have been refused something by the sandbox. Pure."""

import re
from functools import cache

from alhena.system.sandbox.model import Mechanism

_LOOKED_AT = 16_000
"""Characters at the end of the output: what failed last is told last."""

_SHOWN = 160
_WRITING = r"Read-only file system|\bEROFS\b|Device or resource busy|\bEBUSY\b"
_LANDLOCK = r"Permission denied|\bEACCES\b|Invalid cross-device link|\bEXDEV\b"
_NETWORK = (
    r"Network is unreachable|\bENETUNREACH\b|Could not resolve host|\bEAI_AGAIN\b"
    r"|Temporary failure in name resolution|Name or service not known|Couldn't connect to server"
)
_SERVICES = r"Cannot connect to the Docker daemon|unable to open a D-Bus|Failed to connect to bus"
_FAILED = r"(?m:^bwrap: )|(?m:^alhena: the sandbox could not be entered)"


def denied_line(output: str, mechanism: Mechanism, *, network: bool) -> str | None:
    """The last line of the output that tells of a refusal such as this sandbox's; None if none."""
    found: str | None = None
    for match in _pattern(mechanism, network=network).finditer(
        output, max(0, len(output) - _LOOKED_AT)
    ):
        start = output.rfind("\n", 0, match.start()) + 1
        end = output.find("\n", match.end())
        found = output[start : end if end >= 0 else len(output)].strip()
    if found is None:
        return None
    return found if len(found) <= _SHOWN else f"{found[: _SHOWN - 1]}…"


@cache
def _pattern(mechanism: Mechanism, *, network: bool) -> re.Pattern[str]:
    parts = [_WRITING, _SERVICES, _FAILED]
    if mechanism is Mechanism.LANDLOCK:
        parts.append(_LANDLOCK)
    if not network:
        parts.append(_NETWORK)
    return re.compile("|".join(parts))
