"""`alhena extensions`: lists, installs, updates, switches and removes extensions."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from alhena.config.environment import own_environment
from alhena.config.extension_manifest import MANIFEST, Installation
from alhena.config.extension_parts import is_as_pinned, is_up_to_date, pin_parts
from alhena.config.extensions import (
    Extension,
    Extensions,
    extensions_path,
    is_allowed,
    load_extensions,
    read_pins,
)
from alhena.config.settings import Settings
from alhena.display_text import one_line
from alhena.errors import AlhenaError, ConfigError, InputError, UsageError
from alhena.frontends.shared.arguments import parse_command
from alhena.frontends.shared.current_settings import place_here, tell
from alhena.frontends.shared.listings import (
    Listing,
    extension_rows,
    missing_words,
    print_listing,
)
from alhena.frontends.shared.streams import (
    agrees,
    is_terminal,
    json_document,
    write_lines,
    write_stdout,
)

if TYPE_CHECKING:
    from argparse import Namespace

    from alhena.frontends.shared.consent import ConsentList

USAGE = """\
usage: alhena extensions list [--json]
       alhena extensions install SOURCE [--ref REF] [--consent]
       alhena extensions link FOLDER [--consent]
       alhena extensions update NAME|--all [--consent]
       alhena extensions enable NAME [--scope user|workspace] [--consent]
       alhena extensions disable NAME [--scope user|workspace]
       alhena extensions uninstall NAME …|--all
       alhena extensions config NAME [VARIABLE]
       alhena extensions new FOLDER
       alhena extensions validate FOLDER

install: copies an extension from a folder, an archive (.zip, .tar.gz) or a git URL (http, https,
file) into ~/.gemini/extensions. Shows its contents and asks first.

link: uses the files in FOLDER in place; changes take effect at once.

update: installs an extension again from its source, and asks again.

enable, disable: everywhere, or with --scope workspace in this folder and below. enable also accepts
changed files of an installed extension.

config: asks for the values of an extension's settings, or reads one from standard input. Secrets
are stored in a file that only you can read.

options:
  --consent      install without asking
  --ref          a branch or tag
  --json         print JSON
