"""`alhena settings check` says what a run with the same settings would say at its start."""

from pathlib import Path
from typing import Any

import pytest

from alhena.errors import ConfigError
from alhena.system.errors import SandboxError
from tests.config.places import user
from tests.support.command import alhena

FINE = "The settings are valid.\n"
NO_RUN = "With these settings no run begins."


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tools": {"sandbox": "docker"}}, "a sandbox by docker is not supported"),
        ({"tools": {"sandbox": {"enabled": True, "command": "podman"}}}, "a sandbox by podman"),
        ({"tools": {"exclude": ["bad("]}}, "the entry 'bad('"),
        (
            {"hooks": {"BeforeTool": [{"hooks": [{"type": "nope", "command": "x"}]}]}},
            "'nope'",
        ),
        ({"policyPaths": ["/nonexist.toml"]}, "/nonexist.toml: cannot be read"),
        ({"model": {"budget": {"maxCost": 1}, "name": "nosuch"}}, "the price of nosuch"),
        ({"model": {"budget": {"maxSeconds": -1}}}, "max seconds is -1"),
        ({"model": {"prices": {"m": {"input": -1, "output": 1}}}}, "the price of m"),
        (
            {
                "modelConfigs": {
                    "overrides": [
                        {
                            "match": {"model": "gemini-3.8-flash"},
                            "modelConfig": {"generateContentConfig": {"temperature": "hot"}},
                        }
                    ]
                }
            },
            "temperature",
        ),
    ],
)
def test_what_ends_every_run_is_an_error_of_the_settings(
    home: Path, project: Path, settings: dict[str, Any], said: str
) -> None:
    user(home, settings)
    checked = alhena("settings", "check")
    assert checked.code == ConfigError.exit_code
    *errors, last = checked.out.splitlines()
    assert said in "".join(errors)
    assert all(each.startswith("error: ") for each in errors)
    assert last == NO_RUN
    assert alhena("settings", "check", "--json").json["errors"]
    ran = alhena("-p", "hi", GEMINI_API_KEY="k", GOOGLE_GEMINI_BASE_URL="http://127.0.0.1:9")
    assert ran.code in (ConfigError.exit_code, SandboxError.exit_code)
    assert said in ran.err


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tools": {"allowed": ["bad("]}}, "the entry 'bad('"),
        ({"context": {"includeDirectories": ["gone"]}}, "no directory gone"),
        ({"general": {"sessionRetention": {"enabled": True, "maxAge": "soon"}}}, "soon"),
    ],
)
def test_what_a_run_warns_of_is_a_warning(
    home: Path, project: Path, settings: dict[str, Any], said: str
) -> None:
    user(home, settings)
    checked = alhena("settings", "check")
    assert checked.code == 1
    (line,) = checked.out.splitlines()
    assert line.startswith("warning: ")
    assert said in line
    ran = alhena("-m", "demo", "-p", "hi")
    assert ran.code == 0
    assert said in ran.err


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"tools": {"allowed": ["run_shell_command(git status)"]}},
        {"model": {"budget": {"maxCost": 1, "maxSeconds": 5}}},
        {"general": {"sessionRetention": {"enabled": True, "maxAge": "7d"}}},
    ],
)
def test_settings_with_which_runs_begin_can_be_used(
    home: Path, project: Path, settings: dict[str, Any]
) -> None:
    user(home, settings)
    checked = alhena("settings", "check")
    assert (checked.code, checked.out) == (0, FINE)
    found = alhena("settings", "check", "--json").json
    assert found == {"errors": [], "warnings": [], "notes": []}


def test_all_that_is_wrong_is_said_at_once(home: Path, project: Path) -> None:
    user(home, {"tools": {"sandbox": "docker", "exclude": ["bad("]}, "nokey": 1})
    checked = alhena("settings", "check")
    assert checked.code == ConfigError.exit_code
    kinds = [line.partition(":")[0] for line in checked.out.splitlines()]
    assert kinds == ["error", "error", "warning", NO_RUN]
