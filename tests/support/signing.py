"""A service that signs its calls and refuses signatures of other models, as Gemini does."""

from base64 import b64decode, b64encode
from typing import Any

from tests.support.server import Received, Reply, ScriptedServer, chunk, json_reply, sse

SENTINEL = "skip_thought_signature_validator"
VERSIONS = {"gemini-flash-latest": "gemini-3.8-flash"}
"""Names that mean another model."""


def signature(model: str, number: int = 0) -> str:
    return b64encode(f"signed by {model} {number}".encode()).decode()


class SigningServer(ScriptedServer):
    """Each of `answers` is a text, or the name and arguments of a call. Every part of an answer is
    signed by the model that gives it. `refuses` has requests, by number, that get 400 with these
    words whatever they hold; `busy` names models that have no quota."""

    def __init__(
        self,
        *answers: str | tuple[str, dict[str, Any]],
        refuses: dict[int, str] | None = None,
        busy: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        self._answers = list(answers)
        self._refuses = refuses or {}
        self._busy = busy
        self.models: list[str] = []

    def take(self, received: Received) -> Reply:
        self.requests.append(received)
        model = received.path.rpartition("/")[2].partition(":")[0]
        self.models.append(model)
        version = VERSIONS.get(model, model)
        words = self._refuses.get(len(self.requests)) or self._fault(received.json, version)
        if words:
            error = {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}
            return json_reply({"error": error}, 400)
        if model in self._busy:
            error = {
                "code": 429,
                "message": "Quota exceeded per day",
                "status": "RESOURCE_EXHAUSTED",
            }
            details = [
                {
                    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                    "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}],
                }
            ]
            return json_reply({"error": error | {"details": details}}, 429)
        answer = self._answers.pop(0)
        number = len(self.requests)
        if isinstance(answer, str):
            part: dict[str, Any] = {"text": answer}
        else:
            name, args = answer
            part = {"functionCall": {"name": name, "args": args, "id": f"c{number}"}}
        part["thoughtSignature"] = signature(version, number)
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        return sse(chunk(part, finish="STOP", usage=usage) | {"modelVersion": version})

    def signatures(self, index: int = -1) -> list[str]:
        """Those of a request, read: the model that made them, or the sentinel."""
        return list(map(_read, _signatures(self.requests[index].json)))

    def _fault(self, body: dict[str, Any], version: str) -> str:
        for each in _signatures(body):
            if each != SENTINEL and _read(each) != version:
                return "Corrupted thought signature."
        return missing(body)


def missing(body: dict[str, Any]) -> str:
    """The refusal of a request whose current turn has a step without a signature."""
    for content in reversed(body["contents"]):
        if content["role"] == "user":
            if not any("functionResponse" in part for part in content["parts"]):
                return ""
            continue
        calls = [part for part in content["parts"] if "functionCall" in part]
        if calls and "thoughtSignature" not in calls[0]:
            return "Function call is missing a thought_signature in functionCall parts."
    return ""


def _signatures(body: dict[str, Any]) -> list[str]:
    return [
        part["thoughtSignature"]
        for content in body["contents"]
        for part in content["parts"]
        if "thoughtSignature" in part
    ]


def _read(text: str) -> str:
    return text if text == SENTINEL else b64decode(text).decode().split()[2]
