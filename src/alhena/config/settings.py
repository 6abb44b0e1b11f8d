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
    """`model.*`. `max_session_turns` -1 means no limit."""

    name: str | None = None
    max_session_turns: int = -1


class GeneralSettings(_Section, frozen=True, kw_only=True):
    """`general.*`."""

    default_approval_mode: Literal["default", "auto_edit", "plan"] = "default"


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


class SecuritySettings(_Section, frozen=True, kw_only=True):
    """`security.*`."""

    environment_variable_redaction: EnvironmentRedaction = EnvironmentRedaction()


class ToolSettings(_Section, frozen=True, kw_only=True):
    """`tools.*`. `exclude` entries are tool names, or `run_shell_command(prefix)`.

    Of a result over `truncate_tool_output_threshold` characters the model gets the two ends; 0 or
    less turns that off.
    """

    exclude: tuple[str, ...] = ()
    truncate_tool_output_threshold: int = 40_000
    shell: ShellSettings = ShellSettings()


class Settings(_Section, frozen=True, kw_only=True):
    """The settings in force."""

    general: GeneralSettings = GeneralSettings()
    model: ModelSettings = ModelSettings()
    output: OutputSettings = OutputSettings()
    tools: ToolSettings = ToolSettings()
    security: SecuritySettings = SecuritySettings()
    policy_paths: tuple[str, ...] = ()


def load_settings(path: Path) -> Settings:
    """The settings of a file; the defaults when there is none.

    Comments and trailing commas are allowed. Raises ConfigError naming the file, the place and the
    remedy when it cannot be read, is no JSON, or a known key has a value of the wrong type.
    """
    try:
        data = read_limited(path)
    except FileNotFoundError:
        return Settings()
    except OSError as error:
        raise ConfigError(
            f"cannot read the settings file {path}: {error.strerror or error}.",
            remedy="Put a readable file there, or move it away.",
        ) from error
    if not data.strip():
        return Settings()
    return settings_of(_parse(path, data), str(path))


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
