"""The distribution that brings this package, `alhena-agent`, and the commands that install parts of
it. On PyPI the name `alhena` is another project's."""

import shlex
import sys

NAME = "alhena-agent"
MCP_MAJOR = 2


def install_command(extra: str) -> str:
    """The command line that installs an extra into the environment of this interpreter: from the
    folder that this package was installed from, if it was, else by the distribution's name."""
    return f"{_installer()} {shlex.quote(f'{_folder() or NAME}[{extra}]')}"


def _installer() -> str:
    from importlib.util import find_spec

    if find_spec("pip") is None:  # as in the environments of uv
        return f"uv pip install --python {shlex.quote(sys.executable)}"
    return f"{shlex.quote(sys.executable)} -m pip install"


def require_mcp() -> None:
    """Raises ConfigError if the package `mcp` is not there or too old: others may replace it."""
    from importlib.metadata import PackageNotFoundError, version

    from alhena.errors import ConfigError

    try:
        found = version("mcp")
    except PackageNotFoundError:
        found = ""
    if not found.partition(".")[0].isdigit() or int(found.partition(".")[0]) < MCP_MAJOR:
        there = f"version {found} is installed" if found else "it is not installed"
        raise ConfigError(
            f"MCP servers need version {MCP_MAJOR} of the package mcp, but {there}.",
            remedy=f"Run {_installer()} 'mcp>={MCP_MAJOR}', or install alhena elsewhere.",
        )


def _folder() -> str | None:
    """The folder that this distribution was installed from."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote, urlsplit

    try:
        text = distribution(NAME).read_text("direct_url.json")
        origin = json.loads(text or "{}")
        url = urlsplit(str(origin["url"])) if "dir_info" in origin else None
    except (PackageNotFoundError, ValueError, KeyError, TypeError):
        return None
    return unquote(url.path) if url is not None and url.scheme == "file" else None
