"""Where do the parts of a command line run, and what does that change?"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from alhena.policy.bash.model import Effect, Part, Word
from alhena.policy.bash.options import base_name, first_operands, global_options
from alhena.policy.bash.programs import option_values
from alhena.policy.bash.readonly import not_read_only, tells_version
from alhena.policy.model import PolicyCall

if TYPE_CHECKING:
    from alhena.policy.bash.reach import Reach
    from alhena.policy.surroundings import Surroundings

MAX_PLACES = 16
CHANGES_DIRECTORY = "cd"
GIT = "git"
_WRITE_NOTHING = frozenset({CHANGES_DIRECTORY, "[[", "exit", "break", "continue"})


class Places:
    """The directories of one call, whose command line has these `parts`. Without surroundings
    nothing is known but that the call begins in the working directory."""

    def __init__(
        self, call: PolicyCall, surroundings: "Surroundings | None", parts: Sequence[Part]
    ) -> None:
        self.surroundings = surroundings
        self._parts = parts
        given = call.args.get("directory") or call.args.get("dir_path")
        self._given = given if isinstance(given, str) else None

    def changes_within(self, part: Part) -> bool:
        """Is this a `cd` to a directory of the workspace, wherever it may begin?"""
        words = part.words
        if len(words) != 2 or not all(word.literal for word in words):
            return False
        return self._reached((*part.directories, words[1])) is not None

    def objection(self, part: Part, reach: "Reach") -> str | None:
        """Why a rule cannot speak for this part, which may come down to `reach`, where it runs;
        None when the place is no matter."""
        if part.directories and self._reached(part.directories) is None:
            return "it runs in a directory that is outside the workspace or not known"
        for command in reach.commands:
            words = command.words
            if words and base_name(words[0].text) == GIT and not tells_version(words):
                refusal = self._of_git(part, words)
                if refusal is not None:
                    return refusal
        return None

    def _of_git(self, part: Part, words: tuple[Word, ...]) -> str | None:
        own = _git_directories(words)
        if own is None:
            return "git's -C is not plain"
        facts = self.surroundings
        if facts is None:
            moved = bool(part.directories) or self._given is not None
            unknown = "it runs git in a directory whose repository is not known"
            return unknown if moved or own else None
        reached = self._reached(part.directories)
        for target in own:  # git follows symbolic links before `..`, a shell's cd does not
            reached = reached and {facts.real(os.path.join(place, target)) for place in reached}
        if not reached or not all(map(facts.contains, reached)):
            return "it runs git outside the workspace"
        if not facts.trusted:
            return self._untrusted(facts, reached, part)
        return _of_repositories(facts, reached)

    def _untrusted(self, facts: "Surroundings", directories: set[str], part: Part) -> str | None:
        """git takes from a repository what it runs, in more ways than can be told: settings,
        hooks, a `commondir`, repositories within it. Only where there is none, and none can come
        about before git runs, nothing of the folder speaks."""
        found = next(filter(None, map(facts.repository, sorted(directories))), None)
        if found is not None:
            return f"git runs what the repository names ({found}), and the folder is not trusted"
        if any(_may_write(each) for each in self._parts if each is not part):
            return (
                "git runs what a repository names, the folder is not trusted, and what runs "
                "beside it may make one"
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


def _may_write(part: Part) -> bool:
    words = part.words
    if words and words[0].literal and words[0].text in _WRITE_NOTHING:
        return any(item.effect is Effect.WRITE for item in part.redirections)
    return not_read_only(part) is not None


def _of_repositories(facts: "Surroundings", directories: set[str]) -> str | None:
    own = facts.repository(facts.cwd)
    for directory in sorted(directories):
        repository = facts.repository(directory)
        if repository not in {None, own}:
            return f"git would use another repository there ({repository})"
    return None


def _git_directories(words: tuple[Word, ...]) -> list[str] | None:
    """The operands of git's own `-C`; None when one is not literal."""
    if len(words) > 1 and words[1].literal and words[1].text[:1] != "-":
        return []
    start = next(iter(first_operands(words, global_options(GIT), 1)), len(words))
    found = list(option_values(words[:start], "C", ""))
    return [word.text for word in found] if all(word.literal for word in found) else None
