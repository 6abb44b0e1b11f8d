"""What the styles of the view look like. Names are closed: a test compares them with their uses."""

STYLES = {
    "": "",
    "accent": "ansicyan",
    "added": "ansigreen",
    "bold": "bold",
    "dim": "ansibrightblack",
    "error": "ansired",
    "ok": "ansigreen",
    "removed": "ansired",
    "selected": "bold ansicyan",
    "user": "bold",
    "warning": "ansiyellow",
}
"""Style -> colours by the sixteen names that every terminal's own theme defines."""
