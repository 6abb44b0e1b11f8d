"""Extensions in `~/.gemini/extensions`: reads their manifests and decides which of them are used.

Only manifests, and the state of files (size, time), are read here; what an extension brings is read
where things of its kind are.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec

from alhena.config.documents import parse_settings, read_limited
from alhena.config.env_files import parse_env
from alhena.config.extension_manifest import (
    HOOKS,
    ExtensionPin,
    Installation,
    Manifest,
    manifest_document,
    manifest_of,
    read_installation,
    read_json,
    substitute_paths,
)
from alhena.config.home import config_home
from alhena.config.layers import expand_variables
from alhena.config.settings import Settings
from alhena.display_text import one_line
from alhena.errors import ConfigError
from alhena.values import Value

ENABLEMENT = "extension-enablement.json"
SECRETS = "extension-secrets.json"
REPLACED = ".replaced-"
"""Prefix of the old folder while an update is put in its place."""


class Extension(Value, frozen=True, kw_only=True):
    """An installed extension. `home` is its folder below `~/.gemini/extensions`, `folder` where its
    files are (elsewhere for a linked one), `why` the reason why it is not used, `environ` the
    values of its settings; `restrictions` is the folder with what it restricts all the same.
    `lacking`: the settings without a value in the command or URL of each server. The repr shows no
    values."""

    manifest: Manifest
    home: Path
    folder: Path
    installation: Installation | None
    environ: dict[str, str]
    why: str = ""
    restrictions: Path | None = None
    lacking: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict[str, tuple[str, ...]])

    def __repr__(self) -> str:
        return f"Extension({self.name!r}, {str(self.folder)!r})"

    @property
    def name(self) -> str:
        """Its name, which is also that of its folder."""
        return self.manifest.name

    @property
    def linked(self) -> bool:
        """True when its files are used where they are."""
        return self.installation is not None and self.installation.type == "link"

    @property
    def missing(self) -> tuple[str, ...]:
        """The variables of its settings that have no value."""
        names = (each.env_var for each in self.manifest.settings)
        return tuple(name for name in names if name not in self.environ)

    def expand_text(self, text: str, workspace: Path) -> str:
        """A text for the model with the variables of paths replaced, and the values of settings
        that are no secrets."""
        secret = {each.env_var for each in self.manifest.settings if each.sensitive}
        values = {name: value for name, value in self.environ.items() if name not in secret}
        return str(substitute_paths(text, self.folder, workspace, values))

    def context_files(self) -> tuple[Path, ...]:
        """The existing context files."""
        names = self.manifest.context_file_name
        listed = names if isinstance(names, tuple) else (names or "GEMINI.md",)
        found = (self.folder / name for name in listed)
        return tuple(path for path in found if os.path.isfile(path))

    @property
    def hooks_file(self) -> Path:
        """The file of its hooks, which need not exist."""
        return self.folder / HOOKS

    def hooks(self, workspace: Path, place: Path | None = None) -> Any:
        """The content of the file of hooks, None without one; `place` is where the folder will be,
        None if it is there. Raises ConfigError."""
        path = self.hooks_file
        try:
            data = read_limited(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror or error}.") from error
        return substitute_paths(parse_settings(path, data), place or self.folder, workspace)


class Extensions(Value, frozen=True, kw_only=True):
    """All installed extensions by name, and what is wrong with some of them."""

    all: tuple[Extension, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def used(self) -> tuple[Extension, ...]:
        """Those that are used, and those that cannot be, reduced to what they restrict."""
        reduced = (
            msgspec.structs.replace(each, folder=each.restrictions) if each.restrictions else each
            for each in self.all
        )
        return tuple(each for each in reduced if not each.why or each.restrictions)


def text_expanders(
    extensions: Iterable[Extension], workspace: Path
) -> dict[str, Callable[[str], str]]:
    """The `expand_text` of each extension by its name, for a workspace."""
    return {each.name: partial(each.expand_text, workspace=workspace) for each in extensions}


def extensions_path(environ: Mapping[str, str]) -> Path:
    """The folder of installed extensions."""
    return config_home(environ) / "extensions"


def pins_path(environ: Mapping[str, str]) -> Path:
    """The file of the accepted states of installed extensions."""
    return config_home(environ) / "acknowledgments" / "extensions.json"


def restrictions_path(name: str, environ: Mapping[str, str]) -> Path:
    """The folder with what an extension restricts, written when it is accepted: an extension of its
    own with policies, excluded tools, and hooks that block."""
    return config_home(environ) / "acknowledgments" / "extensions" / name


def load_extensions(
    environ: Mapping[str, str],
    workspace: Path,
    chosen: tuple[str, ...] | None = None,
    allowed: Iterable[str] = (),
    *,
    disabled: Iterable[str] = (),
) -> Extensions:
    """The installed extensions as they are for a workspace. `chosen` are the only ones to use
    (`-e`; "none" for none), instead of those that are enabled. `allowed` are regular expressions of
    which one has to match the source; none of them: all sources. `disabled` are names of
    `extensions.disabled`."""
    base = extensions_path(environ)
    loader = _Loader(environ, workspace, chosen, tuple(allowed))
    loader.disabled = frozenset(name.casefold() for name in disabled)
    found = [loader.load(home) for home in _folders(base)]
    extensions = tuple(each for each in found if each is not None)
    names = {each.name.lower() for each in extensions}
    for name in chosen or ():
        if name.lower() not in names and name.lower() != "none":
            there = ", ".join(sorted(names)) or "none"
            loader.problems.append(f"there is no extension {one_line(name)}. There are: {there}.")
    return Extensions(all=extensions, problems=tuple(loader.problems))


def with_extensions(settings: Settings, extensions: Iterable[Extension]) -> Settings:
    """Settings with the MCP servers, excluded tools and themes of extensions. A server of the
    settings counts before one of an extension, and none of an extension is trusted."""
    servers: dict[str, Any] = dict(settings.mcp_servers)
    excluded = list(settings.tools.exclude)
    themes: dict[str, Any] = {}
    for extension in extensions:
        for name, entry in _typed_servers(extension.manifest.mcp_servers).items():
            env = with_environ(extension.environ, entry.get("env"))
            own = {"trust": False, "extension": extension.name, "env": env}
            if lacking := extension.lacking.get(name):
                from alhena.config.mcp_servers import LACKING

                own[LACKING] = lacking
            servers.setdefault(name, {**entry, **own})
        excluded += extension.manifest.exclude_tools
        for theme in extension.manifest.themes:
            if isinstance(name := theme.get("name"), str):
                themes[f"{name} ({extension.name})"] = theme
    tools = msgspec.structs.replace(settings.tools, exclude=tuple(dict.fromkeys(excluded)))
    ui = msgspec.structs.replace(settings.ui, custom_themes={**themes, **settings.ui.custom_themes})
    return msgspec.structs.replace(settings, mcp_servers=servers, tools=tools, ui=ui)


def _typed_servers(servers: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if not servers:
        return {}
    from alhena.config.mcp_servers import typed_entries

    return typed_entries(servers)


def with_environ(environ: Mapping[str, str], env: Any) -> Any:
    """The `env` of a server with the values of an extension's settings below its own; one that is
    no object stays as it is, for the server to be refused."""
    if isinstance(env, dict):
        return {**environ, **cast("dict[str, Any]", env)}
    return dict(environ) if env is None else env


def is_enabled(overrides: Iterable[str], workspace: Path, environ: Mapping[str, str]) -> bool:
    """True when an extension with these overrides is used in a workspace: the last rule that
    matches counts. `!` disables, `*` at the end matches all below; a rule for everything below the
    user's home directory is for every folder."""
    enabled = True
    path = f"{str(workspace).rstrip('/')}/"
    home = f"{str(config_home(environ).parent).rstrip('/')}/*"
    for rule in overrides:
        pattern = rule.removeprefix("!")
        pattern = pattern if pattern.endswith("*") else f"{pattern.rstrip('/')}/"
        below = pattern.endswith("*") and path.startswith(pattern[:-1])
        if below or pattern in (path, home):
            enabled = not rule.startswith("!")
    return enabled


