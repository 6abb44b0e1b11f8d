"""The restrictions of an extension, as an extension of its own, for the time when its files differ
from the accepted ones: its policies, its excluded tools, and its guards. These are hooks that could
have blocked something; in their place is one that blocks whatever they would have been asked about.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import msgspec

from alhena.config.extension_manifest import (
    HOOKS,
    MANIFEST,
    Manifest,
    manifest_document,
    manifest_of,
)
from alhena.config.extensions import Extension
from alhena.hooks.gather import extension_document
from alhena.hooks.load import GUARDED, blocking_command, load_hooks
from alhena.hooks.model import HookGroup
from alhena.system.errors import from_os_error


def write_restrictions(folder: Path, target: Path) -> None:
    """Writes what the extension in `folder` restricts into the folder `target`, in place of an
    older one. Raises ConfigError, FileError."""
    manifest = manifest_of(folder, manifest_document(folder))
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = Path(mkdtemp(prefix=".new-", dir=target.parent))
        reduced = {
            "name": manifest.name,
            "version": manifest.version,
            "excludeTools": manifest.exclude_tools,
        }
        (made / MANIFEST).write_bytes(msgspec.json.encode(reduced))
        (made / "hooks").mkdir()
        (made / HOOKS).write_bytes(msgspec.json.encode(_guards(folder, manifest)))
        (made / "policies").mkdir()
        for path in sorted((folder / "policies").glob("*.toml")):
            shutil.copyfile(path, made / "policies" / path.name, follow_symlinks=False)
        shutil.rmtree(target, ignore_errors=True)
        os.rename(made, target)
    except OSError as error:
        raise from_os_error(error, target) from error


def _guards(folder: Path, manifest: Manifest) -> dict[str, Any]:
    """The document of hooks in which each guard blocks."""
    extension = Extension(
        manifest=manifest, home=folder, folder=folder, installation=None, environ={}
    )
    loaded = load_hooks(extension_document(extension, folder))
    found: dict[str, list[Any]] = {}
    for group in loaded.groups:
        if group.event in GUARDED and group.hooks:
            hooks = list(_blocking(group, manifest.name))
            found.setdefault(group.event, []).append({"matcher": group.matcher, "hooks": hooks})
    config = {"enabled": loaded.enabled, "disabled": sorted(loaded.disabled)}
    return {"hooks": found, "hooksConfig": config}


def _blocking(group: HookGroup, name: str) -> Iterator[dict[str, Any]]:
    reason = (
        f"the extension {name} guards this, but it cannot be used as it was accepted: "
        f"alhena extensions list says why, alhena extensions enable {name} accepts it as it is now."
    )
    command = blocking_command(reason)
    for hook in group.hooks:
        # Under the name by which the user may have disabled it.
        yield {"type": "command", "name": hook.label, "command": command, "onFailure": "block"}
