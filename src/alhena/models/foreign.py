"""What the transports to services of other dialects have in common."""

import secrets
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import msgspec

from alhena.models.endpoint import Endpoint, is_header_value, is_loopback
from alhena.models.errors import CredentialsError
from alhena.wire.decode import decode_error
from alhena.wire.errors import DecodeError
from alhena.wire.plain import as_object
from alhena.wire.text import excerpt


def foreign_key(environ: Mapping[str, str], variable: str, endpoint: Endpoint, page: str) -> str:
    """The key of a service, "" where a server of this machine needs none. Raises CredentialsError,
    which does not quote it."""
    key = environ.get(variable, "").strip()
    if not is_header_value(key) or " " in key:
        raise CredentialsError(
            f"{variable} holds blanks, line breaks or characters that no key has.",
            remedy=f"Copy the key again ({page}).",
        )
    if not key and not is_loopback(endpoint.host):
        raise CredentialsError(
            f"{variable} is not set, which {endpoint.place} wants.",
            remedy=f"Set it ({page}), or let {endpoint.source} name a server of this machine.",
        )
    return key


def decode_object(payload: bytes) -> dict[str, Any]:
    """An answer, or one event of it. Raises DecodeError, also for an error object."""
    if b'"error"' in payload:
        status = decode_error(payload)
        if status is not None:
            raise DecodeError(f'the answer is an error: "{excerpt(status.message)}".')
    try:
        value = as_object(msgspec.json.decode(payload))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(f'the answer cannot be read, in "{excerpt(payload)}".') from error
    if value is None:
        raise DecodeError(f'the answer is no object: "{excerpt(payload)}".')
    return value


def ids_for_calls() -> Callable[[str], str]:
    """Gives ids to calls that came without one, unique in and across sessions."""
    token = secrets.token_hex(6)
    numbers = count(1)
    return lambda _name: f"call_{token}_{next(numbers)}"
