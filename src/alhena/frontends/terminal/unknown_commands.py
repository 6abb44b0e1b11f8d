"""What is said of a slash command that there is not."""

from collections.abc import Iterable
from difflib import get_close_matches

from alhena.display_text import one_line

NEAR = 0.75
"""How like a command its misspelling is."""
INSTEAD = {
    **dict.fromkeys(("about", "version"), "`alhena --version` says which version this is."),
    "auth": "`alhena auth login` signs in, `alhena auth status` says who answers.",
    "copy": "Select the text in your terminal to copy it.",
    **dict.fromkeys(
        ("directory", "dir"), "Begin with `alhena --include-directories DIR` for more directories."
    ),
    "docs": "See the docs folder, or ask: the model can read it.",
    "editor": "Set VISUAL or EDITOR to choose your editor.",
    **dict.fromkeys(("extensions", "skills"), "They are not there yet."),
    "init": "Ask for a GEMINI.md of this project; /memory shows what it says.",
    "model": "Begin with `alhena --model NAME`; `alhena models list` says which there are.",
    "permissions": "`alhena trust` trusts this folder; /policies shows what is allowed.",
    "plan": "Shift-Tab goes to plan mode.",
    "privacy": "`alhena settings show privacy` shows what is set.",
    "resume": "Leave, and go on with `alhena --resume`; `alhena sessions list` says with what.",
    "rewind": "/undo takes back the last turn's changes, /restore goes back to a checkpoint.",
    "settings": "`alhena settings show` shows them, `alhena settings path` where they are said.",
    "shortcuts": "/help has the keys, too.",
    "theme": "The colours are those of your terminal.",
}
"""For commands of the reference: how the same is done here."""


def unknown_words(name: str, known: Iterable[str]) -> str:
    """The line for a command of that name."""
    shown = one_line(name, 60)
    if name.lower() in INSTEAD:
        return f"There is no /{shown} here. {INSTEAD[name.lower()]}"
    near = get_close_matches(name.lower(), list(known), n=1, cutoff=NEAR)
    return f"Unknown command /{shown}. {f'Did you mean /{near[0]}?' if near else 'See /help.'}"
