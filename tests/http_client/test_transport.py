"""Connections that fail, stall, end early or come late."""

import asyncio
import gc
import os
import ssl
import subprocess
from asyncio import StreamReader, StreamWriter
from pathlib import Path

import pytest

from alhena.errors import ConfigError, ModelError, NetworkError, ServerFaultError, StreamCutError
from alhena.http import Timeouts, certificates
from alhena.http.addresses import parse_endpoint
from alhena.http.exchange import unreachable
from tests.models.asking import (
    KEY,
    api,
    asked,
    chunks,
    event,
    listening,
    read_request,
    response,
    texts,
)
from tests.support.certificates import certificate
from tests.support.ports import reserved_port
from tests.support.server import ScriptedServer, sse, text

SHORT = Timeouts(connect=0.2, idle=0.2)


async def failure(port: int, timeouts: Timeouts | None = None) -> ModelError:
    generator = api(f"http://127.0.0.1:{port}", timeouts=timeouts)
    with pytest.raises(ModelError) as caught:
        await chunks(generator)
    await generator.aclose()
    assert "\n" not in str(caught.value)
    assert KEY not in str(caught.value)
    return caught.value


async def test_a_refused_connection_names_the_address_and_the_remedy():
    with reserved_port() as port:
        error = await failure(port)
    assert isinstance(error, NetworkError)
    assert f"http://127.0.0.1:{port}: connection refused" in str(error)
    assert "GOOGLE_GEMINI_BASE_URL" in str(error)


async def test_an_unknown_host_is_named():
    generator = api("http://no-such-host.invalid")
    with pytest.raises(NetworkError, match=r"no-such-host\.invalid"):
        await chunks(generator)
    await generator.aclose()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TimeoutError(), "No connection within 10 s (https://gemini.example)"),
        (OSError("Multiple exceptions: …"), "none of its addresses answers"),
        (ConnectionResetError(), "it closed the connection"),
        (OSError(113, "No route to host"), "no route to host"),
    ],
)
def test_every_way_not_to_connect_is_told_in_words(error: OSError, words: str):
    endpoint = parse_endpoint("https://gemini.example", "url")
    assert words in str(unreachable(error, endpoint, 10))


async def test_a_silent_server_is_given_up_after_the_idle_limit():
    async def answer(reader: StreamReader, _writer: StreamWriter) -> None:
        await reader.read()

    async with listening(answer) as port:
        error = await failure(port, SHORT)
    assert isinstance(error, NetworkError)
    assert "Nothing arrived for 0.2 s" in str(error)


async def test_a_server_that_falls_silent_in_mid_stream_is_given_up():
    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        await read_request(reader)
        writer.write(response(event("one", None), content_length="9999"))
        await reader.read()

    async with listening(answer) as port:
        error = await failure(port, SHORT)
    assert isinstance(error, NetworkError)


async def test_a_server_that_takes_no_more_is_given_up():
    async def answer(_reader: StreamReader, writer: StreamWriter) -> None:
        writer.transport.pause_reading()
        await asyncio.Event().wait()

    async with listening(answer) as port:
        generator = api(f"http://127.0.0.1:{port}", timeouts=SHORT)
        with pytest.raises(NetworkError):
            await chunks(generator, asked("x" * 30_000_000))
        await generator.aclose()


async def test_a_tls_handshake_that_never_ends_is_given_up():
    async def answer(reader: StreamReader, _writer: StreamWriter) -> None:
        await reader.read()

    async with listening(answer) as port:
        generator = api(f"https://127.0.0.1:{port}", timeouts=SHORT)
        with pytest.raises(NetworkError, match=r"within 0\.2 s"):
            await chunks(generator)
        await generator.aclose()


CUTS = {
    "content-length": response(event("one", None), content_length="9999"),
    "between chunks": response(
        b"%x\r\n%s\r\n" % (len(event("one", None)), event("one", None)),
        content_length="",
        transfer_encoding="chunked",
    ),
    "inside a chunk": response(
        b"fff\r\n" + event("one", None), content_length="", transfer_encoding="chunked"
    ),
}


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("cut", CUTS)
async def test_a_connection_dropped_in_mid_stream_is_a_cut_after_what_came(cut: str, reset: bool):
    got = asyncio.Event()

    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        await read_request(reader)
        writer.write(CUTS[cut])
        await writer.drain()
        await got.wait()
        if reset:
            linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
            writer.get_extra_info("socket").setsockopt(1, 13, linger)

    async with listening(answer) as port:
        generator = api(f"http://127.0.0.1:{port}")
        stream = generator.stream(asked())
        assert texts([await anext(stream)]) == ["one"]
        got.set()
        with pytest.raises(StreamCutError, match=rf"the answer \(.*:{port}\)"):
            await anext(stream)
        await generator.aclose()


