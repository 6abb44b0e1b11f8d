"""What the MCP servers of a place are started in."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from alhena.agent.mcp_access import stored_access
from alhena.config.environment import own_environment
from alhena.config.home import config_home
from alhena.config.settings import Settings
from alhena.mcp.opening import Surroundings
from alhena.system.processes import ProcessGroups


def surroundings(
    environ: Mapping[str, str],
    settings: Settings,
    roots: Sequence[Path],
    groups: ProcessGroups,
    warn: Callable[[str], None],
    *,
    trusted: bool,
) -> Surroundings:
    """The surroundings of servers in a workspace, whose first root is its directory. In one that is
    not trusted none is started that the workspace could have put there: their directory is the
    user's own. Servers are shown who asks by what a sign-in has left; `warn` hears of that.
    They inherit nothing of a project's .env file."""
    cwd = str(roots[0]) if trusted else os.path.dirname(config_home(environ))
    own = own_environment(environ)
    return Surroundings(
        environ=own,
        redaction=settings.security.environment_variable_redaction,
        cwd=cwd,
        roots=tuple(map(str, roots)),
        groups=groups,
        auth=stored_access(own, warn),
    )
