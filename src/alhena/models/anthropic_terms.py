"""Requests as Anthropic's service takes them: of what it refuses beside other settings, or in a
message, the lesser part is left out."""

import re
from typing import Any

from msgspec.structs import replace

from alhena.models.claude import LEAST_OUTPUT, ClaudeInfo
from alhena.models.errors import RequestRejectedError
from alhena.wire.conformance.calling import without_idle_calling
from alhena.wire.content import MODEL, USER, Content, Part
from alhena.wire.dialects.anthropic.forms import answer_form
from alhena.wire.dialects.anthropic.signatures import is_foreign
from alhena.wire.dialects.conversation import answer_schema, thinking_budget
from alhena.wire.dialects.forms import is_formed, with_form_in_words
from alhena.wire.encoded import encode_value
from alhena.wire.request import (
    FunctionCallingMode,
    GenerateContentConfig,
    GenerateContentRequest,
    GenerationConfig,
    ThinkingConfig,
)

EMPTY = "[a message without words]"
"""What stands for a message of the user's in which nothing is left."""
_LEAST_BUDGET = 1024
"""The fewest tokens that thinking may be granted."""
_WINDOW = 200_000
"""Tokens of the question and the answer together, as far as is known of any Claude."""
_BYTES_PER_TOKEN = 3
_MARGIN = 64
"""Tokens by which a second count may differ."""
_BESIDE = re.compile(r"exceed context limit: (?P<used>\d+) \+ \d+ > (?P<most>\d+)")
_LEAST_TOP_P = 0.95
"""The least that is taken while the model thinks."""


def own_thoughts(content: Content) -> Content:
    """A content with no thoughts and signatures but those that the service made. A thought comes
    in pieces, of which the last is signed; it goes back as one."""
    if content.role != MODEL:
        return content
    parts: list[Part] = []
    thought = ""
    for part in content.parts:
        if not part.thought:
            parts.append(replace(part, thought_signature=None))
            thought = ""
            continue
        thought += part.text or ""
        if part.thought_signature:
            if is_foreign(part.thought_signature):
                parts.append(replace(part, text=thought))
            thought = ""
    return Content(role=MODEL, parts=tuple(part for part in parts if part != Part(text="")))


