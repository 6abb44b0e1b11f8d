"""The rules a conversation must keep, checked before each send (`rules.RULES` is the table).

`check_request` looks at typed requests and is cheap: one pass, nothing is encoded or decoded.
`RequestChecker` does the same for the requests of one conversation and looks at what is new only.
`RequestGate` is what requests pass: the check, and a repair where one helps.
`check_json` reads a plain JSON body first and adds what only plain JSON can break.
"""

from alhena.wire.conformance.check import (
    RequestChecker,
    RequestGate,
    check_json,
    check_request,
    require_conformance,
)
from alhena.wire.conformance.history import slice_history, split_point
from alhena.wire.conformance.rules import RULES, Rule

__all__ = [
    "RULES",
    "RequestChecker",
    "RequestGate",
    "Rule",
    "check_json",
    "check_request",
    "require_conformance",
    "slice_history",
    "split_point",
]
