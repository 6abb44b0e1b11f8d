"""A conversation as another model may be told of it."""

import msgspec

from alhena.chat.history import INTERRUPTED
from alhena.wire.content import MODEL, Content, holds_data, text_content
from alhena.wire.signatures import sign_first_call


def for_another_model(content: Content, *, sign_calls: bool) -> Content:
    """`content` without the thoughts and signatures of the model it came from, which no other one
    can verify.

    Calls and results stay as they are, so that what is pending is answered. With `sign_calls` the
    first call of a model's content gets the documented sentinel instead (conformance S4). Parts
    that held nothing but a signature go; a content is never left empty.
    """
    if content.role != MODEL:
        return content
    parts = [
        msgspec.structs.replace(part, thought_signature=None) if part.thought_signature else part
        for part in content.parts
        if not part.thought
    ]
    parts = [part for part in parts if part.text != "" and holds_data(part)]
    if not parts:
        return text_content(MODEL, INTERRUPTED)
    if sign_calls:
        sign_first_call(parts)
    return msgspec.structs.replace(content, parts=tuple(parts))
