"""The supported keys of settings.json, named as in the reference.

Other keys are ignored. `place.open_place` returns the effective settings of a directory, merged
from all layers; `workspace_layer` defines the keys a workspace may set.
"""

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from alhena.config.documents import read_value
from alhena.errors import ConfigError
from alhena.values import Value


class Section(Value, frozen=True, kw_only=True, rename="camel"):
    """A table of settings.json."""


class SessionRetention(Section, frozen=True, kw_only=True):
    """`general.sessionRetention.*`: deletion of old sessions. Ages are like `30d` or `12h`;
    sessions used within `min_retention` are always kept."""

    enabled: bool = True
    max_age: str | None = "30d"
    max_count: int | None = None
    min_retention: str = "1d"


class CheckpointingSettings(Section, frozen=True, kw_only=True):
    """`general.checkpointing.*`: files are saved before each call that may change them. A terminal
    does so unless this is set; `enabled` has commands wait for their snapshot."""

    enabled: bool = False


class GeneralSettings(Section, frozen=True, kw_only=True):
    """`general.*`. `max_attempts`: total attempts for a failing request; `retry_fetch_errors`:
    unknown network errors count as transient; `enable_notifications`: a terminal tells of questions
    that wait and of the end of long runs; `stdin_timeout`: seconds without a byte after which piped
    input is left out beside a prompt, 0 for never. With `preview_features` false, aliases mean no
    preview models. `preferred_editor`: a name of the reference, such as `vscode`, or a command."""

    default_approval_mode: Literal["default", "auto_edit", "plan"] = "default"
    vim_mode: bool = False
    enable_notifications: bool = False
    notification_method: Literal["auto", "osc9", "osc777", "bell"] = "auto"
    max_attempts: int = 10
    retry_fetch_errors: bool = True
    preview_features: bool | None = None
    preferred_editor: str | None = None
    stdin_timeout: float = 30
    session_retention: SessionRetention = SessionRetention()
    checkpointing: CheckpointingSettings = CheckpointingSettings()


class OutputSettings(Section, frozen=True, kw_only=True):
    """`output.*`."""

    format: Literal["text", "json", "stream-json"] = "text"


class ShellSettings(Section, frozen=True, kw_only=True):
    """`tools.shell.*`; the inactivity timeout is in seconds, 0 for none. `pty` is an alias of
    `enable_interactive_shell`: commands of the model write to the terminal of a session (None:
    if it redraws lines). `pager` is their PAGER; with `show_color` false they get no colours."""

    inactivity_timeout: float = 300
    enable_interactive_shell: bool | None = None
    pty: bool | None = None
    pager: str = "cat"
    show_color: bool | None = None

    def uses_terminal(self, *, redraws: bool) -> bool:
        """True where commands of the model write to a terminal; `redraws`: lines can be redrawn."""
        wanted = (self.enable_interactive_shell, self.pty)
        return any(wanted) or (redraws and False not in wanted)

    @property
    def variables(self) -> dict[str, str]:
        """The variables of commands that these settings change."""
        found: dict[str, str] = {}
        if self.pager != "cat":
            found = dict.fromkeys(("PAGER", "GIT_PAGER", "MANPAGER"), self.pager)
        return found if self.show_color is not False else {**found, "NO_COLOR": "1"}


class EnvironmentRedaction(Section, frozen=True, kw_only=True):
    """`security.environmentVariableRedaction.*`: variables hidden from child processes.

    `allowed` and `blocked` are names of variables. The model's own credentials are removed even
    when it is not `enabled`.
    """

    enabled: bool = True
    allowed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()


class FolderTrustSettings(Section, frozen=True, kw_only=True):
    """`security.folderTrust.*`: unless `enabled`, every folder is trusted."""

    enabled: bool = True


