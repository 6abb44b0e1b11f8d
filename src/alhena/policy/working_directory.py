"""The places that a command line works in: the workspace, or beyond it."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from alhena.policy.files_read import leaves_workspace
from alhena.policy.model import PolicyCall
from alhena.policy.surroundings import GitUse, Surroundings
from alhena.shell.destruction import Destruction
from alhena.shell.languages.git_reading import GIT
from alhena.shell.options import base_name, first_operands, global_options, option_values
from alhena.shell.parse.model import Effect, Part, Word
from alhena.shell.readonly import not_read_only, refuse_program
from alhena.shell.shell_changes import ShellChanges
from alhena.shell.tables import listed, tells_version

if TYPE_CHECKING:
    from alhena.shell.reach import Reach
    from alhena.shell.readonly import Arguments


MAX_PLACES = 16
TRUST = "to trust it: alhena trust"
_WRITE_NOTHING = frozenset({"cd", "[[", "exit", "break", "continue"})


class ShellDirectories:
    """The directories of one call, whose command line has these `parts`. Without surroundings
    nothing is known but that the call begins in the working directory."""

    def __init__(
        self, call: PolicyCall, surroundings: "Surroundings | None", parts: Sequence[Part]
    ) -> None:
        self.surroundings = surroundings
        self._parts = parts
        given = call.args.get("directory") or call.args.get("dir_path")
        self._given = given if isinstance(given, str) else None
        self._reached: dict[tuple[Word, ...], set[str] | None] = {}
        self._changes = ShellChanges(str(call.args.get("command", "")), parts, self._is_own)

    def _is_own(self, path: str) -> bool:
        facts = self.surroundings
        there = os.path.join(self._given or "", path)
        return facts is not None and facts.contains(facts.real(os.path.join(facts.cwd, there)))

    def changes_within(self, part: Part) -> bool:
        """Is this a `cd` to a directory of the workspace, wherever it may begin?"""
        words = part.words
        if len(words) != 2 or not all(word.literal for word in words):
            return False
        return self._directories_after((*part.directories, words[1])) is not None

    def objection(self, part: Part, reach: "Reach") -> str | None:
        """The reason why a rule cannot speak for this part, which may come down to `reach`, where
        it runs; None when the place is no matter."""
        if part.directories and self._directories_after(part.directories) is None:
            return "it runs in a directory that is outside the workspace or not known"
        for command in reach.commands:
            words = command.words
            if _uses_git(words):
                refusal = self._of_git(part, words)
                if refusal is not None:
                    return refusal
        return None

    def leaves(self, part: Part, arguments: "Arguments | None" = None) -> str | None:
        """The reason why a part that only reads, with these arguments if they are known, may read
        outside the workspace, or secrets."""
        reached = self._directories_after(part.directories)
        return leaves_workspace(part, self._parts, reached, self.surroundings, arguments)

    def destroys(self, part: Part, reach: "Reach") -> str | None:
        """The reason why a rule for any command does not speak for this part: what lies beyond the
        workspace would be destroyed, or git would run what a repository names."""
        facts, reached = self.surroundings, self._directories_after(part.directories)
        refusal = Destruction(self._changes, facts, self._given or ".").of(part, reach)
        if refusal is not None or facts is None or not reached:
            return refusal
        for command in reach.commands:
            words = command.words
            if _uses_git(words):
                targets = [
                    os.path.join(at, to) for at in reached for to in _git_directories(words) or []
                ]
                named = _named_program(facts, set(targets) or reached, words)
                if named is not None:
                    return named
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
        reached = self._directories_after(part.directories)
        for target in own:  # git follows symbolic links before `..`, a shell's cd does not
            reached = reached and {facts.real(os.path.join(place, target)) for place in reached}
        if not reached or not all(map(facts.contains, reached)):
            return "it runs git outside the workspace"
        named = _named_program(facts, reached, words)
        if named is not None or facts.trusted:
            return named
        moved = bool(part.directories or own)
        if any(_may_write(each, moved=moved) for each in self._parts if each is not part):
            return (
                f"{GIT} runs what a repository names, the folder is not trusted, and what runs "
                f"beside it may make or change one; {TRUST}"
            )
        return None

    def _directories_after(self, targets: tuple[Word, ...]) -> set[str] | None:
        """The directories a shell may be in after these changes; None when a target is not plain
        or lies outside the workspace."""
        if targets not in self._reached:
            self._reached[targets] = self._follow(targets)
        return self._reached[targets]

    def _follow(self, targets: tuple[Word, ...]) -> set[str] | None:
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


def _uses_git(words: tuple[Word, ...]) -> bool:
    """Is this a call of git that looks for a repository?"""
    if not words or base_name(words[0].text) != GIT:
        return False
    return not (len(words) == 2 and words[1].literal and tells_version(GIT, words[1].text))


def _stays_below(target: str) -> bool:
    return not target.startswith("/") and ".." not in target.split("/") and target != ""


def _may_write(part: Part, *, moved: bool) -> bool:
    """May the part change what a repository names? Subcommands of git that write but its index,
    references and tracked files may do so only for a git that then runs `moved` elsewhere."""
    texts = [word.text if word.literal else "" for word in part.words[:2]]
    harmless = texts[0] in _WRITE_NOTHING if texts else False
    if not moved and len(texts) > 1 and texts[0] == GIT and texts[1] in listed("git_writes"):
        harmless = not part.assignments
    if harmless:
        return any(item.effect is Effect.WRITE for item in part.redirections)
    return not_read_only(part) is not None


def _named_program(
    facts: "Surroundings", directories: set[str], words: tuple[Word, ...]
) -> str | None:
    """The reason why git may run an unapproved program: the repository it would use in
    one of the directories names it. The workspace's own counts as the folder does."""
    own = facts.repository(facts.cwd) if facts.trusted else None
    for directory in sorted(directories):
        if facts.trusted and facts.repository(directory) in {None, own}:
            continue
        named = facts.named_program(directory, _use(words))
        if named is None:
            continue
        if facts.trusted:
            return f"{GIT} would use another repository there, which names what it runs ({named})"
        untrusted = f"and the folder is not trusted; {TRUST}"
        return f"{GIT} runs what the repository names ({named}), {untrusted}"
    return None


def _use(words: tuple[Word, ...]) -> GitUse:
    """The subcommand and the hooks that git may run for it. Commands that only read write the index
    at most."""
    found = first_operands(words, global_options(GIT), 1)
    sub = words[found[0]] if found else None
    name = sub.text if sub is not None and sub.literal else None
    if name in listed("git_index"):
        return GitUse(name, frozenset({"post-index-change"}))
    return GitUse(name, frozenset() if refuse_program(GIT, words[1:]) is None else None)


def _git_directories(words: tuple[Word, ...]) -> list[str] | None:
    """The operands of git's own `-C`; None when one is not literal."""
    if len(words) > 1 and words[1].literal and words[1].text[:1] != "-":
        return []
    start = next(iter(first_operands(words, global_options(GIT), 1)), len(words))
    found = list(option_values(words[:start], "C", ""))
    return [word.text for word in found] if all(word.literal for word in found) else None
