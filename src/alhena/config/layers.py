"""Merges layers of settings and expands environment variables in them."""

import re
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from alhena.config.checking import MAX_TOLD, similar_key, unused_keys, wrong_values
from alhena.config.documents import (
    VARIABLE,
    parse_settings,
    settings_text,
    too_deep,
    typed_value,
    union,
    value_at,
    without_value,
)
from alhena.config.reference_keys import is_reference_key, rename_old_keys
from alhena.config.settings import Settings
from alhena.display_text import first_of
from alhena.errors import ConfigError

if TYPE_CHECKING:
    from alhena.config.workspace_layer import Refusal

MAX_JUDGED = 50
"""Maximum unknown keys of which it is found out what was meant."""
MAX_NAMED = 10
"""Maximum keys named in one warning."""
_MATTERING = (
    *("tools", "security", "mcp", "hooks", "hooksConfig", "tools.core", "tools.exclude"),
    *("tools.allowed", "tools.confirmationRequired", "tools.sandbox", "tools.sandboxNetworkAccess"),
    *("mcp.allowed", "mcp.excluded", "mcpServers", "policyPaths", "adminPolicyPaths"),
    *("security.disableYoloMode", "security.disableAlwaysAllow", "security.folderTrust"),
    *("security.folderTrust.enabled", "security.environmentVariableRedaction.enabled"),
    *("security.environmentVariableRedaction.blocked", "security.allowedExtensions"),
    *("security.blockGitExtensions", "security.auth.enforcedType", "advanced.excludedEnvVars"),
    *("general.defaultApprovalMode", "general.checkpointing.enabled", "model.maxSessionTurns"),
    *("model.budget.maxTokens", "model.budget.maxSeconds", "model.budget.maxCost"),
    "model.budget",
)
"""Keys and sections that restrict; a misspelt one restricts nothing."""
_UNSUPPORTED = ("security.toolSandboxing", "security.enableConseca")
"""Restricting keys that are not supported."""


class LayerKind(StrEnum):
    """The source of a layer of settings."""

    SYSTEM_DEFAULTS = "system defaults"
    USER = "user"
    WORKSPACE = "workspace"
    SYSTEM = "system"


ORDER = tuple(LayerKind)
"""From lowest to highest precedence."""


class LayerFile(msgspec.Struct, frozen=True, kw_only=True):
    """An existing settings file with its content."""

    kind: LayerKind
    path: Path
    data: bytes


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one file: keys renamed, variables expanded and, for a workspace, reduced to
    allowed values. `data` is the file content; `moved` maps renamed keys (new -> old). `remarks`
    are warnings without consequences."""

    kind: LayerKind
    path: Path
    document: dict[str, Any]
    data: bytes
    moved: dict[str, str] = {}
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()

    @property
    def written(self) -> dict[str, Any]:
        """All of the file, with renamed keys and unexpanded variables."""
        return rename_old_keys(cast("dict[str, Any]", parse_settings(self.path, self.data)))[0]

    def says(self, path: tuple[str, ...]) -> bool:
        """True when there is an effective value at a path."""
        value: Any = self.document
        for name in path:
            if not isinstance(value, dict) or name not in value:
                return False
            value = cast("dict[str, Any]", value)[name]
        return True

    def line(self, path: tuple[str, ...]) -> int | None:
        """The line of a key's value, or of the closest parent."""
        lines = _lines(self.path, self.data)
        for count in range(len(path), 0, -1):
            part = path[:count]
            old = self.moved.get(".".join(part))
            part = part if old is None else tuple(old.split("."))
            if part in lines:
                return lines[part]
        return None


class MergedLayers(msgspec.Struct, frozen=True, kw_only=True):
    """The merged layers."""

    settings: Settings
    layers: tuple[Layer, ...]


