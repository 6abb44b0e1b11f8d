"""The checkers of a session, ready to be asked."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from alhena.config.home import user_checkers_path
from alhena.config.settings import EnvironmentRedaction
from alhena.policy.safety.check import SafetyChecks
from alhena.policy.safety.model import SafetyChecker
from alhena.policy.safety.registry import CheckerRegistry
from alhena.policy.safety.runner import ExternalRunner
from alhena.system.environment import child_environment

if TYPE_CHECKING:
    from alhena.system.processes import ProcessGroups


def open_checks(
    checkers: tuple[SafetyChecker, ...],
    environ: Mapping[str, str],
    redaction: EnvironmentRedaction,
    groups: "ProcessGroups | None" = None,
) -> SafetyChecks:
    """The checkers, with the user's programs and an environment without secrets. `groups` ends
    those at work when this process is killed."""
    env = child_environment(environ, redaction).variables
    return SafetyChecks(
        checkers,
        CheckerRegistry(user_checkers_path(environ)),
        ExternalRunner(env, groups=groups),
    )
