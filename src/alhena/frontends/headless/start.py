"""The start of a run without a person: the settings are read and the connection begins to open
before the rest is loaded."""

from alhena.config.effective_settings import Place
from alhena.errors import AlhenaError
from alhena.frontends.shared.arguments import RunArguments
from alhena.frontends.shared.current_settings import connect_early, place_here


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
    from alhena.http.early import close_unused

    try:
        return run_headless(arguments, place)
    finally:
        close_unused()
