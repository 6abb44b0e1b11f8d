"""Terminals that break long rows anew when they are resized."""

from alhena.frontends.terminal.resizing import reflows
from tests.support.each import for_each


@for_each(
    ("environ", "breaks"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "xterm-256color", "XTERM_VERSION": "XTerm(390)"}, False),
        ({"TERM": "screen", "STY": "1.pts"}, False),
        ({"TERM": "linux"}, False),
        ({"TERM": "tmux-256color", "TMUX": "/tmp/tmux,1,0", "XTERM_VERSION": "XTerm(390)"}, True),
    ],
)
def test_long_rows_are_known_to_be_broken_anew(environ: dict[str, str], breaks: bool):
    assert reflows(environ) is breaks
