"""Repairs of a request body that is given as plain JSON values."""

from typing import Any

import msgspec

from alhena.wire.conformance.body import Body, read_body
from alhena.wire.conformance.check import check_json
from alhena.wire.conformance.repair import Repair, repair
from alhena.wire.conformance.rules import Findings
from alhena.wire.plain import as_object
from alhena.wire.violation import Violation


class RepairedBody(msgspec.Struct, frozen=True):
    """A body with its contents repaired: what is wrong with it still, what was done, and itself."""

    violations: tuple[Violation, ...]
    repairs: tuple[Repair, ...]
    body: Any


def repair_json(
    value: object, *, needs_signatures: bool = False, takes_signatures: bool = True
) -> RepairedBody:
    """The body in `value`, in any form that `check_json` takes, with its contents repaired.

    Everything else in it stays. What the API does not know in the contents, and what has the wrong
    type, is left out.
    """
    findings = Findings()
    body = read_body(value, findings)
    fields = as_object(value)
    options = {"needs_signatures": needs_signatures, "takes_signatures": takes_signatures}
    if body is None or fields is None:
        return RepairedBody(tuple(findings.violations), (), value)
    done = repair(body.contents, **options)
    start = f"{body.contents_at}contents["
    repairs = (
        *(
            Repair(item.rule, item.path, "what the API does not take here was left out.")
            for item in findings.violations
            if item.path.startswith(start)
        ),
        *(Repair(item.rule, body.place(item.path), item.message) for item in done.repairs),
    )
    if repairs:
        value = _with_contents(fields, body, msgspec.to_builtins(done.contents))
    return RepairedBody(check_json(value, **options), repairs, value)


def _with_contents(fields: dict[str, Any], body: Body, contents: Any) -> dict[str, Any]:
    if body.contents_at:
        return fields | {"request": fields["request"] | {"contents": contents}}
    return fields | {"contents": contents}
