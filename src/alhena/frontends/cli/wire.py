"""`alhena wire check FILE`: does a request keep the rules of the API?"""

import msgspec

from alhena.errors import InputError, UsageError
from alhena.frontends.cli.inputs import read_input
from alhena.frontends.streams import write_json, write_stdout
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
        write_stdout(USAGE)
        return 0
    if len(argv) != 2 or argv[0] != "check":
        raise UsageError("`alhena wire` takes `check FILE`.", remedy="See alhena wire --help.")
    violations = check_json(_read(argv[1]))
    write_json({"violations": violations})
    return 1 if any(item.level == Level.ERROR for item in violations) else 0


def _read(name: str) -> object:
    try:
        return msgspec.json.decode(read_input(name))
    except RecursionError as error:
        raise InputError(
            f"{name} is nested too deeply.", remedy="Give the body of a request as JSON."
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"{name} is not JSON: {error}.", remedy="Give the body of a request as JSON."
        ) from error
