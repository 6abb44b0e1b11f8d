"""Who answers a session."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from alhena.agent.channel import EventChannel
from alhena.agent.options import AgentOptions
from alhena.config.home import config_home, installation_id_path
from alhena.config.settings import Settings
from alhena.events import WarningEvent
from alhena.models.retry.generator import retry_policy
from alhena.models.select import ChosenGenerator, ModelChoice, choose_generator

if TYPE_CHECKING:
    from alhena.system.private_files import PrivateFiles


def session_generator(
    options: AgentOptions,
    model: str,
    environ: Mapping[str, str],
    settings: Settings,
    channel: EventChannel,
) -> ChosenGenerator:
    """Who answers: the program's own generator, or the one that model, credentials and settings
    choose. Raises ConfigError, CredentialsError."""
    given = options.settings
    if given.generator is not None:
        return ChosenGenerator(generator=given.generator, model=model)

    return choose_generator(
        ModelChoice(
            model=model,
            environ=environ,
            settings=settings,
            fake_responses=given.fake_responses,
            fake_strict=given.fake_strict,
            record_responses=given.record_responses,
            is_terminal=given.is_terminal,
            retry=retry_policy(settings.general),
            private_files=partial(private_files, environ),
            tell=lambda text: channel.emit(WarningEvent(message=text)),
            installation_id=partial(installation_number, environ),
        )
    )


def private_files(environ: Mapping[str, str]) -> "PrivateFiles":
    """The user's files, for logins that are kept among them."""
    from alhena.system.private_files import PrivateFiles

    return PrivateFiles(config_home(environ))


def installation_number(environ: Mapping[str, str]) -> str:
    """The random number by which services know this installation, where it may be told."""
    from alhena.telemetry.options import installation_id

    return installation_id(installation_id_path(environ))[0]
