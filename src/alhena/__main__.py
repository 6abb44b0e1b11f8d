"""The command's entry: `--version` is answered here, everything else by the front ends."""

import sys

from alhena.version import __version__


def main() -> int:
    """Runs the command line of this process; returns its exit code."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-v"]):
        sys.stdout.write(f"{__version__}\n")
        return 0
    from alhena.frontends.cli.main import run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
