"""Themes: colours by the names of `ui.theme`, and whether the background is light (OSC 11)."""

import re
import select
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TextIO, cast

import msgspec
from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.styles import ANSI_COLOR_NAMES, BaseStyle, Style, parse_color

from alhena.near_names import near_name


class Theme(msgspec.Struct, frozen=True):
    """The colours of a theme, as prompt_toolkit names them; "" for that of the terminal. `light`:
    made for a light background. `colour` is False where there are no colours at all. Those with a
    name of their own, such as `link`, are "" where they are as the first ones."""

    accent: str
    ok: str
    error: str
    warning: str
    dim: str
    light: bool = False
    colour: bool = True
    text: str = ""
    answer: str = ""
    link: str = ""
    bar: str = ""
    comment: str = ""
    symbol: str = ""
    added_ground: str = ""
    removed_ground: str = ""

    @property
    def looks(self) -> dict[str, str]:
        """Style -> look."""
        added = f"{self.ok} {self.added_ground and f'bg:{self.added_ground}'}".strip()
        removed = f"{self.error} {self.removed_ground and f'bg:{self.removed_ground}'}".strip()
        return {
            "": self.text,
            "accent": self.accent,
            "added": added,
            "added-word": f"{self.ok} reverse",
            "answer": self.answer or self.text,
            "bar": self.bar or self.accent,
            "bold": "bold",
            "chosen": f"bold {self.accent}",
            "comment": self.comment or self.dim,
            "dim": self.dim,
            "error": self.error,
            "link": f"underline {self.link}".strip(),
            "ok": self.ok,
            "keyword": self.accent,
            "object": self.text,
            "number": self.symbol or self.accent,
            "removed": removed,
            "removed-word": f"{self.error} reverse",
            "string": self.warning,
            "symbol": self.symbol or self.text,
            "user": "bold",
            "warning": self.warning,
        }

    def style(self) -> BaseStyle:
        """The theme as prompt_toolkit has it."""
        return Style([(name, look.strip()) for name, look in self.looks.items()])


ANSI = Theme("ansicyan", "ansigreen", "ansired", "ansiyellow", "ansibrightblack")
"""The sixteen names that every terminal's own theme defines."""
ANSI_LIGHT = Theme("ansiblue", "#008700", "ansired", "#875f00", "#6c6c6c", True)
"""As ANSI, with colours of 256 for those that terminals make too pale for a light ground."""
THEMES: Mapping[str, Theme] = {
    "ANSI": ANSI,
    "ANSI Light": ANSI_LIGHT,
    "Atom One": Theme("#61afef", "#98c379", "#e1727b", "#e5c07b", "#8f949c"),
    "Ayu": Theme("#59c2ff", "#aad94c", "#f07178", "#ffb454", "#747c8a"),
    "Ayu Light": Theme("#2c76b3", "#537d00", "#d33434", "#9e6600", "#6f7277", True),
    "Default": Theme("#89b4fa", "#a6e3a1", "#f38ba8", "#f9e2af", "#82879e"),
    "Default Light": Theme("#1e5fbf", "#2f7d32", "#c62f2f", "#8a5a00", "#6b7280", True),
    "Dracula": Theme("#8be9fd", "#50fa7b", "#ff5555", "#f1fa8c", "#8692b9"),
    "GitHub": Theme("#79b8ff", "#85e89d", "#f97583", "#ffab70", "#8b949e"),
    "GitHub Dark Colorblind": Theme("#79c0ff", "#58a6ff", "#f0883e", "#d29922", "#8b949e"),
    "GitHub Light": Theme("#0550ae", "#116329", "#cf222e", "#9a6700", "#69727b", True),
    "GitHub Light Colorblind": Theme("#0969da", "#0550ae", "#b35900", "#9a6700", "#6e7781", True),
    "Google Code": Theme("#00668b", "#007700", "#aa0000", "#776600", "#6b6b6b", True),
    "Holiday": Theme("#66ccff", "#3cd070", "#ff6f61", "#ffd700", "#8fa3a3"),
    "No Color": Theme("", "", "", "", "", colour=False),
    "Shades Of Purple": Theme("#9effff", "#a5ff90", "#ff628c", "#fad000", "#a599e9"),
    "Solarized Dark": Theme("#3094da", "#859900", "#e56663", "#b58900", "#839496"),
    "Solarized Light": Theme("#2074af", "#697700", "#d72724", "#8f6b00", "#5f747c", True),
    "Tokyo Night": Theme("#7aa2f7", "#9ece6a", "#f7768e", "#e0af68", "#7c83a8"),
    "Xcode": Theme("#0f68a0", "#007400", "#c41a16", "#806000", "#5d6c79", True),
}


