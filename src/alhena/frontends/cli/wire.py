"""alhena wire: checks a request against the rules, or converts it to another dialect."""

import argparse
from typing import Any, NoReturn

import msgspec

from alhena.errors import InputError, UsageError
from alhena.frontends.streams import read_input, write_json
from alhena.models.catalogue import model_info
from alhena.wire.conformance.check import check_json
from alhena.wire.content import CallIds
from alhena.wire.dialects import anthropic, gemini, openai
from alhena.wire.dialects.conversation import DialectRequest
from alhena.wire.dialects.fields import DialectError
from alhena.wire.errors import Level, Violation
from alhena.wire.json_values import as_object

COMMANDS = ("check", "convert")

USAGE = """\
usage: alhena wire check [--repair] [--model NAME] FILE
       alhena wire convert --from DIALECT --to DIALECT [--model NAME] FILE

FILE contains the body of a request as JSON; - is standard input.

check: prints the rules of the Gemini API that the request breaks: {"violations": [{"rule", "level",
"path", "message"}]}. Exit code 1 when one of them is an error.

  --repair      also repair the contents and print the body: {"violations", "repairs": [{"rule",
                "path", "message"}], "body"}; violations are those that remain
  --model NAME  the model of the request, if the body does not name it: some rules depend on it

convert: converts a request between the gemini, anthropic and openai forms. Calls, results, media
and signatures are kept; anything that cannot be converted is an error with its path.

  --model NAME  the model to name in the result
"""


def run(argv: list[str]) -> int:
    """Carries out `alhena wire ARGV`; returns the exit code."""
    if not argv or argv[0] not in COMMANDS:
        raise UsageError(
            "`alhena wire` takes `check FILE` or `convert --from A --to B FILE`.",
            remedy="See alhena wire --help.",
        )
    return (check if argv[0] == "check" else convert)(argv[1:])


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


class _Asked(argparse.Namespace):
    """`alhena wire check …`, read."""

    repair: bool
    model: str | None
    file: str


def check(argv: list[str]) -> int:
    """Carries out `alhena wire check ARGV`; returns the exit code."""
    parser = WireParser("check")
    parser.add_argument("--repair", action="store_true")
    parser.add_argument("--model")
    parser.add_argument("file", metavar="FILE")
    asked = parser.parse_args(argv, namespace=_Asked())
    body = read_body(asked.file)
    model = model_info(asked.model or _model_of(body))
    if not asked.repair:
        violations = check_json(
            body,
            needs_signatures=model.needs_signatures,
            takes_signatures=model.takes_signatures,
        )
        write_json({"violations": violations})
        return _code(violations)
    from alhena.wire.conformance.repair import repair_json

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


DIALECTS = ("gemini", "anthropic", "openai")


class _AskedConvert(argparse.Namespace):
    """`alhena wire convert …`, read."""

    source: str
    target: str
    model: str | None
    file: str


def convert(argv: list[str]) -> int:
    """Carries out `alhena wire convert ARGV`; returns the exit code."""
    parser = WireParser("convert")
    parser.add_argument("--from", dest="source", choices=DIALECTS, required=True)
    parser.add_argument("--to", dest="target", choices=DIALECTS, required=True)
    parser.add_argument("--model")
    parser.add_argument("file", metavar="FILE")
    asked = parser.parse_args(argv, namespace=_AskedConvert())
    body = read_body(asked.file)
    try:
        request = _read(asked, body)
    except DialectError as error:
        raise InputError(
            f"{asked.file}: {error.message}",
            remedy=error.remedy or f"Give a request as {asked.source} takes it.",
        ) from error
    write_json(_write(asked.target, request))
    return 0


def _read(asked: _AskedConvert, body: object) -> DialectRequest:
    if asked.source == "gemini":
        named = (as_object(body) or {}).get("model")
        model = asked.model or (named if isinstance(named, str) else "")
        return gemini.read_request(body, model)
    read = anthropic.read_request if asked.source == "anthropic" else openai.read_request
    request = read(body)
    return msgspec.structs.replace(request, model=asked.model or request.model)


def _write(target: str, request: DialectRequest) -> dict[str, Any]:
    if target == "gemini":
        return gemini.write_request(request)
    new_id = CallIds("call").next
    write = anthropic.write_request if target == "anthropic" else openai.write_request
    return write(request, new_id=new_id)
