"""`alhena wire check FILE`: does a request keep the rules of the API?"""

import argparse

from alhena.frontends.cli.wire_body import WireParser, read_body
from alhena.frontends.streams import write_json
from alhena.models.catalogue import model_info
from alhena.wire.conformance import check_json
from alhena.wire.errors import Level, Violation
from alhena.wire.plain import as_object


class _Asked(argparse.Namespace):
    """`alhena wire check …`, read."""

    repair: bool
    model: str | None
    file: str


def run(argv: list[str]) -> int:
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
