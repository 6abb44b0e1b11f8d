"""The script `alhena`. It is outside the package, whose files another distribution of the name
`alhena` may have overwritten: then it says so."""

import sys


def main() -> int:
    """Runs the command line of this process; returns its exit code."""
    try:
        import alhena

        ours = getattr(alhena, "DISTRIBUTION", "") == "alhena-agent"
    except Exception:  # whatever the other package raises
        ours = False
    if not ours:
        print(
            "alhena: the package `alhena` of another project is installed over alhena-agent. "
            f"Remove it ({sys.executable} -m pip uninstall alhena), then install ours again "
            f"({sys.executable} -m pip install --force-reinstall alhena-agent).",
            file=sys.stderr,
        )
        return 1
    from alhena.__main__ import main as run

    return run()
