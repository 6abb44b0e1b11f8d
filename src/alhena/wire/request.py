"""Requests: model, contents and config (WIRE-01), the same with and without streaming."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, cast

import msgspec

from alhena.values import Value
from alhena.wire.content import Content, EncodedContent, Wire


class ThinkingConfig(Wire, frozen=True, kw_only=True):
    """Thinking settings: `thinking_budget` in tokens (-1: the model's choice) for the 2.5 series,
    `thinking_level` for the 3 series."""

    thinking_budget: int | None = None
    thinking_level: str | None = None
    include_thoughts: bool | None = None


class GenerationConfig(Wire, Value, frozen=True, kw_only=True):
    """Sampling and output settings; None leaves a value to the server."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    candidate_count: int | None = None
    max_output_tokens: int | None = None
    stop_sequences: tuple[str, ...] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    response_logprobs: bool | None = None
    logprobs: int | None = None
    response_mime_type: str | None = None
    response_schema: dict[str, Any] | None = None
    response_json_schema: dict[str, Any] | None = None
    response_modalities: tuple[str, ...] | None = None
    media_resolution: str | None = None
    speech_config: dict[str, Any] | None = None
    thinking_config: ThinkingConfig | None = None
    audio_timestamp: bool | None = None
    enable_affective_dialog: bool | None = None
    enable_enhanced_civic_answers: bool | None = None
    image_config: dict[str, Any] | None = None
    routing_config: dict[str, Any] | None = None
    model_selection_config: dict[str, Any] | None = None


class FunctionDeclaration(Wire, frozen=True, kw_only=True):
    """A tool as declared to the model; `parameters_json_schema` and `parameters` exclude each
    other."""

    name: str
    description: str = ""
    parameters_json_schema: dict[str, Any] | None = None
    parameters: dict[str, Any] | None = None
    behavior: str | None = None
    response: dict[str, Any] | None = None
    response_json_schema: dict[str, Any] | None = None


class ToolDeclarations(Wire, Value, frozen=True, kw_only=True):
    """One element of `tools`: all functions in one array (T2), or a server-side tool."""

    function_declarations: tuple[FunctionDeclaration, ...] | None = None
    google_search: dict[str, Any] | None = None
    url_context: dict[str, Any] | None = None
    code_execution: dict[str, Any] | None = None
    google_search_retrieval: dict[str, Any] | None = None
    google_maps: dict[str, Any] | None = None
    computer_use: dict[str, Any] | None = None
    file_search: dict[str, Any] | None = None
    retrieval: dict[str, Any] | None = None
    enterprise_web_search: dict[str, Any] | None = None


class FunctionCallingMode(StrEnum):
    """The mode of function calling: the model may, must or must not call a function."""

    AUTO = "AUTO"
    ANY = "ANY"
    NONE = "NONE"
    VALIDATED = "VALIDATED"


class FunctionCallingConfig(Wire, Value, frozen=True, kw_only=True):
    """`allowed_function_names` requires mode ANY (conformance T13)."""

    mode: FunctionCallingMode | None = None
    allowed_function_names: tuple[str, ...] | None = None
    stream_function_call_arguments: bool | None = None


class ToolConfig(Wire, frozen=True, kw_only=True):
    """Settings for all tools of a request."""

    function_calling_config: FunctionCallingConfig | None = None
    retrieval_config: dict[str, Any] | None = None
    include_server_side_tool_invocations: bool | None = None


class ServiceTier(StrEnum):
    """The class of service of a request: FLEX costs half and may wait, PRIORITY costs more and is
    served first. Upper case and the prefix `SERVICE_TIER_` are accepted."""

    FLEX = "flex"
    STANDARD = "standard"
    PRIORITY = "priority"

    @classmethod
    def _missing_(cls, value: object) -> "ServiceTier | None":
        plain = str(value).lower().removeprefix("service_tier_")
        return next((tier for tier in cls if tier.value == plain), None)


class GenerateContentConfig(Wire, Value, frozen=True, kw_only=True):
    """All of a request except its model and contents; keys are sent in the order of the fields."""

    system_instruction: Content | None = None
    tools: tuple[ToolDeclarations, ...] | None = None
    tool_config: ToolConfig | None = None
    safety_settings: tuple[dict[str, Any], ...] | None = None
    cached_content: str | None = None
    labels: dict[str, str] | None = None
    generation_config: GenerationConfig | None = None
    service_tier: ServiceTier | None = None
    model_armor_config: dict[str, Any] | None = None
    store: bool | None = None
    extra: dict[str, Any] | None = None
    """Fields of a program's own, merged into the body as it is sent (`merge_extra`)."""

    def function_names(self) -> tuple[str, ...]:
        """The names of all declared functions, in order."""
        return tuple(
            declaration.name
            for tool in self.tools or ()
            for declaration in tool.function_declarations or ()
        )

    def with_tier(self, tier: str | None) -> "GenerateContentConfig":
        """The same with a service tier, unless it has one."""
        if tier is None or self.service_tier is not None:
            return self
        return msgspec.structs.replace(self, service_tier=ServiceTier(tier))

    def with_settings(self, settings: "GenerateContentConfig") -> "GenerateContentConfig":
        """The same instruction and tools with other settings."""
        return msgspec.structs.replace(
            settings,
            system_instruction=self.system_instruction,
            tools=self.tools,
            tool_config=self.tool_config,
            cached_content=self.cached_content,
        )


def merge_extra(body: Mapping[str, Any], extra: Mapping[str, Any] | None) -> dict[str, Any]:
    """The body with further fields; objects are merged, other values replaced."""
    merged = dict(body)
    for key, value in (extra or {}).items():
        below: Any = merged.get(key)
        if isinstance(below, dict) and isinstance(value, Mapping):
            fields = cast("Mapping[str, Any]", value)
            merged[key] = merge_extra(cast("dict[str, Any]", below), fields)
        else:
            merged[key] = value
    return merged


class GenerateContentRequest(Wire, Value, frozen=True, kw_only=True):
    """A request to a model. `contents` are already encoded: the body joins them.

    `prompt_id` and `session_id` identify the prompt and the session; only transports whose envelope
    has fields for them send them. `cache_key` is common to requests that begin alike, "" for those
    of the session alone; services that keep prompts by such a key get it. `continuation_token` asks
    for the rest of an answer that an earlier request began. `pause` is called, and not sent, when
    the headers of the answer say that a limit is used up, with the seconds until it is renewed.
    """

    model: str
    contents: tuple[EncodedContent, ...]
    config: GenerateContentConfig = GenerateContentConfig()
    prompt_id: str = ""
    session_id: str = ""
    cache_key: str = ""
    continuation_token: str | None = None
    pause: Callable[[float], None] | None = None
