"""/mcp: the servers of the session, signing in to them, turning them on and off."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from alhena.agent.workbench import Workbench
from alhena.display_text import escaped, one_line
from alhena.frontends.terminal.lines import Line, line

if TYPE_CHECKING:
    from alhena.agent.mcp_control import ServerControl
    from alhena.mcp.servers import ServerReport

_USAGE = (
    "It is /mcp, /mcp desc, /mcp schema, /mcp refresh, /mcp auth NAME, "
    "/mcp enable NAME or /mcp disable NAME [--session]."
)
_STYLES = {"connected": "ok", "needs_auth": "warning", "disconnected": "error"}
MAX_NOTES = 5
"""How many of the last things a server said are shown."""


class ServerContext(Protocol):
    """What the command works with."""

    @property
    def workbench(self) -> Workbench:
        """Tools, policies and hooks of the session."""
        ...

    def print(self, lines: list[Line]) -> None:
        """Prints lines above the prompt."""
        ...


async def mcp(context: ServerContext, rest: str) -> list[Line]:
    """Carries out `/mcp REST`."""
    control = context.workbench.server_control
    if control is None:
        return [line("No MCP servers are configured. To add one: alhena mcp add --help")]
    what, *words = rest.split() or ["list"]
    session = "--session" in words
    names = [word for word in words if word != "--session"]
    match what, names:
        case (("list" | "desc" | "schema"), []):
            return _listed(control, what)
        case (("refresh" | "reload"), []):
            context.print([line("Connecting to all MCP servers anew…", "dim")])
            await control.refresh()
            return _listed(control, "list")
        case "auth", []:
            return _to_sign_in(control)
        case "auth", [name]:
            await control.sign_in(name, _Person(context.print))
            return [line(f"Signed in to MCP server '{one_line(name)}'.", "ok")]
        case (("enable" | "disable"), [name]):
            enabled = what == "enable"
            await control.turn(name, enabled=enabled, lasting=not session)
            word = "on" if enabled else "off"
            how_long = " for this session" if session else ""
            return [line(f"MCP server '{one_line(name)}' is turned {word}{how_long}.")]
        case _:
            return [line(_USAGE, "error")]


class _Person:
    """The person at this terminal."""

    def __init__(self, show: Callable[[list[Line]], None]) -> None:
        self._show = show

    def tell(self, text: str) -> None:
        """Shows a line. Addresses are left whole, so that they can be copied."""
        self._show([line(text)])

    async def ask(self, question: str) -> str | None:
        """Nobody is asked for a code here."""
        del question

    async def open(self, url: str) -> bool:
        """Shows a page in the browser."""
        from alhena.models.auth.authorization import open_browser

        return await open_browser(url)


def _listed(control: "ServerControl", what: str) -> list[Line]:
    from alhena.frontends.mcp_words import MARKS, state_words

    reports = control.reports
    lines = [line(f"{len(reports)} MCP server{'' if len(reports) == 1 else 's'}", "bold")]
    for report in reports:
        mark = (_STYLES.get(report.state, "dim"), f"  {MARKS[report.state]} ")
        name = ("accent", escaped(one_line(report.name, 60)))
        kind = f" ({report.transport})" if report.transport else ""
        lines.append((mark, name, ("", f"{kind} {escaped(state_words(report))}")))
        if report.description:
            lines.append(line(f"      {one_line(report.description, 200)}", "dim"))
        lines += _offer(report, control, what)
    return lines


def _offer(report: "ServerReport", control: "ServerControl", what: str) -> list[Line]:
    """What a server has, and what was odd about it."""
    lines: list[Line] = []
    for own, declared in report.tools.items():
        other = f" (called {one_line(declared, 70)})" if own != declared else ""
        lines.append(line(f"      tool {one_line(own, 70)}{other}"))
        if what != "list":
            lines += _details(control, declared, what)
    for prompt in report.prompts:
        lines.append(_entry("prompt", prompt.name, prompt.description, what))
    for resource in report.resources:
        lines.append(_entry("resource", resource.uri, resource.description, what))
    for own, reason in report.left_out.items():
        lines.append(
            line(f"      left out: {one_line(own, 70)}: {one_line(reason, 200)}", "warning")
        )
    notes = [note for note in dict.fromkeys(report.notes) if note != report.why]
    return lines + [line(f"      {one_line(note, 200)}", "dim") for note in notes[-MAX_NOTES:]]


def _entry(kind: str, name: str, description: str, what: str) -> Line:
    told = f": {one_line(description, 200)}" if what != "list" and description else ""
    return line(f"      {kind} {one_line(name, 120)}{told}")


def _details(control: "ServerControl", declared: str, what: str) -> list[Line]:
    tool = control.tool(declared)
    if tool is None:
        return []
    text = tool.description
    if what == "schema":
        encoded = msgspec.json.encode(tool.parameter_schema)
        text += "\n" + msgspec.json.format(encoded, indent=2).decode("utf-8")
    return [line(f"        {each}", "dim") for each in text.split("\n")]


def _to_sign_in(control: "ServerControl") -> list[Line]:
    waiting = [each.name for each in control.reports if each.state == "needs_auth"]
    if not waiting:
        return [line("No MCP server wants you to sign in. /mcp auth NAME signs in to one anew.")]
    head = line("These MCP servers want you to sign in:", "bold")
    return [head, *(line(f"  /mcp auth {one_line(name, 60)}") for name in waiting)]
