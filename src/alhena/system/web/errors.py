"""Why a web page could not be read.

FetchError
├── UrlError                malformed, another scheme than http(s), with credentials
├── BlockedAddressError     the host is, or leads to, something other than the public internet
├── UnreachableError        no address, no connection, no trust, no time
└── AnswerError             the server's answer is an error, malformed, too large or no text
"""

from alhena.errors import AlhenaError


class FetchError(AlhenaError):
    """A page cannot be read."""

    kind = "web_fetch_processing_error"


class UrlError(FetchError):
    """The URL cannot be used."""


class BlockedAddressError(FetchError):
    """The host is, or leads to, something other than the public internet."""


class UnreachableError(FetchError):
    """The server could not be reached in time."""


class AnswerError(FetchError):
    """The server's answer cannot be used."""
