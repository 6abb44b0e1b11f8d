"""Which checker does a name mean?"""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from alhena.policy.load import PolicyProblem
from alhena.policy.model import Tier
from alhena.policy.safety.errors import CheckerError
from alhena.policy.safety.model import CheckerType, SafetyChecker

ADMIN_CHECKERS = Path("/etc/gemini-cli/checkers")
NAMES = re.compile(r"[a-z0-9-]+")


class CheckerRegistry:
    """The programs of a user and of an administrator.

    An administrator's policies speak of the administrator's programs alone: no user can put another
    in their place. The user's own are looked for first by all other policies.
    """

    def __init__(
        self,
        user: Path,
        admin: Path = ADMIN_CHECKERS,
        *,
        owner: int | None = None,
        admin_owner: int = 0,
    ) -> None:
        """`owner` is the user id that has to own the user's programs, by default this process's,
        `admin_owner` the one that has to own the administrator's."""
        self._user = (user, os.getuid() if owner is None else owner)
        self._admin = (admin, admin_owner)
        self._admin_owner = admin_owner

    def program(self, checker: SafetyChecker) -> Path:
        """The executable of an external checker. Raises CheckerError, which names the places."""
        if NAMES.fullmatch(checker.name) is None:
            raise CheckerError(f"{checker.name!r} is no name of a checker")
        admin = checker.rule.tier is Tier.ADMIN
        places = [self._admin] if admin else [self._user, self._admin]
        for directory, owner in places:
            path = directory / checker.name
            if os.path.lexists(path):
                return self._trusted(path, {owner, self._admin_owner})
        looked = " or ".join(str(directory / checker.name) for directory, _ in places)
        raise CheckerError(f"there is no {looked}")

    def problems(self, checkers: Iterable[SafetyChecker]) -> tuple[PolicyProblem, ...]:
        """What keeps checkers from being run. They deny every call that they are meant for."""
        return tuple(
            PolicyProblem(
                file=checker.rule.file or checker.rule.source,
                table="safety_checker",
                rule=checker.number,
                line=checker.rule.line,
                field="checker.name",
                message=f"{checker.name!r} cannot be run: {error}; what it is for is denied",
                weakens=False,
                remedy="Put an executable file of yours there that nobody else can write to.",
            )
            for checker, error in self._missing(checkers)
        )

    def _missing(
        self, checkers: Iterable[SafetyChecker]
    ) -> Iterator[tuple[SafetyChecker, CheckerError]]:
        for checker in checkers:
            if checker.type is not CheckerType.EXTERNAL:
                continue
            try:
                self.program(checker)
            except CheckerError as error:
                yield checker, error

    def _trusted(self, path: Path, owners: set[int]) -> Path:
        """The real file of a program that nobody but its owner can change or exchange."""
        try:
            real = Path(os.path.realpath(path, strict=True))
            places = dict.fromkeys((path.parent.resolve(), real.parent, real))
            found = [(place, place.stat()) for place in places]
        except OSError as error:
            raise CheckerError(f"{path} cannot be read: {error.strerror or error}") from error
        for place, status in found:
            if status.st_uid not in owners:
                raise CheckerError(f"{place} is owned by user {status.st_uid}")
            if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise CheckerError(f"{place} can be written by others than its owner")
        if not stat.S_ISREG(found[-1][1].st_mode):
            raise CheckerError(f"{path} is not a regular file")
        if not os.access(real, os.X_OK):
            raise CheckerError(f"{path} is not executable")
        return real
