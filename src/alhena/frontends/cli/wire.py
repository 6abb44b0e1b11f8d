"""alhena wire: checks a request against the rules, or converts it to another dialect."""

from typing import TYPE_CHECKING, Any

import msgspec

from alhena.errors import InputError, UsageError
from alhena.frontends.shared.arguments import parse_command
from alhena.frontends.shared.streams import read_input, write_json
from alhena.models.catalogue import model_info
from alhena.wire.conformance.json_body import check_json
from alhena.wire.content import CallIds
from alhena.wire.dialects import anthropic, gemini, openai, responses
from alhena.wire.dialects.conversation import DialectRequest
from alhena.wire.dialects.fields import DialectError
from alhena.wire.errors import Severity, Violation
from alhena.wire.json_values import as_object
from alhena.wire.request import GenerationConfig

if TYPE_CHECKING:
    from argparse import Namespace

DIALECTS = "gemini|anthropic|openai|responses"
_FORMS = {"anthropic": anthropic, "openai": openai, "responses": responses}

USAGE = """\
usage: alhena wire check [--repair] [--model NAME] FILE
       alhena wire convert --from DIALECT --to DIALECT [--model NAME] FILE

FILE contains the body of a request as JSON; - is standard input.

check: prints the rules of the Gemini API that the request breaks: {"violations": [{"rule", "level",
"path", "message"}]}. Exit code 1 when one of them is an error.

  --repair      also repair the contents and print the body: {"violations", "repairs": [{"rule",
                "path", "message"}], "body"}; violations are those that remain
  --model NAME  the model of the request, if the body does not name it: some rules depend on it

convert: converts a request between the gemini, anthropic, openai (chat completions) and responses
forms. Calls, results, media and signatures are kept; anything that cannot be converted is an error
with its path.

  --model NAME  the model to name in the result
"""


def run(argv: list[str]) -> int:
    """Carries out `alhena wire ARGV`; returns the exit code."""
    options = parse_command(
        "alhena wire",
        argv,
        {
            "check": "FILE --repair --model=NAME",
            "convert": f"FILE --from={DIALECTS} --to={DIALECTS} --model=NAME",
        },
    )
    return (_check if options.command == "check" else _convert)(options)


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


def _check(asked: "Namespace") -> int:
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
    from alhena.wire.conformance.json_body import repair_json

    repaired = repair_json(
        body, needs_signatures=model.needs_signatures, takes_signatures=model.takes_signatures
    )
    write_json(repaired)
    return _code(repaired.violations)


def _code(violations: tuple[Violation, ...]) -> int:
    return 1 if any(item.level == Severity.ERROR for item in violations) else 0


def _model_of(body: object) -> str:
    """The model that a body names; "" when it names none."""
    model = (as_object(body) or {}).get("model")
    return model if isinstance(model, str) else ""


def _convert(asked: "Namespace") -> int:
    source = getattr(asked, "from")
    if source is None or asked.to is None:
        raise UsageError("--from and --to are needed.", remedy="See alhena wire --help.")
    body = read_body(asked.file)
    try:
        request = _read(source, body, asked.model)
    except DialectError as error:
        raise InputError(
            f"{asked.file}: {error.message}",
            remedy=error.remedy or f"Give a request as {source} takes it.",
        ) from error
    write_json(_write(asked.to, request))
    return 0


def _read(source: str, body: object, model: str | None) -> DialectRequest:
    if source == "gemini":
        return gemini.read_request(body, model or _model_of(body))
    request = _FORMS[source].read_request(body)
    if request.left_out:
        raise DialectError(f"{', '.join(request.left_out)} cannot be converted.", "tools")
    config = request.config
    if request.stops:  # the gateway's own part; a converted request has all of them
        given = config.generation_config or GenerationConfig()
        stops = (*(given.stop_sequences or ()), *request.stops)
        given = msgspec.structs.replace(given, stop_sequences=stops)
        config = msgspec.structs.replace(config, generation_config=given)
    return msgspec.structs.replace(request, model=model or request.model, config=config)


def _write(target: str, request: DialectRequest) -> dict[str, Any]:
    if target == "gemini":
        return gemini.write_request(request)
    new_id = CallIds("call").next
    return _FORMS[target].write_request(request, new_id=new_id)
