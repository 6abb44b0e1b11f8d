"""What is run behind what fetches programs, wraps them, or has them in containers."""

import shlex
from pathlib import Path

import pytest

from alhena.config.accepted import unaccepted, with_accepted
from alhena.config.bound import Bound, bound_entries
from alhena.config.home import trusted_commands_path
from alhena.config.named_files import TooManyWordsError, named_files
from tests.config.places import write

FILES = (
    *("package.json", "index.js", "Makefile", "server/package.json", "server/index.js"),
    *("server/__main__.py", "server/pyproject.toml", "src/pkg/__main__.py", "src/pkg/__init__.py"),
    *("pkg/__main__.py", "pkg/__init__.py", "nodemon.json"),
)
ENVIRONMENT = {"HOME": "/nowhere", "PATH": "/usr/bin:/bin"}
IN_NODE = ("index.js", "package.json")
OF_PKG = ("src/pkg/__main__.py", "src/pkg/__init__.py")


@pytest.fixture
def folder(project: Path) -> Path:
    for name in FILES:
        write(project / name, "{}")
    return project


def entries(folder: Path, line: str) -> tuple[Bound, ...]:
    command, *arguments = shlex.split(line)
    settings = {"mcpServers": {"s": {"command": command, "args": arguments}}}
    return bound_entries(settings, folder, ENVIRONMENT)


def accept(folder: Path, line: str, home: Path) -> dict[str, str]:
    environ = {"HOME": str(home)}
    path = trusted_commands_path(environ)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(with_accepted(path, b"", folder, entries(folder, line), ["mcpServers.s"]))
    assert unaccepted(entries(folder, line), folder, environ) == ()
    return environ


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("npx -y supergateway --stdio 'node server'", ("server/index.js",)),
        ("npx -y supergateway --stdio='node server'", ("server/index.js",)),
        ("npx -y supergateway --stdio 'npm start'", ("package.json",)),
        ("npx -y supergateway --stdio 'PORT=3 npm start'", ("package.json",)),
        ("npx @modelcontextprotocol/inspector node server", ("server/index.js",)),
        ("npx -y mcp-proxy --port 8080 node server", ("server/index.js",)),
        ("npx -y dotenv-cli -- node .", IN_NODE),
        ("npx cross-env A=b node .", IN_NODE),
        ("npx cross-env-shell A=b 'node .'", IN_NODE),
        ("pnpm exec dotenv -- node .", IN_NODE),
        ("uvx mcp-proxy node .", ("index.js",)),
        ("uvx mcp-proxy --pass-environment node .", ("index.js",)),
        ("uvx mcpo -- python server", ("server/__main__.py",)),
        ("python -m mcp_proxy -- node .", ("index.js",)),
        ("python proxy.py make serve", ("Makefile",)),
        ("uv run env A=b node .", ("index.js",)),
        ("uv run timeout 5 node .", ("index.js",)),
        ("uv run mcp-proxy npm start", ("package.json",)),
        ("uv run server", ("server/__main__.py",)),
        ("sudo -n node .", ("index.js",)),
        ("sudo -n npm start", ("package.json",)),
        ("sudo -nu me npm start", ("package.json",)),
        ("sudo -u node npm start", ("package.json",)),
        ("sudo -n make", ("Makefile",)),
        ("command -p node .", ("index.js",)),
        ("time -p node .", ("index.js",)),
        ("time -o out make", ("Makefile",)),
        ("setsid -c make", ("Makefile",)),
        ("nice -n 5 ionice -c 2 make", ("Makefile",)),
        ("stdbuf -oL make", ("Makefile",)),
        ("stdbuf -o L make", ("Makefile",)),
        ("exec -a name make", ("Makefile",)),
        ("env -u A make", ("Makefile",)),
        ("env -uA make", ("Makefile",)),
        ("env -S 'node .'", ("index.js",)),
        ("env -S 'A=b node' .", ("index.js",)),
        ("env -iS'node .'", ("index.js",)),
        ("env '--split-string=-i ./unknown .'", ("index.js", "Makefile")),
        ("npx -c 'node .'", ("index.js",)),
        ("npx -c 'npm start'", ("package.json",)),
        ("npx --call='npm start'", ("package.json",)),
        ("npx -p foo -c 'npm start'", ("package.json",)),
        ("npm exec -c 'node .'", ("index.js",)),
        ("npm --prefix server exec -c 'node .'", ("server/index.js",)),
        ("npx nodemon .", IN_NODE),
        ("npx nodemon -e js,ts .", ("index.js", "nodemon.json")),
        ("npx nodemon --exec 'python server'", ("server/__main__.py",)),
        ("tsx watch .", ("index.js",)),
        ("npx file:./server", ("server/package.json",)),
        ("npx -p file:./server foo", ("server/package.json",)),
        ("npx --package=file:./server foo", ("server/package.json",)),
        ("npx srv@file:server", ("server/package.json",)),
        ("npx srv@./server", ("server/package.json",)),
        ("uvx --from 'srv @ ./server' srv", ("server/pyproject.toml",)),
        ("uvx --from './server[all]' srv", ("server/pyproject.toml",)),
        ("python -m pkg", ("pkg/__main__.py", "pkg/__init__.py")),
        ("python -mpkg", ("pkg/__main__.py",)),
        ("py -3 -m pkg", ("pkg/__main__.py",)),
        ("python -Im src.pkg", OF_PKG),
        ("python -um src.pkg", OF_PKG),
        ("python -Imsrc.pkg", OF_PKG),
        ("uv run --module pkg", ("pkg/__main__.py",)),
        ("uv run --module=pkg", ("pkg/__main__.py",)),
        ("uvicorn src.pkg:app", OF_PKG),
        ("uv run uvicorn pkg:app", ("pkg/__init__.py",)),
        ("uv run uvicorn 'src.pkg:made(1)'", OF_PKG),
        ("flask --app src.pkg run", OF_PKG),
        ("uv run flask --app=pkg run", ("pkg/__init__.py",)),
        ("docker run -v .:/app -w /app node:20 npm start", ("package.json",)),
        ("docker run -v .:/app -w /app node node .", ("index.js",)),
        ("docker run -v ./server:/app img node /app/index.js", ("server/index.js",)),
        ("docker run -v./server:/app/:ro img sh -c 'node /app'", ("server/index.js",)),
        ("podman run --volume=./server:/app img python /app", ("server/__main__.py",)),
        (
            "docker run --mount type=bind,src=./server,dst=/app img node /app/index.js",
            ("server/index.js",),
        ),
        ("docker run --mount=target=/a,source=./server img node /a/index", ("server/index.js",)),
        ("docker run -v ./pkg:/a -v ./server:/a/b img node /a/b/index.js", ("server/index.js",)),
        ("docker run -v .:/app -w /app --entrypoint=npm node start", ("package.json",)),
        ("bash -o pipefail -c './unknown .'", ("package.json",)),
    ],
)
def test_changed_code_behind_a_program_that_runs_others_asks(
    folder: Path, home: Path, line: str, changed: tuple[str, ...]
) -> None:
    environ = accept(folder, line, home)
    for name in changed:
        write(folder / name, "another")
        (left,) = unaccepted(entries(folder, line), folder, environ)
        assert left.changed == (f"the file {name}",)
        write(folder / name, "{}")
    assert unaccepted(entries(folder, line), folder, environ) == ()


