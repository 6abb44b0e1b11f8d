"""Servers behind URLs that mean no good, beside a good one: what they cost, and what is said."""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from alhena.mcp.message_guard import NO_ANSWER
from alhena.mcp.server import ServerState
from tests.mcp.bad_http import (
    EVENTS,
    JSON,
    Asked,
    Bad,
    Write,
    answered,
    begins,
    bomb,
    endless,
    events,
    good,
    head,
    listening,
    raw,
    silence,
    whole,
)
from tests.mcp.beside import beside

POKE = ("mcp_bad_poke", {})
STORM = [{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}] * 1_000
SHORT = {"timeout": 600}
SSE = {"type": "sse", "timeout": 600}
LATE = r"it did not answer within 0\.6 s\."


class Case(msgspec.Struct, frozen=True):
    """A server, what stands in its entry, what a person is told."""

    bad: Bad
    told: str
    entry: Mapping[str, str | int] = {}


def elsewhere(endpoint: str) -> Bad:
    """A server of the first transport that sends its clients somewhere."""
    return Bad(GET=begins(EVENTS, then=f"event: endpoint\ndata: {endpoint}\n\n".encode()))


NEVER_CONNECTED = {
    "says nothing": Case(Bad(any=silence), LATE, SHORT),
    "drips its head": Case(
        Bad(any=endless(b"HTTP/1.1 200 OK\r\n", b"X", pause_s=0.02)), LATE, SHORT
    ),
    "drips its body": Case(Bad(any=endless(head("200 OK", JSON), b" ", pause_s=0.02)), LATE, SHORT),
    "endless comments": Case(Bad(any=endless(head("200 OK", EVENTS), b":x\n" * 1000)), LATE, SHORT),
    "endless body": Case(
        Bad(any=endless(head("200 OK", JSON), b" " * 100_000)), "more than 16,777,216 bytes"
    ),
    "endless event": Case(
        Bad(any=endless(head("200 OK", EVENTS) + b"data: ", b"x" * 100_000)), "SSE stream ended"
    ),
    "endless headers": Case(
        Bad(any=endless(b"HTTP/1.1 200 OK\r\n", b"X-A: " + b"y" * 1000 + b"\r\n")), "too long"
    ),
    "a bomb": Case(
        Bad(any=whole(bomb(), JSON, "Content-Encoding: gzip")), "the answer is compressed"
    ),
    "500": Case(Bad(any=whole(b"<html>", status="500 No")), r"it answered with HTTP 500\."),
    "429": Case(Bad(any=whole(b"<html>", status="429 No")), r"it answered with HTTP 429\."),
    "404": Case(Bad(any=whole(b"<html>", status="404 No")), r"it answered with HTTP 404\."),
    "a page": Case(Bad(any=whole(b"<html>", "Content-Type: text/html")), "content type: text/html"),
    "nothing": Case(Bad(any=whole(b"", status="204 No Content")), "Unexpected content type"),
    "no answer": Case(Bad(any=whole(b"", status="202 Accepted")), "with 202 Accepted"),
    "no JSON": Case(Bad(initialize=whole(b"{oops", JSON)), NO_ANSWER),
    "of no shape": Case(Bad(initialize=answered([])), NO_ANSWER),
    "a list of no shape": Case(Bad(tools_list=answered("tools")), NO_ANSWER),
    "breaks off": Case(
        Bad(any=raw(head("200 OK", JSON, "Content-Length: 100") + b"{")), "received 1 bytes"
    ),
    "no HTTP": Case(Bad(any=raw(b"SSH-2.0-OpenSSH\r\n\r\n")), "illegal status line"),
    "wants to know": Case(Bad(any=whole(b"", status="401 No")), "needs you to sign in"),
    "first: says nothing": Case(Bad(GET=begins(EVENTS)), LATE, SSE),
    "first: another host": Case(elsewhere("http://127.0.0.2:9/steal"), LATE, SSE),
    "first: a file": Case(elsewhere("file:///etc/passwd"), LATE, SSE),
    "first: endless": Case(
        Bad(GET=endless(head("200 OK", EVENTS), b"event: message\ndata: {}\n\n" * 100)), LATE, SSE
    ),
}


