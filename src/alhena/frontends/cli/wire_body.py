"""What the commands of `alhena wire` share: their arguments and the body they are about."""

import argparse
from typing import NoReturn

import msgspec

from alhena.errors import InputError, UsageError
from alhena.frontends.cli.inputs import read_input


class WireParser(argparse.ArgumentParser):
    """The parser of `alhena wire COMMAND`; its errors name the command."""

    def __init__(self, command: str) -> None:
        super().__init__(prog=f"alhena wire {command}", add_help=False, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raises instead of ending the process."""
        raise UsageError(f"{self.prog}: {message}.", remedy="See alhena wire --help.")


def read_body(name: str) -> object:
    """The JSON in a file, or in standard input for `-`. Raises InputError."""
    try:
        return msgspec.json.decode(read_input(name))
    except RecursionError as error:
        problem, cause = "is nested too deeply.", error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        problem, cause = f"is not JSON: {error}.", error
    remedy = "Give the body of a request as JSON."
    raise InputError(f"{name} {problem}", remedy=remedy) from cause
