import os
from pathlib import Path

import pytest

from alhena.config.effective_settings import Place
from alhena.config.env_files import PLACES, is_admitted, is_ours
from alhena.config.mcp_servers import OF_WORKSPACE
from alhena.system.environment import child_environment
from tests.config.places import opened, user, workspace, write


def values_of_names(place: Place) -> dict[str, str]:
    """Values of `$NAME` in a project's settings."""
    projects = [file.variables for file in place.env_files if file.local]
    return {**place.environ, **(projects[0] if projects else {})}


def test_the_nearest_file_counts_and_that_of_the_gemini_folder_first_and_the_users_beside_it(
    home: Path, project: Path
) -> None:
    inner = project / "a" / "b"
    inner.mkdir(parents=True)
    places = [
        home / ".env",
        home / ".gemini" / ".env",
        project / ".env",
        project / ".gemini" / ".env",
        inner / ".env",
        inner / ".gemini" / ".env",
    ]
    for number, path in enumerate(places):
        write(path, f"WHICH={number}\nONLY_{number}=1\n")
        place = opened(inner)
        assert values_of_names(place)["WHICH"] == str(number)
        of_user = [path] if number < 2 else []
        of_project = [] if number < 2 else [path]
        assert [file.path for file in place.env_files] == [*of_project, *(of_user or places[1:2])]
        only = {name for name in values_of_names(place) if name.startswith("ONLY_")}
        assert only == {f"ONLY_{number}", f"ONLY_{min(number, 1)}"}


def test_a_projects_file_takes_nothing_of_the_users_away(home: Path, project: Path) -> None:
    write(home / ".gemini" / ".env", "GEMINI_API_KEY=mine\nGEMINI_MODEL=mine\nOWN=mine\n")
    write(project / ".env", "DB_PORT=5432\nGEMINI_MODEL=theirs\nOWN=theirs\n")
    place = opened(project)
    assert place.environ["GEMINI_API_KEY"] == "mine"
    assert place.environ["GEMINI_MODEL"] == "theirs"
    assert place.environ["OWN"] == "mine"
    assert (
        values_of_names(place)["OWN"] == "theirs"
    )  # in the settings of the project, which it is written for
    children = child_environment(place.environ).variables
    assert (children["OWN"], children.get("DB_PORT")) == ("mine", None)


def test_what_is_set_already_stays_even_when_it_is_empty(project: Path) -> None:
    write(project / ".env", "A=file\nB=file\nC=file\n")
    environ = values_of_names(opened(project, A="mine", B=""))
    assert (environ["A"], environ["B"], environ["C"]) == ("mine", "", "file")


def test_a_project_that_is_not_trusted_leaves_the_users_own_file(home: Path, project: Path) -> None:
    write(project / ".env", "A=theirs\nGEMINI_API_KEY=theirs\n")
    write(home / ".gemini" / ".env", "A=mine\n")
    environ = values_of_names(opened(project, trusted=False))
    assert environ["A"] == "mine"
    assert "GEMINI_API_KEY" not in environ


def test_a_file_above_counts_only_where_its_own_folder_is_trusted(
    home: Path, project: Path
) -> None:
    inner = project / "inner"
    inner.mkdir()
    write(project / ".env", "A=1\n")
    trust = home / ".gemini" / "trustedFolders.json"
    write(trust, {str(inner): "TRUST_FOLDER"})
    assert "A" not in values_of_names(opened(inner, trusted=False))
    write(trust, {str(project): "TRUST_FOLDER"})
    assert values_of_names(opened(inner, trusted=False))["A"] == "1"


def test_debugging_is_not_turned_on_by_a_project(home: Path, project: Path) -> None:
    write(project / ".env", "DEBUG=1\nDEBUG_MODE=1\nMINE=1\n")
    place = opened(project)
    assert "DEBUG" not in values_of_names(place)
    assert "DEBUG_MODE" not in values_of_names(place)
    assert any("DEBUG, DEBUG_MODE" in note for note in place.notes)
    user(home, {"advanced": {"excludedEnvVars": ["MINE"]}})
    place = opened(project)
    assert ("DEBUG" in values_of_names(place), "MINE" in values_of_names(place)) == (True, False)
    (project / ".env").rename(project / ".gemini.env")
    write(project / ".gemini" / ".env", "MINE=1\n")
    assert values_of_names(opened(project))["MINE"] == "1"


def test_local_files_can_be_turned_off(home: Path, project: Path) -> None:
    write(project / ".env", "A=1\n")
    write(home / ".env", "B=2\n")
    user(home, {"advanced": {"ignoreLocalEnv": True}})
    environ = values_of_names(opened(project))
    assert ("A" in environ, environ.get("B")) == (False, "2")


