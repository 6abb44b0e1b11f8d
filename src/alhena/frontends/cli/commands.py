"""`alhena commands list`: the custom commands of this folder and user."""

from alhena.commands import CustomCommands, sources_of
from alhena.display_text import one_line
from alhena.frontends.arguments import parsed_command
from alhena.frontends.current_settings import place_here, tell
from alhena.frontends.streams import write_json, write_stdout

USAGE = """\
usage: alhena commands list [--json] [--skip-trust]

Lists the custom commands: commands/**/*.toml in ~/.gemini, and in .gemini of this folder if it is
trusted. A file that cannot be used is listed with the reason.

  --skip-trust   treat this folder as trusted
  --json         print JSON
"""


def run(argv: list[str]) -> int:
    """Carries out `alhena commands ARGV`; returns the exit code."""
    options = parsed_command("alhena commands", argv, {"list": "--json --skip-trust"})
    place = place_here(skip_trust=options.skip_trust)
    commands = CustomCommands(sources_of(place))
    tell((*commands.problems, place.notice) if place.notice else commands.problems)
    if options.json:
        write_json(
            [
                {
                    "name": name,
                    "description": commands.describe_command(file),
                    "source": file.source.name,
                    "path": str(file.path),
                }
                for name, file in commands.files.items()
            ]
        )
        return 0
    for name, file in commands.files.items():
        write_stdout(
            f"/{name}  {commands.describe_command(file)}\n    {one_line(str(file.path))}\n"
        )
    if not commands.files:
        write_stdout("There are no custom commands.\n")
    return 0