class OAuthSettings(Section, frozen=True, kw_only=True):
    """`security.auth.oauth.*`: the OAuth client of `alhena auth login`. `redirect_uri` is the
    browser's target when the code is pasted by hand. The repr does not show the secret."""

    client_id: str | None = None
    client_secret: str | None = None
    redirect_uri: str | None = None

    def __repr__(self) -> str:
        return f"OAuthSettings(client_id={self.client_id!r}, redirect_uri={self.redirect_uri!r})"


class AuthSettings(Section, frozen=True, kw_only=True):
    """`security.auth.*`: the sign-in method for models (types: `models/providers/select.py`).
    `enforced_type` is the only allowed one. With `use_external` the environment decides, and
    `selected_type` is ignored."""

    selected_type: str | None = None
    enforced_type: str | None = None
    use_external: bool = False
    oauth: OAuthSettings = OAuthSettings()


class SecuritySettings(Section, frozen=True, kw_only=True):
    """`security.*`. With `disable_always_allow` an approval covers its call only; with
    `disable_yolo_mode` nothing runs in yolo mode. `block_git_extensions`: no extension is installed
    from git; `allowed_extensions`: regular expressions of which one has to match the source of an
    extension."""

    environment_variable_redaction: EnvironmentRedaction = EnvironmentRedaction()
    folder_trust: FolderTrustSettings = FolderTrustSettings()
    auth: AuthSettings = AuthSettings()
    disable_always_allow: bool = False
    disable_yolo_mode: bool = False
    block_git_extensions: bool = False
    allowed_extensions: tuple[str, ...] = ()


class IdeSettings(Section, frozen=True, kw_only=True):
    """`ide.*`. With `enabled` a session at the terminal connects to the editor's companion."""

    enabled: bool = False


class FooterSettings(Section, frozen=True, kw_only=True):
    """`ui.footer.*`."""

    hide_cwd: bool = msgspec.field(name="hideCWD", default=False)
    hide_sandbox_status: bool = False
    hide_model_info: bool = False
    hide_context_percentage: bool = False


class AccessibilitySettings(Section, frozen=True, kw_only=True):
    """`ui.accessibility.*`. With `screen_reader` sessions at the terminal use plain lines."""

    screen_reader: bool = False
    disable_loading_phrases: bool = False


class UiSettings(Section, frozen=True, kw_only=True):
    """`ui.*`. `theme` None: the terminal's colours, for a light background where it says that it
    has one and `auto_theme_switching` is true. `status_line`: a command whose first line is in the
    footer. `custom_witty_phrases` are shown while the model thinks. `hyperlinks`: None: unknown."""

    theme: str | None = None
    queue: Literal["calls", "end"] = "calls"
    custom_themes: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    auto_theme_switching: bool = True
    hide_banner: bool = False
    hide_tips: bool = False
    hide_context_summary: bool = False
    show_memory_usage: bool = False
    show_citations: bool = False
    show_model_info_in_chat: bool = False
    use_full_width: bool = True
    hyperlinks: bool | None = None
    custom_witty_phrases: tuple[str, ...] = ()
    hide_window_title: bool = False
    show_status_in_title: bool = False
    dynamic_window_title: bool = True
    hide_footer: bool = False
    footer: FooterSettings = FooterSettings()
    status_line: str | None = None
    accessibility: AccessibilitySettings = AccessibilitySettings()


class PrivacySettings(Section, frozen=True, kw_only=True):
    """`privacy.*`. With `usage_statistics_enabled` requests identify this installation."""

    usage_statistics_enabled: bool = False


class McpSettings(Section, frozen=True, kw_only=True):
    """`mcp.*`: names of servers, `*` for all. `allowed` None means all that are configured.
    `auto_allow_in_headless`: calls need no approval if no person can be asked. `server_command` is
    the command line of an additional server. `skip_untyped`: tools whose schemas do not say all
    types are left out. `startup_wait`: seconds that the first prompt waits for servers.
    `tool_search`: tools are declared, or found by search; "auto": found when there are many."""

    allowed: tuple[str, ...] | None = None
    excluded: tuple[str, ...] = ()
    auto_allow_in_headless: bool = False
    server_command: str | None = None
    skip_untyped: bool = False
    startup_wait: Annotated[float, msgspec.Meta(ge=0)] = 10
    tool_search: Literal["auto", "on", "off"] = "auto"


