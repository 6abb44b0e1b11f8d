"""`alhena wire check FILE`: does a request keep the rules of the API?"""

import argparse
from typing import NoReturn

import msgspec

from alhena.errors import InputError, UsageError
from alhena.frontends.cli.inputs import read_input
from alhena.frontends.streams import write_json
from alhena.models.catalogue import model_info
from alhena.wire.conformance import check_json
from alhena.wire.plain import as_object
from alhena.wire.violation import Level, Violation


class _Asked(argparse.Namespace):
    """`alhena wire check …`, read."""

    repair: bool
    model: str | None
    file: str


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raises instead of ending the process."""
        raise UsageError(f"alhena wire check: {message}.", remedy="See alhena wire --help.")


def run(argv: list[str]) -> int:
    """Carries out `alhena wire check ARGV`; returns the exit code."""
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--repair", action="store_true")
    parser.add_argument("--model")
    parser.add_argument("file", metavar="FILE")
    asked = parser.parse_args(argv, namespace=_Asked())
    body = _read(asked.file)
    model = model_info(asked.model or _model_of(body))
    if not asked.repair:
        violations = check_json(
            body,
            needs_signatures=model.needs_signatures,
            takes_signatures=model.takes_signatures,
        )
        write_json({"violations": violations})
        return _code(violations)
    from alhena.wire.conformance.repair_json import repair_json

    repaired = repair_json(
        body, needs_signatures=model.needs_signatures, takes_signatures=model.takes_signatures
    )
    write_json(repaired)
    return _code(repaired.violations)


def _code(violations: tuple[Violation, ...]) -> int:
    return 1 if any(item.level == Level.ERROR for item in violations) else 0


def _model_of(body: object) -> str:
    """The model that a body names; "" when it names none."""
    model = (as_object(body) or {}).get("model")
    return model if isinstance(model, str) else ""


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