def custom_theme(written: Mapping[str, Any]) -> Theme:
    """A theme of `ui.customThemes` or of an extension: its colours by the reference's names, of
    today or of older versions. Raises ValueError for a colour that is none."""
    text, status, background, border, ui = (
        cast("dict[str, Any]", written.get(key) or {})
        for key in ("text", "status", "background", "border", "ui")
    )
    diff = cast("dict[str, Any]", background.get("diff") or {})

    def colour(*values: Any) -> str:
        found = next((each for each in values if isinstance(each, str) and each), "")
        parse_color(_colour_name(found))
        return _colour_name(found)

    ground = str(background.get("primary") or written.get("Background") or "")
    return Theme(
        accent=colour(text.get("accent"), written.get("AccentBlue"), text.get("link")),
        ok=colour(status.get("success"), written.get("AccentGreen")),
        error=colour(status.get("error"), written.get("AccentRed")),
        warning=colour(status.get("warning"), written.get("AccentYellow")),
        dim=colour(text.get("secondary"), written.get("Gray"), written.get("Comment")),
        light=_is_light_hex(ground),
        text=colour(text.get("primary"), written.get("Foreground")),
        answer=colour(text.get("response")),
        link=colour(text.get("link"), written.get("AccentCyan")),
        bar=colour(border.get("focused"), border.get("default")),
        comment=colour(ui.get("comment"), written.get("Comment")),
        symbol=colour(ui.get("symbol"), written.get("AccentPurple")),
        added_ground=colour(diff.get("added"), written.get("DiffAdded")),
        removed_ground=colour(diff.get("removed"), written.get("DiffRemoved")),
    )


def _colour_name(name: str) -> str:
    """A colour as prompt_toolkit names it: the reference also takes CSS names."""
    return f"ansi{name}" if f"ansi{name}" in ANSI_COLOR_NAMES else name.removesuffix("bright")


def _is_light_hex(colour: str) -> bool:
    digits = colour.removeprefix("#")
    if not re.fullmatch(r"[0-9a-fA-F]{6}", digits):
        return False
    return is_light(f"rgb:{digits[:2]}/{digits[2:4]}/{digits[4:]}") is True


def theme_named(name: str, more: Mapping[str, Theme] = {}) -> Theme | None:
    """The theme of a name of `ui.theme`, also one of `more`: case, blanks and a last `Dark` or
    `Light` that no other theme needs may differ. None for an unknown one."""
    known = {_plain(each): theme for each, theme in {**THEMES, **more}.items()}
    wanted = _plain(name)
    shorter = re.sub(r"(?:dark|light)$", "", wanted)
    return known.get(wanted) or known.get(shorter) or known.get(f"{shorter}dark")


def unknown_theme(name: str, more: Iterable[str] = ()) -> tuple[str, str] | None:
    """Cause and remedy where no theme has a name; None for a theme of these or the built-in ones,
    and for a file."""
    if name.endswith(".json") or theme_named(name, dict.fromkeys(more, ANSI)) is not None:
        return None
    known = (*THEMES, *more)
    near = near_name(name, known)
    remedy = f"Did you mean {near}?" if near else f"Themes: {', '.join(known)}."
    return f"ui.theme: no theme {name}.", remedy


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name.casefold())


