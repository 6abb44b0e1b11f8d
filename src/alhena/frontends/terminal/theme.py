"""What the styles of the view look like. Names are closed: a test compares them with their uses."""

STYLES = {
    "": "",
    "accent": "ansicyan",
    "added": "ansigreen",
    "bold": "bold",
    "chosen": "bold ansicyan",
    "dim": "ansibrightblack",
    "error": "ansired",
    "ok": "ansigreen",
    "removed": "ansired",
    "user": "bold",
    "warning": "ansiyellow",
}
"""Style -> colours by the sixteen names that every terminal's own theme defines."""