class SandboxSettings(Section, frozen=True, kw_only=True):
    """`tools.sandbox` as an object; `network` and `network_access` are synonyms."""

    enabled: bool = True
    command: str | None = None
    profile: str | None = None
    network: bool | None = None
    network_access: bool | None = None
    allowed_paths: tuple[str, ...] = ()


class ToolSettings(Section, frozen=True, kw_only=True):
    """`tools.*`. Entries are tool names, or `run_shell_command(prefix)`: `core` are the only
    built-in tools available (None: all), `allowed` need no approval, `confirmation_required` need
    one each time, `exclude` are denied.

    A result over `truncate_tool_output_threshold` characters is truncated to its two ends, of at
    most `truncate_tool_output_lines` together; 0 or less turns that off. `sandbox` enables or
    selects a sandbox for commands (`system/sandbox/layout.py` reads it); `sandbox_allowed_paths`
    are writable in it, `sandbox_network_access` false blocks the network. `discovery_command` lists
    further tools as JSON, `call_command` runs one of them.
    """

    core: tuple[str, ...] | None = None
    allowed: tuple[str, ...] = ()
    confirmation_required: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    truncate_tool_output_threshold: int = 40_000
    truncate_tool_output_lines: int | None = None
    use_ripgrep: bool = True
    shell: ShellSettings = ShellSettings()
    sandbox: bool | str | SandboxSettings = False
    sandbox_allowed_paths: tuple[str, ...] = ()
    sandbox_network_access: bool | None = None
    discovery_command: str | None = None
    call_command: str | None = None


class HooksConfig(Section, frozen=True, kw_only=True):
    """`hooksConfig.*`. `disabled` are names or commands of hooks."""

    enabled: bool = True
    disabled: tuple[str, ...] = ()
    notifications: bool = True


class SkillSettings(Section, frozen=True, kw_only=True):
    """`skills.*`. `disabled` are names of skills."""

    enabled: bool = True
    disabled: tuple[str, ...] = ()


class AgentRunConfig(Section, frozen=True, kw_only=True):
    """`agents.overrides.NAME.runConfig`."""

    max_turns: int | None = None
    max_time_minutes: float | None = None


class AgentModelConfig(Section, frozen=True, kw_only=True):
    """`agents.overrides.NAME.modelConfig`; of the configuration only temperature is used."""

    model: str | None = None
    generate_content_config: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


class AgentOverride(Section, frozen=True, kw_only=True):
    """`agents.overrides.NAME`: replaces what the definition of an agent says."""

    enabled: bool | None = None
    tools: tuple[str, ...] | None = None
    run_config: AgentRunConfig = AgentRunConfig()
    model_settings: AgentModelConfig = msgspec.field(name="modelConfig", default=AgentModelConfig())


class AgentsSettings(Section, frozen=True, kw_only=True):
    """`agents.*`: whether agents of files are used, how many agents may run at once and in a
    session, and changes to single ones."""

    enabled: bool = True
    max_concurrent: Annotated[int, msgspec.Meta(ge=1)] = 4
    max_per_session: Annotated[int, msgspec.Meta(ge=0)] = 50
    overrides: dict[str, AgentOverride] = msgspec.field(default_factory=dict[str, AgentOverride])