def theme_of(name: str, *, light: bool) -> Theme:
    """The theme of a name; without a known one that of the background."""
    return theme_named(name) or (ANSI_LIGHT if light else ANSI)


ASK = "\x1b]11;?\x07"
_ANSWER = re.compile(r"\x1b?\]11;([^\x07\x1b]*)(?:\x07|\x1b\\)")
_BEGUN = re.compile(r"\x1b\](?:1(?:1(?:;[^\x07\x1b]{0,64}\x1b?)?)?)?\Z")
_COLOUR = re.compile(r"rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})")
_LIGHT = (*range(9, 16), 7)


def says_light(environ: Mapping[str, str]) -> bool:
    """True when COLORFGBG says that the background is light."""
    last = environ.get("COLORFGBG", "").rpartition(";")[2]
    return last.isdecimal() and int(last) in _LIGHT


def is_light(colour: str) -> bool | None:
    """True for a light colour as terminals write it (`rgb:ffff/ffff/ffff`); None for no colour."""
    found = _COLOUR.match(colour)
    if found is None:
        return None
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in found.groups())
    return 0.299 * red + 0.587 * green + 0.114 * blue > 0.5


class AnswerReader(PosixStdinReader):
    """Reads what is typed, without the terminal's answer to ASK, which `heard` gets."""

    def __init__(self, stdin_fd: int, encoding: str, heard: Callable[[str], None]) -> None:
        super().__init__(stdin_fd, encoding=encoding)
        self._heard = heard
        self._held = ""

    def read(self, count: int = 1024) -> str:
        """As `PosixStdinReader`. The beginning of an answer waits for its end."""
        return self.without_answer(super().read(count))

    def without_answer(self, text: str) -> str:
        """Returns the typed part of a text that was read."""
        text, self._held = self._held + text, ""
        if "]" not in text:
            return text
        if (found := _ANSWER.search(text)) is not None:
            self._heard(found[1])
            text = text[: found.start()] + text[found.end() :]
        if (begun := _BEGUN.search(text)) is not None and not self.closed:
            text, self._held = text[: begun.start()], begun[0]
        return text


TOGETHER_S = 0.02
"""Seconds in which the rest of a paste follows its beginning."""
_ENDS = frozenset({Keys.ControlM, Keys.ControlJ})
_TEXT = _ENDS | {Keys.ControlI}


def merge_lines(presses: list[KeyPress]) -> list[KeyPress]:
    """Several lines that arrived together, as the paste that they are; other keys as they are.
    Web terminals and tmux's paste-buffer do not mark a paste."""
    if not all(press.key in _TEXT or len(press.key) == 1 for press in presses):
        return presses
    text = "".join(press.data for press in presses)
    if "\n" not in text.replace("\r", "\n").strip():
        return presses
    return [KeyPress(Keys.BracketedPaste, text)]


class BackgroundInput(Vt100Input):
    """The keys of a terminal; `heard` gets its answer to ASK."""

    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self.heard: Callable[[str], None] = lambda _: None
        self.stdin_reader = AnswerReader(self.fileno(), stdin.encoding or "utf-8", self._hear)

    def read_keys(self) -> list[KeyPress]:
        """As `Vt100Input`. What arrives together with several lines is one paste."""
        presses = super().read_keys()
        if not any(press.key in _ENDS for press in presses):
            return presses
        merged = merge_lines(presses)
        while select.select([self.fileno()], [], [], TOGETHER_S if merged is not presses else 0)[0]:
            more = super().read_keys()
            if not more and self.closed:
                break
            presses = [*presses, *more]
            merged = merge_lines(presses)
        return merged

    def _hear(self, colour: str) -> None:
        self.heard(colour)
