"""What programs look for by themselves, and which directories are only data to them."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from alhena.config.named_files import TooManyWordsError, named_files
from tests.config.places import write

FILES = (
    *("Makefile", "package.json", "pyproject.toml", "justfile", "Cargo.toml", "go.mod", "main.go"),
    *("compose.yaml", "Dockerfile", ".npmrc", "index.js", "__main__.py", "noxfile.py", "uv.toml"),
)


@pytest.fixture
def files(project: Path) -> Path:
    for name in FILES:
        write(project / name, "x")
        write(project / "sub" / name, "x")
    return project


def watched(folder: Path, line: str, **members: Any) -> list[str]:
    command, *args = shlex.split(line)
    return sorted(named_files({"command": command, "args": args, **members}, folder))


@pytest.mark.parametrize(
    ("line", "looked_for"),
    [
        ("make serve", ["Makefile"]),
        ("env A=b make serve", ["Makefile"]),
        ("timeout 5 make serve", ["Makefile"]),
        ("sh -c 'exec make serve'", ["Makefile"]),
        ("bash -lc 'A=b make'", ["Makefile"]),
        ("sh -c make", ["Makefile"]),
        ("/usr/bin/make serve", ["Makefile"]),
        ("npm run mcp", [".npmrc", "package.json"]),
        ("npm --silent start", [".npmrc", "package.json"]),
        ("yarn mcp", [".npmrc", "package.json"]),
        ("node --run mcp", ["package.json"]),
        ("just mcp", ["justfile"]),
        ("uv run my-server", ["pyproject.toml", "uv.toml"]),
        ("poetry run my-server", ["pyproject.toml"]),
        ("python -m nox", ["noxfile.py"]),
        ("uvx nox", ["noxfile.py"]),
        ("uvx nox@2024.1", ["noxfile.py"]),
        ("cargo run", ["Cargo.toml"]),
        ("go run .", ["go.mod", "main.go"]),
        ("docker compose run mcp", ["Dockerfile", "compose.yaml"]),
    ],
)
def test_what_a_runner_looks_for_where_it_starts_is_watched(
    files: Path, line: str, looked_for: list[str]
) -> None:
    assert watched(files, line) == looked_for
    assert watched(files, line, cwd=".") == looked_for
    both = {*looked_for, *(f"sub/{name}" for name in looked_for)}
    assert set(watched(files, line, cwd="sub")) == both


@pytest.mark.parametrize("line", ["wrapped -- make serve", "concurrently 'make serve'"])
def test_a_runner_is_found_behind_a_program_that_nobody_knows(files: Path, line: str) -> None:
    assert watched(files, line) == ["Makefile"]


def test_a_runner_looks_above_its_directory_but_not_above_the_folder(
    files: Path, tmp_path: Path
) -> None:
    (files / "deep" / "er").mkdir(parents=True)
    write(files.parent / "Makefile", "x")
    assert watched(files, "make", cwd="deep/er") == ["Makefile"]
    assert watched(files, "make -C deep/er") == ["Makefile"]
    assert watched(files, "sh -c 'cd deep; cd er; make'") == ["Makefile"]


@pytest.mark.parametrize(
    "line",
    [
        "npx -y @modelcontextprotocol/server-filesystem@1.2 {}",
        "npx --yes some-server --root {}",
        "npm exec -y some-server {}",
        "pnpm dlx some-server {}",
        "bunx some-server {}",
    ],
)
def test_a_directory_is_data_to_what_is_fetched_and_where_it_comes_from_is_watched(
    files: Path, line: str
) -> None:
    assert watched(files, line.format(".")) == [".npmrc"]


@pytest.mark.parametrize(
    "line",
    [
        "uvx mcp-server-git --repository {}",
        "uv tool run mcp-server-git --repository {}",
        "pipx run mcp-server-git {}",
        "sh -c 'cd sub && uvx mcp-server-git {}'",
        "docker run -i --rm -v {}:/work mcp/filesystem {}",
        "python -u -m some_server {}",
        "git -C {} status",
    ],
)
@pytest.mark.parametrize("directory", [".", "sub"])
def test_a_directory_that_is_only_data_does_not_ask(files: Path, line: str, directory: str) -> None:
    assert watched(files, line.format(directory, directory)) == []
    assert watched(files, line.format(directory, directory), cwd=".") == []


def test_a_directory_behind_a_script_is_data(files: Path) -> None:
    write(files / "srv.py", "x")
    write(files / "srv.js", "x")
    assert watched(files, "python -u srv.py .") == ["srv.py"]
    assert watched(files, "node --enable-source-maps srv.js .") == ["srv.js"]


@pytest.mark.parametrize(
    ("line", "looked_for"),
    [
        ("npx .", [".npmrc", "index.js", "package.json", "pyproject.toml"]),
        ("npx -y --package=. cmd", [".npmrc", "index.js", "package.json", "pyproject.toml"]),
        ("uvx --from . srv", ["index.js", "package.json", "pyproject.toml"]),
        ("uvx --from=. srv", ["index.js", "package.json", "pyproject.toml"]),
        ("pipx run --spec . srv", ["index.js", "package.json", "pyproject.toml"]),
        ("python .", ["__main__.py"]),
        ("python3.12 -X dev .", ["__main__.py"]),
        ("node .", ["index.js", "package.json"]),
        ("node -r ./hook .", ["index.js", "package.json"]),
        ("npx -y tsx .", [".npmrc", "index.js", "package.json"]),
        ("uv run python sub", ["pyproject.toml", "sub/__main__.py"]),
        ("python -m sub", ["sub/__main__.py"]),
    ],
)
def test_a_directory_that_is_asked_to_be_run_is_watched(
    files: Path, line: str, looked_for: list[str]
) -> None:
    assert set(looked_for) <= set(watched(files, line))


@pytest.mark.parametrize("line", ["my-runner {}", "my-runner --root={}", "./tool {}", "sh ./x {}"])
def test_what_nobody_knows_may_run_what_it_is_told_of(files: Path, line: str) -> None:
    assert {"Makefile", "package.json", "pyproject.toml"} <= set(watched(files, line.format(".")))
    assert watched(files, "my-runner start") == []
    assert "sub/Makefile" in watched(files, "my-runner start", cwd="sub")
    assert "Makefile" in watched(files, "my-runner start", cwd=".")
    assert "sub/Makefile" in watched(files, "sh -c 'cd sub && my-runner start'")


@pytest.mark.parametrize(
    "arguments",
    [
        ["sh -c"] * 30_000,
        ["-c", "eval " * 50_000],
        ["-c", "A=b " * 100_000],
        ["-c", "\"'" * 200_000],
        ["-c", "{a,b}" * 100_000],
        ["-p", "x"] * 30_000,
    ],
    ids=lambda each: each[-1][:8],
)
@pytest.mark.parametrize("command", ["sh", "npx", "uv", "env", "my-runner"])
def test_words_without_end_are_looked_at_or_refused(
    project: Path, command: str, arguments: list[str]
) -> None:
    try:
        made = named_files({"command": command, "args": arguments}, project)
    except TooManyWordsError:
        return
    assert made == {}


@pytest.mark.parametrize(
    ("package", "own"),
    [
        ('{"name": "x", "version": "1", "bin": {"some-server": "a.js"}}', True),
        ('{"name": "@me/some-server", "bin": "a.js"}', True),
        ('{"name": "x", "bin": {"other": "a.js"}}', False),
        ('{"name": "some-server"}', False),
        ('{"name": 3, "bin": 4}', False),
        ("[]", False),
        ('{"bin": ', False),
        ("\ufeff", False),
        (" " * (1 << 20) + "{}", True),
        ("[" * 100_000, False),
    ],
    ids=lambda each: str(each)[:30],
)
def test_a_package_that_has_a_program_of_the_name_that_is_fetched_is_watched(
    files: Path, package: str, own: bool
) -> None:
    write(files / "package.json", package)
    for line in ("npx -y some-server .", "npm exec some-server"):
        assert ("package.json" in watched(files, line)) is own
    assert watched(files, "npx -y some-server@1.2 .") == (
        [".npmrc", "package.json"] if len(package) > 1 << 20 else [".npmrc"]
    )
    assert watched(files, "uvx some-server .") == []
