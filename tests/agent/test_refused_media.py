"""Media that services refuse: words in their place, before they are sent or once they are refused."""

import base64
from pathlib import Path

import pytest

from alhena import Agent, Image
from alhena.models import Gemini
from alhena.models.errors import MediaRefusedError, RequestDetails
from alhena.models.status import refusal
from alhena.tools.media import correct_blob
from alhena.wire.content import Blob
from tests.support.command import alhena, keyed
from tests.support.each import for_each
from tests.support.media import GIF, JPEG, PNG_TEXT, mp4, pdf, png
from tests.support.server import Reply, ScriptedServer, call, chunk, json_reply, sse, text

PAGE = b"<!DOCTYPE html><html><body>502 Bad Gateway</body></html>"
HEIC = b"\0\0\0\x18ftypheic\0\0\0\0heic" + bytes(40)
UNREADABLE = "Unable to process input image. Please retry or report."
UNSPECIFIC = "Request contains an invalid argument."


def error(code: int, message: str, status: str) -> Reply:
    return json_reply({"error": {"code": code, "message": message, "status": status}}, code)


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


@for_each(
    ("declared", "data", "kept_as"),
    [
        ("image/png", png(), "image/png"),
        ("image/png", png(b"x" * 5000), "image/png"),
        ("image/jpeg", JPEG, "image/jpeg"),
        ("image/gif", GIF, "image/gif"),
        ("application/pdf", pdf(b"x" * 9000), "application/pdf"),
        ("video/mp4", mp4(), "video/mp4"),
        ("audio/m4a", mp4(b"M4A "), "audio/m4a"),
        ("audio/pcm", bytes(range(256)), "audio/pcm"),
        ("text/plain", b"plain words", "text/plain"),
        ("text/plain", b"%PDF- is how a PDF begins", "text/plain"),
        ("image/png", JPEG, "image/jpeg"),
        ("image/jpg", png(), "image/png"),
        ("application/octet-stream", pdf(), "application/pdf"),
        ("text/plain", png(), "image/png"),
    ],
)  # fmt: skip
def test_whole_media_are_sent_with_the_type_of_their_bytes(
    declared: str, data: bytes, kept_as: str
):
    found = correct_blob(Blob(mime_type=declared, data=encode(data)))
    assert isinstance(found, Blob)
    assert found.mime_type == kept_as


@pytest.mark.requirement("WORLD-02")
@for_each(
    ("declared", "data", "reason"),
    [
        ("image/png", png()[:-20], "cut short"),
        ("image/png", png()[:8], "cut short"),
        ("image/jpeg", JPEG[:-6], "cut short"),
        ("image/gif", GIF[:-1], "cut short"),
        ("image/webp", b"RIFF\xff\0\0\0WEBPVP8 ", "cut short"),
        ("application/pdf", pdf(b"x" * 9000)[:5000], "cut short"),
        ("video/mp4", mp4()[:-12], "cut short"),
        ("image/heic", HEIC, "convert it to PNG or JPEG"),
        ("image/png", HEIC, "convert it to PNG or JPEG"),
        ("image/png", b"", "it is empty"),
        ("audio/wav", b"", "it is empty"),
        ("application/pdf", b"", "it is empty"),
        ("image/png", PAGE, "begins with '<!DOCTYPE html>"),
        ("video/mp4", PAGE, "begins with '<!DOCTYPE html>"),
        ("application/pdf", b'{"error": "not found"}', "it is no application/pdf"),
        ("image/png", bytes(range(256)), "it is no image/png"),
    ],
)  # fmt: skip
def test_broken_media_have_a_reason(declared: str, data: bytes, reason: str):
    found = correct_blob(Blob(mime_type=declared, data=encode(data)))
    assert isinstance(found, str)
    assert reason in found


def blobs(server: ScriptedServer, request: int = -1) -> list[str]:
    contents = server.requests[request].json["contents"]
    return [
        part["inlineData"]["mimeType"]
        for content in contents
        for part in content["parts"]
        if "inlineData" in part
    ]


