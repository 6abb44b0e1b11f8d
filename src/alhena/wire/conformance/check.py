"""Combines the checks, and the gate for every request before it is sent."""

from collections.abc import Sequence
from operator import is_
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from alhena.wire.conformance.contents import read_content
from alhena.wire.conformance.declarations import (
    check_answer_form,
    check_calling,
    check_response_schema,
    check_system,
    check_tools,
)
from alhena.wire.conformance.history import HistoryWalk
from alhena.wire.conformance.rules import Findings
from alhena.wire.encoded import EncodedContent
from alhena.wire.errors import ConformanceError, Level, Violation
from alhena.wire.request import GenerateContentConfig, GenerateContentRequest

if TYPE_CHECKING:
    from alhena.wire.conformance.repair import Repair

_VERBATIM = frozenset({"S3"})


class RequestChecker:
    """Checks the requests of one conversation, each from the end of the previous one.

    Contents shared with the previous request are not checked again, nor is a config that is the
    same object; everything else is checked in full.

    The form of a signature (S3) is at most a warning: it came from the service, is returned
    verbatim, and the service is the authority. Without `forms` it is not checked.
    """

    def __init__(self, *, forms: bool = False) -> None:
        self._forms = forms
        self._walk = HistoryWalk()
        self._seen: tuple[EncodedContent, ...] = ()
        self._found = Findings(_VERBATIM)
        self._config: GenerateContentConfig | None = None
        self._config_found: tuple[Violation, ...] = ()
        self._declared: frozenset[str] = frozenset()

    def check(
        self,
        request: GenerateContentRequest,
        *,
        needs_signatures: bool = False,
        takes_signatures: bool = True,
    ) -> tuple[Violation, ...]:
        """Every broken rule of a request. The model `needs_signatures` on calls (S1), or takes no
        thoughts and signatures at all (S6)."""
        found = self.learn(request.contents)
        if request.config is not self._config:
            self._read_config(request.config)
        ends = Findings(_VERBATIM)
        self._walk.finish(
            ends, needs_signatures=needs_signatures, takes_signatures=takes_signatures
        )
        if self._declared:
            self._walk.check_names(self._declared, ends)
        return (*found, *ends.violations, *self._config_found)

    def learn(self, contents: tuple[EncodedContent, ...]) -> Sequence[Violation]:
        """The broken rules in these contents, independent of later ones; requests that begin with
        them do not check them again."""
        known = len(self._seen)
        if len(contents) < known or not all(map(is_, contents, self._seen)):
            self._walk, self._found, known = HistoryWalk(), Findings(_VERBATIM), 0
        feed, found = self._walk.feed, self._found
        for index in range(known, len(contents)):
            content = contents[index].content
            feed(read_content(index, content, found, forms=self._forms), found)
        self._seen = contents
        return self._found.violations

    def _read_config(self, config: GenerateContentConfig) -> None:
        findings = Findings(_VERBATIM)
        check_config(config, findings)
        self._config = config
        self._config_found = tuple(findings.violations)
        self._declared = frozenset(config.function_names())


def check_request(
    request: GenerateContentRequest,
    *,
    needs_signatures: bool = False,
    takes_signatures: bool = True,
) -> tuple[Violation, ...]:
    """Every broken rule of a single request."""
    return RequestChecker(forms=True).check(
        request, needs_signatures=needs_signatures, takes_signatures=takes_signatures
    )


def require_conformance(
    request: GenerateContentRequest,
    *,
    needs_signatures: bool = False,
    takes_signatures: bool = True,
) -> tuple[Violation, ...]:
    """The warnings of a request. Raises ConformanceError for a broken error-level rule."""
    found = check_request(
        request, needs_signatures=needs_signatures, takes_signatures=takes_signatures
    )
    refuse_errors(found)
    return found


def refuse_errors(violations: Sequence[Violation]) -> None:
    """Raises ConformanceError if one of them is an error."""
    errors = tuple(item for item in violations if item.level == Level.ERROR)
    if errors:
        raise ConformanceError(errors)


def check_json(
    value: object, *, needs_signatures: bool = False, takes_signatures: bool = True
) -> tuple[Violation, ...]:
    """Every broken rule of a request body given as plain JSON values.

    Accepts the body of generateContent, the same inside Code Assist's `{"request": …}`, and
    `{model, contents, config}` of the client libraries. Keys may be in snake_case, which the API
    accepts. Values of the wrong shape are reported and excluded from the other checks.
    """
    from alhena.wire.conformance.body import read_body

    findings = Findings()
    body = read_body(value, findings)
    if body is None:
        return tuple(findings.violations)
    rest = Findings()
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


def check_config(config: GenerateContentConfig, findings: Findings) -> None:
    """Checks system instruction, tools, calling mode, and the answer schema."""
    if config.system_instruction is not None:
        check_system(config.system_instruction, findings)
    check_tools(config.tools or (), findings)
    calling = config.tool_config.function_calling_config if config.tool_config else None
    if calling is not None:
        allowed: Sequence[str] | None = calling.allowed_function_names
        check_calling(calling.mode, allowed, config.function_names(), findings)
    settings = config.generation_config
    if settings is not None:
        check_answer_form(settings.response_mime_type, config.function_names(), findings)
        if settings.response_schema is not None:
            check_response_schema(settings.response_schema, findings)


_MENDED = frozenset({"C6", "F7", "F12", "S4", "S5"})
"""Repairable rules of level warning; others are not changed."""


class RequestGate:
    """Passes requests of one conversation that keep all rules, or that can be repaired.

    The check continues from the previous request (`RequestChecker`), so that it costs next to
    nothing; only a request that breaks a rule costs more.
    """

    def __init__(self, checker: RequestChecker | None = None) -> None:
        """`checker` may have seen the conversation before."""
        self._checker = checker or RequestChecker()

    def admit(
        self,
        request: GenerateContentRequest,
        *,
        needs_signatures: bool = False,
        takes_signatures: bool = True,
    ) -> "tuple[GenerateContentRequest, tuple[Repair, ...]]":
        """The request to send, and its repairs. The original history is unchanged. Raises
        ConformanceError for an irreparable request."""
        violations = self._checker.check(
            request, needs_signatures=needs_signatures, takes_signatures=takes_signatures
        )
        if not any(map(calls_for_repair, violations)):
            return request, ()
        from alhena.wire.conformance.repair import (
            NO_FUNCTIONS,
            PLACE,
            REPAIRED,
            Repair,
            repair_entries,
            without_idle_calling,
        )

        config = without_idle_calling(request.config)
        if config is not request.config:
            admitted, repairs = self.admit(
                replace(request, config=config),
                needs_signatures=needs_signatures,
                takes_signatures=takes_signatures,
            )
            return admitted, (Repair("T13", PLACE, NO_FUNCTIONS), *repairs)
        if not any(item.rule in REPAIRED for item in violations):
            refuse_errors(violations)
            return request, ()
        contents, repairs = repair_entries(
            request.contents, needs_signatures=needs_signatures, takes_signatures=takes_signatures
        )
        repaired = replace(request, contents=contents)
        require_conformance(
            repaired, needs_signatures=needs_signatures, takes_signatures=takes_signatures
        )
        return repaired, repairs


def calls_for_repair(violation: Violation) -> bool:
    """True when a violation prevents sending, or requires a repair."""
    return violation.level == Level.ERROR or violation.rule in _MENDED