@pytest.mark.parametrize("name", NEVER_CONNECTED)
async def test_one_that_cannot_be_connected_to_is_told_of_in_one_line(
    project: Path, name: str
) -> None:
    case = NEVER_CONNECTED[name]
    async with listening(case.bad) as bad:
        story = await beside({"url": bad.url, "type": "http", **case.entry}, project)
    assert bad.asked
    (line,) = story.told
    assert re.search(case.told, line), line
    assert story.at_start == story.told
    assert story.report.state is not ServerState.CONNECTED


CALLS = {
    "breaks off": (
        Bad(tools_call=raw(head("200 OK", JSON, "Content-Length: 100") + b"{")),
        "the connection was closed before it answered",
    ),
    "has forgotten": (Bad(tools_call=whole(b"", status="404 No")), "not know the session"),
    "fails": (Bad(tools_call=whole(b"", status="500 No")), "an error response"),
    "says nothing": (Bad(tools_call=silence), "it did not answer within 30 s"),
    "a storm and the end": (Bad(tools_call=events(*STORM)), "closed before it answered"),
    "of no shape": (Bad(tools_call=answered(["x"])), NO_ANSWER),
    "a page": (Bad(tools_call=whole(b"<html>", "Content-Type: text/html")), "text/html"),
    "endless": (
        Bad(tools_call=endless(head("200 OK", JSON), b" " * 100_000)),
        "more than 16,777,216 bytes",
    ),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_that_goes_wrong_is_a_failed_call_that_says_why(
    project: Path, name: str
) -> None:
    server, said = CALLS[name]
    async with listening(server) as bad:
        late = "within" in said
        entry = {"httpUrl": bad.url, "timeout": 30_000 if late else 60_000}
        story = await beside(entry, project, POKE, late=late)
    failed = story.answers[0]
    assert (failed.status, failed.error_type) == ("error", "mcp_tool_error")
    assert re.search(rf"'poke' of the server 'bad' failed: .*{said}", story.seen()), story.seen()
    assert story.at_start == ()
    assert len(story.told) <= 1


@pytest.mark.parametrize("kind", ["http", "sse", None])
@pytest.mark.parametrize("status", [301, 303, 307, 308])
async def test_nothing_is_sent_where_a_server_redirects_to(
    project: Path, status: int, kind: str | None
) -> None:
    async with listening(Bad()) as thief:

        async def redirect(_asked: Asked, write: Write) -> None:
            await write(head(f"{status} There", f"Location: {thief.url}", "Content-Length: 0"))

        async with listening(Bad(any=redirect)) as bad:
            entry = {"url": bad.url, "headers": {"Authorization": "Bearer s3cret"}}
            story = await beside(entry if kind is None else {**entry, "type": kind}, project)
    assert thief.asked == []
    (line,) = story.told
    assert "s3cret" not in line
    assert b"Bearer s3cret" in bad.asked[0].head


async def test_a_redirect_within_the_host_is_followed(project: Path) -> None:
    async def redirect(asked: Asked, write: Write) -> None:
        if b" /mcp/ " in asked.head:
            await good(asked, write)
        else:
            await write(head("307 There", "Location: /mcp/", "Content-Length: 0"))

    async with listening(Bad(any=redirect)) as bad:
        story = await beside({"httpUrl": bad.url}, project, POKE)
    assert '"output":"poked"' in story.seen()
    assert story.told == ()


async def test_a_client_is_not_sent_to_another_host_by_the_first_transport(project: Path) -> None:
    async with listening(Bad()) as thief:
        entry = {"type": "sse", "timeout": 600, "headers": {"X-Key": "s3cret"}}
        async with listening(elsewhere(thief.url)) as bad:
            await beside({"url": bad.url, **entry}, project)
    assert thief.asked == []


async def test_a_server_without_encryption_where_there_should_be_is_told_in_one_line(
    project: Path,
) -> None:
    async def refuse(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head("400 Bad Request", "Content-Length: 0"))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        story = await beside({"httpUrl": url}, project)
    (line,) = story.told
    assert re.search("MCP server 'bad': .*SSL", line), line
