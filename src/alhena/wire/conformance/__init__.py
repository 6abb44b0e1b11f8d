"""The rules of a conversation, checked before each send (`rules.RULES` is the table).

`check_request` checks typed requests cheaply: one pass, without encoding or decoding.
`RequestChecker` does the same for the requests of one conversation and checks only new parts.
`RequestGate` checks every request and repairs it if possible. `check_json` parses a plain JSON body
first and adds the rules that only plain JSON can break.
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
