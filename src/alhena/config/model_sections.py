"""The sections of settings.json that are about models: which one, at what price, what it is told,
and what becomes of a conversation that grows."""

from typing import Annotated, Any, Literal

import msgspec

from alhena.config.sections import Section

LONG_PROMPT = 200_000
"""Tokens of a prompt above which some models cost more."""


class PriceSettings(Section, frozen=True, kw_only=True):
    """`model.prices.NAME.*`: US dollars for a million tokens. The long ones are those of requests
    with more than LONG_PROMPT tokens; what is None costs what stands beside it."""

    input: float
    output: float
    cached: float | None = None
    long_input: float | None = None
    long_output: float | None = None
    long_cached: float | None = None


class BudgetSettings(Section, frozen=True, kw_only=True):
    """`model.budget.*`: the tokens and US dollars that a session may take, and the seconds of a
    run; null for no limit."""

    max_tokens: int | None = None
    max_seconds: float | None = None
    max_cost: float | None = None


class ModelSettings(Section, frozen=True, kw_only=True):
    """`model.*`. `max_session_turns` -1 means no limit. `fallback`: whether a smaller model takes
    over when this one is out of quota or room: after a person agreed, always, or never.
    `compression_threshold`: from which share of the model's window on a conversation is compressed,
    0 for never; `context_window`: how many tokens that is, None for what is known of the model.
    `loop_check_turns`: after how many turns of a prompt a model is asked whether it goes in
    circles, 0 for never. `prices` are those of models by name, which may end in `*`."""

    name: str | None = None
    max_session_turns: int = -1
    compression_threshold: float = 0.5
    context_window: Annotated[int, msgspec.Meta(ge=1)] | None = None
    disable_loop_detection: bool = False
    loop_check_turns: int = 0
    budget: BudgetSettings = BudgetSettings()
    prices: dict[str, PriceSettings] = msgspec.field(default_factory=dict[str, PriceSettings])
    fallback: Literal["ask", "always", "never"] = "ask"


class ModelConfigSettings(Section, frozen=True, kw_only=True):
    """`modelConfigs.*`: named configurations of models, and what is changed for which of them
    (`models/configs.py` reads them). The custom ones add to the others."""

    aliases: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    custom_aliases: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    overrides: tuple[Any, ...] = ()
    custom_overrides: tuple[Any, ...] = ()


class VertexBilling(Section, frozen=True, kw_only=True):
    """`billing.vertexAi.*`: which of the bought capacities of Vertex answer."""

    request_type: Literal["dedicated", "shared"] | None = None
    shared_request_type: Literal["priority", "flex"] | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The headers that ask for them."""
        asked = {
            "x-vertex-ai-llm-request-type": self.request_type,
            "x-vertex-ai-llm-shared-request-type": self.shared_request_type,
        }
        return {name: value for name, value in asked.items() if value is not None}


class BillingSettings(Section, frozen=True, kw_only=True):
    """`billing.*`."""

    vertex_ai: VertexBilling = VertexBilling()


class ContextSettings(Section, frozen=True, kw_only=True):
    """`context.*`: which memory files there are. `file_name`: what they are called, one name or
    several; `memory_boundary_markers`: what the root of a project holds; `max_import_depth`: how
    many levels of `@path` imports are followed; `discovery_max_dirs`: directories that `alhena
    memory` looks into below the workspace; `include_directories`: more workspace roots;
    `include_directory_tree`: whether sessions begin with a picture of the folders."""

    file_name: str | tuple[str, ...] = "GEMINI.md"
    import_format: Literal["tree", "flat"] = "tree"
    max_import_depth: Annotated[int, msgspec.Meta(ge=0)] = 5
    discovery_max_dirs: int = 200
    memory_boundary_markers: tuple[str, ...] = (".git",)
    include_directories: tuple[str, ...] = ()
    include_directory_tree: bool = True
    load_memory_from_include_directories: bool = False

    @property
    def file_names(self) -> tuple[str, ...]:
        """The names that can be used, in their order; GEMINI.md when none can."""
        return tuple(filter(_is_inside, self._given)) or ("GEMINI.md",)

    @property
    def unusable_names(self) -> tuple[str, ...]:
        """The names that cannot be used: absolute, empty, or leading out of a directory."""
        return tuple(name for name in self._given if not _is_inside(name))

    @property
    def boundary_markers(self) -> tuple[str, ...]:
        """The markers that can be used; the others say nothing."""
        return tuple(filter(_is_inside, self.memory_boundary_markers))

    @property
    def _given(self) -> tuple[str, ...]:
        names = (self.file_name,) if isinstance(self.file_name, str) else self.file_name
        return tuple(dict.fromkeys(name.strip() for name in names))


def _is_inside(name: str) -> bool:
    """Whether a relative path leads to something in its directory."""
    steps = name.split("/")
    return (
        not name.startswith("/")
        and ".." not in steps
        and any(step not in {"", "."} for step in steps)
        and "\0" not in name
    )


class OutputMaskingSettings(Section, frozen=True, kw_only=True):
    """`contextManagement.tools.outputMasking.*`, in tokens: the newest results that are not masked
    (negative: none ever is), and how much there has to be to mask. With `protect_latest_turn` the
    last content stays as it is."""

    protection_threshold_tokens: int = 50_000
    min_prunable_threshold_tokens: int = 30_000
    protect_latest_turn: bool = True


class ContextToolSettings(Section, frozen=True, kw_only=True):
    """`contextManagement.tools.*`."""

    output_masking: OutputMaskingSettings = OutputMaskingSettings()


class ContextManagementSettings(Section, frozen=True, kw_only=True):
    """`contextManagement.*`: what becomes of a conversation that grows."""

    tools: ContextToolSettings = ContextToolSettings()
