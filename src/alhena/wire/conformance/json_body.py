"""Checks and repairs a request body given as plain JSON values."""

from collections.abc import Collection
from typing import Any

import msgspec

from alhena.wire.conformance import ConformanceFindings
from alhena.wire.conformance.body import Body, camel, read_body
from alhena.wire.conformance.check import check_calling, check_config
from alhena.wire.conformance.history import HistoryWalk, read_content
from alhena.wire.conformance.repair import NO_FUNCTIONS, PLACE, Repair, repair
from alhena.wire.errors import Violation
from alhena.wire.json_values import as_object
from alhena.wire.request import FunctionCallingMode

_CALLING = "functionCallingConfig"


def check_json(
    value: object, *, needs_signatures: bool = False, takes_signatures: bool = True
) -> tuple[Violation, ...]:
    """Every broken rule of a request body given as plain JSON values.

    Accepts the body of generateContent, the same inside Code Assist's `{"request": …}`, and
    `{model, contents, config}` of the client libraries. Keys may be in snake_case, which the API
    accepts. Values of the wrong shape are reported and excluded from the other checks.
    """
    findings = ConformanceFindings()
    body = read_body(value, findings)
    if body is None:
        return tuple(findings.violations)
    rest = ConformanceFindings()
    walk = HistoryWalk()
    for index, content in enumerate(body.contents):
        walk.feed(read_content(index, content, rest), rest)
    walk.finish(rest, needs_signatures=needs_signatures, takes_signatures=takes_signatures)
    declared = frozenset(body.config.function_names())
    if declared:
        walk.check_names(declared, rest)
    check_config(body.config, rest)
    if body.calls:
        check_calling(body.mode, body.allowed, declared, rest)
    placed = (msgspec.structs.replace(item, path=body.place(item.path)) for item in rest.violations)
    return (*findings.violations, *placed)


class RepairedBody(msgspec.Struct, frozen=True):
    """A body with repaired contents: remaining violations, repairs, and the body."""

    violations: tuple[Violation, ...]
    repairs: tuple[Repair, ...]
    body: Any


def repair_json(
    value: object, *, needs_signatures: bool = False, takes_signatures: bool = True
) -> RepairedBody:
    """Repairs the contents of the body in `value`, in any form accepted by `check_json`.

    The rest is unchanged, except for a calling mode without functions. Unknown fields and values of
    the wrong type are dropped from the contents.
    """
    findings = ConformanceFindings()
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
        repairs = (*repairs, Repair("T13", body.place(PLACE), NO_FUNCTIONS))
    return RepairedBody(check_json(value, **options), repairs, value)


def _with_contents(fields: dict[str, Any], body: Body, contents: Any) -> dict[str, Any]:
    if body.contents_at:
        return fields | {"request": fields["request"] | {"contents": contents}}
    return fields | {"contents": contents}


def _without_calling(fields: dict[str, Any], inner: Collection[str]) -> dict[str, Any]:
    """The object without its calling mode, which may be in one of the fields `inner`."""
    kept = {key: value for key, value in fields.items() if camel(key) != _CALLING}
    for key, value in kept.items():
        if camel(key) in inner and (below := as_object(value)) is not None:
            kept[key] = _without_calling(below, inner)
    return kept
