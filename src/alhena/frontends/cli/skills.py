"""`alhena skills`: lists skills, turns them on and off, installs and removes them."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from alhena.config.environment import own_environment
from alhena.config.extensions import text_expanders
from alhena.config.home import (
    config_home,
    path_within,
    skill_folders,
    user_settings_path,
    workspace_settings_path,
)
from alhena.display_text import one_line
from alhena.errors import InputError, UsageError
from alhena.frontends.shared.arguments import parse_command
from alhena.frontends.shared.current_settings import place_here, tell
from alhena.frontends.shared.listings import Listing, print_listing, skill_rows
from alhena.frontends.shared.streams import agrees, write_stdout
from alhena.skills.files import Skills
from alhena.system.workspace import current_directory, is_within

if TYPE_CHECKING:
    from argparse import Namespace

USAGE = """\
usage: alhena skills list [--json] [--skip-trust]
       alhena skills enable NAME [--scope user|workspace]
       alhena skills disable NAME [--scope user|workspace]
       alhena skills install SOURCE [--ref REF] [--path PATH] [--scope user|workspace] [--consent]
       alhena skills link FOLDER [--consent]
       alhena skills uninstall NAME [--scope user|workspace]

list: lists the skills in ~/.gemini/skills and ~/.agents/skills, and in .gemini/skills and
.agents/skills of this folder if it is trusted.

enable, disable: removes a skill from skills.disabled of your settings.json (with --scope workspace,
of this folder's), or adds it.

install: copies the skills of a folder, an archive (.zip, .tar.gz) or a git URL (http, https, file)
into ~/.gemini/skills. link: makes a link to FOLDER there.

uninstall: deletes a skill there.

options:
  --scope        workspace: in .gemini of this folder
  --path         the folder in SOURCE with the skills
  --consent      install without asking
  --skip-trust   treat this folder as trusted
  --json         print JSON
"""
_ARGUMENTS = {
    "list": "--json --skip-trust",
    "enable": "NAME --scope=user|workspace --skip-trust",
    "disable": "NAME --scope=user|workspace --skip-trust",
    "install": "NAME --ref=REF --path=PATH --scope=user|workspace --consent",
    "link": "NAME --scope=user --consent",
    "uninstall": "NAME --scope=user|workspace",
}


def run(argv: list[str]) -> int:
    """Carries out `alhena skills ARGV`; returns the exit code."""
    options = parse_command("alhena skills", argv, _ARGUMENTS)
    if options.command in ("install", "link", "uninstall"):
        return _change(options)
    place = place_here(skip_trust=options.skip_trust)
    folders = skill_folders(
        place.environ, place.cwd, trusted=place.trust.trusted, extensions=place.extensions
    )
    expanders = text_expanders(place.extensions, place.cwd)
    skills = Skills(folders, place.settings.skills.disabled, expanders)
    if options.command == "list":
        tell((*skills.problems, place.notice) if place.notice else skills.problems)
        listing = Listing(noun="skill", rows=skill_rows(skills))
        return print_listing(listing, as_json=options.json)
    disabled = options.command == "disable"
    if disabled and skills.find(options.name) is None:
        known = ", ".join(skills.all) or "none"
        raise UsageError(f"there is no skill {options.name!r}.", remedy=f"There are: {known}.")
    workspace = options.scope == "workspace"
    file = user_settings_path(os.environ)
    if workspace:
        file = path_within(place.cwd, workspace_settings_path(Path()))
    from alhena.frontends.shared.files import set_disabled

    set_disabled(options.name, file, disabled=disabled)
    write_stdout(f"{one_line(options.name)} is {options.command}d.\n")
    return 0


def _change(options: "Namespace") -> int:
    """Installs, links or removes skills."""
    workspace = options.scope == "workspace"
    base = path_within(current_directory(), ".gemini") if workspace else config_home(os.environ)
    folder = path_within(base, "skills") if workspace else base / "skills"
    if options.command == "uninstall":
        _remove(options.name, folder)
    elif options.command == "link":
        top = Path(os.path.realpath(options.name))
        _place(top, folder, options, link=True)
    else:
        from shutil import rmtree

        from alhena.extensions.installation import fetch, staging

        with staging(base) as top:
            tell(fetch(options.name, top, own_environment(os.environ), options.ref))
            rmtree(top / ".git", ignore_errors=True)
            within = Path(os.path.realpath(top / (options.path or "")))
            if not within.is_dir() or not is_within(str(within), os.path.realpath(top)):
                told = f"{one_line(options.name)} has no folder {one_line(options.path)}"
                raise InputError(f"{told}: nothing was installed.", remedy="Correct --path.")
            _place(within, folder, options, link=False)
    return 0


def _place(top: Path, folder: Path, options: "Namespace", *, link: bool) -> None:
    """Moves or links the skills in `top` into a folder, if a person agrees. Raises InputError,
    UsageError."""
    skills = Skills([("workspace", top)])
    tell(skills.problems)
    if not skills.all:
        raise InputError(f"there is no skill in {one_line(options.name)}.")
    for name, skill in skills.all.items():
        write_stdout(f"{name}  {skill.description}\n")
        _require_new(name, folder)
    question = "A model can follow their instructions. Install them? [y/N] "
    if not agrees(question, "nothing was installed", consent=options.consent):
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in skills.all:
        _require_new(name, folder)  # again: asking takes a person some time
    for name, skill in skills.all.items():
        if link:
            (folder / name).symlink_to(skill.folder)
        else:
            skill.folder.rename(folder / name)
        write_stdout(f"{name} is installed.\n")


def _require_new(name: str, folder: Path) -> None:
    if os.path.lexists(folder / name):
        raise InputError(
            f"there is a skill {name} in {one_line(str(folder))}.",
            remedy=f"Remove it first: alhena skills uninstall {name}.",
        )


def _remove(name: str, folder: Path) -> None:
    """Removes a skill, or the link to it, from a folder. Raises UsageError."""
    skills = Skills([("user", folder)] if folder.is_dir() else [])
    skill = skills.find(name)
    if skill is None or skill.path.parent == folder:
        known = ", ".join(skills.all) or "none"
        raise UsageError(f"there is no skill {name!r} in {folder}.", remedy=f"There are: {known}.")
    if skill.path.parent.is_symlink():
        skill.path.parent.unlink()
    else:
        from shutil import rmtree

        rmtree(skill.path.parent)
    write_stdout(f"{one_line(name)} is removed.\n")
