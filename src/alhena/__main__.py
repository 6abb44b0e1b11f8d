"""The command's entry: `--version` is answered here, everything else by the front ends."""

import gc
import sys

from alhena.version import __version__

YOUNG = 20_000
"""Objects that may be created before the collector looks at them: the imports of a run create some
ten thousand that all stay."""


def main() -> int:
    """Runs the command line of this process; returns its exit code."""
    arguments = sys.argv[1:]
    try:
        if arguments in (["--version"], ["-v"]):
            print(__version__, flush=True)
            return 0
        gc.set_threshold(YOUNG)
        from alhena.frontends.cli.main import run

        return run(arguments)
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        # The stream is unusable and would complain again when the interpreter flushes it.
        sys.stdout = None
        print(f"alhena: cannot write the result: {error.strerror}.", file=sys.stderr)
        return 1
    finally:
        gc.freeze()  # what is left goes with the process, unsearched


if __name__ == "__main__":
    sys.exit(main())
