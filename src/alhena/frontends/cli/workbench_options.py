"""The options of commands that work with tools and no conversation."""

import argparse

from alhena.agent.toolset.workbench import WorkbenchOptions
from alhena.frontends.cli.arguments import Parser, split_list, split_tools
from alhena.frontends.here import included, place_here, tell
from alhena.policy.model import ApprovalMode


def add_workbench_arguments(parser: Parser) -> None:
    """Adds the options that say what the workbench is."""
    add = parser.add_argument
    add("--approval-mode", choices=["default", "auto_edit", "yolo", "plan"])
    add("--policy", action="append", default=[], metavar="FILE")
    add("--allowed-tools", action="append", default=[], metavar="TOOLS")
    add("--skip-trust", action="store_true")
    add("-s", "--sandbox", action=argparse.BooleanOptionalAction)
    add("--include-directories", action="append", default=[], metavar="DIR")
    add("-d", "--debug", action="store_true", help="show tracebacks")


def workbench_options(found: argparse.Namespace) -> WorkbenchOptions:
    """What was asked for, in the current directory. Raises ConfigError."""
    place = place_here(skip_trust=found.skip_trust)
    settings = place.settings
    roots, missing = included(place, split_list(found.include_directories))
    tell(missing)
    mode = found.approval_mode or settings.general.default_approval_mode
    return WorkbenchOptions(
        cwd=place.cwd,
        environ=place.environ,
        settings=settings,
        mode=ApprovalMode(mode),
        include_directories=roots,
        policy=split_list(found.policy),
        allowed_tools=split_tools(found.allowed_tools),
        skip_trust=found.skip_trust,
        sandbox=found.sandbox,
        held_servers=place.held_servers,
        acceptance=place.acceptance,
    )