class TelemetrySettings(Section, frozen=True, kw_only=True):
    """`telemetry.*`. With `enabled` None it is off, unless a workspace records into a file of its
    own; false: off in every workspace. With `log_prompts` false, the outfile has no text from
    people, models, tools or hooks; an OTLP endpoint has it only with true. The outfile counts
    before the endpoint."""

    enabled: bool | None = None
    target: Literal["local", "gcp"] = "local"
    outfile: str | None = None
    log_prompts: bool | None = None
    otlp_endpoint: str | None = None
    otlp_protocol: Literal["grpc", "http"] = "grpc"
    traces: bool = True


class BugCommand(Section, frozen=True, kw_only=True):
    """`advanced.bugCommand`: the address of `/bug`, with {title} and {info}."""

    url_template: str


class AdvancedSettings(Section, frozen=True, kw_only=True):
    """`advanced.*`. `excluded_env_vars` are variables that no project's .env file sets; with
    `ignore_local_env` such files are not read. `dns_resolution_order`: the addresses of a host to
    try first."""

    excluded_env_vars: tuple[str, ...] = ("DEBUG", "DEBUG_MODE")
    ignore_local_env: bool = False
    dns_resolution_order: Literal["ipv4first", "verbatim"] = "verbatim"
    bug_command: BugCommand | None = None


class PriceSettings(Section, frozen=True, kw_only=True):
    """`model.prices.NAME.*`: US dollars for a million tokens. The long prices apply to requests
    with more than `long_from` tokens; None means the regular price. `cache_write` and
    `cache_write_hour` are those of input that is written to a cache, for five minutes and for an
    hour; None means 1.25 and 2 times the price of input."""

    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None
    cache_write_hour: float | None = None
    long_input: float | None = None
    long_output: float | None = None
    long_cached: float | None = None
    long_from: Annotated[int, msgspec.Meta(ge=1)] = 200_000


class BudgetSettings(Section, frozen=True, kw_only=True):
    """`model.budget.*`: limits of tokens and US dollars for a session, and of seconds for a run;
    null for no limit."""

    max_tokens: int | None = None
    max_seconds: float | None = None
    max_cost: float | None = None


class SummarySettings(Section, frozen=True, kw_only=True):
    """`model.summarizeToolOutput.NAME`: the longest result of a tool, in tokens, that is not
    summarised."""

    token_budget: Annotated[int, msgspec.Meta(ge=1)] = 2_000


class ModelSection(Section, frozen=True, kw_only=True):
    """`model.*`. `max_session_turns` -1 means no limit. `fallback`: use a smaller model when this
    one is out of quota or capacity: after confirmation, always, or never. `compression_threshold`:
    share of the context window at which a conversation is compressed, 0 for never;
    `context_window`: its size in tokens, None for the known size of the model. `prompt_size`: a
    small prompt with six tools, or the full one; None: by the window. `loop_check_turns`: number
    of turns of a prompt after which a model checks for loops, 0 for never. `prices` are by
    model name, which may end in `*`. `service_tier`: the class of service of all requests.
    `prompt_cache`: how long Anthropic's service keeps prompts for the next request. Unless
    `skip_next_speaker_check`, a model says whether an answer without calls is complete."""

    name: str | None = None
    max_session_turns: int = -1
    compression_threshold: float = 0.5
    context_window: Annotated[int, msgspec.Meta(ge=1)] | None = None
    disable_loop_detection: bool = False
    loop_check_turns: int = 0
    budget: BudgetSettings = BudgetSettings()
    prices: dict[str, PriceSettings] = msgspec.field(default_factory=dict[str, PriceSettings])
    fallback: Literal["ask", "always", "never"] = "ask"
    skip_next_speaker_check: bool = True
    summarize_tool_output: dict[str, SummarySettings] = msgspec.field(
        default_factory=dict[str, "SummarySettings"]
    )
    service_tier: Literal["flex", "standard", "priority"] | None = None
    prompt_cache: Literal["5m", "1h", "off"] = "5m"
    prompt_size: Literal["small", "full"] | None = None

    @property
    def is_small(self) -> bool:
        """True for the small prompt, short results and early compression."""
        return self.prompt_size == "small"


