"""Every test runs in a home and a project of its own, with no credentials and no network config."""

import compileall
import gc
import itertools
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.support import claims, skips
from tests.support.google import GoogleServer
from tests.support.server import ScriptedServer
from tests.support.steady import SteadyLoop

if TYPE_CHECKING:
    from tests.mcp.oauth_server import OAuthServer

ROOT = Path(__file__).parent.parent
CLEARED_PREFIXES = ("GEMINI_", "GOOGLE_", "ALHENA_", "CODE_ASSIST_", "OPENAI_", "ANTHROPIC_")
CLEARED = (
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "XDG_CONFIG_HOME", "NO_COLOR"),
    *("SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)

NUMBERS = itertools.count()

# Nothing here is judged by the clock: a busy machine is no defect.
# Unattended runs take the same examples each time, so that what they say is about the change;
# `make test` by hand looks for new ones in each run; the soaks for many more.
settings.register_profile(
    "suite",
    deadline=None,
    max_examples=20,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")


# What is tested, and what tests start, is compiled once. The many processes that they start write
# no bytecode: on a disk that a test makes full it would be cut off. Test processes keep that of the
# tests.
if "PYTEST_XDIST_WORKER" not in os.environ:
    compileall.compile_dir(Path(__file__).parent.parent / "src", quiet=2)
    compileall.compile_dir(Path(__file__).parent, rx=re.compile(r"/test_\w+\.py$"), quiet=2)
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
sys.dont_write_bytecode = False


# One authority, which has signed nothing, instead of the system's 150, which each context of each
# client reads: 20 ms every time.
AUTHORITY = Path(__file__).parent / "support" / "one_authority.pem"


# Who is started in the background, or by nohup, ignores these, and so does all that it starts.
for _number, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGQUIT, signal.SIG_DFL),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)


# Modules and tests are there until the end: no search for garbage among them, neither while they
# are made nor later.
gc.disable()


SLOW_FILES = frozenset((Path(__file__).parent / "slow_files.txt").read_text("utf-8").split())
"""Files of tests that take more than 0.4 s of the processor; `--fast` leaves them out."""


def pytest_addoption(parser: pytest.Parser) -> None:
    claims.pytest_addoption(parser)
    skips.pytest_addoption(parser)
    parser.addoption("--write-snapshots", action="store_true", help="write the screens as they are")
    parser.addoption("--fast", action="store_true", help="leave out the files of slow_files.txt")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    name = collection_path.relative_to(Path(__file__).parent).as_posix()
    return True if config.getoption("--fast") and name in SLOW_FILES else None


pytest_collection_modifyitems = claims.pytest_collection_modifyitems
pytest_terminal_summary = skips.pytest_terminal_summary
pytest_sessionfinish = skips.pytest_sessionfinish


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_asyncio_loop_factories() -> dict[str, type[SteadyLoop]]:
    return {"steady": SteadyLoop}


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As pytest's own, which looks for a free name among all that there are: thousands here. Paths
    are as long in each run: some tests see where a line with one is broken."""
    name = re.sub(r"\W", "_", request.node.name)[:26]
    path = tmp_path_factory.getbasetemp() / f"{name}{next(NUMBERS):05}"
    path.mkdir(0o700)
    return path


@pytest.fixture(autouse=True)
def isolation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    project = tmp_path / "project"
    home.mkdir()
    project.mkdir()
    for name in list(os.environ):
        if name.startswith(CLEARED_PREFIXES) or name.upper() in CLEARED:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("SSL_CERT_FILE", str(AUTHORITY))
    monkeypatch.chdir(project)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return tmp_path / "project"


@pytest.fixture
def google() -> Iterator[GoogleServer]:
    """A loopback OAuth server and Code Assist."""
    with GoogleServer() as running:
        yield running


@pytest.fixture(scope="module")
def world() -> "Iterator[OAuthServer]":
    from tests.mcp.oauth_server import running

    with running() as one:
        yield one


@pytest.fixture
def guarded(world: "OAuthServer") -> "OAuthServer":
    """An MCP server that wants to know who asks, and who signs people in for it."""
    world.begin()
    return world


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A loopback model server; script it with `server.reply(...)`, read `server.requests`."""
    with ScriptedServer() as running:
        yield running
