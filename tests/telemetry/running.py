"""Helpers for tests of the command: scripted model answers and a recorded environment."""

import json
from pathlib import Path
from typing import Any

from tests.support.server import Reply, ScriptedServer, chunk, sse
from tests.telemetry.reading import Observed

KEY = "k-not-for-anyone-0123"
USAGE = {
    "promptTokenCount": 11,
    "candidatesTokenCount": 5,
    "cachedContentTokenCount": 2,
    "thoughtsTokenCount": 4,
    "toolUsePromptTokenCount": 3,
    "totalTokenCount": 23,
}


def answer(value: str = "done") -> Reply:
    return sse(chunk({"text": value}, finish="STOP", usage=USAGE))


def calls(*parts: dict[str, Any]) -> Reply:
    return sse(chunk(*parts, finish="STOP", usage=USAGE))


def watched(server: ScriptedServer, **more: str) -> dict[str, str]:
    return {
        "GEMINI_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": server.url,
        "GEMINI_TELEMETRY_ENABLED": "true",
        "GEMINI_TELEMETRY_OUTFILE": "telemetry/out.log",
    } | more


def configure(home: Path, **telemetry: Any) -> None:
    (home / ".gemini").mkdir(exist_ok=True)
    document = {"telemetry": telemetry}
    (home / ".gemini" / "settings.json").write_text(json.dumps(document), encoding="utf-8")


def observed(project: Path) -> Observed:
    return Observed(project / "telemetry" / "out.log")
