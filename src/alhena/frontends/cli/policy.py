"""`alhena policy`: what the policy says of a call, and whether policy files mean what they say."""

from alhena.errors import UsageError
from alhena.frontends.streams import write_stdout

USAGE = """\
usage: alhena policy explain --tool NAME [--args JSON] [options]
       alhena policy explain --batch FILE [options]
       alhena policy test [FILE ...] [--json]

explain: what the policy says of a tool call, and why. Nothing is run.

  --tool NAME          the tool
  --args JSON          its arguments, a JSON object (default {})
  --batch FILE         JSON lines {id, rules, tool, args, mode, interactive}, - for standard input;
                       the rules of a line replace the user's own for that line
  --policy FILE        more policies, a file or a directory; may be repeated
  --allowed-tools LIST tools that need no approval
  --skip-trust         this folder is trusted
  --mode MODE          default, auto_edit, yolo or plan (--approval-mode is the same)
  --interactive        somebody can be asked (the default)
  --non-interactive    nobody can be asked
  --json               {decision, reason, rule, parts} instead of sentences

test: tries the examples beside rules (match, not_match), by default of the user's policies. Exit
code 1 when a rule is wrong or does not keep them, 52 when a file cannot be read.
"""


def run(argv: list[str]) -> int:
    """Carries out `alhena policy ARGV`; returns the exit code."""
    if "-h" in argv or "--help" in argv:
        write_stdout(USAGE)
        return 0
    match argv[:1]:
        case ["explain"]:
            from alhena.frontends.cli.policy_explain import explain

            return explain(argv[1:])
        case ["test"]:
            from alhena.frontends.cli.policy_test import test

            return test(argv[1:])
        case _:
            raise UsageError(
                "`alhena policy` takes `explain` or `test`.", remedy="See alhena policy --help."
            )