"""
_ARGUMENTS = {
    "list": "--json",
    "install": "NAME --ref=REF --consent",
    "link": "NAME --consent",
    "update": "[NAME] --all --consent",
    "enable": "NAME --scope=user|workspace --consent",
    "disable": "NAME --scope=user|workspace",
    "uninstall": "[NAMES…] --all",
    "config": "NAME [VARIABLE]",
    "new": "NAME",
    "validate": "NAME",
}


def run(argv: list[str]) -> int:
    """Carries out `alhena extensions ARGV`; returns the exit code."""
    options = parse_command("alhena extensions", argv, _ARGUMENTS)
    if options.command == "new":
        return _new(Path(options.name))
    if options.command == "validate":
        return _validate(Path(os.path.realpath(options.name)))
    place = place_here(told=False)
    allowed = place.settings.security.allowed_extensions
    if not place.settings.experimental.extension_management and options.command != "list":
        raise UsageError("experimental.extensionManagement is false.", remedy="Set it to true.")
    off = place.settings.extensions.disabled
    installed = load_extensions(os.environ, place.cwd, None, allowed, disabled=off)
    command = ExtensionCommand(options, place.settings, place.cwd, installed)
    commands: dict[str, Callable[[], int]] = {
        "list": command.list,
        "install": command.install,
        "link": command.link,
        "update": command.update,
        "enable": command.enable,
        "disable": command.disable,
        "uninstall": command.uninstall,
        "config": command.configure,
    }
    return commands[options.command]()


def show_used(chosen: tuple[str, ...] | None) -> int:
    """Carries out `alhena --list-extensions`."""
    place = place_here(extensions=chosen)
    used = [each for each in place.extensions if not each.why]
    if used:
        names = "".join(f"- {each.name}\n" for each in used)
        write_stdout(f"Installed extensions:\n{names}")
    else:
        write_stdout("No extensions installed.\n")
    return 0


class ExtensionCommand:
    """A command that needs the installed extensions."""

    def __init__(
        self, options: "Namespace", settings: Settings, cwd: Path, installed: Extensions
    ) -> None:
        self._options = options
        self._settings = settings
        self._cwd = cwd
        self._installed = installed

    def list(self) -> int:
        """Lists all installed extensions."""
        tell(self._installed.problems)
        listing = Listing(noun="extension", rows=extension_rows(self._installed.all))
        return print_listing(listing, as_json=self._options.json)

    def install(self) -> int:
        """Installs an extension that is not there yet."""
        source: str = self._options.name
        is_git = source.partition("://")[0] in ("http", "https", "file")
        path = os.path.expanduser(source)
        kept = os.path.realpath(path) if os.path.exists(path) and not is_git else source
        installation = Installation(
            source=kept, type="git" if is_git else "local", ref=self._options.ref
        )
        return self._fetch(installation, None)

    def update(self) -> int:
        """Gets extensions from their sources again; returns 1 when one could not be."""
        if bool(self._options.name) is bool(self._options.all):
            raise UsageError("name one extension, or --all.")
        if self._options.name:
            return self._update(self._find_named())
        code = 0
        for each in self._installed.all:
            if each.installation is None or each.linked:
                continue
            try:
                self._update(each)
            except AlhenaError as error:
                tell([f"{each.name}: {error}"])
                code = 1
        return code

    def _update(self, extension: Extension) -> int:
        if extension.installation is None or extension.linked:
            why = "it is linked" if extension.linked else "it was not installed by a command"
            raise UsageError(f"{extension.name} has no source to update it from: {why}.")
        moved = extension.manifest.migrated_to
        installation = extension.installation
        if moved:
            installation = Installation(source=moved, type="git")
        elif installation.type == "github-release":
            installation = replace(installation, type="git")
        return self._fetch(installation, extension)

    def _fetch(self, installation: Installation, old: Extension | None) -> int:
        """Fetches an extension, asks, and puts it in its place."""
        from alhena.extensions.installation import fetch, put, staging
        from alhena.frontends.shared.consent import consent_to_extension

        self._require_allowed(installation)
        with staging(extensions_path(os.environ)) as content:
            environ = own_environment(os.environ)
            notes = fetch(installation.source, content, environ, installation.ref)
            if old is not None and not os.path.lexists(old.home):
                raise InputError("it was uninstalled meanwhile.", remedy="Install it again.")
            if old is not None and not old.why and is_up_to_date(old.folder, content):
                write_stdout(f"{old.name} is up to date.\n")
                return 0
            base = extensions_path(os.environ)
            try:
                manifest, brought = consent_to_extension(content, self._cwd, os.environ, base)
            except ConfigError as error:
                message = error.message.replace(str(content), installation.source)
                raise ConfigError(message, remedy=error.remedy) from error
            name = manifest.name
            later = str(base / name)
            brought.problems = [each.replace(str(content), later) for each in brought.problems]
            brought.problems += notes
            if old is not None and name != old.name:
                raise InputError(f"the source of {old.name} is now the extension {name}.")
            if old is None:
                self._require_new(name)
            if not self._ask_consent(brought, f"Install {name}"):
                return 0
            put(content, name, installation, os.environ)
        write_stdout(f"{name} {one_line(manifest.version)} is installed.\n")
        self._ask_for_values(name)
        return 0

    def link(self) -> int:
        """Links an extension."""
        from alhena.extensions.installation import put, staging
        from alhena.extensions.links import describe_links
        from alhena.frontends.shared.consent import consent_to_extension

        folder = Path(os.path.realpath(self._options.name))
        installation = Installation(source=str(folder), type="link")
        self._require_allowed(installation)
        manifest, brought = consent_to_extension(folder, self._cwd, os.environ)
        brought.problems += describe_links(folder)
        name = manifest.name
        self._require_new(name)
        if self._ask_consent(brought, f"Link {name}, also what it brings later"):
            with staging(extensions_path(os.environ)) as content:
                self._require_new(name)  # again: asking takes a person some time
                content.mkdir()
                put(content, name, installation, os.environ)
            write_stdout(f"{name} is linked.\n")
            self._ask_for_values(name)
        return 0

    def enable(self) -> int:
        """Enables an extension, and accepts its files if they have changed."""
        from alhena.extensions.installation import accept
        from alhena.frontends.shared.consent import consent_to_extension

        extension = self._find_named()
        pin = read_pins(os.environ).get(extension.name)
        changed = pin is not None and not is_as_pinned(extension.folder, pin)
        if changed and not extension.linked:
            shown = pin_parts(extension.folder)
            _, brought = consent_to_extension(extension.folder, self._cwd, os.environ)
            if not self._ask_consent(
                brought, f"The files of {extension.name} have changed. Use it"
            ):
                return 0
            accept(extension.name, os.environ, shown)
        return self._turn(extension, enabled=True)

    def disable(self) -> int:
        """Disables an extension."""
        return self._turn(self._find_named(), enabled=False)

    def _turn(self, extension: Extension, *, enabled: bool) -> int:
        from alhena.extensions.installation import set_enabled

        folder = self._cwd if self._options.scope == "workspace" else None
        set_enabled(extension.name, folder, os.environ, enabled=enabled)
        where = "" if folder is None else f" in {one_line(str(folder))}"
        write_stdout(f"{extension.name} is {'enabled' if enabled else 'disabled'}{where}.\n")
        return 0

    def uninstall(self) -> int:
        """Removes extensions; returns 1 when one could not be."""
        from alhena.extensions.installation import remove

        names: list[str] = self._options.names
        if bool(names) is bool(self._options.all):
            raise UsageError("name the extensions, or --all.")
        wanted = (
            self._installed.all if self._options.all else [self._find_named(each) for each in names]
        )
        code = 0
        for extension in {each.name: each for each in wanted}.values():
            try:
                remove(extension, os.environ)
                write_stdout(f"{extension.name} is removed.\n")
            except AlhenaError as error:
                tell([f"{extension.name}: {error}"])
                code = 1
        return code

    def configure(self) -> int:
        """Asks for the values of an extension's settings."""
        from alhena.extensions.installation import set_value

        extension = self._find_named()
        wanted = self._options.variable
        settings = extension.manifest.settings
        found = [each for each in settings if wanted in (None, each.env_var, each.name)]
        if not found:
            known = ", ".join(each.env_var for each in settings) or "none"
            raise UsageError(
                f"{extension.name} has no setting {one_line(wanted or '')!r}.".replace(" ''", ""),
                remedy=f"There are: {known}.",
            )
        at_terminal = is_terminal(sys.stdin) and is_terminal(sys.stdout)
        if wanted is None and not at_terminal:
            raise UsageError("no person to ask.", remedy="Name a VARIABLE, its value on stdin.")
        for each in found:
            if not at_terminal:
                value = sys.stdin.readline().rstrip("\r\n")
            elif each.sensitive:
                from getpass import getpass

                value = getpass(f"{each.name} ({each.env_var}, not shown): ")
            else:
                write_stdout(f"{each.name} ({each.env_var}): ")
                value = sys.stdin.readline().rstrip("\r\n")
            if value:
                set_value(extension, each.env_var, value, os.environ)
                write_stdout(f"{each.env_var} is set.\n")
        return 0

    def _ask_for_values(self, name: str) -> None:
        installed = load_extensions(os.environ, self._cwd)
        for each in installed.all:
            if each.name == name:
                write_stdout(f"{missing_words(each)}\n" if each.missing else "")

    def _find_named(self, name: str = "") -> Extension:
        """The installed extension that was named. Raises UsageError."""
        name = name or self._options.name
        for each in self._installed.all:
            if each.name.lower() == name.lower():
                return each
        if any(f"the extension {one_line(name)} " in each for each in self._installed.problems):
            tell(self._installed.problems)
        known = ", ".join(each.name for each in self._installed.all) or "none"
        raise UsageError(
            f"there is no extension {one_line(name)!r}.", remedy=f"There are: {known}."
        )

    def _require_new(self, name: str) -> None:
        if os.path.lexists(extensions_path(os.environ) / name):
            raise InputError(
                f"there is an extension {name} already.",
                remedy=f"Update it (alhena extensions update {name}) or uninstall it first.",
            )

    def _require_allowed(self, installation: Installation) -> None:
        """Raises UsageError when the settings forbid a source."""
        security = self._settings.security
        if security.block_git_extensions and installation.type == "git":
            raise UsageError("security.blockGitExtensions forbids extensions from git.")
        if not is_allowed(installation.source, security.allowed_extensions):
            raise UsageError("security.allowedExtensions does not match that source.")

    def _ask_consent(self, brought: "ConsentList", question: str) -> bool:
        """Shows what an extension brings and asks. Raises UsageError without a person to ask."""
        write_lines(brought.lines)
        tell(brought.problems)
        question = f"Its commands run with your rights. {question}? [y/N] "
        return agrees(question, "nothing was changed", consent=self._options.consent)


def _validate(folder: Path) -> int:
    """Says what is wrong in the extension of a folder; returns 1 when something is."""
    from alhena.frontends.shared.consent import consent_to_extension

    _, brought = consent_to_extension(folder, folder, os.environ)
    write_lines(brought.lines)
    tell(brought.problems)
    if brought.problems:
        return 1
    write_stdout("It is valid.\n")
    return 0


def _new(folder: Path) -> int:
    """Writes a new extension into a folder that is not there yet."""
    from alhena.config.extension_manifest import manifest_of

    if os.path.lexists(folder):
        raise InputError(f"{one_line(str(folder))} exists already.", remedy="Name a new folder.")
    name = Path(os.path.abspath(folder)).name
    manifest = {"name": name, "version": "0.1.0", "description": ""}
    manifest_of(folder, manifest)
    folder.mkdir(parents=True)
    (folder / MANIFEST).write_text(json_document(manifest), encoding="utf-8")
    (folder / "GEMINI.md").write_text(f"# {name}\n", encoding="utf-8")
    write_stdout(
        f"{one_line(str(folder))} has a manifest and a context file. To try it: "
        f"alhena extensions link {one_line(str(folder))}\n"
    )
    return 0
