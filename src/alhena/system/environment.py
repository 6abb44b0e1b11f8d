"""The environment of a child process."""

from collections.abc import Mapping

CREDENTIALS = frozenset(
    {
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "GOOGLE_GENAI_API_KEY",
        "GOOGLE_CLOUD_ACCESS_TOKEN",
        "ALHENA_API_KEY",
    }
)
"""What the agent itself signs in to a model with; no command needs it."""

UNATTENDED: Mapping[str, str] = {
    "GEMINI_CLI": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "TERM": "dumb",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
}
"""Set for every command: nobody sits at its terminal, so nothing may page, prompt or paint."""

UNATTENDED_DEFAULTS: Mapping[str, str] = {"CI": "1"}
"""Set where the user's own environment says nothing."""


def child_environment(
    parent: Mapping[str, str],
    *,
    remove: frozenset[str] = CREDENTIALS,
    extra: Mapping[str, str] = UNATTENDED,
) -> dict[str, str]:
    """`parent` without the names in `remove`, with `extra` set over it."""
    kept = {name: value for name, value in parent.items() if name not in remove}
    return {**UNATTENDED_DEFAULTS, **kept, **extra}