def read_enablement(environ: Mapping[str, str]) -> dict[str, list[str]]:
    """The overrides of each extension. Raises ConfigError."""
    path = extensions_path(environ) / ENABLEMENT
    found = read_json(path, dict[str, dict[str, list[str]]])
    return {name: entry.get("overrides", []) for name, entry in found.items()}


def read_pins(environ: Mapping[str, str]) -> dict[str, ExtensionPin]:
    """The accepted states by name. Raises ConfigError."""
    return read_json(pins_path(environ), dict[str, ExtensionPin])


def read_secrets(environ: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The values of sensitive settings by extension and variable. Raises ConfigError."""
    return read_json(config_home(environ) / SECRETS, dict[str, dict[str, str]])


class _Loader:
    """Loads installed extensions, and collects what is wrong."""

    def __init__(
        self,
        environ: Mapping[str, str],
        workspace: Path,
        chosen: tuple[str, ...] | None,
        allowed: tuple[str, ...],
    ) -> None:
        self.problems: list[str] = []
        self.disabled: frozenset[str] = frozenset()
        self._environ = environ
        self._workspace = workspace
        self._chosen = None if chosen is None else {name.lower() for name in chosen}
        self._allowed = allowed
        self._unusable = ""
        self._enablement = self._read(read_enablement)
        self._pins = self._read(read_pins)
        self._secrets = self._read(read_secrets)

    def load(self, home: Path) -> Extension | None:
        """An extension; None, and a problem, for one without a usable manifest."""
        try:
            installation = read_installation(home)
            linked = installation is not None and installation.type == "link"
            folder = Path(installation.source) if installation and linked else home
            document = manifest_document(folder)
            asked = manifest_of(folder, document)
            values = self._values(home, asked)
            environ = {**self._environ, **values}
            lacking = dict(_find_lacking(asked, environ))
            document = expand_variables(document, environ)
            manifest = manifest_of(folder, substitute_paths(document, folder, self._workspace))
        except ConfigError as error:
            return self._reduce_to_restrictions(home.name, str(error))
        if manifest.name != home.name:
            why = f"its manifest says {manifest.name}; the names have to match"
            return self._reduce_to_restrictions(home.name, why)
        found = Extension(
            manifest=manifest,
            home=home,
            folder=folder,
            installation=installation,
            environ=values,
            lacking=lacking,
        )
        why = self._why_off(found)
        if why is None:
            return found
        if why.chosen:
            if why.is_problem:
                self._problem(found.name, why.text)
            return msgspec.structs.replace(found, why=why.text)
        return self._reduce_to_restrictions(home.name, why.text, found)

    def _why_off(self, extension: Extension) -> "_WhyOff | None":
        """The reason why an extension is not used; None if it is."""
        name = extension.name
        if self._chosen is not None:
            if name.lower() not in self._chosen or "none" in self._chosen:
                return _WhyOff("-e does not name it", chosen=True)
        elif name.casefold() in self.disabled:
            return _WhyOff("extensions.disabled names it", chosen=True)
        elif not is_enabled(self._enablement.get(name, ()), self._workspace, self._environ):
            return _WhyOff(f"disabled; alhena extensions enable {name}", chosen=True)
        source = "" if extension.installation is None else extension.installation.source
        if not is_allowed(source, self._allowed):
            why = "security.allowedExtensions does not match its source"
            return _WhyOff(why, chosen=True, is_problem=True)
        why = self._unusable
        pin = self._pins.get(name)
        if not why and pin is not None and not extension.linked:
            why = self._change_reason(extension, pin)
        return _WhyOff(why) if why else None

    def _change_reason(self, extension: Extension, pin: ExtensionPin) -> str:
        from alhena.config.extension_parts import describe_changes, is_as_pinned

        if is_as_pinned(extension.folder, pin):
            return ""
        changes = describe_changes(extension.folder, pin)
        return (
            f"its files have changed since it was installed ({one_line(changes)}); look at them in "
            f"{extension.folder}, then alhena extensions enable {extension.name}, or get it again: "
            f"alhena extensions update {extension.name}"
        )

    def _reduce_to_restrictions(
        self, name: str, why: str, found: Extension | None = None
    ) -> Extension | None:
        """An extension that a person wants and that cannot be used, reduced to what it restricts,
        as it was accepted; None if nothing is known of it."""
        folder = restrictions_path(name, self._environ)
        try:
            manifest = manifest_of(folder, manifest_document(folder))
        except ConfigError:
            self._problem(name, why)
            return None if found is None else msgspec.structs.replace(found, why=one_line(why))
        self._problem(name, f"{why}; until then what it guards is blocked, its policies hold")
        home = extensions_path(self._environ) / name
        return Extension(
            manifest=manifest,
            home=home,
            folder=folder if found is None else found.folder,
            installation=None if found is None else found.installation,
            environ={},
            why=one_line(why),
            restrictions=folder,
        )

    def _values(self, home: Path, manifest: Manifest) -> dict[str, str]:
        """The values of an extension's settings."""
        names = [each.env_var for each in manifest.settings]
        if not names:
            return {}
        try:
            found = parse_env(read_limited(home / ".env").decode("utf-8", "replace"))
        except OSError:
            found = {}
        found |= self._secrets.get(manifest.name, {})
        return {name: found[name] for name in names if found.get(name)}

    def _read(self, read: Any) -> dict[str, Any]:
        try:
            return read(self._environ)
        except ConfigError as error:
            self._unusable = one_line(str(error)).rstrip(".")
            return {}

    def _problem(self, name: str, why: str) -> None:
        text = one_line(why).rstrip(".")
        self.problems.append(f"the extension {one_line(name)} is not used: {text}.")


_NAMED = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")


def _find_lacking(
    manifest: Manifest, environ: Mapping[str, str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Servers whose command or URL is made of settings that have no value, with these."""
    settings = [each.env_var for each in manifest.settings if not environ.get(each.env_var)]
    for name, entry in manifest.mcp_servers.items():
        texts = [str(entry.get(key, "")) for key in ("command", "url", "httpUrl")]
        named = {name for text in texts for found in _NAMED.findall(text) for name in found}
        if lacking := tuple(each for each in settings if each in named):
            yield name, lacking


class _WhyOff(Value, frozen=True):
    """The reason why an extension is not used: `chosen` by a person, or because of its state."""

    text: str
    chosen: bool = False
    is_problem: bool = False


def is_allowed(source: str, allowed: tuple[str, ...]) -> bool:
    """True when one of the regular expressions matches, or there are none; an invalid one matches
    nothing."""
    for pattern in allowed:
        with suppress(re.error):
            if re.search(pattern, source):
                return True
    return not allowed


def _folders(base: Path) -> Iterator[Path]:
    """The folders of installed extensions. An old one that an interrupted update has put aside is
    put back."""
    try:
        names = sorted(os.listdir(base))
    except OSError:
        return
    for name in names:
        old = name.removeprefix(REPLACED)
        if old != name and not os.path.lexists(base / old):
            with suppress(OSError):  # such as in a home directory that is read only
                os.rename(base / name, base / old)
                names.append(old)
    for name in sorted(names):
        if not name.startswith(".") and os.path.isdir(base / name):
            yield base / name
