"""Gemini's thought signatures in Anthropic's opaque fields (conformance V4).

A signature that Gemini put on a part stands in the thinking block before that part, or in a
`redacted_thinking` block of its own, behind `gemini:`; that of a thought itself behind
`gemini-own:`. What stands there without such a word comes from another service: it is kept with
its thought, marked as foreign, and Gemini never gets to see it.
"""

_NEXT = "gemini:"
_OWN = "gemini-own:"
_FOREIGN = "foreign:"
_REDACTED = "redacted:"
_SEALS = ("Zm9yZWln", "cmVkYWN0")
"""What the two words of foreign signatures begin with in base64."""


def for_next_part(signature: str) -> str:
    """The opaque text that carries the signature of the part behind it."""
    return _NEXT + signature


def of_next_part(opaque: str) -> str | None:
    """The signature of the next part that an opaque text carries; None when it carries none."""
    return opaque.removeprefix(_NEXT) if opaque.startswith(_NEXT) else None


def own_opaque(signature: str) -> str:
    """The opaque text for the signature of a thought."""
    if signature.startswith(_FOREIGN):
        return signature.removeprefix(_FOREIGN)
    return _OWN + signature


def own_signature(opaque: str) -> str | None:
    """The signature of a thought that has this opaque text; None when that is another part's."""
    if not opaque or opaque.startswith(_NEXT):
        return None
    return opaque.removeprefix(_OWN) if opaque.startswith(_OWN) else _FOREIGN + opaque


def redacted(data: str) -> str:
    """Foreign redacted thinking as the signature of a thought without words."""
    return _REDACTED + data


def redacted_data(signature: str) -> str | None:
    """The redacted thinking in such a signature."""
    return signature.removeprefix(_REDACTED) if signature.startswith(_REDACTED) else None


def is_foreign(signature: str) -> bool:
    """Does the signature of a thought come from another service?"""
    return signature.startswith((_FOREIGN, _REDACTED))


def sealed(signature: str) -> str:
    """A signature as clients of Gemini's dialect can read it, who take every one for base64."""
    from base64 import b64encode

    return b64encode(signature.encode("utf-8")).decode() if is_foreign(signature) else signature


def unsealed(signature: str) -> str:
    """The signature that `sealed` made this one of; any other stays as it is."""
    from base64 import b64decode

    if not signature.startswith(_SEALS):
        return signature
    try:
        opened = b64decode(signature, validate=True).decode("utf-8")
    except ValueError:  # what is no base64, and what is no UTF-8
        return signature
    return opened if is_foreign(opened) else signature
