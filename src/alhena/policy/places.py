"""Where do the parts of a command line run, and what does that change?"""

import os
from typing import TYPE_CHECKING

from alhena.policy.bash.model import Part, Word
from alhena.policy.model import PolicyCall

if TYPE_CHECKING:
    from alhena.policy.surroundings import Surroundings

MAX_PLACES = 16
CHANGES_DIRECTORY = "cd"


class Places:
    """The directories of one call. Without surroundings nothing is known but that the call begins
    in the working directory."""

    def __init__(self, call: PolicyCall, surroundings: "Surroundings | None") -> None:
        self.surroundings = surroundings
        given = call.args.get("directory") or call.args.get("dir_path")
        self._given = given if isinstance(given, str) else None

    def changes_within(self, part: Part) -> bool:
        """Is this a `cd` to a directory of the workspace, wherever it may begin?"""
        words = part.words
        if len(words) != 2 or not all(word.literal for word in words):
            return False
        return self._reached((*part.directories, words[1])) is not None

    def objection(self, part: Part) -> str | None:
        """Why a rule cannot speak for this part where it runs; None when the place is no matter."""
        moved = bool(part.directories) or self._given is not None
        if part.directories and self._reached(part.directories) is None:
            return "it runs in a directory that is outside the workspace or not known"
        if not part.words or os.path.basename(part.words[0].text) != "git":
            return None
        own = _git_directories(part)
        if own is None:
            return "git's -C is not plain"
        facts = self.surroundings
        if facts is None:
            unknown = "it runs git in a directory whose repository is not known"
            return unknown if moved or own else None
        reached = self._reached(part.directories)
        for target in own:  # git follows symbolic links before `..`, a shell's cd does not
            reached = reached and {facts.real(os.path.join(place, target)) for place in reached}
        if not reached or not all(map(facts.contains, reached)):
            return "it runs git outside the workspace"
        return self._of_repositories(facts, reached)

    def _of_repositories(self, facts: "Surroundings", directories: set[str]) -> str | None:
        own = facts.repository(facts.cwd)
        for directory in sorted(directories):
            repository = facts.repository(directory)
            if repository is None:
                continue
            if repository != own:
                return f"git would use another repository there ({repository})"
            runs = facts.repository_runs(repository)
            if runs is not None:
                return (
                    f"the repository's own settings make git run programs ({runs}), and the folder "
                    "is not trusted"
                )
        return None

    def _reached(self, targets: tuple[Word, ...]) -> set[str] | None:
        """Where a shell may be after these changes of directory; None when a target is not plain
        or lies outside the workspace."""
        if any(not word.literal or word.text.startswith("-") for word in targets):
            return None
        facts = self.surroundings
        here = {os.path.normpath(os.path.join(facts.cwd if facts else "/", self._given or "."))}
        if facts is None:
            # Only what cannot leave the directory that the call begins in.
            inside = all(_stays_below(word.text) for word in targets)
            return here if inside else None
        for word in targets:
            after: set[str] = set()
            for place in here:
                target = os.path.normpath(os.path.join(place, word.text))
                after.add(target)
                if not facts.is_directory(target):
                    after.add(place)  # the change may fail, and what follows runs here
            here = after
            if len(here) > MAX_PLACES or not all(map(facts.contains, here)):
                return None
        return here


def _stays_below(target: str) -> bool:
    return not target.startswith("/") and ".." not in target.split("/") and target != ""


def _git_directories(part: Part) -> list[str] | None:
    """The operands of git's own `-C`; None when one is not literal."""
    found: list[str] = []
    words = part.words[1:]
    for index, word in enumerate(words):
        if not word.literal or not word.text.startswith("-"):
            break
        if word.text == "-C" and index + 1 < len(words):
            if not words[index + 1].literal:
                return None
            found.append(words[index + 1].text)
    return found
