"""The start of a run without a person: the settings are read and the connection begins to open
before the rest is loaded."""

from functools import partial

from alhena.config.effective_settings import Place
from alhena.errors import AlhenaError
from alhena.frontends.shared.arguments import RunArguments
from alhena.frontends.shared.current_settings import place_here


def start_headless(arguments: RunArguments) -> int:
    """Carries out a prompt; returns the exit code."""
    place: Place | AlhenaError
    try:
        place = place_here(
            skip_trust=arguments.skip_trust, told=False, extensions=arguments.extensions
        )
    except AlhenaError as error:
        place = error
    else:
        if arguments.fake_responses is None:
            connect_early(place, arguments.model)
    from alhena.frontends.headless.run import run_headless

    return run_headless(arguments, place)


def connect_early(place: Place, model: str | None) -> None:
    """Begins to open the connection of the first request, where the settings say to which service;
    returns at once. What is wrong with them is for the session to say."""
    from alhena.http.client import prepare_connection
    from alhena.models.catalogue import default_model
    from alhena.models.providers.select import ModelChoice, choose_generator, login_files

    settings, environ = place.settings, place.environ
    choice = ModelChoice(
        model=model or environ.get("GEMINI_MODEL") or settings.model.name or default_model(),
        environ=environ,
        settings=settings,
        private_files=partial(login_files, environ),
    )
    try:
        endpoint = getattr(choose_generator(choice).generator, "endpoint", None)
    except AlhenaError:
        return
    if endpoint is not None:
        prepare_connection(endpoint, environ)
