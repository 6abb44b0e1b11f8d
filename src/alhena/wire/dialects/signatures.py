"""Gemini's thought signatures in Anthropic's opaque fields (conformance V4).

Gemini's signature of a part is stored in the thinking block before that part, or in its own
`redacted_thinking` block, with the prefix `gemini:`; the signature of a thought itself has the
prefix `gemini-own:`. Other content comes from another service: it is kept with its thought, marked
as foreign, and never sent to Gemini.
"""

_NEXT = "gemini:"
_OWN = "gemini-own:"
_FOREIGN = "foreign:"
_REDACTED = "redacted:"
_SEALS = ("Zm9yZWln", "cmVkYWN0")
"""The base64 prefixes of the two kinds of foreign signatures."""


def for_next_part(signature: str) -> str:
    """The opaque text for the signature of the next part."""
    return _NEXT + signature


def of_next_part(opaque: str) -> str | None:
    """The signature of the next part in an opaque text; None without one."""
    return opaque.removeprefix(_NEXT) if opaque.startswith(_NEXT) else None


def own_opaque(signature: str) -> str:
    """The opaque text for the signature of a thought."""
    if signature.startswith(_FOREIGN):
        return signature.removeprefix(_FOREIGN)
    return _OWN + signature


def own_signature(opaque: str) -> str | None:
    """The signature of a thought with this opaque text; None when it belongs to another part."""
    if not opaque or opaque.startswith(_NEXT):
        return None
    return opaque.removeprefix(_OWN) if opaque.startswith(_OWN) else _FOREIGN + opaque


def redacted(data: str) -> str:
    """Foreign redacted thinking as the signature of an empty thought."""
    return _REDACTED + data


def redacted_data(signature: str) -> str | None:
    """The redacted thinking in such a signature."""
    return signature.removeprefix(_REDACTED) if signature.startswith(_REDACTED) else None


def is_foreign(signature: str) -> bool:
    """True when the signature of a thought comes from another service."""
    return signature.startswith((_FOREIGN, _REDACTED))


def sealed(signature: str) -> str:
    """A signature as base64, which clients of Gemini's dialect expect."""
    from base64 import b64encode

    return b64encode(signature.encode("utf-8")).decode() if is_foreign(signature) else signature


def unsealed(signature: str) -> str:
    """Reverses `sealed`; other signatures are unchanged."""
    from base64 import b64decode

    if not signature.startswith(_SEALS):
        return signature
    try:
        opened = b64decode(signature, validate=True).decode("utf-8")
    except ValueError:  # not base64, or not UTF-8
        return signature
    return opened if is_foreign(opened) else signature
