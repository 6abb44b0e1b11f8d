"""The tests that were skipped: told at the end of a run, and in unattended runs (`--no-skips`) only
accepted for the reasons that `accepted_skips.toml` lists with their grounds."""

import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ACCEPTED = Path(__file__).parent.parent / "accepted_skips.toml"
PROGRAMS = Path(__file__).parent.parent.parent / "scripts" / "test_programs.sh"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-skips",
        action="store_true",
        help="fail when a test is skipped for a reason that accepted_skips.toml does not list",
    )


def read_accepted() -> dict[str, str]:
    """Patterns of reasons, each with its grounds."""
    return tomllib.loads(ACCEPTED.read_text(encoding="utf-8"))["reasons"]


def count_skips(reports: list[Any]) -> Counter[str]:
    """The reasons of skipped tests, each with their number."""
    return Counter(_reason(each) for each in reports)


def _reason(report: Any) -> str:
    told = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return told.removeprefix("Skipped: ")


def unaccepted_reasons(counts: Counter[str]) -> list[str]:
    """The reasons that are not on the list."""
    patterns = [re.compile(each) for each in read_accepted()]
    return [each for each in counts if not any(pattern.search(each) for pattern in patterns)]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    counts = count_skips(terminalreporter.stats.get("skipped", []))
    if not counts:
        return
    unaccepted = unaccepted_reasons(counts)
    terminalreporter.section("skipped tests")
    for reason, number in counts.most_common():
        mark = "!" if reason in unaccepted else " "
        terminalreporter.line(f"{mark} {number:>4}  {reason}")
    if unaccepted:
        terminalreporter.line("`bash scripts/test_programs.sh` installs what the marked ones need.")


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not session.config.getoption("--no-skips"):
        return
    if unaccepted_reasons(count_skips(reporter.stats.get("skipped", []))):
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
