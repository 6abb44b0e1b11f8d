"""Tries to open a session, part by part, for `alhena settings check`."""

from collections.abc import Callable, Iterable

from alhena.agent.chat import SessionModels
from alhena.agent.toolset.authority import require_mode, session_policy
from alhena.agent.toolset.factory import open_session_hooks, session_sandbox
from alhena.agent.toolset.options import SessionSpec
from alhena.errors import AlhenaError
from alhena.system.processes import ProcessGroups
from alhena.system.workspace import Workspace
from alhena.tools.registry import ALIASES, BUILT_IN
from alhena.values import Value

Step = Callable[[SessionSpec, ProcessGroups], Iterable[str]]
"""Tries a part of the settings; gives what is to be said of it. Raises AlhenaError where a session
would."""


class Trial(Value, frozen=True):
    """Errors that would end a session, and warnings at its start."""

    errors: tuple[str, ...]
    warnings: tuple[str, ...]


async def try_session(spec: SessionSpec) -> Trial:
    """Tries to open a session with this `spec` and collects its errors and warnings."""
    errors: list[str] = []
    warnings: list[str] = []
    groups = ProcessGroups()
    try:
        for step in _STEPS:
            try:
                warnings += step(spec, groups)
            except AlhenaError as error:
                errors.append(str(error))
    finally:
        await groups.close()
    return Trial(tuple(dict.fromkeys(errors)), tuple(dict.fromkeys(warnings)))


def _mode(spec: SessionSpec, _groups: ProcessGroups) -> Iterable[str]:
    require_mode(spec)
    return ()


def _policy(spec: SessionSpec, _groups: ProcessGroups) -> Iterable[str]:
    return [f"policy: {problem}" for problem in session_policy(spec).problems]


def _sandbox(spec: SessionSpec, groups: ProcessGroups) -> Iterable[str]:
    _, told = session_sandbox(spec, Workspace(spec.place.cwd), groups)
    return (f"sandbox: {told}",) if told else ()


def _hooks(spec: SessionSpec, groups: ProcessGroups) -> Iterable[str]:
    _, warnings, _ = open_session_hooks(
        spec,
        ("", ""),
        spec.place.cwd,
        groups,
        lambda _event: None,
        lambda name: name in BUILT_IN or name in ALIASES,
    )
    return warnings


def _models(spec: SessionSpec, _groups: ProcessGroups) -> Iterable[str]:
    return SessionModels(None, spec.place.environ, spec.place.settings).warnings


def _budget(spec: SessionSpec, _groups: ProcessGroups) -> Iterable[str]:
    from alhena.agent.limits import read_limits
    from alhena.agent.limits.budget import Ledger
    from alhena.models.prices import Prices

    model = spec.place.settings.model
    ledger = Ledger(read_limits(spec.limits, model.budget), Prices(model.prices))
    ledger.require_price(SessionModels(None, spec.place.environ, spec.place.settings).name)
    return ()


def _retention(spec: SessionSpec, _groups: ProcessGroups) -> Iterable[str]:
    from alhena.session.store import retention

    asked = spec.place.settings.general.session_retention
    if asked.enabled:
        try:
            retention(asked)
        except AlhenaError as error:  # a session warns of it, and goes on
            return (str(error),)
    return ()


def _telemetry(spec: SessionSpec, _groups: ProcessGroups) -> Iterable[str]:
    from alhena.telemetry.options import is_installed, telemetry_options

    found = telemetry_options(spec.place.settings.telemetry, spec.place.environ, spec.place.cwd)
    if found is None or found.outfile is not None or is_installed():
        return ()
    from alhena.agent.telemetry import missing_packages

    return (missing_packages(),)


_STEPS: tuple[Step, ...] = (
    *(_mode, _policy, _sandbox, _models, _budget, _hooks, _retention, _telemetry),
)