CHOOSING = [
    "GOOGLE_GEMINI_BASE_URL",
    "GOOGLE_VERTEX_BASE_URL",
    "CODE_ASSIST_ENDPOINT",
    "OPENAI_BASE_URL",
    "ANTHROPIC_BASE_URL",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_ACCESS_TOKEN",
    "CLOUDSDK_CONFIG",
    "GCE_METADATA_HOST",
    "ALHENA_OAUTH_TOKEN_URL",
    "GEMINI_CLI_CUSTOM_HEADERS",
    "GEMINI_CLI_HOME",
    "GEMINI_CLI_TRUST_WORKSPACE",
    "GEMINI_RESTRICTED_MODE",
    "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
    "GEMINI_CLI_TRUSTED_FOLDERS_PATH",
    "GEMINI_SANDBOX",
    "SANDBOX",
    "GEMINI_TELEMETRY_OUTFILE",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "ALL_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
    "PATH",
    "HOME",
    "SHELL",
    "EDITOR",
    "PAGER",
    "BROWSER",
    "LD_PRELOAD",
    "LD_AUDIT",
    "DYLD_INSERT_LIBRARIES",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "NODE_OPTIONS",
    "BASH_ENV",
    "GIT_SSH_COMMAND",
    "GIT_CONFIG_COUNT",
    "XDG_CONFIG_HOME",
    "TMPDIR",
    "GEMINI_SYSTEM_MD",
    "GITHUB_SHA",
    "IFS",
    "PROMPT_COMMAND",
    "NPM_CONFIG_REGISTRY",
    "PIP_INDEX_URL",
    "AWS_ENDPOINT_URL_S3",
    "KUBECONFIG",
    "DOCKER_HOST",
    "GOFLAGS",
]


@pytest.mark.parametrize("name", CHOOSING)
def test_a_project_never_says_where_secrets_go_or_what_runs(name: str, project: Path) -> None:
    text = f"{name}=evil\n{name.lower()}=evil\n{name.title()}=evil\nHARMLESS=1\n"
    write(project / ".gemini" / ".env", text)
    place = opened(project)
    assert {key for key, value in values_of_names(place).items() if value == "evil"} == set()
    assert values_of_names(place)["HARMLESS"] == "1"
    (warning,) = place.warnings
    assert name in warning
    assert "evil" not in warning


def test_a_projects_model_is_one_of_the_same_service() -> None:
    assert is_admitted("GEMINI_MODEL", "gemini-2.5-flash", local=True)
    assert not is_admitted("GEMINI_MODEL", "openai:gpt", local=True)
    assert is_admitted("GEMINI_MODEL", "openai:gpt", local=False)


def test_the_users_own_file_says_all_but_what_is_read_before_it(home: Path, project: Path) -> None:
    lines = [f"{name}=other" for name in sorted(PLACES)]
    write(home / ".gemini" / ".env", "\n".join([*lines, "HTTPS_PROXY=http://p", "PATH=x"]))
    place = opened(project, trusted=False)
    assert place.environ["HTTPS_PROXY"] == "http://p"
    assert place.environ["PATH"] == os.environ["PATH"]
    assert all(place.environ.get(name) != "other" for name in PLACES)
    assert not place.trust.trusted


def test_a_variable_of_a_project_is_not_put_into_the_settings_of_the_user(
    home: Path, project: Path
) -> None:
    user(home, {"mcpServers": {"mine": {"url": "${MY_URL:-https://mine}", "headers": {"A": "$T"}}}})
    workspace(project, {"mcpServers": {"theirs": {"url": "$MY_URL/$T"}}})
    write(project / ".env", "MY_URL=https://evil\n")
    found = opened(project, GEMINI_API_KEY="secret", T="t").settings.mcp_servers
    assert found["mine"] == {"url": "https://mine", "headers": {"A": "t"}}
    assert found["theirs"] == {"url": "https://evil/t", **OF_WORKSPACE}
    (project / ".env").unlink()
    write(home / ".gemini" / ".env", "MY_URL=https://home\n")
    assert opened(project).settings.mcp_servers["mine"]["url"] == "https://home"


@pytest.mark.parametrize("data", [b"A=\xff\n", b"A=1\n" * 400_000])
def test_a_file_that_cannot_be_read_is_a_warning(project: Path, data: bytes) -> None:
    (project / ".env").write_bytes(data)
    place = opened(project)
    assert "A" not in values_of_names(place)
    (warning,) = place.warnings
    assert warning.startswith(f"{project / '.env'} is not read")


def test_what_is_no_file_is_passed_over(home: Path, project: Path) -> None:
    (project / ".env").mkdir()
    os.mkfifo(home / ".env")
    assert opened(project).warnings == ()


def test_a_value_that_no_process_takes_is_left_out(project: Path) -> None:
    write(project / ".env", "A='a\0b'\nB=1\n")
    place = opened(project)
    assert ("A" in values_of_names(place), values_of_names(place)["B"]) == (False, "1")
    assert len(place.warnings) == 1


def test_a_file_above_has_to_be_the_users_or_the_administrators(project: Path) -> None:
    file = write(project / ".env", "A=1\n")
    assert is_ours(file)
    assert not is_ours(project / "none")
