"""What every request passes before it is sent: the check, and repairs where they help."""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from alhena.wire.conformance.check import RequestChecker, refuse_errors, require_conformance
from alhena.wire.request import GenerateContentRequest
from alhena.wire.violation import Level, Violation

if TYPE_CHECKING:
    from alhena.wire.conformance.repair import Repair

_MENDED = frozenset({"C6", "F7", "F12", "S4", "S5"})
"""Rules of level warning that are repaired; the others are left alone."""


class RequestGate:
    """Lets requests of one conversation pass that keep all rules, or that can be made to.

    The check goes on from where it ended at the request before (`RequestChecker`), so that it costs
    next to nothing; only a request that breaks a rule costs more.
    """

    def __init__(self, checker: RequestChecker | None = None) -> None:
        """`checker` may know of the conversation already."""
        self._checker = checker or RequestChecker()

    def admit(
        self,
        request: GenerateContentRequest,
        *,
        needs_signatures: bool = False,
        takes_signatures: bool = True,
    ) -> "tuple[GenerateContentRequest, tuple[Repair, ...]]":
        """The request as it may be sent, and what had to be repaired in it. The history it came
        from stays as it is. Raises ConformanceError for what cannot be repaired."""
        violations = self._checker.check(
            request, needs_signatures=needs_signatures, takes_signatures=takes_signatures
        )
        if not any(map(calls_for_repair, violations)):
            return request, ()
        from alhena.wire.conformance.calling import LEFT_OUT, PLACE, without_idle_calling
        from alhena.wire.conformance.repair import REPAIRED, Repair, repair_entries

        config = without_idle_calling(request.config)
        if config is not request.config:
            admitted, repairs = self.admit(
                replace(request, config=config),
                needs_signatures=needs_signatures,
                takes_signatures=takes_signatures,
            )
            return admitted, (Repair("T13", PLACE, LEFT_OUT), *repairs)
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
    """Whether a request is not sent with it, or not without a repair."""
    return violation.level == Level.ERROR or violation.rule in _MENDED
