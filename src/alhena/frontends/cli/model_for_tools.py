"""The model for tools that use one, where there is no session."""

from functools import cache

from alhena.agent.session.model_access import Source
from alhena.agent.toolset.workbench import WorkbenchOptions
from alhena.config.home import config_home
from alhena.models.generator import ContentGenerator


def answering_for(options: WorkbenchOptions, given: str | None) -> Source:
    """The model for tools that use one: chosen as a run would choose it, when one is used."""

    @cache
    def answering() -> tuple[ContentGenerator, str]:
        from alhena.agent.session.chat import SessionModels
        from alhena.models.select import ModelChoice, choose_generator
        from alhena.system.private_files import PrivateFiles

        environ, settings = options.environ, options.settings
        files = PrivateFiles(config_home(environ))
        model = SessionModels(given, environ, settings).name
        chosen = choose_generator(
            ModelChoice(
                model=model, environ=environ, settings=settings, private_files=lambda: files
            )
        )
        return chosen.generator, chosen.model

    return answering
