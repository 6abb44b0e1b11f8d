"""`alhena wire …`: requests as they go over the wire."""

from importlib import import_module

from alhena.errors import UsageError
from alhena.frontends.streams import write_stdout

COMMANDS = ("check", "convert")
"""What `alhena wire` can be told; the module `alhena.frontends.cli.wire_NAME` carries it out."""

USAGE = """\
usage: alhena wire check [--repair] [--model NAME] FILE
       alhena wire convert --from DIALECT --to DIALECT [--model NAME] FILE

FILE holds the body of a request as JSON; - is standard input.

check: tells which rules of a Gemini conversation it breaks: {"violations": [{"rule", "level",
"path", "message"}]}. Exit code 1 when one is an error.

  --repair      print the body with its contents repaired, too, and what was done to them:
                {"violations", "repairs": [{"rule", "path", "message"}], "body"}; the violations are
                those that are left
  --model NAME  the model it is for, when the body does not say: some rules hold for some models

convert: prints a request of one dialect (gemini, anthropic or openai) as another takes it. Calls,
results, media and signatures are kept; what cannot be is an error that names the place.

  --model NAME  the model to name in it instead
"""


def run(argv: list[str]) -> int:
    """Carries out `alhena wire ARGV`; returns the exit code."""
    if "-h" in argv or "--help" in argv:
        write_stdout(USAGE)
        return 0
    if not argv or argv[0] not in COMMANDS:
        raise UsageError(
            "`alhena wire` takes `check FILE` or `convert --from A --to B FILE`.",
            remedy="See alhena wire --help.",
        )
    carry_out = import_module(f"alhena.frontends.cli.wire_{argv[0]}").run
    return carry_out(argv[1:])
