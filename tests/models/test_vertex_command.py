"""The real command with Vertex: a whole run, its refusals, and nothing secret anywhere."""

import json
from pathlib import Path

import pytest

from tests.models.asking import KEY, MODEL
from tests.models.google import ACCESS, CLIENT_SECRET, GRANT, REFRESH, user_info, written
from tests.support.command import Ran, alhena
from tests.support.server import ScriptedServer, call, chunk, json_reply, sse, text

SECRETS = (ACCESS, CLIENT_SECRET, REFRESH, KEY)


def vertex(server: ScriptedServer, **more: str) -> dict[str, str]:
    return {
        "GOOGLE_GENAI_USE_VERTEXAI": "true",
        "GOOGLE_CLOUD_PROJECT": "p",
        "GOOGLE_CLOUD_LOCATION": "us-central1",
        "GOOGLE_VERTEX_BASE_URL": server.url,
    } | more


def secrets_below(*roots: Path) -> list[str]:
    """The files below `roots` that hold something secret."""
    held: list[str] = []
    for root in roots:
        for path in root.rglob("*"):
            data = path.read_bytes() if path.is_file() else b""
            held += [str(path) for secret in SECRETS if secret.encode("ascii") in data]
    return held


def shows_nothing(ran: Ran) -> None:
    assert not [secret for secret in SECRETS if secret in ran.out + ran.err]


@pytest.mark.requirement("WIRE-04")
def test_a_whole_run_goes_over_vertex_and_leaves_nothing_secret(
    server: ScriptedServer, project: Path, home: Path, tmp_path: Path
):
    (project / "a.txt").write_text("what is in it", encoding="utf-8")
    server.reply(
        json_reply(GRANT),
        sse(chunk(call("read_file", {"file_path": "a.txt"}, id="c1"), finish="STOP")),
        sse(text("read")),
    )
    path = written(tmp_path / "credentials" / "adc.json", user_info(server.url))
    ran = alhena(
        *("-m", MODEL, "-o", "stream-json", "-p", "read it", "--record-responses", "r.jsonl"),
        GEMINI_TELEMETRY_ENABLED="true",
        GEMINI_TELEMETRY_OUTFILE=str(project / "telemetry.json"),
        **vertex(server, GOOGLE_APPLICATION_CREDENTIALS=path),
    )
    assert ran.code == 0, ran.err
    granted, first, second = server.requests
    assert granted.path == "/token"
    for request in (first, second):
        assert request.path.startswith("/v1beta1/projects/p/locations/us-central1/publishers/")
        assert request.headers["authorization"] == f"Bearer {ACCESS}"
    *_, response = second.json["contents"]
    assert response["parts"][0]["functionResponse"]["id"] == "c1"
    shows_nothing(ran)
    assert (project / "telemetry.json").stat().st_size > 0
    assert (project / "r.jsonl").stat().st_size > 0
    assert secrets_below(project, home) == []


@pytest.mark.parametrize("flags", [(), ("-d",)])
def test_refused_credentials_end_a_run_with_41_and_show_nothing(
    server: ScriptedServer, tmp_path: Path, home: Path, flags: tuple[str, ...]
):
    answer = {"error": {"code": 401, "message": f"{ACCESS} is no good", "status": "X"}}
    server.reply(
        json_reply(GRANT),
        json_reply(answer, 401),
        json_reply({"error": "invalid_grant", "error_description": f"{REFRESH} has ended"}, 400),
    )
    path = written(tmp_path / "credentials" / "adc.json", user_info(server.url))
    environ = vertex(server, GOOGLE_APPLICATION_CREDENTIALS=path)
    ran = alhena(*flags, "-p", "hi", **environ)
    assert ran.code == 41
    assert "invalid_grant" in ran.err
    assert "gcloud auth application-default login" in ran.err
    assert len(server.requests) == 3
    shows_nothing(ran)
    assert secrets_below(home) == []


def test_what_is_missing_for_vertex_ends_a_run_with_41():
    ran = alhena("-o", "json", "-p", "hi", GOOGLE_GENAI_USE_VERTEXAI="true", GEMINI_API_KEY=KEY)
    assert ran.code == 41
    error = json.loads(ran.out)["error"]
    assert error["type"] == "auth"
    assert "GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION" in error["message"]


@pytest.mark.parametrize(
    ("auth", "told"),
    [
        ({"selectedType": "vertex-ai"}, "GOOGLE_CLOUD_PROJECT"),
        ({"enforcedType": "vertex-ai"}, "enforced authentication type"),
        ({"selectedType": "magic"}, "Invalid auth method selected"),
    ],
)
def test_the_settings_say_how_to_sign_in(home: Path, auth: dict[str, str], told: str):
    written(home / ".gemini" / "settings.json", {"security": {"auth": auth}})
    ran = alhena("-p", "hi", GEMINI_API_KEY=KEY, GOOGLE_GEMINI_BASE_URL="http://127.0.0.1:1")
    assert ran.code == 41
    assert told in ran.err
    shows_nothing(ran)


def test_the_settings_of_a_workspace_do_not(server: ScriptedServer, project: Path):
    server.reply(sse(text("ok")))
    written(
        project / ".gemini" / "settings.json",
        {"security": {"auth": {"selectedType": "vertex-ai"}}},
    )
    ran = alhena("--skip-trust", "-p", "hi", GEMINI_API_KEY=KEY, GOOGLE_GEMINI_BASE_URL=server.url)
    assert ran.code == 0, ran.err
    assert ran.out.strip() == "ok"
