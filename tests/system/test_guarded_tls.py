"""TLS is verified against the name in the URL, whichever address the connection goes to."""

import datetime as dt
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from alhena.system.web.errors import UnreachableError
from alhena.system.web.url import parse_web_url
from tests.system.web import PUBLIC, plain, web

HOSTS = {"site.example": [[PUBLIC]], "site.example.": [[PUBLIC]], "other.example": [[PUBLIC]]}


def certificate(folder: Path, host: str) -> tuple[Path, ssl.SSLContext]:
    """A self-signed certificate for `host` and a server context that shows it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "ca.pem", folder / "key.pem"
    public.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    return public, context


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
