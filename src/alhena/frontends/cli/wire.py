"""`alhena wire check FILE`: does a request keep the rules of the API?"""

import sys
from pathlib import Path

import msgspec

from alhena.errors import InputError, UsageError
from alhena.wire.conformance import check_json
from alhena.wire.violation import Level

USAGE = """\
usage: alhena wire check FILE

Checks a request body (JSON; - for standard input) against the rules of a Gemini conversation and
prints {"violations": [{"rule", "level", "path", "message"}]}. Exit code 1 when one is an error.
"""


def run(argv: list[str]) -> int:
    """Carries out `alhena wire ARGV`; returns the exit code."""
    if "-h" in argv or "--help" in argv:
        sys.stdout.write(USAGE)
        return 0
    if len(argv) != 2 or argv[0] != "check":
        raise UsageError("`alhena wire` takes `check FILE`.", remedy="See alhena wire --help.")
    violations = check_json(_read(argv[1]))
    document = msgspec.json.encode({"violations": violations})
    sys.stdout.write(msgspec.json.format(document, indent=2).decode("utf-8") + "\n")
    return 1 if any(item.level == Level.ERROR for item in violations) else 0


def _read(name: str) -> object:
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot read {name}: {error.strerror or error}.", remedy="Name a file with a request."
        ) from error
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            f"{name} is not JSON: {error}.", remedy="Give the body of a request as JSON."
        ) from error
