"""Selects files by paths, directories and globs, and gathers their text.

An exact path takes precedence: a file that git ignores or the defaults exclude is selected by its
own path, and so are the contents of such a directory. Only `.geminiignore`, the caller's exclusions
and the bounds of the workspace still apply.
"""

import os
import re
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from alhena.shell.secret_files import left_out, may_hold_secrets
from alhena.system.errors import FileError, from_os_error, printable
from alhena.system.files import kind_of, open_real
from alhena.system.ignore import IgnoreRules
from alhena.system.unicode_forms import existing_form
from alhena.system.walk import (
    EXCLUDED_DIRECTORIES,
    GlobPattern,
    SkippedEntries,
    WalkLimits,
    WalkTally,
    leading_directory,
    walk,
)
from alhena.system.wildcard import expand_braces, name_regex, path_regex
from alhena.system.workspace import Workspace, is_within
from alhena.tools.base import has_closing_file, real_location, root_of
from alhena.tools.contract import ToolFailure
from alhena.values import Value
from alhena.wire.content import Part

if TYPE_CHECKING:
    from alhena.system.encoding import TextWindow
    from alhena.tools.reading import FileContent

DEFAULT_DIRECTORIES = EXCLUDED_DIRECTORIES | {
    *(".vscode", ".idea", "dist", "build", "coverage", "__pycache__"),
}
"""Directories excluded by default."""

_DEFAULT_NAMES = frozenset({".ds_store", ".env", "gemini.md"})
_DEFAULT_SUFFIXES = (
    *(".bin", ".exe", ".dll", ".so", ".dylib", ".class", ".jar", ".war", ".pyc", ".pyo"),
    *(".zip", ".tar", ".gz", ".bz2", ".rar", ".7z"),
    *(".doc", ".docx", ".xls", ".xlsx", ".ppt", ".pptx", ".odt", ".ods", ".odp"),
)
_INCLUDE_IGNORED = (
    "name it, or set `file_filtering_options.respect_git_ignore` and `useDefaultExcludes` to false"
)
_WILD = re.compile(r"[*?\[{\\]")


class FileRequest(Value, frozen=True, kw_only=True):
    """A request for files. `git` and `gemini` say if those ignore files apply, with `strict` also
    to what is in a named directory; `environ` (default: this process's) locates the user's git
    settings.

    `exclude` holds globs: without a slash for names of files and directories, with one for paths
    relative to a workspace root. `unasked` are those of the paths that the policy was not asked
    about: files that may hold secrets are left out of them, as of directories and globs.
    """

    paths: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    unasked: tuple[str, ...] = ()
    recursive: bool = True
    default_excludes: bool = True
    git: bool = True
    gemini: bool = True
    strict: bool = False
    environ: Mapping[str, str] | None = None


class Selection:
    """`files` to read, True for those requested as media by name or extension; files that the
    policy was `asked` about by name; those left out as they may hold `secrets`; names without
    matches; skipped paths with the reasons; ignored files; directories that could not be searched,
    each as a sentence; warnings."""

    def __init__(self) -> None:
        self.missing: dict[str, None] = {}
        self.files: dict[str, bool] = {}
        self.asked: set[str] = set()
        self.secrets: set[str] = set()
        self.skipped: dict[str, str] = {}
        self.ignored: set[str] = set()
        self.left_out = SkippedEntries()
        self.unsearched: dict[str, None] = {}
        self.warnings: dict[str, None] = {}

    def add(self, path: str, *, media: bool) -> None:
        """Adds a file; one request for it as media is enough."""
        self.files[path] = media or self.files.get(path, False)

    def skip(self, path: str, reason: str) -> None:
        """Records a skipped path; the first reason wins."""
        self.skipped.setdefault(path, reason)