def with_model(settings: "Settings", **changes: Any) -> "Settings":
    """These settings with other values in `model`; None changes nothing."""
    given = {key: value for key, value in changes.items() if value is not None}
    model = msgspec.structs.replace(settings.model, **given)
    return msgspec.structs.replace(settings, model=model) if given else settings


class ModelConfigSettings(Section, frozen=True, kw_only=True):
    """`modelConfigs.*`: named configurations of models, and overrides (`models/configs.py` reads
    them). The custom ones are added to the others."""

    aliases: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    custom_aliases: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    overrides: tuple[Any, ...] = ()
    custom_overrides: tuple[Any, ...] = ()


class VertexBilling(Section, frozen=True, kw_only=True):
    """`billing.vertexAi.*`: the purchased Vertex capacity to use."""

    request_type: Literal["dedicated", "shared"] | None = None
    shared_request_type: Literal["priority", "flex"] | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The headers that select it."""
        asked = {
            "x-vertex-ai-llm-request-type": self.request_type,
            "x-vertex-ai-llm-shared-request-type": self.shared_request_type,
        }
        return {name: value for name, value in asked.items() if value is not None}


class BillingSettings(Section, frozen=True, kw_only=True):
    """`billing.*`."""

    vertex_ai: VertexBilling = VertexBilling()


class FileFilteringSettings(Section, frozen=True, kw_only=True):
    """`context.fileFiltering.*`: leave out what git, or .geminiignore, ignores, unless a call says
    otherwise; and, whatever a call says, what the files `custom_ignore_file_paths` name. A path
    after @ is completed with paths below other directories (`enable_recursive_file_search`), by
    letters in order (`enable_fuzzy_search`)."""

    respect_git_ignore: bool = True
    respect_gemini_ignore: bool = True
    custom_ignore_file_paths: tuple[str, ...] = ()
    enable_recursive_file_search: bool = True
    enable_fuzzy_search: bool = True

    @property
    def closing(self) -> tuple[str, ...]:
        """Paths of the ignore files that keep files from the model also when they are named."""
        own = (".geminiignore",) if self.respect_gemini_ignore else ()
        return (*self.custom_ignore_file_paths, *own)


DEFAULT_NAMES = ("GEMINI.md", "AGENTS.md")
"""Names of memory files; of a directory the first that exists is read."""


class ContextSettings(Section, frozen=True, kw_only=True):
    """`context.*`: memory files. `file_name`: their names beside GEMINI.md (None: DEFAULT_NAMES);
    `memory_boundary_markers`: files that mark the root of a project; `max_import_depth`: maximum
    levels of `@path` imports; `discovery_max_dirs`: directories searched by `alhena memory` below
    the workspace; `include_directories`: additional workspace roots; `include_directory_tree`:
    start sessions with a tree of the folders."""

    file_name: str | tuple[str, ...] | None = None
    import_format: Literal["tree", "flat"] = "tree"
    max_import_depth: Annotated[int, msgspec.Meta(ge=0)] = 5
    discovery_max_dirs: int = 200
    memory_boundary_markers: tuple[str, ...] = (".git",)
    include_directories: tuple[str, ...] = ()
    include_directory_tree: bool = True
    load_memory_from_include_directories: bool = False
    file_filtering: FileFilteringSettings = FileFilteringSettings()

    @property
    def file_names(self) -> tuple[str, ...]:
        """The usable names, in order, and GEMINI.md; DEFAULT_NAMES if there are none."""
        return self._added or DEFAULT_NAMES

    def names_in(self, directory: Path) -> tuple[str, ...]:
        """The names of the memory files of a directory. Without usable names of the settings it is
        one: GEMINI.md, or AGENTS.md where only that exists."""
        if self._added:
            return self._added
        existing = (name for name in DEFAULT_NAMES if os.path.lexists(directory / name))
        return (next(existing, DEFAULT_NAMES[0]),)

    @property
    def unusable_names(self) -> tuple[str, ...]:
        """The unusable names: absolute, empty, or outside the directory."""
        return tuple(name for name in self._given if not _is_inside(name))

    @property
    def boundary_markers(self) -> tuple[str, ...]:
        """The usable markers; others are ignored."""
        return tuple(filter(_is_inside, self.memory_boundary_markers))

    @property
    def _added(self) -> tuple[str, ...]:
        usable = tuple(filter(_is_inside, self._given))
        return tuple(dict.fromkeys((*usable, DEFAULT_NAMES[0]))) if usable else ()

    @property
    def _given(self) -> tuple[str, ...]:
        names = (self.file_name,) if isinstance(self.file_name, str) else self.file_name or ()
        return tuple(dict.fromkeys(name.strip() for name in names))


def _is_inside(name: str) -> bool:
    """True when a relative path stays in its directory."""
    steps = name.split("/")
    return (
        not name.startswith("/")
        and ".." not in steps
        and any(step not in {"", "."} for step in steps)
        and "\0" not in name
    )


class OutputMaskingSettings(Section, frozen=True, kw_only=True):
    """`contextManagement.tools.outputMasking.*`, in tokens: the newest results are never masked up
    to a limit (negative: nothing is masked), and masking needs a minimum gain. With
    `protect_latest_turn` the last content is unchanged."""

    protection_threshold_tokens: int = 50_000
    min_prunable_threshold_tokens: int = 30_000
    protect_latest_turn: bool = True


class ContextToolSettings(Section, frozen=True, kw_only=True):
    """`contextManagement.tools.*`."""

    output_masking: OutputMaskingSettings = OutputMaskingSettings()


class ContextManagementSettings(Section, frozen=True, kw_only=True):
    """`contextManagement.*`: treatment of growing conversations."""

    tools: ContextToolSettings = ContextToolSettings()


class ExtensionSettings(Section, frozen=True, kw_only=True):
    """`extensions.*`. `disabled` are names of extensions."""

    disabled: tuple[str, ...] = ()


class ExperimentalSettings(Section, frozen=True, kw_only=True):
    """`experimental.*`. Without `extension_management` no extension is used or installed; without
    `jit_context` memory files of subdirectories are not read on the way."""

    extension_management: bool = True
    jit_context: bool = True


class Settings(Section, frozen=True, kw_only=True):
    """The effective settings. `mcp_servers` are parsed by `config/mcp_servers.py` if there are
    any."""

    general: GeneralSettings = GeneralSettings()
    model: ModelSection = ModelSection()
    model_configs: ModelConfigSettings = ModelConfigSettings()
    output: OutputSettings = OutputSettings()
    tools: ToolSettings = ToolSettings()
    security: SecuritySettings = SecuritySettings()
    billing: BillingSettings = BillingSettings()
    ide: IdeSettings = IdeSettings()
    ui: UiSettings = UiSettings()
    privacy: PrivacySettings = PrivacySettings()
    mcp: McpSettings = McpSettings()
    mcp_servers: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    policy_paths: tuple[str, ...] = ()
    admin_policy_paths: tuple[str, ...] = ()
    context: ContextSettings = ContextSettings()
    context_management: ContextManagementSettings = ContextManagementSettings()
    hooks: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    hooks_config: HooksConfig = HooksConfig()
    skills: SkillSettings = SkillSettings()
    agents: AgentsSettings = AgentsSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    advanced: AdvancedSettings = AdvancedSettings()
    extensions: ExtensionSettings = ExtensionSettings()
    experimental: ExperimentalSettings = ExperimentalSettings()


def settings_of(value: Any, origin: str) -> Settings:
    """Converts plain values to settings. `origin` names their source in errors (ConfigError)."""
    try:
        return read_value(value, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{origin}: {str(error).replace('`', '')}.",
            remedy="Correct that value or remove the key.",
        ) from error