@pytest.mark.parametrize(
    "line",
    [
        "npx -y foo .",
        "npx -y foo -c server",
        "npx -y foo --runtime node",
        "npx -y foo --package-manager npm",
        "uvx foo -c server --root .",
        "uvx foo --title 'a long word' server",
        "docker run -i --rm -v .:/inside mcp/filesystem /inside",
        "docker run -v server:/inside mcp/filesystem /inside/index.js",
        "docker run -v ./server:/app img node /application/index.js",
        "docker run -v /:/ img node /index.js",
        "docker run --mount type=tmpfs,dst=/app img node /app/index.js",
        "uv run server.py .",
        "command -v ls",
        "env",
        "sudo -n",
        "npx",
        "env -S",
        "docker run -v",
    ],
)
def test_a_directory_that_is_nothing_but_data_does_not_ask(folder: Path, line: str) -> None:
    (each,) = entries(folder, line)
    assert [name for name in each.files if name != "server/pyproject.toml"] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["node"] * 30_000,
        ["node", "."] * 500,
        ["node ."] * 30_000,
        ["env -S"] * 30_000,
        ["-v", "./a:/b"] * 10_000,
        [*(f"-v{'./x /b' * 500}:/b{count}" for count in range(50)), "/b1 " * 50_000],
        [f"-v{'/b ' * 1000}/:/b", "/b " * 1000],
        ["-m"] * 30_000,
        ["a:b"] * 30_000,
    ],
    ids=lambda each: each[0][:8],
)
@pytest.mark.parametrize("command", ["docker", "sudo", "env", "npx", "python", "my-runner"])
def test_programs_in_programs_without_end_are_looked_at_or_refused(
    project: Path, command: str, arguments: list[str]
) -> None:
    try:
        made = named_files({"command": command, "args": arguments}, project)
    except TooManyWordsError:
        return
    assert made == {}
