"""Whom to trust: TLS is always verified, against the system's certificate store."""

from collections.abc import Mapping
from ssl import SSLContext

CA_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Where systems keep their store, for a Python whose OpenSSL was built for other paths."""


def tls_context(environ: Mapping[str, str]) -> SSLContext:
    """A context for outgoing connections; SSL_CERT_FILE or SSL_CERT_DIR replace the system's store.

    Raises ConfigError when they name nothing readable.
    """
    import ssl
    import sys

    file, directory = environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR")
    if file or directory:
        return _named_context(file or None, directory if not file else None)
    if sys.platform in {"darwin", "win32"}:
        import truststore

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context = ssl.create_default_context()
    if not context.get_ca_certs():
        _add_bundle(context)
    return context


def _named_context(file: str | None, directory: str | None) -> SSLContext:
    import ssl
    from pathlib import Path

    from alhena.config.errors import ConfigError

    try:
        if directory is not None and not Path(directory).is_dir():
            raise NotADirectoryError(20, "no directory", directory)
        return ssl.create_default_context(cafile=file, capath=directory)
    except OSError as error:
        name = "SSL_CERT_FILE" if file else "SSL_CERT_DIR"
        raise ConfigError(
            f"{name} ({file or directory}) cannot be used: {error.strerror or error}.",
            remedy="Let it name PEM certificates, or unset it.",
        ) from error


def _add_bundle(context: SSLContext) -> None:
    from pathlib import Path

    for bundle in CA_BUNDLES:
        if Path(bundle).is_file():
            context.load_verify_locations(bundle)
            return
