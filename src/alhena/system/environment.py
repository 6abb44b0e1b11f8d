"""The environment of a child process: no secrets, and nothing that waits for a person."""

from collections.abc import Mapping

from alhena.config.environment import (
    SanitisedEnvironment,
    is_hijacking,
    own_environment,
    sanitised,
)
from alhena.config.settings import EnvironmentRedaction

UNATTENDED: Mapping[str, str] = {
    "GEMINI_CLI": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "TERM": "dumb",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "DEBIAN_FRONTEND": "noninteractive",
}
"""Set for every command: nobody sits at its terminal, so nothing may page, prompt or paint; and
what only looks at a repository does not write to its index."""

UNATTENDED_DEFAULTS: Mapping[str, str] = {"CI": "1"}
"""Set where the user's own environment says nothing."""


def child_environment(
    parent: Mapping[str, str],
    rules: EnvironmentRedaction | None = None,
    *,
    extra: Mapping[str, str] | None = None,
) -> SanitisedEnvironment:
    """`parent` without secrets and without what a project's .env file says, with `UNATTENDED` and
    then `extra` set over it.

    For every child process. `extra` is what a configuration wants set; of it, a variable by which
    other programs are made to run code (LD_PRELOAD, BASH_ENV) is left out and counts as removed.
    """
    clean = sanitised(own_environment(parent), rules or EnvironmentRedaction())
    wanted = extra or {}
    refused = {name for name in wanted if is_hijacking(name)}
    added = {name: value for name, value in wanted.items() if name not in refused}
    return SanitisedEnvironment(
        {**UNATTENDED_DEFAULTS, **clean.variables, **UNATTENDED, **added},
        tuple(sorted({*clean.removed, *refused})),
    )
