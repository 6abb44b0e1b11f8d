"""Repairs of a request body that is given as plain JSON values."""

from collections.abc import Collection
from typing import Any

import msgspec

from alhena.wire.conformance.body import Body, read_body
from alhena.wire.conformance.calling import LEFT_OUT, PLACE
from alhena.wire.conformance.check import check_json
from alhena.wire.conformance.repair import Repair, repair
from alhena.wire.conformance.rules import Findings
from alhena.wire.conformance.shape import camel
from alhena.wire.plain import as_object
from alhena.wire.request import FunctionCallingMode
from alhena.wire.violation import Violation

_CALLING = "functionCallingConfig"


class RepairedBody(msgspec.Struct, frozen=True):
    """A body with its contents repaired: what is wrong with it still, what was done, and itself."""

    violations: tuple[Violation, ...]
    repairs: tuple[Repair, ...]
    body: Any


def repair_json(
    value: object, *, needs_signatures: bool = False, takes_signatures: bool = True
) -> RepairedBody:
    """The body in `value`, in any form that `check_json` takes, with its contents repaired.

    Everything else in it stays, but for a calling mode where nothing can be called. What the API
    does not know in the contents, and what has the wrong type, is left out.
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
        value = fields = _with_contents(fields, body, msgspec.to_builtins(done.contents))
    if body.calls and body.mode != FunctionCallingMode.ANY and not body.config.function_names():
        value = _without_calling(fields, ("request", "config", "toolConfig"))
        repairs = (*repairs, Repair("T13", body.place(PLACE), LEFT_OUT))
    return RepairedBody(check_json(value, **options), repairs, value)


def _with_contents(fields: dict[str, Any], body: Body, contents: Any) -> dict[str, Any]:
    if body.contents_at:
        return fields | {"request": fields["request"] | {"contents": contents}}
    return fields | {"contents": contents}


def _without_calling(fields: dict[str, Any], inner: Collection[str]) -> dict[str, Any]:
    """The object without its calling mode, which may stand in one of the fields `inner`."""
    kept = {key: value for key, value in fields.items() if camel(key) != _CALLING}
    for key, value in kept.items():
        if camel(key) in inner and (below := as_object(value)) is not None:
            kept[key] = _without_calling(below, inner)
    return kept