class Exclusions:
    """Compiled exclusion globs. Raises wildcard.BadPatternError."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        names: list[str] = []
        paths: list[str] = []
        for pattern in (one for given in patterns for one in expand_braces(given)):
            bare = pattern.removeprefix("./").rstrip("/")
            if "/" in bare:
                paths.append(path_regex(bare.removeprefix("/")))
            elif bare:
                names.append(name_regex(bare))
        self._names = _any_of(names)
        self._paths = _any_of(paths)

    def take(self, relative: str) -> bool:
        """True when the path or a directory above it is excluded."""
        if self._names is None and self._paths is None:
            return False
        parts = relative.split("/")
        for depth, name in enumerate(parts, start=1):
            if self._names and self._names.fullmatch(name):
                return True
            if self._paths and self._paths.fullmatch("/".join(parts[:depth])):
                return True
        return False


def _any_of(sources: list[str]) -> re.Pattern[str] | None:
    joined = "|".join(f"(?:{source})" for source in sources)
    return re.compile(joined, re.DOTALL | re.IGNORECASE) if sources else None


class Selector:
    """Finds the files of one request. `cancellation` stops it early; the caller checks it."""

    def __init__(
        self, workspace: Workspace, wanted: FileRequest, cancellation: threading.Event
    ) -> None:
        self._workspace = workspace
        self._wanted = wanted
        self._cancellation = cancellation
        self._excluded = Exclusions(wanted.exclude)
        self._rules: dict[tuple[Path, bool, bool], IgnoreRules] = {}
        self._closing = has_closing_file(workspace)
        self.selection = Selection()

    def run(self) -> Selection:
        """Returns everything the request selects."""
        for item in self._wanted.paths:
            if self._cancellation.is_set():
                break
            self._item(item)
        for rules in self._rules.values():
            self.selection.warnings.update(dict.fromkeys(rules.warnings))
        return self.selection

    def gemini_ignores(self, path: Path) -> bool:
        """True when .geminiignore applies and ignores this real path."""
        if not self._closing:
            return False
        root = root_of(self._workspace, path)
        return self._rules_of(root, git=False).is_ignored(path, is_dir=False)

    def describe_closing(self) -> str:
        """The reason that a file is left out although it is named."""
        return f"{' or '.join(self._workspace.filtering.closing)} leaves it out"

    def may_hold_secrets(self, path: Path, real: Path) -> bool:
        """True for a file that may hold secrets, by its path or by where that leads."""
        return any(may_hold_secrets(self._relative(each)) for each in (path, real))

    def _asks_about(self, glob: str) -> bool:
        """True for a glob that the policy takes for the name of a file with secrets."""
        path = self._relative(self._workspace.resolve(glob)) if glob else ""
        return may_hold_secrets(path) and glob not in self._wanted.unasked

    def _item(self, item: str) -> None:
        found = False
        for path in places(self._workspace, item):
            try:
                mode = path.stat().st_mode
            except OSError:
                mode = None
            if mode is None and not os.path.lexists(path):
                continue
            found = True
            if item not in self._wanted.unasked and path == self._workspace.resolve(item):
                self.selection.asked.add(str(path))
            self._add_path(path, mode)
        if found:
            return
        if not _WILD.search(item):
            self.selection.missing[item] = None
            return
        for path, pattern in globs(self._workspace, item):
            self._below(path, pattern, item)

    def _add_path(self, path: Path, mode: int | None) -> None:
        """Adds an existing path given by its exact name.

        The target of a symlink is checked when the file is opened.
        """
        shown = str(path)
        if mode is None:
            self.selection.skip(shown, "a link that leads nowhere")
        elif stat.S_ISDIR(mode):
            self._below(path, None, "")
        elif not stat.S_ISREG(mode):
            self.selection.skip(shown, _special(mode))
        elif self._wanted.exclude and self._excluded.take(self._relative(path)):
            self.selection.skip(shown, "an exclude pattern matches it")
        elif self.gemini_ignores(path):
            self.selection.skip(shown, self.describe_closing())
        else:
            self.selection.add(shown, media=True)

    def _below(self, base: Path, pattern: GlobPattern | None, item: str) -> None:
        """Adds the files below a directory, all of them or those that match."""
        real = real_location(self._workspace, base)
        if isinstance(real, ToolFailure) or not os.path.isdir(real):
            return
        before = len(self.selection.files)
        tally = self._take_below(base, real, pattern, item, self._rules_for(real))
        named = real != root_of(self._workspace, real)
        if (
            named
            and not self._wanted.strict
            and tally.count().has_ignored
            and len(self.selection.files) == before
        ):
            # It was named, so its content counts, also when an ignore file names that.
            rules = self._rules_of(root_of(self._workspace, real), git=False)
            tally = self._take_below(base, real, pattern, item, rules)
        self.selection.ignored.update(tally.ignored_files)
        self.selection.unsearched.update(dict.fromkeys(tally.unreadable))
        self.selection.left_out = self.selection.left_out.plus(tally.count())

    def _take_below(
        self, base: Path, real: Path, pattern: GlobPattern | None, item: str, rules: IgnoreRules
    ) -> WalkTally:
        """Adds those that the rules leave; returns what was left out."""
        start = len(str(real).rstrip("/")) + 1
        tally = WalkTally()
        limits = WalkLimits(
            enter=self._enter(real, pattern),
            excluded=self._directories(),
            cancellation=self._cancellation,
        )

        def meant(path: str) -> bool:
            return (pattern is None or pattern.matches(path[start:])) and not self._left_out(path)

        shown = str(base).rstrip("/")
        named = named_files(item)
        asked = shown in self.selection.asked and may_hold_secrets(self._relative(base))
        asked = asked or self._asks_about(item)
        for entry in walk(real, rules, tally, limits):
            if meant(entry.path):
                media = asks_for_media(named, entry.name)
                path = f"{shown}/{entry.path[start:]}"
                if asked and not entry.is_symlink():
                    self.selection.asked.add(path)
                self.selection.add(path, media=media)
        for path in tally.special:
            if meant(path):
                self.selection.skip(f"{shown}/{path[start:]}", _special_at(path))
        tally.ignored_files = [path for path in tally.ignored_files if meant(path)]
        return tally

    def _directories(self) -> frozenset[str]:
        return DEFAULT_DIRECTORIES if self._wanted.default_excludes else frozenset()

    def _enter(self, real: Path, pattern: GlobPattern | None) -> Callable[[str], bool]:
        above = self._relative(real)
        prefix = "" if above == "." else f"{above}/"

        def enter(below: str) -> bool:
            deeper = self._wanted.recursive if pattern is None else pattern.may_enter(below)
            return deeper and not self._excluded.take(prefix + below)

        return enter

    def _left_out(self, path: str) -> bool:
        name = path.rpartition("/")[2].lower()
        default = name in _DEFAULT_NAMES or name.endswith(_DEFAULT_SUFFIXES)
        if default and self._wanted.default_excludes:
            return True
        return bool(self._wanted.exclude) and self._excluded.take(self._relative(Path(path)))

    def _relative(self, path: Path) -> str:
        root = root_of(self._workspace, path)
        inside = is_within(str(path), str(root))
        return str(path)[len(str(root)) :].lstrip("/") or "." if inside else str(path)

    def _rules_for(self, directory: Path) -> IgnoreRules:
        """The ignore rules below a directory; without git's if git ignores the directory itself."""
        root = root_of(self._workspace, directory)
        rules = self._rules_of(root, git=self._wanted.git)
        return self._rules_of(root, git=False) if rules.covers(directory) else rules

    def _rules_of(self, root: Path, *, git: bool, gemini: bool = True) -> IgnoreRules:
        gemini = gemini and self._wanted.gemini
        key = (root, git, gemini)
        if key not in self._rules:
            environ = self._wanted.environ
            custom = self._workspace.filtering.custom_ignore_file_paths
            self._rules[key] = IgnoreRules(
                root, git=git, gemini=gemini, environ=environ, custom=custom
            )
        return self._rules[key]


