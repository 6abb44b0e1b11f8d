"""The certificates that servers are checked against."""

import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssl import SSLContext

    from alhena.errors import ConfigError

CA_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Certificate bundles of various systems, for a Python whose OpenSSL uses other paths."""

CA_FOLDERS = ("/etc/ssl/certs", "/etc/pki/tls/certs")
"""Folders of certificates of various systems, likewise."""
_HASHED = r"[0-9a-f]{8}\.\d+"


def tls_context(environ: Mapping[str, str]) -> "SSLContext":
    """A context for outgoing connections, which are always verified: against the system's
    certificates, or those in SSL_CERT_FILE and SSL_CERT_DIR, and those that MORE_CERTIFICATES name.

    Raises ConfigError when these are unreadable.
    """
    context = _base_context(environ)
    for name in MORE_CERTIFICATES:
        if environ.get(name):
            _load_certificates(context, name, environ[name])
    return context


MORE_CERTIFICATES = ("NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables of other programs that name certificates to trust, here in addition to the others."""


def _base_context(environ: Mapping[str, str]) -> "SSLContext":
    import ssl
    import sys
    from pathlib import Path

    file, directory = environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR")
    if directory and not Path(directory).is_dir():
        raise _unusable("SSL_CERT_DIR", directory, "no directory")
    if file or directory:
        try:
            return ssl.create_default_context(cafile=file or None, capath=directory or None)
        except OSError as error:
            raise _unusable("SSL_CERT_FILE", file or "", error.strerror or str(error)) from error
    if sys.platform in {"darwin", "win32"}:
        import truststore

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    default = ssl.get_default_verify_paths().openssl_capath
    folder = _find_hashed_folder((default, *CA_FOLDERS))
    if folder:
        return ssl.create_default_context(capath=folder)
    context = ssl.create_default_context()
    if not context.get_ca_certs():
        _add_bundle(context)
    return context


def _find_hashed_folder(folders: Iterable[str]) -> str:
    """The first folder whose certificates OpenSSL finds one by one by their hashes: reading a whole
    bundle takes 20 ms. "" where there is none, or where a bundle was changed after its folder."""
    for folder in folders:
        try:
            changed = os.stat(folder).st_mtime
            with os.scandir(folder) as entries:
                hashed = any(re.fullmatch(_HASHED, entry.name) for entry in entries)
        except OSError:
            continue
        if hashed:
            return "" if any(_is_newer(bundle, changed) for bundle in CA_BUNDLES) else folder
    return ""


def _is_newer(path: str, than: float) -> bool:
    try:
        return os.stat(path).st_mtime > than
    except OSError:
        return False


def _load_certificates(context: "SSLContext", name: str, path: str) -> None:
    """Trusts the certificates in the file or directory that a variable names."""
    from pathlib import Path

    folder = Path(path).is_dir()
    try:
        context.load_verify_locations(None if folder else path, path if folder else None)
    except OSError as error:
        raise _unusable(name, path, error.strerror or str(error)) from error


def _unusable(name: str, path: str, reason: str) -> "ConfigError":
    from alhena.errors import ConfigError

    return ConfigError(
        f"{name} ({path}) cannot be used: {reason}.",
        remedy="Let it name PEM certificates, or unset it.",
    )


def _add_bundle(context: "SSLContext") -> None:
    from pathlib import Path

    for bundle in CA_BUNDLES:
        if Path(bundle).is_file():
            context.load_verify_locations(bundle)
            return
