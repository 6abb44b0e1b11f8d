"""Copies a folder to install from a directory, an archive or a git repository, puts extensions into
`~/.gemini/extensions` and removes them.

Nothing copied is run, and nothing that leads out of the folder is taken. An installed extension is
there whole, or the old one still is, whatever happens.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from msgspec.structs import replace

from alhena.config.extension_manifest import METADATA, ExtensionPin, Installation
from alhena.config.extension_parts import pin_parts
from alhena.config.extensions import (
    ENABLEMENT,
    REPLACED,
    SECRETS,
    Extension,
    extensions_path,
    is_enabled,
    pins_path,
    read_enablement,
    read_pins,
    read_secrets,
    restrictions_path,
)
from alhena.config.home import config_home
from alhena.errors import InputError
from alhena.extensions.archives import SUFFIXES, ArchiveError, unpack
from alhena.extensions.links import MANY_FILES, measure_package, resolve_links
from alhena.system.environment import shield_memory
from alhena.system.errors import ProcessStartError, printable
from alhena.system.files import exclusive
from alhena.system.own_programs import git_command, user_variables
from alhena.system.private_files import change_file

STAGED = ".installing-"
_PATIENCE_S = 60.0


@contextmanager
def staging(folder: Path) -> Generator[Path]:
    """A path in `folder` where nothing is yet, for content to be installed. One process at a time;
    what killed ones have left is removed. Raises FileError when another one takes too long."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with exclusive(folder / ".installing.lock", patience_s=_PATIENCE_S):
        for name in os.listdir(folder):
            replaced = name.startswith(REPLACED) and (folder / name[len(REPLACED) :]).exists()
            if replaced or (name.startswith(STAGED) and (folder / name).is_dir()):
                shutil.rmtree(folder / name, ignore_errors=True)
        with TemporaryDirectory(prefix=STAGED, dir=folder, ignore_cleanup_errors=True) as staged:
            yield Path(staged) / "content"


def put(content: Path, name: str, installation: Installation, environ: Mapping[str, str]) -> None:
    """Makes a staged folder the extension `name`, in place of an older one, whose values it keeps.
    Raises InputError; the older one is then as it was."""
    base = extensions_path(environ)
    target, old = base / name, base / f"{REPLACED}{name}"
    try:
        (content / METADATA).write_bytes(_metadata(installation))
        if os.path.isfile(target / ".env"):
            shutil.copy2(target / ".env", content / ".env")
        if installation.type != "link":
            _expect(name, content, environ)
        if os.path.lexists(target):
            shutil.rmtree(old, ignore_errors=True)
            target.rename(old)
        content.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        if os.path.lexists(old) and not os.path.lexists(target):
            old.rename(target)
        raise InputError(
            f"cannot install {name}: {error.strerror or error}.", remedy="Nothing was changed."
        ) from error
    if installation.type == "link":
        _forget(pins_path(environ), name)
        shutil.rmtree(restrictions_path(name, environ), ignore_errors=True)
    else:
        accept(name, environ)


def _expect(name: str, content: Path, environ: Mapping[str, str]) -> None:
    """Accepts new content beside the old, so that a kill leaves one of them in use."""
    old = read_pins(environ).get(name)
    if old is None and os.path.lexists(extensions_path(environ) / name):
        return  # without a state, as the reference installs them, any content is used
    state = replace(old or ExtensionPin(), next=pin_parts(content).parts)
    _change(pins_path(environ), lambda found: found | {name: msgspec.to_builtins(state)})


def accept(name: str, environ: Mapping[str, str], shown: ExtensionPin | None = None) -> None:
    """Accepts the parts of an installed extension as they are now, if they still are as they were
    `shown`. Raises ConfigError, and InputError if they are not."""
    from alhena.extensions.restrictions import write_restrictions

    folder = extensions_path(environ) / name
    now = pin_parts(folder)
    if shown is not None and shown.parts != now.parts:
        raise InputError(
            f"the files of {name} have changed while you read.", remedy="Look at them again."
        )
    state = msgspec.to_builtins(now)
    read_pins(environ)
    write_restrictions(folder, restrictions_path(name, environ))
    _change(pins_path(environ), lambda found: found | {name: state})


def remove(extension: Extension, environ: Mapping[str, str]) -> None:
    """Removes an installed extension, its values and what was said of it; of a linked one the files
    stay. Raises InputError, ConfigError, and FileError as `staging`."""
    base = extensions_path(environ)
    doomed = extension.home.with_name(f"{STAGED}{extension.name}")
    with staging(base):
        try:
            extension.home.rename(doomed)
            # Before the files, which may take long: secrets stay after no interruption.
            shutil.rmtree(restrictions_path(extension.name, environ), ignore_errors=True)
            for path in (pins_path(environ), base / ENABLEMENT, config_home(environ) / SECRETS):
                _forget(path, extension.name)
            shutil.rmtree(doomed)
        except OSError as error:
            raise InputError(
                f"cannot remove {extension.home}: {error.strerror or error}."
            ) from error


def set_enabled(
    name: str, folder: Path | None, environ: Mapping[str, str], *, enabled: bool
) -> None:
    """Enables or disables an extension in a folder and below it; None: everywhere. Raises
    ConfigError."""
    scope = folder or config_home(environ).parent
    rule = f"{str(scope).rstrip('/')}/*"
    read_enablement(environ)  # raises for what is not to be replaced

    def with_rule(found: dict[str, Any]) -> dict[str, Any]:
        overrides: list[str] = found.get(name, {}).get("overrides", [])
        kept = [each for each in overrides if not _is_below(each.removeprefix("!"), rule)]
        if is_enabled(kept, scope, environ) is not enabled:
            kept.append(rule if enabled else f"!{rule}")
        return found | {name: {"overrides": kept}}

    _change(extensions_path(environ) / ENABLEMENT, with_rule)


