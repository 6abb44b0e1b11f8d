"""The checks, put together."""

from collections.abc import Sequence

import msgspec

from alhena.wire.conformance.contents import read_contents
from alhena.wire.conformance.declarations import check_calling, check_system, check_tools
from alhena.wire.conformance.history import check_history, check_names, check_signatures
from alhena.wire.conformance.rules import Findings
from alhena.wire.content import Content
from alhena.wire.errors import ConformanceError
from alhena.wire.request import GenerateContentRequest, Tool
from alhena.wire.violation import Level, Violation

_VERBATIM = frozenset({"S3"})


class Conversation(msgspec.Struct, kw_only=True):
    """What the rules look at, whatever form a request has."""

    contents: Sequence[Content] = ()
    system: Content | None = None
    tools: Sequence[Tool] = ()
    mode: str | None = None
    allowed: Sequence[str] | None = None


def check_request(
    request: GenerateContentRequest, *, needs_signatures: bool = False
) -> tuple[Violation, ...]:
    """Every broken rule of a request. `needs_signatures`: its model wants signed calls (S1).

    The form of a signature (S3) is a warning here: it came from the service, goes back verbatim,
    and the service knows best what it takes.
    """
    config = request.config
    calling = config.tool_config.function_calling_config if config.tool_config else None
    conversation = Conversation(
        contents=[entry.content for entry in request.contents],
        system=config.system_instruction,
        tools=config.tools or (),
        mode=calling.mode if calling else None,
        allowed=calling.allowed_function_names if calling else None,
    )
    findings = Findings(softened=_VERBATIM)
    _check(conversation, findings, needs_signatures=needs_signatures)
    return tuple(findings.violations)


def require_conformance(
    request: GenerateContentRequest, *, needs_signatures: bool = False
) -> tuple[Violation, ...]:
    """The warnings of a request. Raises ConformanceError when it breaks a rule of level error."""
    violations = check_request(request, needs_signatures=needs_signatures)
    errors = tuple(item for item in violations if item.level == Level.ERROR)
    if errors:
        raise ConformanceError(errors)
    return violations


def check_json(value: object, *, needs_signatures: bool = False) -> tuple[Violation, ...]:
    """Every broken rule of a request body given as plain JSON values.

    Understood are the body of generateContent, the same inside Code Assist's `{"request": …}`, and
    `{model, contents, config}` as the client libraries take it. Keys may be in snake_case, as the
    API accepts them. What has the wrong shape is reported and left out of the other checks.
    """
    from alhena.wire.conformance.body import read_body

    findings = Findings()
    body = read_body(value, findings)
    if body is None:
        return tuple(findings.violations)
    conversation = Conversation(
        contents=body.contents,
        system=body.system_instruction,
        tools=body.tools,
        mode=body.mode,
        allowed=body.allowed,
    )
    rest = Findings()
    _check(conversation, rest, needs_signatures=needs_signatures)
    placed = (msgspec.structs.replace(item, path=body.place(item.path)) for item in rest.violations)
    return (*findings.violations, *placed)


def _check(conversation: Conversation, findings: Findings, *, needs_signatures: bool) -> None:
    turns = read_contents(conversation.contents, findings)
    check_history(turns, findings)
    if needs_signatures:
        check_signatures(turns, findings)
    if conversation.system is not None:
        check_system(conversation.system, findings)
    declared = [
        declaration.name
        for tool in conversation.tools
        for declaration in tool.function_declarations or ()
    ]
    check_tools(conversation.tools, findings)
    check_calling(conversation.mode, conversation.allowed, declared, findings)
    if declared:
        check_names(turns, frozenset(declared), findings)
