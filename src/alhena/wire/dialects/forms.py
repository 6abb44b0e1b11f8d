"""The form that an answer has to have, in words: for models that take no such setting, or not
beside others."""

from typing import Any

from msgspec.structs import replace

from alhena.wire.content import USER, Content, Part
from alhena.wire.dialects.conversation import answer_schema
from alhena.wire.encoded import encode_value
from alhena.wire.request import GenerateContentConfig, GenerationConfig

JSON = "application/json"


def is_formed(config: GenerateContentConfig) -> bool:
    """Whether the answer has to be JSON."""
    given = config.generation_config
    return given is not None and (
        given.response_mime_type == JSON or answer_schema(given) is not None
    )


def with_form_in_words(config: GenerateContentConfig) -> GenerateContentConfig:
    """The config with the form of the answer in its instruction instead of its settings."""
    given = config.generation_config or GenerationConfig()
    words = form_in_words(answer_schema(given))
    before = config.system_instruction.parts if config.system_instruction is not None else ()
    return replace(
        config,
        system_instruction=Content(role=USER, parts=(*before, Part(text=words))),
        generation_config=replace(
            given, response_mime_type=None, response_schema=None, response_json_schema=None
        ),
    )


def form_in_words(schema: dict[str, Any] | None) -> str:
    """What to tell a model; without a schema any object will do."""
    said = "When you answer in words and not with a call, answer with JSON alone, without any words"
    if schema is None:
        return f"{said} or marks around it: one JSON object."
    told = encode_value(schema).decode()
    return f"{said} or marks around it. It has to keep to this JSON Schema: {told}"
