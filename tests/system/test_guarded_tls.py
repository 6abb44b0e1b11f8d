"""TLS is verified against the name in the URL, whichever address the connection goes to."""

import ssl
from pathlib import Path

import pytest

from alhena.system.web.url import UnreachableError, parse_web_url
from tests.support.certificates import certificate
from tests.system.web import PUBLIC, plain, web

HOSTS = {"site.example": [[PUBLIC]], "site.example.": [[PUBLIC]], "other.example": [[PUBLIC]]}


async def test_a_trusted_certificate_of_the_named_host_is_accepted(tmp_path: Path) -> None:
    trusted, server = certificate(tmp_path, "site.example")
    names: list[str | None] = []
    server.sni_callback = lambda _tls, name, _context: names.append(name)
    async with web(HOSTS, tls=server) as net:
        net.answers["/"] = plain(b"secure")
        fetcher = net.fetcher(tls=lambda: ssl.create_default_context(cafile=trusted))
        for url in ("https://site.example/", "https://site.example./"):
            assert (await fetcher.fetch(parse_web_url(url))).text == "secure"
    assert names == ["site.example", "site.example"]
    assert net.connected == [PUBLIC, PUBLIC]


@pytest.mark.parametrize(
    ("host", "trust", "reason"),
    [("other.example", True, "not valid for 'other.example'"), ("site.example", False, "self")],
)
async def test_a_certificate_for_another_host_or_from_nobody_is_refused(
    tmp_path: Path, host: str, trust: bool, reason: str
) -> None:
    known, server = certificate(tmp_path, "site.example")
    async with web(HOSTS, tls=server) as net:
        fetcher = net.fetcher(
            tls=lambda: ssl.create_default_context(cafile=known if trust else None)
        )
        with pytest.raises(UnreachableError, match=f"is not trusted: .*{reason}"):
            await fetcher.fetch(parse_web_url(f"https://{host}/"))
        assert net.requests == []
