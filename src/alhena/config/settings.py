"""The keys of settings.json that are used, by the reference's names.

Keys not listed here are left alone. `place.open_place` gives the settings that hold somewhere, from
all their layers; which of them a workspace may set is said in `workspace_layer`. The sections are
to be had from here, wherever they are written.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from alhena.config.documents import settings_document
from alhena.config.errors import ConfigError
from alhena.config.model_sections import (
    LONG_PROMPT,
    BillingSettings,
    BudgetSettings,
    ContextManagementSettings,
    ContextSettings,
    ContextToolSettings,
    ModelConfigSettings,
    ModelSettings,
    OutputMaskingSettings,
    PriceSettings,
    VertexBilling,
)
from alhena.config.sections import (
    AdvancedSettings,
    AuthSettings,
    CheckpointingSettings,
    EnvironmentRedaction,
    FolderTrustSettings,
    GeneralSettings,
    HooksConfig,
    McpSettings,
    OAuthSettings,
    OutputSettings,
    PrivacySettings,
    SandboxSettings,
    Section,
    SecuritySettings,
    SessionRetention,
    ShellSettings,
    TelemetrySettings,
    ToolSettings,
)

__all__ = [
    "LONG_PROMPT",
    "AdvancedSettings",
    "AuthSettings",
    "BillingSettings",
    "BudgetSettings",
    "CheckpointingSettings",
    "ContextManagementSettings",
    "ContextSettings",
    "ContextToolSettings",
    "EnvironmentRedaction",
    "FolderTrustSettings",
    "GeneralSettings",
    "HooksConfig",
    "McpSettings",
    "ModelConfigSettings",
    "ModelSettings",
    "OAuthSettings",
    "OutputMaskingSettings",
    "OutputSettings",
    "PriceSettings",
    "PrivacySettings",
    "SandboxSettings",
    "SecuritySettings",
    "SessionRetention",
    "Settings",
    "ShellSettings",
    "TelemetrySettings",
    "ToolSettings",
    "VertexBilling",
    "known_keys",
    "load_settings",
    "settings_of",
]


class Settings(Section, frozen=True, kw_only=True):
    """The settings in force. `mcp_servers` are read by `config/mcp_servers.py`, where there are
    any."""

    general: GeneralSettings = GeneralSettings()
    model: ModelSettings = ModelSettings()
    model_configs: ModelConfigSettings = ModelConfigSettings()
    output: OutputSettings = OutputSettings()
    tools: ToolSettings = ToolSettings()
    security: SecuritySettings = SecuritySettings()
    billing: BillingSettings = BillingSettings()
    privacy: PrivacySettings = PrivacySettings()
    mcp: McpSettings = McpSettings()
    mcp_servers: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    policy_paths: tuple[str, ...] = ()
    admin_policy_paths: tuple[str, ...] = ()
    context: ContextSettings = ContextSettings()
    context_management: ContextManagementSettings = ContextManagementSettings()
    hooks: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    hooks_config: HooksConfig = HooksConfig()
    telemetry: TelemetrySettings = TelemetrySettings()
    advanced: AdvancedSettings = AdvancedSettings()


def load_settings(path: Path) -> Settings:
    """The settings of a file; the defaults when there is none.

    Comments and trailing commas are allowed. Raises ConfigError naming the file, the place and the
    remedy when it cannot be read, is no JSON, or a known key has a value of the wrong type.
    """
    value = settings_document(path)
    return Settings() if value is None else settings_of(value, str(path))


def settings_of(value: Any, origin: str) -> Settings:
    """Settings from plain values. `origin` names their source in errors (ConfigError)."""
    try:
        return msgspec.convert(value, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{origin}: {str(error).replace('`', '')}.",
            remedy="Correct that value or remove the key.",
        ) from error


@cache
def known_keys() -> frozenset[str]:
    """The dotted names of all keys that are used."""
    return frozenset(_keys(Settings()))


def _keys(value: msgspec.Struct, prefix: str = "") -> Iterator[str]:
    for field, name in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
        inner = getattr(value, field)
        if isinstance(inner, msgspec.Struct):
            yield from _keys(inner, f"{prefix}{name}.")
        else:
            yield prefix + name