@for_each(("name", "data", "why"), [
    ("cut.png", png()[:-20], "cut short"),
    ("cut.pdf", pdf(b"x" * 9000)[:5000], "cut short"),
    ("photo.heic", HEIC, "convert it to PNG or JPEG"),
])  # fmt: skip
@pytest.mark.requirement("WORLD-02")
def test_a_broken_file_is_words_by_mention_and_by_read_file(
    name: str, data: bytes, why: str, server: ScriptedServer, project: Path
):
    (project / name).write_bytes(data)
    read = call("read_file", {"absolute_path": name})
    server.reply(sse(chunk(read, finish="STOP")), sse(text("Hm.")))
    ran = alhena("-p", f"look at @{name}", **keyed(server))
    assert ran.code == 0
    assert why in ran.err
    assert blobs(server) == []
    assert str(server.requests[-1].json["contents"]).count(why) >= 2


async def test_broken_media_of_a_prompt_are_words_with_a_warning(
    server: ScriptedServer, project: Path
):
    server.reply(sse(text("Hm.")))
    async with Agent(
        Gemini("gemini-2.5-pro", api_key="k", base_url=server.url), cwd=project
    ) as agent:
        run = agent.run(["look", Image(png()[:-20], "image/png"), Image(JPEG, "image/png")])
        result = await run
    assert blobs(server) == ["image/jpeg"]
    assert "image/png was left out: it is cut short" in str(server.requests[0].json["contents"])
    assert any("was left out" in each for each in result.warnings)


@for_each(
    ("message",),
    [
        (UNREADABLE,), ("The document has no pages.",), ("Unsupported MIME type: image/webp",),
        ("messages.3.content.0.image.source.base64: image exceeds 5 MB maximum",),
        ("this model does not support image input",), ("Could not process PDF",),
    ],
)  # fmt: skip
def test_a_refusal_of_media_is_told_from_others(message: str):
    body = f'{{"error": {{"code": 400, "message": "{message}", "status": "INVALID_ARGUMENT"}}}}'
    assert isinstance(refusal(400, body.encode(), RequestDetails("m", "p")), MediaRefusedError)


@pytest.mark.requirement("WORLD-02")
@pytest.mark.parametrize("message", [UNREADABLE, UNSPECIFIC])
def test_refused_media_are_replaced_once_and_the_session_keeps_that(
    server: ScriptedServer, project: Path, message: str
):
    (project / "a.png").write_bytes(png())
    server.reply(
        error(400, message, "INVALID_ARGUMENT"), sse(text("Cannot see.")), sse(text("Yes."))
    )
    ran = alhena("-p", "look at @a.png", "-o", "json", **keyed(server))
    assert (ran.code, ran.json["response"]) == (0, "Cannot see.")
    assert any("sent a note in place of the newest media" in each for each in ran.json["warnings"])
    assert [blobs(server, request) for request in range(2)] == [["image/png"], []]
    assert "The service refused it" in str(server.requests[1].json["contents"])
    assert alhena("-r", "-p", "and now?", **keyed(server)).out == "Yes.\n"
    assert blobs(server) == []
    assert "The service refused it" in str(server.requests[2].json["contents"])


def test_a_session_stuck_on_media_of_a_result_goes_on(server: ScriptedServer, project: Path):
    (project / "a.png").write_bytes(png())
    read = call("read_file", {"absolute_path": "a.png"})
    fails = error(400, UNREADABLE, "INVALID_ARGUMENT")
    server.reply(sse(chunk(read, finish="STOP")), fails, fails, sse(text("Yes.")))
    ran = alhena("-p", "look", **keyed(server))
    assert ran.code == 1
    assert len(server.requests) == 3
    assert blobs(server) == []
    assert alhena("-r", "-p", "and now?", **keyed(server)).out == "Yes.\n"
    assert blobs(server) == []


def test_other_refusals_keep_the_media(server: ScriptedServer, project: Path):
    (project / "a.png").write_bytes(png())
    server.reply(error(400, "The value of maxOutputTokens is too high.", "INVALID_ARGUMENT"))
    assert alhena("-p", "look at @a.png", **keyed(server)).code == 1
    assert len(server.requests) == 1
    assert PNG_TEXT in str(server.requests[0].json["contents"])


def test_an_unspecific_refusal_without_media_is_an_error_at_once(server: ScriptedServer):
    server.reply(error(400, UNSPECIFIC, "INVALID_ARGUMENT"))
    assert alhena("-p", "hi", **keyed(server)).code == 1
    assert len(server.requests) == 1