def merge_layers(
    files: tuple[LayerFile, ...],
    environ: Mapping[str, str],
    workspace_environ: Mapping[str, str] | None = None,
    held: frozenset[tuple[str, ...]] = frozenset(),
) -> MergedLayers:
    """Merges settings files given in any order. The texts of a workspace's file are expanded with
    `workspace_environ`; the values at the paths `held` are dropped from it.

    Raises ConfigError that names file, line and remedy of each invalid value.
    """
    without = Settings()
    layers = {
        file.kind: _layer(file, environ) for file in files if file.kind is not LayerKind.WORKSPACE
    }
    for file in files:
        if file.kind is LayerKind.WORKSPACE:
            without = _settings(_together(layers))
            given = environ if workspace_environ is None else workspace_environ
            layers[file.kind] = _without_held(_workspace(file, given, without), held)
    settings = _settings(_together(layers))
    if LayerKind.WORKSPACE in layers and without.mcp.server_command is None:
        settings = _with_command(settings)
    return MergedLayers(
        settings=settings,
        layers=tuple(layers[kind] for kind in ORDER if kind in layers),
    )


def _with_command(settings: Settings) -> Settings:
    """Adds the server of a workspace's `mcp.serverCommand` to the servers."""
    command = settings.mcp.server_command
    if not (command and command.strip()):
        return settings
    from alhena.config.mcp_servers import COMMAND_SERVER, OF_WORKSPACE, command_entry

    try:
        entry = {**command_entry(command), **OF_WORKSPACE}
    except ValueError:  # reported when servers are built from the settings
        return settings
    servers = {**settings.mcp_servers, COMMAND_SERVER: entry}
    servers.update(settings.mcp_servers)
    return msgspec.structs.replace(settings, mcp_servers=servers)


UNION = frozenset(
    {
        *("policyPaths", "adminPolicyPaths", "tools.exclude", "advanced.excludedEnvVars"),
        *("context.fileFiltering.customIgnoreFilePaths", "tools.confirmationRequired"),
    }
)
"""Lists with the entries of all layers, without duplicates; `*.disabled` are merged the same
way."""
CONCATENATED = frozenset({"context.includeDirectories"})
"""Lists that are concatenated; those of `hooks` are merged the same way."""
SHALLOW = frozenset({"mcpServers"})
"""Objects whose members are replaced as a whole by a higher layer."""


def merge_values(lower: Any, higher: Any, key: str = "") -> Any:
    """Merges `higher` over `lower`; `key` is their dotted key. Neither is changed."""
    if isinstance(lower, dict) and isinstance(higher, dict):
        below, above = cast("dict[str, Any]", lower), cast("dict[str, Any]", higher)
        if key in SHALLOW:
            return {**below, **above}
        inner = f"{key}." if key else ""
        found = {
            name: merge_values(value, above[name], inner + name) if name in above else value
            for name, value in below.items()
        }
        return found | {name: value for name, value in above.items() if name not in below}
    if isinstance(lower, list) and isinstance(higher, list):
        entries = [*cast("list[Any]", lower), *cast("list[Any]", higher)]
        if key in CONCATENATED or key.startswith("hooks."):
            return entries
        if key in UNION or key.endswith(".disabled"):
            return union(entries)
    return cast("Any", higher)


