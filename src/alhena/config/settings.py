"""The user's settings.json: the keys that are used so far, by the reference's names.

Keys not listed here are left alone: the file is never written, and other programs' keys are theirs.
"""

from pathlib import Path
from typing import Any, Literal

import msgspec

from alhena.config.errors import ConfigError
from alhena.config.files import read_limited
from alhena.config.jsonc import strip_comments


class _Section(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A table of settings.json."""


class ModelSettings(_Section, frozen=True, kw_only=True):
    """`model.*`. `max_session_turns` -1 means no limit. `fallback`: whether a smaller model takes
    over when this one is out of quota or room: after a person agreed, always, or never."""

    name: str | None = None
    max_session_turns: int = -1
    fallback: Literal["ask", "always", "never"] = "ask"


class ModelConfigSettings(_Section, frozen=True, kw_only=True):
    """`modelConfigs.*`: named configurations of models, and what is changed for which of them
    (`models/configs.py` reads them). The custom ones add to the others."""

    aliases: dict[str, Any] = {}
    custom_aliases: dict[str, Any] = {}
    overrides: tuple[Any, ...] = ()
    custom_overrides: tuple[Any, ...] = ()


class SessionRetention(_Section, frozen=True, kw_only=True):
    """`general.sessionRetention.*`: when sessions are removed. Ages are like `30d` or `12h`; one
    that was used within `min_retention` stays, whatever the others say."""

    enabled: bool = True
    max_age: str | None = "30d"
    max_count: int | None = None
    min_retention: str = "1d"


class GeneralSettings(_Section, frozen=True, kw_only=True):
    """`general.*`. `max_attempts`: how often a request that fails is sent in all;
    `retry_fetch_errors`: network errors of no known cause count as passing."""

    default_approval_mode: Literal["default", "auto_edit", "plan"] = "default"
    max_attempts: int = 10
    retry_fetch_errors: bool = True
    session_retention: SessionRetention = SessionRetention()


class OutputSettings(_Section, frozen=True, kw_only=True):
    """`output.*`."""

    format: Literal["text", "json", "stream-json"] = "text"


class ShellSettings(_Section, frozen=True, kw_only=True):
    """`tools.shell.*`; the inactivity timeout is in seconds, 0 for none."""

    inactivity_timeout: float = 300


class EnvironmentRedaction(_Section, frozen=True, kw_only=True):
    """`security.environmentVariableRedaction.*`: what child processes may not see.

    `allowed` and `blocked` are names of variables. The model's own credentials are removed even
    when it is not `enabled`.
    """

    enabled: bool = True
    allowed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()


class FolderTrustSettings(_Section, frozen=True, kw_only=True):
    """`security.folderTrust.*`: not `enabled`, every folder is trusted."""

    enabled: bool = True


class OAuthSettings(_Section, frozen=True, kw_only=True):
    """`security.auth.oauth.*`: the OAuth client of `alhena auth login`. `redirect_uri` is where the
    browser goes when the code is to be pasted. The secret does not show in the repr."""

    client_id: str | None = None
    client_secret: str | None = None
    redirect_uri: str | None = None

    def __repr__(self) -> str:
        return f"OAuthSettings(client_id={self.client_id!r}, redirect_uri={self.redirect_uri!r})"


class AuthSettings(_Section, frozen=True, kw_only=True):
    """`security.auth.*`: how to sign in to a model (`models/auth_type.py` has the words).
    `enforced_type`: in no other way. `use_external`: whoever runs this says how, by the
    environment, and `selected_type` counts for nothing."""

    selected_type: str | None = None
    enforced_type: str | None = None
    use_external: bool = False
    oauth: OAuthSettings = OAuthSettings()


class SecuritySettings(_Section, frozen=True, kw_only=True):
    """`security.*`. With `disable_always_allow` an approval holds for its call and no further."""

    environment_variable_redaction: EnvironmentRedaction = EnvironmentRedaction()
    folder_trust: FolderTrustSettings = FolderTrustSettings()
    auth: AuthSettings = AuthSettings()
    disable_always_allow: bool = False


class VertexBilling(_Section, frozen=True, kw_only=True):
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


class BillingSettings(_Section, frozen=True, kw_only=True):
    """`billing.*`."""

    vertex_ai: VertexBilling = VertexBilling()


class PrivacySettings(_Section, frozen=True, kw_only=True):
    """`privacy.*`. With `usage_statistics_enabled` requests name this installation."""

    usage_statistics_enabled: bool = False


class McpSettings(_Section, frozen=True, kw_only=True):
    """`mcp.*`: names of servers. `allowed` None means all that are configured."""

    allowed: tuple[str, ...] | None = None
    excluded: tuple[str, ...] = ()


class McpServerSettings(_Section, frozen=True, kw_only=True):
    """`mcpServers.NAME.*`. The tools of a server with `trust` need no approval."""

    trust: bool = False


class SandboxSettings(_Section, frozen=True, kw_only=True):
    """`tools.sandbox` as an object; `network` and `network_access` are one thing."""

    enabled: bool = True
    command: str | None = None
    profile: str | None = None
    network: bool | None = None
    network_access: bool | None = None
    allowed_paths: tuple[str, ...] = ()


class ToolSettings(_Section, frozen=True, kw_only=True):
    """`tools.*`. The entries of `core`, `allowed` and `exclude` are tool names, or
    `run_shell_command(prefix)`: only these built-in tools are there (None: all), these need no
    approval, these are denied.

    Of a result over `truncate_tool_output_threshold` characters the model gets the two ends; 0 or
    less turns that off. `sandbox`: whether commands run in one, or which
    (`system/sandbox/wish.py` reads it); `sandbox_allowed_paths` are writable in it, and
    `sandbox_network_access` false cuts the network.
    """

    core: tuple[str, ...] | None = None
    allowed: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    truncate_tool_output_threshold: int = 40_000
    shell: ShellSettings = ShellSettings()
    sandbox: bool | str | SandboxSettings = False
    sandbox_allowed_paths: tuple[str, ...] = ()
    sandbox_network_access: bool | None = None


class ContextSettings(_Section, frozen=True, kw_only=True):
    """`context.*`: which memory files there are. `file_name`: what they are called, one name or
    several; `memory_boundary_markers`: what the root of a project holds; `max_import_depth`: how
    many levels of `@path` imports are followed; `discovery_max_dirs`: directories that `alhena
    memory` looks into below the workspace."""

    file_name: str | tuple[str, ...] = "GEMINI.md"
    import_format: Literal["tree", "flat"] = "tree"
    max_import_depth: int = 5
    discovery_max_dirs: int = 200
    memory_boundary_markers: tuple[str, ...] = (".git",)
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


class HooksConfig(_Section, frozen=True, kw_only=True):
    """`hooksConfig.*`. `disabled` are names or commands of hooks."""

    enabled: bool = True
    disabled: tuple[str, ...] = ()
    notifications: bool = True


class TelemetrySettings(_Section, frozen=True, kw_only=True):
    """`telemetry.*`. `log_prompts` None: what people and models wrote is left out, arguments of
    tool calls aside; false leaves these out too."""

    enabled: bool = False
    outfile: str | None = None
    log_prompts: bool | None = None


class Settings(_Section, frozen=True, kw_only=True):
    """The settings in force."""

    general: GeneralSettings = GeneralSettings()
    model: ModelSettings = ModelSettings()
    model_configs: ModelConfigSettings = ModelConfigSettings()
    output: OutputSettings = OutputSettings()
    tools: ToolSettings = ToolSettings()
    security: SecuritySettings = SecuritySettings()
    billing: BillingSettings = BillingSettings()
    privacy: PrivacySettings = PrivacySettings()
    mcp: McpSettings = McpSettings()
    mcp_servers: dict[str, McpServerSettings] = {}
    policy_paths: tuple[str, ...] = ()
    context: ContextSettings = ContextSettings()
    hooks: dict[str, Any] = {}
    hooks_config: HooksConfig = HooksConfig()
    telemetry: TelemetrySettings = TelemetrySettings()


def load_settings(path: Path) -> Settings:
    """The settings of a file; the defaults when there is none.

    Comments and trailing commas are allowed. Raises ConfigError naming the file, the place and the
    remedy when it cannot be read, is no JSON, or a known key has a value of the wrong type.
    """
    value = settings_document(path)
    return Settings() if value is None else settings_of(value, str(path))


def settings_document(path: Path) -> Any:
    """What a settings file holds, in plain values; None when it is not there or empty. Raises
    ConfigError when it cannot be read or is no JSON."""
    try:
        data = read_limited(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(
            f"cannot read the settings file {path}: {error.strerror or error}.",
            remedy="Put a readable file there, or move it away.",
        ) from error
    return _parse(path, data) if data.strip() else None


def settings_of(value: Any, origin: str) -> Settings:
    """Settings from plain values. `origin` names their source in errors (ConfigError)."""
    try:
        return msgspec.convert(value, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{origin}: {str(error).replace('`', '')}.",
            remedy="Correct that value or remove the key.",
        ) from error


def _parse(path: Path, data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass  # perhaps it has comments
    except RecursionError as error:
        raise ConfigError(
            f"{path}: the settings file is nested too deeply.", remedy="Correct it."
        ) from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(
            f"{path}:{line}: the settings file is not UTF-8 (byte {error.start}).",
            remedy="Save it as UTF-8.",
        ) from error
    try:
        return msgspec.json.decode(strip_comments(text))
    except msgspec.DecodeError as error:
        raise ConfigError(
            f"{path}{_line_of(text, str(error))}: the settings file is not valid JSON: {error}.",
            remedy="Correct it there, or move the file away to use the defaults.",
        ) from error


def _line_of(text: str, message: str) -> str:
    """ ":LINE" for a message that ends in "(byte N)", else ""."""
    _, found, rest = message.rpartition("(byte ")
    digits = rest.rstrip(")")
    if not found or not digits.isdigit():
        return ""
    before = text.encode("utf-8")[: int(digits)]
    line = before.count(b"\n") + 1
    return f":{line}"
