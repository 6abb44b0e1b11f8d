"""Items of the Responses API: calls, and reasoning carried in signatures.

Reasoning items of the service itself become the signature of the next part, with the phase of its
message. In the other direction `encrypted_content` has one of these marks: `gemini:` for the
signature of the next part, `gemini-text:` for that of an empty text, `thought:` for that of the
thought itself. Content without a mark is the service's own.
"""

from typing import Any

import msgspec

from alhena.wire.content import FunctionCall, encode_value
from alhena.wire.dialects.conversation import ToolNameMap
from alhena.wire.dialects.fields import RESPONSES, Fields, word, write_arguments
from alhena.wire.dialects.tool_forms import custom_input, form_of
from alhena.wire.json_values import as_array, as_object, scrub

Item = dict[str, Any]

TEXT_MARK = "gemini-text:"
THOUGHT_MARK = "thought:"


def write_call(call: FunctionCall, call_id: str, names: ToolNameMap) -> Item:
    """The item of a call, in the form of its tool."""
    form = form_of(names, call.name)
    item: Item = {"type": "function_call", "call_id": call_id, "name": form.name}
    if form.custom:
        item |= {"type": "custom_tool_call", "input": custom_input(call.args or {})}
    else:
        item["arguments"] = write_arguments(call.args)
    return {**item, "namespace": form.namespace} if form.namespace else item


class CarriedItems(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of a signature: reasoning items before a part, and the phase of its message."""

    items: list[Item] = msgspec.field(default_factory=list[Item])
    phase: str = ""


def seal_reasoning(items: list[Item], phase: str = "") -> str | None:
    """The signature that carries reasoning items and a phase; None for neither."""
    if not items and not phase:
        return None
    return RESPONSES + encode_value(CarriedItems(items, phase)).decode()


def open_reasoning(signature: str | None) -> CarriedItems | None:
    """The content of such a signature; None for any other."""
    if signature is None or not signature.startswith(RESPONSES):
        return None
    try:
        return msgspec.json.decode(signature.removeprefix(RESPONSES), type=CarriedItems)
    except (msgspec.MsgspecError, UnicodeError):
        return None


def is_carried(signature: str | None) -> bool:
    """True for a signature with the service's own reasoning."""
    return signature is not None and signature.startswith(RESPONSES)


def carried_item(item: Fields) -> Item | None:
    """A reasoning item to send back; None for one that a server without a store cannot read."""
    kept: Item = {"type": "reasoning"}
    if item_id := word(item, "id"):
        kept["id"] = item_id
    kept["summary"] = [{"type": "summary_text", "text": text} for text in summary_texts(item)]
    content = item_texts(item, "content")
    if content:
        kept["content"] = [{"type": "reasoning_text", "text": text} for text in content]
    encrypted = word(item, "encrypted_content")
    if encrypted:
        kept["encrypted_content"] = encrypted
    return kept if encrypted or content else None


def summary_texts(item: Fields) -> list[str]:
    """The texts of a summary."""
    return item_texts(item, "summary")


def item_texts(item: Fields, key: str) -> list[str]:
    """The texts in a field's objects; odd elements are ignored."""
    found = [as_object(each) or {} for each in as_array(item.value(key)) or ()]
    return [scrub(text) for each in found if isinstance(text := each.get("text"), str)]
