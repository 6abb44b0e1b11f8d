"""Tells what an extension brings, for the person who decides about it, and what is wrong in it."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from alhena.commands import CustomCommands, Source
from alhena.config.extension_parts import substituted
from alhena.config.extensions import (
    Extension,
    Manifest,
    manifest_document,
    manifest_of,
)
from alhena.config.mcp_servers import server_of
from alhena.display_text import one_line
from alhena.errors import ConfigError, InputError
from alhena.hooks.load import HookDocument, load_hooks
from alhena.hooks.model import HookSource
from alhena.policy.load import load_directory
from alhena.policy.model import Tier
from alhena.skills.files import Skills

AGENT_SUFFIXES = (".md", ".toml")


class Contents:
    """The content of the extension in a folder; with `base` it is to be installed there. `lines`
    tell what it brings, `problems` what is wrong. Raises ConfigError for a manifest that cannot be
    used."""

    def __init__(self, folder: Path, workspace: Path, base: Path | None = None) -> None:
        document = manifest_document(folder)
        self._place = folder if base is None else base / manifest_of(folder, document).name
        document = substituted(document, self._place, workspace)
        self.manifest: Manifest = manifest_of(folder, document)
        self.problems: list[str] = []
        self.folder = folder
        self._extension = Extension(
            manifest=self.manifest, home=folder, folder=folder, installation=None, environ={}
        )
        self._workspace = workspace
        self.lines = tuple(one_line(each, 500) for each in self._lines())

    def _lines(self) -> Iterator[str]:
        manifest = self.manifest
        yield " ".join(filter(None, (manifest.name, manifest.version, manifest.description)))
        for name, entry in manifest.mcp_servers.items():
            made = server_of(name, entry)
            if isinstance(made, str):
                self.problems.append(made.removeprefix("settings: "))
            yield f"  MCP server {name}: {command_line(entry)}"
        yield from self._hooks()
        if manifest.exclude_tools:
            yield f"  excludes tools: {', '.join(manifest.exclude_tools)}"
        for path in self._extension.context_files():
            yield f"  context file: {path.name}"
        yield from self._skills()
        for path in self._named("agents", *AGENT_SUFFIXES):
            yield f"  agent: {path.stem}"
        yield from self._commands()
        yield from self._policies()
        for theme in manifest.themes:
            yield f"  theme, not used (the colours are your terminal's): {theme.get('name', '')}"
        for setting in manifest.settings:
            secret = ", a secret" if setting.sensitive else ""
            yield f"  asks for: {setting.name} ({setting.env_var}{secret}) {setting.description}"

    def _hooks(self) -> Iterator[str]:
        try:
            value = self._extension.hooks(self._workspace, self._place)
        except ConfigError as error:
            self.problems.append(str(error))
            return
        if value is None:
            return
        loaded = load_hooks(
            HookDocument(
                value=value,
                file=str(self._extension.hooks_file),
                source=HookSource.EXTENSION,
            )
        )
        self.problems += [str(each) for each in loaded.problems]
        for group in loaded.groups:
            for hook in group.hooks:
                yield f"  hook {group.event}: {hook.command}"

    def _skills(self) -> Iterator[str]:
        folder = self.folder / "skills"
        if folder.is_dir():
            skills = Skills([(self.manifest.name, folder)])
            self.problems += skills.problems
            for skill in skills.all.values():
                yield f"  skill {skill.name}: {skill.description}"

    def _commands(self) -> Iterator[str]:
        source = Source(name=self.manifest.name, folder=self.folder / "commands")
        commands = CustomCommands([source])
        self.problems += commands.problems
        for name, file in commands.files.items():
            try:
                commands.read(file)
            except InputError as error:
                self.problems.append(error.message)
            yield f"  command: /{name}"

    def _policies(self) -> Iterator[str]:
        folder = self.folder / "policies"
        loaded = load_directory(folder, Tier.USER)
        self.problems += [str(each) for each in loaded.problems]
        for path in self._named("policies", ".toml"):
            yield f"  policy: {path.name} (can only restrict)"

    def _named(self, folder: str, *suffixes: str) -> list[Path]:
        try:
            found = sorted((self.folder / folder).iterdir())
        except OSError:
            return []
        return [path for path in found if path.suffix in suffixes and path.name[:1] not in "_."]


def command_line(entry: dict[str, Any]) -> str:
    """The command line of a server's entry, or its URL."""
    words = [entry.get("command"), *(entry.get("args") or ())]
    if words[0]:
        return shlex.join(map(str, words))
    return str(entry.get("httpUrl") or entry.get("url") or "")