async def test_a_malformed_body_is_a_cut_after_what_came():
    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        await read_request(reader)
        body = b"%x\r\n%s\r\nno size\r\n" % (len(event("one", None)), event("one", None))
        writer.write(response(body, content_length="", transfer_encoding="chunked"))

    async with listening(answer) as port:
        generator = api(f"http://127.0.0.1:{port}")
        stream = generator.stream(asked())
        assert texts([await anext(stream)]) == ["one"]
        with pytest.raises(StreamCutError):
            await anext(stream)
        await generator.aclose()


async def test_a_body_that_ends_with_the_connection_is_whole():
    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        await read_request(reader)
        writer.write(response(event("one"), content_length=""))

    async with listening(answer) as port:
        generator = api(f"http://127.0.0.1:{port}")
        assert texts(await chunks(generator)) == ["one"]
        assert texts(await chunks(generator)) == ["one"]
        await generator.aclose()


@pytest.mark.parametrize(
    ("body", "coding", "kind"),
    [
        (b"\x1f\x8b\x08 damaged", "gzip", StreamCutError),
        (bytes.fromhex("1f8b0800000000000203"), "gzip", StreamCutError),
        (b"\x8b\x02\x80hello\x03", "br", ServerFaultError),
    ],
)
async def test_a_body_that_cannot_be_decompressed_is_an_error(
    body: bytes, coding: str, kind: type[ModelError]
):
    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        await read_request(reader)
        writer.write(response(body, content_encoding=coding))

    async with listening(answer) as port:
        assert type(await failure(port)) is kind


