"""The rules a conversation must keep, checked before each send (`rules.RULES` is the table).

`check_request` looks at typed requests and is cheap: one pass, nothing is encoded or decoded.
`check_json` reads a plain JSON body first and adds what only plain JSON can break.
"""

from alhena.wire.conformance.check import check_json, check_request, require_conformance
from alhena.wire.conformance.rules import RULES, Rule

__all__ = ["RULES", "Rule", "check_json", "check_request", "require_conformance"]
