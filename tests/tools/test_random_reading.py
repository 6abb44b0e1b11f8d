"""Any arguments over any tree come to a text, parts or a typed failure; nothing is raised."""

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alhena.system.search import FileSearch
from alhena.system.workspace import Workspace
from alhena.tools.builtin.list_directory import Glob, ListDirectory
from alhena.tools.builtin.read_file import ReadFile
from alhena.tools.builtin.read_many_files import ReadManyFiles
from alhena.tools.builtin.search_file_content import SearchFileContent
from alhena.tools.contract import ExecutionContext, Tool, ToolErrorType, ToolFailure
from alhena.tools.response import response_parts

SECRET = "what lies outside"
NAMES = st.sampled_from(
    ["a", "b.py", "c.png", "dir", "dist", "[x]", "{y}", "é", "new\nline", ".env", os.fsdecode(b"\xff"),
     "sp ace", "-x", "@at", "x\\y", "node_modules"]
)  # fmt: skip
CONTENTS = st.sampled_from(
    [b"", b"text\n", b"a\r\nb", "é漢\n".encode(), "é\n".encode("utf-16"), b"\xff\xfe", b"\0\1\2",
     b"caf\xe9\n", b"\x89PNG\r\n\x1a\n....", b"%PDF-1.4", b"x" * 5000, b"\xef\xbb\xbf", b"\n" * 9,
     "設定\n".encode("cp932"), b"RIFF", b"\x00\x00\x00\x18ftypisom"]
)  # fmt: skip
IGNORES = st.sampled_from([b"*", b"[", b"!a\n*.py\n", b"dir/\n", b"\xff\n**/b.py", b"{y}\n"])
PLACES = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
ENTRIES = st.one_of(
    st.tuples(st.just("file"), PLACES, CONTENTS),
    st.tuples(st.just("ignore"), st.sampled_from([".gitignore", ".geminiignore", "dir/.gitignore"]),
              IGNORES),
    st.tuples(st.just("dir"), PLACES, st.just(b"")),
    st.tuples(st.just("fifo"), PLACES, st.just(b"")),
    st.tuples(st.just("socket"), NAMES, st.just(b"")),
    st.tuples(st.just("link"), PLACES,
              st.sampled_from([b"a", b"..", b"OUTSIDE", b".", b"nowhere", b"dir", b"link"])),
)  # fmt: skip
WILD = st.lists(
    st.sampled_from(["*", "**", "?", "[", "]", "[a-c]", "{", "}", ",", "/", "a", "b.py", "..", "\\",
                     "!", "\n", "é", ".", "@", "~", "\0", "\ud800"]), max_size=6,
).map("".join)  # fmt: skip
PATHS = PLACES | WILD | st.sampled_from([".", "", "/", "..", "../outside", "x" * 300])
REGEXES = WILD | st.sampled_from(
    ["a", "(", "(a+)+$", r"\d+", "x{9999}", "(?i)a", r"\xff", "^", "é"]
)
FLAGS = st.booleans() | st.sampled_from(["true", "no", None, 1])
COUNTS = st.integers(-1, 5) | st.sampled_from([10**12, 2.0, "3", None])
FILTERS = st.dictionaries(
    st.sampled_from(["respect_git_ignore", "respect_gemini_ignore"]), FLAGS, max_size=2
)

CASES: list[tuple[Callable[[Workspace], Tool], dict[str, st.SearchStrategy[Any]]]] = [
    (ReadFile, {"absolute_path": PATHS, "offset": COUNTS, "limit": COUNTS, "start_line": COUNTS,
                "end_line": COUNTS}),
    (ListDirectory, {"path": PATHS, "ignore": st.lists(WILD, max_size=2),
                     "file_filtering_options": FILTERS}),
    (Glob, {"pattern": PATHS, "path": PATHS, "case_sensitive": FLAGS, "respect_git_ignore": FLAGS}),
    (
        lambda workspace: SearchFileContent(
            workspace, backend=FileSearch(time_limit=2.0)
        ),
        {"pattern": REGEXES, "path": PATHS, "include": PATHS, "exclude_pattern": REGEXES,
         "names_only": FLAGS, "max_matches_per_file": COUNTS, "total_max_matches": COUNTS,
         "case_sensitive": FLAGS, "fixed_strings": FLAGS, "context": COUNTS, "no_ignore": FLAGS},
    ),
    (
        lambda workspace: ReadManyFiles(workspace, most_characters=9_000, most_media=64),
        {"paths": st.lists(PATHS, max_size=3), "include": st.lists(PATHS, max_size=2),
         "exclude": st.lists(WILD, max_size=2), "recursive": FLAGS, "useDefaultExcludes": FLAGS,
         "file_filtering_options": FILTERS},
    ),
]  # fmt: skip
REQUIRED = [{"absolute_path"}, {"path"}, {"pattern"}, {"pattern"}, {"paths"}]


def plant(top: Path, entries: list[tuple[str, str, bytes]]) -> None:
    """Makes the tree; an entry that cannot stand where another one does is left out.

    Nothing is written through a link: files come before links, and never where something is.
    """
    for kind, name, content in sorted(entries, key=lambda entry: entry[0] == "link"):
        path = top / name
        if os.path.lexists(path):
            continue
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            match kind:
                case "dir":
                    path.mkdir()
                case "fifo":
                    os.mkfifo(path)
                case "link":
                    outside = content == b"OUTSIDE"
                    path.symlink_to(top.parent / "outside" if outside else os.fsdecode(content))
                case "socket":
                    with socket.socket(socket.AF_UNIX) as listener:
                        listener.bind(os.path.relpath(path))
                case _:
                    with path.open("xb") as file:
                        file.write(content)
        except OSError:
            continue


@pytest.mark.requirement("TOOLS-05", "TOOLS-08", "TOOLS-12", "TOOLS-13", "TOOLS-14", "TOOLS-15")
@pytest.mark.parametrize("case", range(len(CASES)), ids=["read", "list", "glob", "search", "many"])
@given(data=st.data(), entries=st.lists(ENTRIES, max_size=6), extra=st.booleans())
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_nothing_is_raised(
    project: Path,
    case: int,
    data: st.DataObject,
    entries: list[tuple[str, str, bytes]],
    extra: bool,
) -> None:
    shutil.rmtree(project / "tree", ignore_errors=True)
    (project / "tree/other").mkdir(parents=True)
    (project / "outside").write_text(SECRET, encoding="utf-8")
    plant(project / "tree", entries)
    make, parameters = CASES[case]
    optional = {name: values for name, values in parameters.items() if name not in REQUIRED[case]}
    required = {name: parameters[name] for name in REQUIRED[case]}
    params = data.draw(st.fixed_dictionaries(required, optional=optional))
    roots = [project / "tree/other"] if extra else []
    built = make(Workspace(project / "tree", roots)).build(params)
    if isinstance(built, ToolFailure):
        assert built.type in set(ToolErrorType)
        built.message.encode()
        return
    assert built.describe() is not None
    assert all(place.path.encode() for place in built.locations())
    result = await built.execute(ExecutionContext(project / "tree"))
    assert result.error is None or result.error.type in set(ToolErrorType)
    assert SECRET not in str(result.llm_content)
    first, *_ = response_parts("tool", "id", result.llm_content)
    assert first.function_response is not None