@pytest.mark.parametrize("greeting", [b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 abc\r\n\r\n", b"\0"])
async def test_a_server_that_speaks_no_http_is_told_so(greeting: bytes):
    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        await read_request(reader)
        writer.write(greeting)

    async with listening(answer) as port:
        error = await failure(port)
    assert isinstance(error, NetworkError)
    assert "HTTP" in str(error)


async def test_a_server_that_hangs_up_without_an_answer_is_told_so():
    requests = 0

    async def answer(reader: StreamReader, _writer: StreamWriter) -> None:
        nonlocal requests
        await read_request(reader)
        requests += 1

    async with listening(answer) as port:
        error = await failure(port)
    assert "without an answer" in str(error)
    assert requests == 1


async def test_a_connection_the_server_closed_meanwhile_is_replaced():
    connections = 0

    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await read_request(reader)
        writer.write(response(event(str(connections))))
        await writer.drain()
        if connections == 1:
            # Read the next request of this connection, then hang up instead of an answer.
            await read_request(reader)

    async with listening(answer) as port:
        generator = api(f"http://127.0.0.1:{port}")
        said = [texts(await chunks(generator)) for _ in range(3)]
        await generator.aclose()
    assert said == [["1"], ["2"], ["3"]]


async def test_a_slow_reader_makes_the_server_wait():
    sent = 0

    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        nonlocal sent
        await read_request(reader)
        writer.write(response(b"", content_length=str(len(event("x" * 1000, None)) * 30_000)))
        for _ in range(30_000):
            writer.write(event("x" * 1000, None))
            await writer.drain()
            sent += 1

    async with listening(answer) as port:
        generator = api(f"http://127.0.0.1:{port}")
        stream = generator.stream(asked())
        await anext(stream)
        held_back = -1
        while held_back != sent:
            held_back = sent
            for _ in range(2000):
                await asyncio.sleep(0)
        rest = [one async for one in stream]
        await generator.aclose()
    assert held_back < 20_000
    assert len(rest) == 29_999


async def greet(reader: StreamReader, writer: StreamWriter) -> None:
    while True:
        await read_request(reader)
        writer.write(response(event("secure")))


async def test_tls_is_verified_against_the_named_authority(tmp_path: Path):
    public, context = certificate(tmp_path)
    async with listening(greet, context) as port:
        trusting = api(f"https://localhost:{port}", SSL_CERT_FILE=str(public))
        assert texts(await chunks(trusting)) == ["secure"]
        assert texts(await chunks(trusting)) == ["secure"]
        await trusting.aclose()
        wary = api(f"https://localhost:{port}")
        with pytest.raises(NetworkError, match=r"not trusted.*SSL_CERT_FILE"):
            await chunks(wary)
        await wary.aclose()
        elsewhere = api(f"https://127.0.0.1:{port}", SSL_CERT_FILE=str(public))
        with pytest.raises(NetworkError, match="not trusted"):
            await chunks(elsewhere)
        await elsewhere.aclose()


async def test_tls_to_a_server_without_it_is_told_so():
    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with listening(answer) as port:
        generator = api(f"https://127.0.0.1:{port}")
        with pytest.raises(NetworkError, match="no TLS connection"):
            await chunks(generator)
        await generator.aclose()


MORE = ("NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


@pytest.mark.requirement("WORLD-03")
@pytest.mark.parametrize("variable", MORE)
async def test_certificates_that_other_programs_trust_are_trusted_too(
    tmp_path: Path, variable: str
):
    public, context = certificate(tmp_path)
    (tmp_path / "another").mkdir()
    other, other_context = certificate(tmp_path / "another", subject="another")
    async with listening(greet, context) as port, listening(greet, other_context) as second:
        named = {"SSL_CERT_FILE": str(other), variable: str(public)}
        for number in (port, second):
            trusting = api(f"https://localhost:{number}", **named)
            assert texts(await chunks(trusting)) == ["secure"]
            await trusting.aclose()


@pytest.mark.requirement("WORLD-03")
async def test_a_named_file_and_a_named_directory_both_count(tmp_path: Path):
    public, context = certificate(tmp_path)
    (tmp_path / "another").mkdir()
    other, other_context = certificate(tmp_path / "another", subject="another")
    folder = tmp_path / "folder"
    folder.mkdir()
    made = ("openssl", "x509", "-noout", "-hash", "-in", str(other))
    name = subprocess.run(made, capture_output=True, check=True, text=True).stdout.strip()
    (folder / f"{name}.0").write_bytes(other.read_bytes())
    async with listening(greet, context) as port, listening(greet, other_context) as second:
        for number in (port, second):
            for named in ({"SSL_CERT_DIR": str(folder)}, {"REQUESTS_CA_BUNDLE": str(folder)}):
                trusting = api(f"https://localhost:{number}", SSL_CERT_FILE=str(public), **named)
                assert texts(await chunks(trusting)) == ["secure"]
                await trusting.aclose()


async def test_the_systems_folder_of_hashed_certificates_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    public, context = certificate(tmp_path)
    folder = tmp_path / "system"
    folder.mkdir()
    made = ("openssl", "x509", "-noout", "-hash", "-in", str(public))
    name = subprocess.run(made, capture_output=True, check=True, text=True).stdout.strip()
    (folder / f"{name}.0").write_bytes(public.read_bytes())
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("", encoding="utf-8")
    os.utime(bundle, (0, 0))
    paths = ssl.get_default_verify_paths()._replace(openssl_capath=str(folder))
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: paths)
    monkeypatch.setattr(certificates, "CA_BUNDLES", (str(bundle),))
    assert certificates.tls_context({}).get_ca_certs() == []  # none is read before it is needed
    async with listening(greet, context) as port:
        trusting = api(f"https://localhost:{port}")
        assert texts(await chunks(trusting)) == ["secure"]
        await trusting.aclose()
    # A bundle that was edited later may hold what the folder lacks.
    (folder / f"{name}.0").unlink()
    (folder / "00000000.0").write_text("", encoding="utf-8")
    bundle.write_bytes(public.read_bytes())
    os.utime(bundle, (folder.stat().st_mtime + 10,) * 2)
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda *_given: None)
    assert len(certificates.tls_context({}).get_ca_certs()) == 1


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR", *MORE])
async def test_a_named_authority_that_is_not_there_is_a_configuration_error(variable: str):
    generator = api("https://127.0.0.1:9", **{variable: "/nowhere/ca.pem"})
    with pytest.raises(ConfigError, match=f"{variable}.*nowhere"):
        await chunks(generator)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_generator_serves_one_event_loop_after_another(server: ScriptedServer):
    server.reply(sse(text("one")), sse(text("two")))
    generator = api(server.url)
    assert texts(asyncio.run(chunks(generator))) == ["one"]

    async def last() -> list[str]:
        said = texts(await chunks(generator))
        await generator.aclose()
        return said

    assert asyncio.run(last()) == ["two"]
    assert server.connections == 2
    gc.collect()  # Here, where it is expected, falls the warning about the first loop's socket.