def without_blanks(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages without blocks of text that hold only white space, for which the service refuses
    the whole request. An answer in which nothing is left goes with them."""
    made: list[dict[str, Any]] = []
    for message in messages:
        blocks = [_worded(block) for block in message["content"] if not _is_blank(block)]
        if not blocks and message["role"] == "user":
            blocks = [{"type": "text", "text": EMPTY}]
        if made and made[-1]["role"] == message["role"]:
            made[-1]["content"] += blocks
        elif blocks:
            made.append({**message, "content": blocks})
    return made


def _worded(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] != "tool_result":
        return block
    return {**block, "content": [one for one in block["content"] if not _is_blank(one)]}


def _is_blank(block: dict[str, Any]) -> bool:
    return block["type"] == "text" and not block["text"].strip()


def room_left(config: GenerateContentConfig, error: RequestRejectedError) -> int | None:
    """How many tokens of output were left beside the question, if the service refused a request for
    more; None where it did not, and where somebody set the limit."""
    found = _BESIDE.search(error.message.replace(",", ""))
    if found is None or (config.generation_config and config.generation_config.max_output_tokens):
        return None
    left = int(found["most"]) - int(found["used"]) - _MARGIN
    return left if left >= _LEAST_BUDGET else None


def likely_room(request: GenerateContentRequest) -> int:
    """How many tokens of output are left beside a question, by its size: an estimate that is rather
    too small."""
    size = sum(entry.size for entry in request.contents) + len(encode_value(request.config))
    return max(LEAST_OUTPUT, _WINDOW - size // _BYTES_PER_TOKEN)


def accepted(
    config: GenerateContentConfig, contents: tuple[Content, ...], info: ClaudeInfo, room: int
) -> GenerateContentConfig:
    """The config without what the service refuses: thinking where a tool is forced or behind calls
    whose own thoughts are gone, budgets of thinking out of its bounds, more output than the model
    has, ways of sampling that exclude each other, and a choice among no tools. A schema that it
    does not take is told in words. There is always a limit of output; one that nobody set is at
    most `room`."""
    if is_formed(config):
        config = _formed(config, info)
    config = without_idle_calling(config)
    made = config.generation_config or GenerationConfig()
    made = replace(made, thinking_config=_thinking(config, contents, info))
    return replace(config, generation_config=_sampled(_limited(made, info, room)))


def _formed(config: GenerateContentConfig, info: ClaudeInfo) -> GenerateContentConfig:
    """The config with the form of the answer as the service takes it, else in words."""
    given = config.generation_config or GenerationConfig()
    schema = answer_schema(given)
    form = answer_form(schema) if schema is not None and info.schemas else None
    if form is None:
        return with_form_in_words(config)
    made = replace(given, response_schema=None, response_json_schema=form)
    return replace(config, generation_config=made)


def _thinking(
    config: GenerateContentConfig, contents: tuple[Content, ...], info: ClaudeInfo
) -> ThinkingConfig | None:
    given = config.generation_config.thinking_config if config.generation_config else None
    budget = thinking_budget(given)
    if given is None or budget is None or not info.thinks:
        return None
    if budget and (_is_forced(config) or _lost_thought(contents)):
        return None
    return replace(given, thinking_budget=budget, thinking_level=None)


def _is_forced(config: GenerateContentConfig) -> bool:
    calling = config.tool_config.function_calling_config if config.tool_config else None
    return calling is not None and calling.mode is FunctionCallingMode.ANY


def _limited(config: GenerationConfig, info: ClaudeInfo, room: int) -> GenerationConfig:
    """The config with a limit of output that the model has, and a budget of thinking, a part of it,
    that the service takes; no thinking where there is no room for the least. A limit that nobody
    set grows by the budget, as far as there is room; half of less is for thinking."""
    budget = config.thinking_config.thinking_budget if config.thinking_config else None
    thinks = budget is not None and budget > 0
    budget = max(budget, _LEAST_BUDGET) if budget is not None and thinks else 0
    limit = config.max_output_tokens or info.default_output + budget
    if not config.max_output_tokens and limit > room:
        limit, budget = room, min(budget, room // 2)
    limit = min(limit, info.most_output or limit)
    config = replace(config, max_output_tokens=limit)
    if config.thinking_config is None or not thinks:
        return config
    if limit <= _LEAST_BUDGET or budget < _LEAST_BUDGET:
        return replace(config, thinking_config=None)
    thinking = replace(config.thinking_config, thinking_budget=min(budget, limit - 1))
    return replace(config, thinking_config=thinking)


def _sampled(config: GenerationConfig) -> GenerationConfig:
    """Of two ways of sampling the first, within the bounds of this service; beside thinking those
    alone that leave the model its own."""
    temperature, top_p, top_k = config.temperature, config.top_p, config.top_k
    if temperature is not None:
        temperature = min(temperature, 1.0)
    if config.thinking_config is not None and config.thinking_config.thinking_budget:
        temperature = 1.0 if temperature == 1.0 else None
        top_p = top_p if top_p is not None and top_p >= _LEAST_TOP_P else None
        top_k = None
    if temperature is not None:
        top_p = None
    return replace(config, temperature=temperature, top_p=top_p, top_k=top_k)


def _lost_thought(contents: tuple[Content, ...]) -> bool:
    """Whether a step of the current turn has calls and does not begin with a thought."""
    for content in reversed(contents):
        if content.role == USER:
            if not any(part.function_response for part in content.parts):
                return False
        elif content.parts and not content.parts[0].thought:
            return True
    return False
