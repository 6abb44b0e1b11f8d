"""The sections of settings.json, by the reference's names: all but those that are about models
(`model_sections`)."""

from typing import Literal

from alhena.values import Value


class Section(Value, frozen=True, kw_only=True, rename="camel"):
    """A table of settings.json."""


class SessionRetention(Section, frozen=True, kw_only=True):
    """`general.sessionRetention.*`: when sessions are removed. Ages are like `30d` or `12h`; one
    that was used within `min_retention` stays, whatever the others say."""

    enabled: bool = True
    max_age: str | None = "30d"
    max_count: int | None = None
    min_retention: str = "1d"


class CheckpointingSettings(Section, frozen=True, kw_only=True):
    """`general.checkpointing.*`: whether the files are kept before each call that may change
    them."""

    enabled: bool = False


class GeneralSettings(Section, frozen=True, kw_only=True):
    """`general.*`. `max_attempts`: how often a request that fails is sent in all;
    `retry_fetch_errors`: network errors of no known cause count as passing."""

    default_approval_mode: Literal["default", "auto_edit", "plan"] = "default"
    max_attempts: int = 10
    retry_fetch_errors: bool = True
    session_retention: SessionRetention = SessionRetention()
    checkpointing: CheckpointingSettings = CheckpointingSettings()


class OutputSettings(Section, frozen=True, kw_only=True):
    """`output.*`."""

    format: Literal["text", "json", "stream-json"] = "text"


class ShellSettings(Section, frozen=True, kw_only=True):
    """`tools.shell.*`; the inactivity timeout is in seconds, 0 for none."""

    inactivity_timeout: float = 300


class EnvironmentRedaction(Section, frozen=True, kw_only=True):
    """`security.environmentVariableRedaction.*`: what child processes may not see.

    `allowed` and `blocked` are names of variables. The model's own credentials are removed even
    when it is not `enabled`.
    """

    enabled: bool = True
    allowed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()


class FolderTrustSettings(Section, frozen=True, kw_only=True):
    """`security.folderTrust.*`: not `enabled`, every folder is trusted."""

    enabled: bool = True


class OAuthSettings(Section, frozen=True, kw_only=True):
    """`security.auth.oauth.*`: the OAuth client of `alhena auth login`. `redirect_uri` is where the
    browser goes when the code is to be pasted. The secret does not show in the repr."""

    client_id: str | None = None
    client_secret: str | None = None
    redirect_uri: str | None = None

    def __repr__(self) -> str:
        return f"OAuthSettings(client_id={self.client_id!r}, redirect_uri={self.redirect_uri!r})"


class AuthSettings(Section, frozen=True, kw_only=True):
    """`security.auth.*`: how to sign in to a model (`models/auth_type.py` has the words).
    `enforced_type`: in no other way. `use_external`: whoever runs this says how, by the
    environment, and `selected_type` counts for nothing."""

    selected_type: str | None = None
    enforced_type: str | None = None
    use_external: bool = False
    oauth: OAuthSettings = OAuthSettings()


class SecuritySettings(Section, frozen=True, kw_only=True):
    """`security.*`. With `disable_always_allow` an approval holds for its call and no further; with
    `disable_yolo_mode` nothing runs in yolo mode."""

    environment_variable_redaction: EnvironmentRedaction = EnvironmentRedaction()
    folder_trust: FolderTrustSettings = FolderTrustSettings()
    auth: AuthSettings = AuthSettings()
    disable_always_allow: bool = False
    disable_yolo_mode: bool = False


class PrivacySettings(Section, frozen=True, kw_only=True):
    """`privacy.*`. With `usage_statistics_enabled` requests name this installation."""

    usage_statistics_enabled: bool = False


class McpSettings(Section, frozen=True, kw_only=True):
    """`mcp.*`: names of servers, `*` for all. `allowed` None means all that are configured.
    `auto_allow_in_headless`: where no person can be asked, calls need no approval. `server_command`
    is the command line of one more server."""

    allowed: tuple[str, ...] | None = None
    excluded: tuple[str, ...] = ()
    auto_allow_in_headless: bool = False
    server_command: str | None = None


class SandboxSettings(Section, frozen=True, kw_only=True):
    """`tools.sandbox` as an object; `network` and `network_access` are one thing."""

    enabled: bool = True
    command: str | None = None
    profile: str | None = None
    network: bool | None = None
    network_access: bool | None = None
    allowed_paths: tuple[str, ...] = ()


class ToolSettings(Section, frozen=True, kw_only=True):
    """`tools.*`. The entries of `core`, `allowed`, `confirmation_required` and `exclude` are tool
    names, or `run_shell_command(prefix)`: only these built-in tools are there (None: all), these
    need no approval, these need one each time, these are denied.

    Of a result over `truncate_tool_output_threshold` characters the model gets the two ends; 0 or
    less turns that off. `sandbox`: whether commands run in one, or which
    (`system/sandbox/wish.py` reads it); `sandbox_allowed_paths` are writable in it, and
    `sandbox_network_access` false cuts the network. `discovery_command` lists further tools as
    JSON, `call_command` runs one of them.
    """

    core: tuple[str, ...] | None = None
    allowed: tuple[str, ...] = ()
    confirmation_required: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    truncate_tool_output_threshold: int = 40_000
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


class TelemetrySettings(Section, frozen=True, kw_only=True):
    """`telemetry.*`. `log_prompts` false: the outfile has nothing of what people, models, tools and
    hooks wrote."""

    enabled: bool = False
    outfile: str | None = None
    log_prompts: bool | None = None


class AdvancedSettings(Section, frozen=True, kw_only=True):
    """`advanced.*`. `excluded_env_vars` are variables that no project's .env file sets; with
    `ignore_local_env` such files are not read."""

    excluded_env_vars: tuple[str, ...] = ("DEBUG", "DEBUG_MODE")
    ignore_local_env: bool = False
