"""`alhena commands list`: the custom commands of this folder and user."""

from alhena.commands import CustomCommands, sources_of
from alhena.frontends.shared.arguments import parse_command
from alhena.frontends.shared.current_settings import place_here, tell
from alhena.frontends.shared.listings import Listing, command_rows, print_listing

USAGE = """\
usage: alhena commands list [--json] [--skip-trust]

Lists the custom commands: commands/**/*.toml in ~/.gemini, and in .gemini of this folder if it is
trusted. A file that cannot be used is listed with the reason.

  --skip-trust   treat this folder as trusted
  --json         print JSON
"""


def run(argv: list[str]) -> int:
    """Carries out `alhena commands ARGV`; returns the exit code."""
    options = parse_command("alhena commands", argv, {"list": "--json --skip-trust"})
    place = place_here(skip_trust=options.skip_trust)
    commands = CustomCommands(sources_of(place))
    tell((*commands.problems, place.notice) if place.notice else commands.problems)
    listing = Listing(noun="custom command", rows=command_rows(commands))
    return print_listing(listing, as_json=options.json)
