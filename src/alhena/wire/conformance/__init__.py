"""The rules of a conversation, checked before each send; `RULES` is the table.

`check.check_request` checks typed requests cheaply: one pass, without encoding or decoding.
`RequestChecker` does the same for the requests of one conversation and checks only new parts.
`RequestGate` checks every request and repairs it if possible. `json_body.check_json` parses a plain
JSON body first and adds the rules that only plain JSON can break.
"""

import msgspec

from alhena.wire.errors import Severity, Violation
from alhena.wire.json_values import excerpt


class WireRule(msgspec.Struct, frozen=True):
    """A rule's level and requirement, in one line. `kept_by` names the module that enforces a rule
    which is not visible in a request."""

    level: Severity
    text: str
    kept_by: str = ""


_E, _W = Severity.ERROR, Severity.WARNING

RULES: dict[str, WireRule] = {
    "C1": WireRule(_E, "contents are not empty and each role is user or model"),
    "C2": WireRule(_E, "every content has at least one part"),
    "C3": WireRule(_E, "every part sets exactly one data field"),
    "C4": WireRule(_E, "every key and type is one the API documents"),
    "C5": WireRule(_E, "the first and the last content are the user's"),
    "C6": WireRule(_W, "neighbouring contents have different roles"),
    "C7": WireRule(_E, "a stretch of a conversation does not start with a call or a response"),
    "C8": WireRule(_E, "systemInstruction is next to contents and contains only text"),
    "F1": WireRule(_E, "N calls are followed at once by one user content with N responses"),
    "F2": WireRule(_E, "responses come in a user content right after the calls"),
    "F3": WireRule(_E, "the responses of one step share one content"),
    "F4": WireRule(_E, "a response has the name of its call, a call that of a declared tool"),
    "F5": WireRule(_E, "ids are unique within a content"),
    "F6": WireRule(_E, "a response has the id of its call, and none when the call has none"),
    "F7": WireRule(_W, "responses come in the order of the calls, before other parts"),
    "F8": WireRule(_E, "args and response are JSON objects of finite numbers and valid Unicode"),
    "F9": WireRule(_W, "a response contains output or error"),
    "F10": WireRule(_E, "every call is answered"),
    "F11": WireRule(
        _E, "a call of what is not declared is answered with an error", kept_by="tools.registry"
    ),
    "F12": WireRule(_W, "calls stand in a conversation when they are complete"),
    "F13": WireRule(_E, "results of calls hold media of the types that the API takes"),
    "S1": WireRule(_E, "the first call of each step of the current turn carries a signature"),
    "S2": WireRule(_E, "signatures stay on the model's parts"),
    "S3": WireRule(_E, "signatures are standard base64"),
    "S4": WireRule(_W, "a stand-in for a signature signs the first call of a step only"),
    "S5": WireRule(_W, "thoughts are left out, and their signatures kept"),
    "S6": WireRule(_E, "a model that takes no thoughts and signatures is sent none"),
    "T1": WireRule(_E, "a tool's name is made of letters, digits and _ . : -, at most 64"),
    "T2": WireRule(_E, "tool names are unique, all declarations in one array"),
    "T3": WireRule(_E, "parameters or parametersJsonSchema, of type object"),
    "T4": WireRule(_E, "parameters hold only what the API's Schema has"),
    "T5": WireRule(_E, "every node of a Schema has one type"),
    "T6": WireRule(_E, "enum is a list of texts, on a node of type STRING"),
    "T7": WireRule(_E, "properties and required stand on OBJECT, items on every ARRAY"),
    "T8": WireRule(_E, "the format of a STRING is enum or date-time"),
    "T9": WireRule(_E, "beside ref stand a description and a default only"),
    "T10": WireRule(_W, "schemas are not nested without measure, nor in themselves"),
    "T11": WireRule(_E, "adapting a schema ends, whatever the schema", kept_by="wire.schema.adapt"),
    "T12": WireRule(_W, "tools of the server and functions are not declared together"),
    "T13": WireRule(
        _E, "the calling mode exists, with functions; allowed names go with ANY and are declared"
    ),
    "T14": WireRule(
        _W, "parametersJsonSchema where the service takes it", kept_by="wire.schema.adapt"
    ),
    "T15": WireRule(_W, "functions are not declared where the answer has to be JSON"),
}


_MESSAGE_LIMIT = 400  # characters: names and keys in messages come from the body


class ConformanceFindings:
    """Violations in order of detection. Rules in `softened` are warnings here."""

    def __init__(self, softened: frozenset[str] = frozenset()) -> None:
        self.violations: list[Violation] = []
        self._softened = softened

    def add(self, rule: str, path: str, message: str, level: Severity | None = None) -> None:
        """Records that `rule` is broken at `path`; `level` overrides that of the rule."""
        weight = Severity.WARNING if rule in self._softened else level or RULES[rule].level
        line = message if message.isprintable() else excerpt(message, _MESSAGE_LIMIT)
        place = path if path.isprintable() else excerpt(path, _MESSAGE_LIMIT)
        self.violations.append(
            Violation(rule, weight, place[:_MESSAGE_LIMIT], line[:_MESSAGE_LIMIT])
        )