def places(workspace: Workspace, item: str) -> Iterator[Path]:
    """Candidates for a plain path: an absolute one itself, a relative one below each root."""
    first = workspace.resolve(item)
    yield first
    if not os.path.isabs(item) and not os.path.lexists(first):
        for root in workspace.roots:
            if root != workspace.cwd:
                yield Path(existing_form(os.path.normpath(root / item)))


def beginning(workspace: Workspace, item: str) -> Path:
    """The path of an entry, or the directory at which a glob begins."""
    path = workspace.resolve(item)
    if os.path.lexists(path) or not _WILD.search(item):
        return path
    return workspace.resolve(_split(item)[0] or ".")


def _split(item: str) -> tuple[str, str]:
    """Splits a glob into its literal directory and the rest."""
    item = item.removeprefix("./")
    leading = leading_directory(item)
    rest = item[len(leading) :].removeprefix("/") if leading else item.removeprefix("/")
    return leading or ("/" if os.path.isabs(item) else ""), rest


def globs(workspace: Workspace, item: str) -> Iterator[tuple[Path, GlobPattern]]:
    """Splits a glob into a directory and a pattern below it, for each place it may lead to.

    Raises wildcard.BadPatternError.
    """
    leading, rest = _split(item)
    pattern = GlobPattern(rest)
    if os.path.isabs(item):
        yield Path(existing_form(os.path.normpath(leading))), pattern
        return
    for root in workspace.roots:
        yield Path(existing_form(os.path.normpath(root / leading))), pattern