def set_value(extension: Extension, variable: str, value: str, environ: Mapping[str, str]) -> None:
    """Writes the value of a setting: a sensitive one to a private file, others to the extension's
    .env file. Raises InputError, ConfigError."""
    setting = next(each for each in extension.manifest.settings if each.env_var == variable)
    if setting.sensitive:
        read_secrets(environ)  # raises for what is not to be replaced
        name = extension.name
        _change(
            config_home(environ) / SECRETS,
            lambda found: found | {name: {**found.get(name, {}), variable: value}},
        )
        return
    quote = next((each for each in "\"'`" if each not in value), None)
    if quote is None or "\n" in value or "\r" in value or (quote == '"' and "\\" in value):
        raise InputError("a value of several lines, or with every kind of quote, cannot be kept.")
    new = f"{variable}={quote}{value}{quote}\n"

    def replace_variable(data: bytes) -> bytes:
        lines = data.decode("utf-8", "surrogateescape").splitlines(keepends=True)
        kept = [each for each in lines if each.partition("=")[0].strip() != variable]
        return ("".join(kept) + new).encode("utf-8", "surrogateescape")

    change_file(extension.home / ".env", replace_variable, "the value was not written")


def _is_below(pattern: str, rule: str) -> bool:
    """True when an override is for folders that `rule` is for, too."""
    return f"{pattern.removesuffix('*').rstrip('/')}/".startswith(rule.removesuffix("*"))


def _metadata(installation: Installation) -> bytes:
    found = {key: each for key, each in msgspec.to_builtins(installation).items() if each}
    return msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"


def _forget(path: Path, name: str) -> None:
    if os.path.lexists(path):
        _change(path, lambda found: {key: each for key, each in found.items() if key != name})


def _change(path: Path, changed: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Changes a JSON object in a file of the user's. Raises ConfigError."""

    def rewritten(data: bytes) -> bytes:
        found: dict[str, Any] = msgspec.json.decode(data or b"{}")
        return msgspec.json.format(msgspec.json.encode(changed(found)), indent=2) + b"\n"

    change_file(path, rewritten, f"{path.name} was not changed")


GIT_TIMEOUT_S = 300.0
_PROTOCOLS = ("http", "https", "file")


def fetch(
    source: str, target: Path, environ: Mapping[str, str], ref: str | None = None
) -> list[str]:
    """Copies what `source` names into the directory `target`, which must not exist: a folder, an
    archive, or a git URL (http, https, file) at `ref`, whose `.git` stays. Links become copies.
    Returns what a person should know of it. Raises InputError; the target may then hold a part."""
    path = Path(os.path.expanduser(source))
    try:
        if source.partition("://")[0] in _PROTOCOLS:
            _clone(source, target, environ, ref)
        elif ref is not None:
            raise _install_error(source, "--ref is for git URLs")
        elif path.is_dir():
            measure_package(path)
            shutil.copytree(path, target, ignore=shutil.ignore_patterns(".git"), symlinks=True)
        elif path.is_file() and path.name.lower().endswith(SUFFIXES):
            target.mkdir()
            _unpack(path, target)
        else:
            raise _install_error(
                source, "it is no folder, .zip, .tar.gz, or http(s) or file git URL"
            )
        size = measure_package(target)
        notes = resolve_links(target, path, size)
    except (OSError, ArchiveError) as error:
        raise _install_error(source, str(error)) from error
    if size.entries > MANY_FILES:
        notes.append(f"it has {size.entries:,} files and folders.")
    return notes


def _clone(url: str, target: Path, environ: Mapping[str, str], ref: str | None) -> None:
    if ref is not None and ref.startswith("-"):
        raise _install_error(url, "a ref cannot begin with a dash")
    options = ("--quiet", "--depth", "1", "--template=", "--no-recurse-submodules")
    branch = () if ref is None else ("--branch", ref)
    try:
        command = git_command(
            ("clone", *options, *branch, "--", url, str(target)),
            {**user_variables(environ, (Path.cwd(),)), "GIT_LFS_SKIP_SMUDGE": "1"},
            settings=("core.symlinks=true",),
            protocols=_PROTOCOLS,
        )
        shield_memory()
        done = subprocess.run(
            command.argv,
            cwd=target.parent,
            env=command.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_TIMEOUT_S,
            check=False,
        )
    except ProcessStartError as error:
        raise _install_error(url, error.message) from error
    except subprocess.TimeoutExpired as error:
        raise _install_error(url, f"git took longer than {GIT_TIMEOUT_S:.0f} s") from error
    if done.returncode:
        raise _install_error(url, done.stderr.decode("utf-8", "replace").strip()[-500:])


def _unpack(archive: Path, target: Path) -> None:
    """Unpacks an archive, without its one top folder."""
    unpack(archive, target)
    inside = list(target.iterdir())
    if len(inside) == 1 and inside[0].is_dir():
        top = inside[0].rename(target.with_name(f"{target.name}.top"))
        target.rmdir()
        top.rename(target)


def _install_error(source: str, why: str) -> InputError:
    return InputError(
        f"cannot install {printable(source)}: {printable(why).rstrip('.')}.",
        remedy="Nothing was installed.",
    )