def _together(layers: Mapping[LayerKind, Layer]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for kind in ORDER:
        if kind in layers:
            own = layers[kind].document
            if kind is not LayerKind.USER:  # hooks of other layers are read by `hooks/gather.py`
                own = {name: value for name, value in own.items() if name != "hooks"}
            document = merge_values(document, own)
    return document


def _settings(document: dict[str, Any]) -> Settings:
    try:
        return msgspec.convert(document, Settings)
    except msgspec.ValidationError as error:  # the combination is invalid
        raise ConfigError(
            f"the settings do not go together: {str(error).replace('`', '')}.",
            remedy="See alhena settings show --origin.",
        ) from error


def _layer(file: LayerFile, environ: Mapping[str, str]) -> Layer:
    try:
        return _read(file, environ, withheld=frozenset())
    except RecursionError as error:
        raise too_deep(file.path) from error


def _read(file: LayerFile, environ: Mapping[str, str], withheld: frozenset[str]) -> Layer:
    value = parse_settings(file.path, file.data)
    if not isinstance(value, dict):
        kind = "a list" if isinstance(value, list) else "a single value"
        raise ConfigError(
            f"{file.path}: it has to be an object, not {kind}.",
            remedy="Write {…} there.",
            page="settings",
        )
    document, moved = rename_old_keys(cast("dict[str, Any]", value))
    if b"$" in file.data or b"\\u" in file.data:
        document = cast("dict[str, Any]", expand_variables(document, environ, withheld=withheld))
    document = _typed_servers(typed_value(document, Settings))
    layer = Layer(kind=file.kind, path=file.path, document=document, data=file.data, moved=moved)
    layer = _require_usable(layer)
    notes: tuple[str, ...] = ()
    if moved:
        pairs = [f"{old} for {new}" for new, old in moved.items()]
        notes = (f"{file.path}: has older names of keys: {first_of(pairs, MAX_NAMED)}.",)
    unused = {".".join(path): path for path in unused_keys(layer.document)}
    odd = [path for key, path in unused.items() if not is_reference_key(key)]
    serious = [path for path in odd[:MAX_JUDGED] if similar_key(path) in _MATTERING]
    told = (*layer.warnings, *_oddities(layer, serious))
    remarks = tuple(_unknown_keys(layer, [path for path in odd if path not in serious]))
    idle = tuple(key for key in unused if is_reference_key(key))
    replace = msgspec.structs.replace
    return replace(layer, warnings=told, notes=notes, remarks=remarks, idle=idle)


def _typed_servers(document: dict[str, Any]) -> dict[str, Any]:
    servers = document.get("mcpServers")
    if not isinstance(servers, dict) or not servers:
        return document
    from alhena.config.mcp_servers import typed_entries

    return {**document, "mcpServers": typed_entries(cast("dict[str, Any]", servers))}


def _require_usable(layer: Layer) -> Layer:
    """The layer without wrong values of looks and comfort, with a warning for each. Raises
    ConfigError that names other invalid values."""
    try:
        msgspec.convert(layer.document, Settings)
    except msgspec.ValidationError as error:
        wrong = wrong_values(layer.document, str(layer.path), layer.line)
        serious = [each for each in wrong if not each.is_comfort]
        if serious:
            told = [f"{each.told}. {each.remedy.rstrip('.')}" for each in serious[:-1]]
            message = "; ".join((*told, serious[-1].told))
            raise ConfigError(
                f"{message}.",
                remedy=serious[-1].remedy,
                page="settings",
            ) from error
        document = layer.document
        for each in wrong:
            document = without_value(document, each.path)
        warnings = tuple(f"{each.told}, so it is ignored. {each.remedy}" for each in wrong)
        layer = msgspec.structs.replace(layer, document=document, warnings=warnings)
        return layer if len(wrong) < MAX_TOLD else _require_usable(layer)
    return layer


def _oddities(layer: Layer, odd: list[tuple[str, ...]]) -> Iterator[str]:
    """Warnings on a layer: unknown keys and unsupported restrictions."""
    yield from _unknown_keys(layer, odd)
    for key in _UNSUPPORTED:
        if value_at(layer.document, key) is True:
            yield (
                f"{layer.path}: {_describe_key(layer, tuple(key.split('.')))} is not supported in "
                "this version, and restricts nothing."
            )


def _unknown_keys(layer: Layer, odd: list[tuple[str, ...]]) -> Iterator[str]:
    if odd:
        near = [(path, similar_key(path)) for path in odd[:MAX_NAMED]]
        named = [
            _describe_key(layer, path, f"did you mean {key}?" if key else "") for path, key in near
        ]
        yield f"{layer.path}: unknown settings (ignored): {first_of(named, MAX_NAMED, len(odd))}."


def _workspace(file: LayerFile, environ: Mapping[str, str], without: Settings) -> Layer:
    """Builds the layer of a workspace from its allowed values."""
    from alhena.config.environment import CREDENTIALS
    from alhena.config.workspace_layer import restrict_document

    holding = msgspec.json.decode(msgspec.json.encode(without))
    try:
        layer = _read(file, environ, withheld=CREDENTIALS)
        # A variable could put a secret into the name of the file.
        named = value_at(layer.document, "telemetry.outfile") is not None and "$" not in str(
            value_at(layer.written, "telemetry.outfile")
        )
        root = str(file.path.parent.parent) if named else None
        document, refusals = restrict_document(layer.document, holding, root)
    except RecursionError as error:
        raise too_deep(file.path) from error
    looks = [refusal for refusal in refusals if _is_of_looks(refusal[0])]
    told = _describe_refusals(layer, [refusal for refusal in refusals if refusal not in looks])
    return msgspec.structs.replace(
        layer,
        document=document,
        warnings=(*layer.warnings, *told),
        remarks=(*layer.remarks, *_describe_refusals(layer, looks)),
    )


_OF_A_PERSON = frozenset(
    ("general", name)
    for name in ("vimMode", "preferredEditor", "enableNotifications", "notificationMethod")
)


def _describe_refusals(layer: Layer, refusals: "list[Refusal]") -> tuple[str, ...]:
    """Lines on the keys that are not taken from a workspace."""
    reasons: dict[str, list[str]] = {}
    for key, why in refusals:
        reasons.setdefault(why, []).append(_describe_key(layer, key))
    return tuple(
        f"{layer.path}: not taken from a workspace: {first_of(named, MAX_NAMED)}; {why}."
        for why, named in reasons.items()
    )


def _is_of_looks(path: tuple[str, ...]) -> bool:
    """True for a key of one person's terminal and editor, which a project cannot set."""
    return path[0] in ("ui", "ide") or path in _OF_A_PERSON


def _without_held(layer: Layer, held: frozenset[tuple[str, ...]]) -> Layer:
    document = layer.document
    for path in held:
        document = without_value(document, path)
    return msgspec.structs.replace(layer, document=document)


@lru_cache(maxsize=8)
def _lines(path: Path, data: bytes) -> dict[tuple[str, ...], int]:
    from alhena.config.jsonc import key_lines

    return key_lines(settings_text(path, data))


def _describe_key(layer: Layer, path: tuple[str, ...], more: str = "") -> str:
    key = layer.moved.get(".".join(path), ".".join(path))
    line = layer.line(path)
    details = "; ".join(filter(None, (f"line {line}" if line else "", more)))
    return f"{key} ({details})" if details else key


MAX_ADDED = 4 * 1024 * 1024
"""Maximum characters added by variables in one document; further ones stay unexpanded."""
_COMMANDS = frozenset({"command"})
"""Keys of hooks whose texts a shell reads; the shell expands variables safely."""


def expand_variables(
    value: Any, environ: Mapping[str, str], *, withheld: Collection[str] = ()
) -> Any:
    """Expands variables in the texts of `value`, a document or a text; keys are unchanged.

    The default of an expression replaces an unset or empty variable. The text stays unchanged for
    names in `withheld`, and for an unset variable without a default; but in the variables, headers
    and URLs of servers, and in the variables of hooks, an unset one is empty.
    """
    return _Expansion(environ, withheld).of(value)


class _Expansion:
    def __init__(self, environ: Mapping[str, str], withheld: Collection[str]) -> None:
        self._environ = environ
        self._withheld = withheld
        self._left = MAX_ADDED
        self._pattern = re.compile(VARIABLE)

    def of(self, value: Any, path: tuple[str, ...] = ()) -> Any:
        """Expands variables in `value`; `path` are the keys that lead to it."""
        match value:
            case str():
                if "$" not in value:
                    return value
                put_in = self._put_in_or_empty if _is_given_away(path) else self._put_in
                return self._pattern.sub(put_in, value)
            case list():
                return [self.of(item, path) for item in cast("list[Any]", value)]
            case dict():
                hooks = path[:1] == ("hooks",)
                members = cast("dict[str, Any]", value)
                return {
                    name: item if hooks and name in _COMMANDS else self.of(item, (*path, name))
                    for name, item in members.items()
                }
            case _:
                return value

    def _put_in_or_empty(self, found: re.Match[str]) -> str:
        return self._put_in(found, unset="")

    def _put_in(self, found: re.Match[str], unset: str | None = None) -> str:
        name = found["plain"] or found["braced"]
        if name is None:
            return "$"
        text = self._environ.get(name, unset)
        if not text and found["default"] is not None:
            text = found["default"]
        if text is None or name.upper() in self._withheld:
            return found[0]
        self._left -= len(text)
        return text if self._left >= 0 else found[0]


def _is_given_away(path: tuple[str, ...]) -> bool:
    """True for a variable, header or URL of a server, or a variable of a hook."""
    match path:
        case ("mcpServers", _, "env" | "headers" | "url" | "httpUrl", *_):
            return True
        case ("hooks", *rest):
            return "env" in rest
        case _:
            return False