def named_files(item: str) -> tuple[str, ...]:
    """The last segments of a glob in lower case, one for each alternative of its braces."""
    return tuple(option.rpartition("/")[2].lower() for option in expand_braces(item))


def asks_for_media(named: tuple[str, ...], name: str) -> bool:
    """True when a glob names this file or its extension, so that media are requested explicitly.

    "*.png" and "logo.*" match logo.png; "**/*" and a directory do not.
    """
    stem, suffix = os.path.splitext(name.lower())
    return any(
        (bool(suffix) and last.endswith(suffix)) or last.startswith(f"{stem}.") for last in named
    )


def _special(mode: int) -> str:
    return f"a {kind_of(mode)}, not a regular file"


def _special_at(path: str) -> str:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return "a link that leads nowhere"
    if stat.S_ISDIR(mode):
        return "a symbolic link to a directory; name it in `paths` to get what is below it"
    return _special(mode)


LISTED = 20
_TRUNCATED = (
    "[WARNING: This file was truncated. To view the full content, use the 'read_file' tool on this "
    "specific file.]\n\n"
)
_ENOUGH_OVER = 50
"""Number of files that did not fit after which reading stops: there may be 100,000."""


def _nothing(_path: str) -> str:
    return ""


class GatheredFiles:
    """The files read so far: texts and media in order, and the files that did not fit.

    Texts may `weigh` up to `text` in total, media up to `media` bytes. `refuse` returns the reason
    why a path may not be read, "" if it may.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        text: int,
        media: int = 0,
        weigh: Callable[[str], int] = len,
        refuse: Callable[[str], str] = _nothing,
    ) -> None:
        self.blocks: list[str | Part] = []
        self.processed: list[str] = []
        self.over: list[str] = []
        self._workspace = workspace
        self._text = text
        self._media = media
        self._weigh = weigh
        self._refuse = refuse

    def read(self, selector: "Selector", cancellation: threading.Event) -> None:
        """Reads the files selected by `selector`. Blocks its thread; `cancellation` stops it
        early."""
        selection = selector.selection
        for path, media in selection.files.items():
            if cancellation.is_set():
                break
            if len(self.over) >= _ENOUGH_OVER:
                self.over.append(path)
                continue
            content = self._refuse(path) or self._content(Path(path), selector, media=media)
            if path in selection.secrets:
                continue
            if isinstance(content, str):
                selection.skip(path, content)
            else:
                self._take(selection, path, content)

    def describe_skipped(self, selection: "Selection") -> list[str]:
        """Lists the files that were skipped or did not fit, line by line, for the model."""
        lines = [
            f"{printable(path)}: {reason}"
            for path, reason in list(selection.skipped.items())[:LISTED]
        ]
        if len(selection.skipped) > LISTED:
            lines.append(f"{len(selection.skipped) - LISTED} more files were skipped.")
        if self.over:
            named = ", ".join(printable(path) for path in self.over[:LISTED])
            more = len(self.over) - LISTED
            lines.append(
                f"{len(self.over)} files did not fit into one result: {named}"
                f"{f', and {more} more' if more > 0 else ''}. Read them with a further call."
            )
        if not self.processed:
            closing = self._workspace.filtering.closing
            lines += selection.left_out.describe(_INCLUDE_IGNORED, closing)
        elif selection.ignored:
            lines.append(f"{len(selection.ignored)} files are left out by ignore files.")
        if selection.secrets:
            lines.append(left_out(len(selection.secrets)))
        return lines + [*dict.fromkeys((*selection.unsearched, *selection.warnings))][:LISTED]

    def merge_texts(self) -> list[str | Part]:
        """The blocks with adjacent texts merged."""
        joined: list[str | Part] = []
        texts: list[str] = []
        for block in self.blocks:
            if isinstance(block, str):
                texts.append(block)
            else:
                joined += ["".join(texts), block]
                texts = []
        return [*joined, "".join(texts)]

    def _content(self, path: Path, selector: "Selector", *, media: bool) -> "FileContent | str":
        """Reads a file, or returns the reason why it was not read."""
        from alhena.tools.reading import LineRange, read_content

        real = real_location(self._workspace, path, reading=True)
        if isinstance(real, ToolFailure):
            return "it leads outside the workspace"
        if str(path) not in selector.selection.asked and selector.may_hold_secrets(path, real):
            selector.selection.secrets.add(str(path))
            return ""
        if real != path and selector.gemini_ignores(real):
            return selector.describe_closing()
        try:
            descriptor = open_real(real)
            try:
                return read_content(descriptor, path.name, LineRange(), media=media)
            finally:
                os.close(descriptor)
        except FileError as error:
            return error.message
        except OSError as error:
            return from_os_error(error, path).message

    def _take(self, selection: "Selection", path: str, content: "FileContent") -> None:
        from alhena.system.encoding import TextWindow
        from alhena.tools.media import find_media_problem
        from alhena.tools.reading import BinaryFile, Media, UnwantedMedia

        match content:
            case TextWindow():
                block = _block(path, content)
                weight = self._weigh(block)
                if weight > self._text:
                    self.over.append(path)
                    return
                self._text -= weight
                self.blocks.append(block)
            case Media(mime, data):
                if problem := find_media_problem(mime, data):
                    selection.skip(path, f"{mime}, but {problem}")
                    return
                if len(data) > self._media:
                    self.over.append(path)
                    return
                self._media -= len(data)
                self.blocks += [f"--- {printable(path)} ---\n\n({mime})\n\n", content.part()]
            case UnwantedMedia(mime):
                reason = f"{mime}; name the file or its extension in `paths` to get it"
                selection.skip(path, reason)
                return
            case BinaryFile():
                selection.skip(path, "a binary file that cannot be shown")
                return
            case _:
                assert_never(content)
        self.processed.append(path)


def _block(path: str, window: "TextWindow") -> str:
    from alhena.tools.reading import encoding_note

    notes = ""
    shown = len(window.lines)
    if shown < window.total or window.long_lines:
        notes = f"{_TRUNCATED}[Showing lines 1-{shown} of {window.total}"
        if window.long_lines:
            notes += f"; {window.long_lines} of them are longer than shown"
        notes += ".]\n\n"
    if note := encoding_note(window):
        notes += f"[{note}]\n\n"
    return f"--- {printable(path)} ---\n\n{notes}{window.content()}\n\n"
