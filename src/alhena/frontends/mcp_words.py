"""MCP servers in words: for `alhena mcp list` and `/mcp`."""

from alhena.display_text import one_line
from alhena.mcp.server import ServerState
from alhena.mcp.servers import ServerReport

MARKS = {
    ServerState.CONNECTED: "✓",
    ServerState.CONNECTING: "…",
    ServerState.DISCONNECTED: "✗",
    ServerState.NEEDS_AUTH: "!",
    ServerState.DISABLED: "-",
}


def state_words(report: ServerReport) -> str:
    """Where a server stands, and what keeps it from more."""
    name = report.name
    match report.state:
        case ServerState.CONNECTED:
            return f"connected: {offer_words(report)}"
        case ServerState.CONNECTING:
            return "connecting"
        case ServerState.DISCONNECTED:
            return f"not connected: {one_line(report.why, 300)}"
        case ServerState.NEEDS_AUTH:
            return f"needs you to sign in: alhena mcp auth {name} (or /mcp auth {name})"
        case ServerState.DISABLED:
            return f"turned off: {one_line(report.why, 300)}"


def offer_words(report: ServerReport) -> str:
    """How much a server has."""
    counts = (
        (len(report.tools), "tool"),
        (len(report.prompts), "prompt"),
        (len(report.resources), "resource"),
    )
    told = [f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts if count]
    return ", ".join(told) or "nothing"
