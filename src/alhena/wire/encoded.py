"""Contents with their bytes: encoded once at creation, and joined into requests.

Values that JSON or UTF-8 cannot represent are replaced here, so that the stored content equals the
sent one: lone surrogates become U+FFFD; non-finite numbers become the strings "NaN", "Infinity" and
"-Infinity", as in protocol buffers (JSON has no form for them, and null would have another meaning;
conformance F8).
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import msgspec

from alhena.wire.content import Content
from alhena.wire.errors import EncodeError
from alhena.wire.json_values import as_array, as_object, scrub

T = TypeVar("T")

_encoder = msgspec.json.Encoder()


def encode_value(value: Any) -> bytes:
    """The JSON bytes of a wire value; UnicodeEncodeError for a lone surrogate.

    Raises EncodeError for values without a JSON form: unknown types, cycles, endless nesting.
    """
    return _encoded(_encoder.encode, value)


def many_encoder() -> Callable[[Any], bytes]:
    """An `encode_value` for many values in one thread: all are first written to the same buffer, so
    that none allocates memory as it grows."""
    place = bytearray()

    def encode(value: Any) -> bytes:
        _encoder.encode_into(value, place)
        return bytes(place)

    return lambda value: _encoded(encode, value)


def _encoded(encode: Callable[[Any], bytes], value: Any) -> bytes:
    try:
        return encode(value)
    except RecursionError as error:
        raise EncodeError("a value to send is nested too deeply, or contains itself.") from error
    except (TypeError, OverflowError) as error:
        raise EncodeError(f"a value to send has no JSON form: {error}.") from error


class EncodedContent:
    """A content with its JSON bytes. Equal if the bytes are. `content` is their decoded form.

    Raises EncodeError for a value without a JSON form.
    """

    __slots__ = ("content", "raw", "size")

    def __init__(self, content: Content, encode: Callable[[Content], bytes] = encode_value) -> None:
        if not _holds_texts_alone(content) and _holds_what_needs_mending(content):
            content = mend(content)
        try:
            raw = encode(content)
        except UnicodeEncodeError:
            content = mend(content)
            raw = encode(content)
        self.content = content
        self.size = len(raw)
        self.raw = msgspec.Raw(raw)

    def __len__(self) -> int:
        """The number of encoded bytes."""
        return self.size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EncodedContent) and bytes(self.raw) == bytes(other.raw)

    def __hash__(self) -> int:
        return hash(bytes(self.raw))

    def __repr__(self) -> str:
        return f"EncodedContent({bytes(self.raw)!r})"


def mend(value: T) -> T:
    """A wire value with scrubbed strings and non-finite numbers as strings."""
    try:
        plain = msgspec.to_builtins(value, str_keys=True)
        return msgspec.convert(_mend_plain(plain), type(value))
    except RecursionError as error:
        raise EncodeError("a value to send is nested too deeply, or contains itself.") from error
    except (TypeError, msgspec.ValidationError) as error:
        raise EncodeError(f"a value to send has no JSON form: {error}.") from error


def _mend_plain(value: object) -> Any:
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if (fields := as_object(value)) is not None:
        return {scrub(key): _mend_plain(item) for key, item in fields.items()}
    if (array := as_array(value)) is not None:
        return [_mend_plain(item) for item in array]
    return value


def _holds_texts_alone(content: Content) -> bool:
    """True when only texts of a content can need repair. That is quickly decided for most, and this
    runs for a whole history before its first send."""
    for part in content.parts:
        if part.part_metadata is not None:
            return False
        if (response := part.function_response) is not None:
            values: object = response.response
        elif (call := part.function_call) is not None:
            values = (call.args or {}) if call.partial_args is None else None
        elif part.text is not None:
            continue
        else:
            return False
        if type(values) is not dict:
            return False
        for value in cast("dict[str, object]", values).values():
            if type(value) is not str:
                return False
    return True


def _holds_what_needs_mending(content: Content) -> bool:
    """Checks the free-form values in a content: they may contain numbers."""
    for part in content.parts:
        call, response = part.function_call, part.function_response
        if call is not None:
            found = needs_mending(call.args) or needs_mending(call.partial_args)
        elif response is not None:
            found = needs_mending(response.response)
        else:
            found = needs_mending(part.tool_call and part.tool_call.args) or needs_mending(
                part.tool_response and part.tool_response.response
            )
        if found or (part.part_metadata is not None and needs_mending(part.part_metadata)):
            return True
    return False


def needs_mending(value: Any) -> bool:
    """True when the encoder would write null for a number in `value`. Types that only msgspec can
    traverse count as True."""
    if not value:
        return False
    waiting: list[Any] = [value]
    seen = 0
    while waiting:
        seen += 1
        item: object = waiting.pop()
        if item is None or isinstance(item, (str, int)):
            continue
        if isinstance(item, float):
            if not math.isfinite(item):
                return True
        elif (fields := as_object(item)) is not None:
            waiting.extend(fields.values())
        elif (array := as_array(item)) is not None:
            waiting.extend(array)
        else:
            return True
        if seen > _MANY:
            return True
    return False


_MANY = 1_000_000
"""Values above this number are left to `mend`, which detects cycles."""
