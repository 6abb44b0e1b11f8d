"""The reach of a project's .env file."""

import json
import os
import sys
from pathlib import Path

import pytest

from alhena.config.effective_settings import open_place
from alhena.config.env_files import is_admitted
from alhena.config.environment import own_environment
from alhena.system.environment import child_environment
from tests.support.command import alhena
from tests.support.each import for_each

UNKNOWN = ("NEXT_YEARS_TOOL_PLUGIN", "SOME_RCFILE", "XYZ_LOADER")
"""Names that are on no list."""

CHOOSING = (
    *("OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES", "GCONV_PATH", "LOCPATH"),
    *("LUA_INIT", "LUA_PATH", "LUA_CPATH", "PHPRC", "PHP_INI_SCAN_DIR", "R_PROFILE"),
    *("R_PROFILE_USER", "R_ENVIRON", "ERL_AFLAGS", "ERL_FLAGS", "JULIA_LOAD_PATH"),
    *("CORECLR_PROFILER_PATH", "CORECLR_ENABLE_PROFILING", "DOTNET_ADDITIONAL_DEPS"),
    *("GEM_HOME", "GEM_PATH", "BUNDLE_GEMFILE", "MAVEN_OPTS", "MAVEN_ARGS", "GRADLE_OPTS"),
    *("SBT_OPTS", "ZDOTDIR", "FPATH", "PS4", "INPUTRC", "YARN_REGISTRY", "YARN_RC_FILENAME"),
    *("COREPACK_NPM_REGISTRY", "BUN_CONFIG_REGISTRY", "POETRY_HOME", "GOENV", "GOTOOLCHAIN"),
    *("RUSTUP_DIST_SERVER", "NIX_CONFIG", "HF_ENDPOINT", "CONDA_PREFIX", "TAR_OPTIONS"),
    *("CURL_HOME", "WGETRC", "RSYNC_RSH", "SVN_SSH", "HGRCPATH", "SUDO_ASKPASS"),
    *("GH_HOST", "GH_PAGER", "GH_CONFIG_DIR", "SYSTEMD_PAGER", "BAT_PAGER", "PSQLRC"),
    *("PGSERVICEFILE", "VIMINIT", "MAKEFILES", "CMAKE_TOOLCHAIN_FILE", "AWS_CA_BUNDLE"),
    *("GITHUB_API_URL", "GITLAB_API_URL", "AZURE_AUTHORITY_HOST", "CONTAINER_HOST"),
    *("PGHOST", "HOSTALIASES", "LD_PRELOAD", "NODE_OPTIONS", "PYTHONPATH", "HTTPS_PROXY"),
    *("https_proxy", "GOOGLE_GEMINI_BASE_URL", "CODE_ASSIST_ENDPOINT", "GNUMAKEFLAGS"),
    *("MAKEFLAGS", "RUSTFLAGS", "CC", "LDFLAGS", "GCC_EXEC_PREFIX", "BAT_CONFIG_PATH"),
    *("KRB5_CONFIG", "GNUPGHOME", "AWS_DATA_PATH", "PGPASSFILE", "PYTEST_ADDOPTS", "MYSQL_HOME"),
)


@for_each("name", CHOOSING)
def test_what_chooses_what_runs_or_who_hears_comes_from_no_project(name: str):
    assert not is_admitted(name, "x", local=True)


@pytest.mark.parametrize(
    "name", ["DATABASE_URL", "NODE_ENV", "PORT", "GEMINI_API_KEY", "APP_TOKEN"]
)
def test_what_the_settings_of_the_project_may_want_comes_from_it(name: str):
    assert is_admitted(name, "x", local=True)


def test_the_agent_takes_of_a_projects_file_only_who_pays(project: Path):
    (project / ".env").write_text(
        "SERVICE_HOST=elsewhere\nGEMINI_MODEL=gemini-2.5-flash\nFOO_MIRROR=x\n", encoding="utf-8"
    )
    environ = {"HOME": os.environ["HOME"], "OWN": "mine"}
    place = open_place(project, environ, skip_trust=True)
    assert place.environ == {**environ, "GEMINI_MODEL": "gemini-2.5-flash"}
    assert own_environment(place.environ) == environ
    (told,) = [note for note in place.notes if "alone" in note]
    assert told.endswith("SERVICE_HOST, FOO_MIRROR.")


def test_no_program_gets_what_a_projects_file_says(project: Path):
    (project / ".env").write_text("GEMINI_MODEL=gemini-2.5-flash\n", encoding="utf-8")
    place = open_place(project, {"PATH": "/bin"}, skip_trust=True)
    assert "GEMINI_MODEL" in place.environ
    assert "GEMINI_MODEL" not in child_environment(place.environ).variables


def test_a_projects_file_changes_no_command_that_was_allowed(project: Path):
    names = (*UNKNOWN, "GNUMAKEFLAGS", "MAKEFLAGS", "BAT_CONFIG_PATH", "CC", "RUSTFLAGS")
    (project / ".env").write_text("".join(f"{name}=--evil\n" for name in names), encoding="utf-8")
    ran = alhena(
        *("tools", "call", "--skip-trust", "--approval-mode", "yolo", "run_shell_command"),
        '{"command": "env"}',
    )
    assert "PATH=" in ran.out
    assert "--evil" not in ran.out


def test_the_users_servers_and_hooks_inherit_nothing_of_a_projects_file(home: Path, project: Path):
    (project / ".env").write_text("SERVICE_HOST=elsewhere\nOWN=mine\n", encoding="utf-8")
    (home / ".gemini").mkdir()
    seen = home / "seen"
    server = (
        "import os, pathlib;"
        f"pathlib.Path({str(seen)!r}).write_text(str(os.environ.get('SERVICE_HOST')))"
    )
    hook = f'printf %s "$SERVICE_HOST" > {home}/hooked'
    settings = {
        "mcpServers": {"mine": {"command": sys.executable, "args": ["-c", server]}},
        "hooks": {"BeforeTool": [{"hooks": [{"type": "command", "command": hook}]}]},
    }
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    ran = alhena("tools", "call", "--skip-trust", "list_directory", '{"dir_path": "."}')
    assert ran.code == 0, ran.err
    assert seen.read_text(encoding="utf-8") == "None"
    assert (home / "hooked").read_text(encoding="utf-8") == ""
