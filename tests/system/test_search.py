import asyncio
import codecs
import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena.system import encoding, search
from alhena.system.errors import PatternError
from alhena.system.search import FileSearch, Query
from tests.system.searching import GIT, GREP, RG, Write, find_matches


async def test_matches_come_by_path_and_line_without_regard_to_case(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    write("b.txt", "Needle\nhay\nneedles\n")
    write("a/z.py", "x = 'NEEDLE'")
    write("a-b.txt", "needle")
    result = await backend.search(Query(pattern="needle", path=tree, root=tree))
    assert [(str(m.path.relative_to(tree)), m.line, m.text) for m in result.matches] == [
        ("a-b.txt", 1, "needle"),
        ("a/z.py", 1, "x = 'NEEDLE'"),
        ("b.txt", 1, "Needle"),
        ("b.txt", 3, "needles"),
    ]
    assert result.backend == backend.name


PATTERNS: list[tuple[str, list[int]]] = [
    (r"needle\d", [2]),
    (r"\bneedle\b", [1]),
    (r"^needle$", [1]),
    (r"need(le|y)", [1, 2, 3]),
    (r"(?<=the )needy", [3]),
    (r"(ne)e\w+ \1", []),
    (r"ne{2}dle[0-9]+x?", [2]),
    (r"a\.b|c\$d", [4]),
    ("ünï", [5]),
    ("ÜNÏCODE", [5]),
    ("kelvin", [6]),
    ("session", [7]),
    ("straße", [8]),
    (r"\[x\]", [9]),
    ("-e bar", [10]),
    (r"nee\ndle", []),
    (r"the\s+needy", [3]),
    ("", list(range(1, 11))),
]


@pytest.mark.requirement("TOOLS-14")
async def test_every_backend_means_the_same_by_a_pattern(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    write(
        "f.txt",
        "needle\nneedle7\nthe needy\na.b c$d\nÜnïcode\n\u212aelvin\nse\u017fsion\nSTRAßE\n"
        "x[x]x\nfoo -e bar\n",
    )
    matched = [
        (pattern, [line for _, line, _ in await find_matches(backend, pattern, tree)])
        for pattern, _ in PATTERNS
    ]
    assert matched == PATTERNS


async def test_what_git_ignores_is_left_out(backend: FileSearch, tree: Path, write: Write) -> None:
    write(".gitignore", "*.log\nbuild/\n!keep.log\n/only-top.txt\n")
    write("sub/.gitignore", "local.txt\n")
    write(".git/info/exclude", "excluded.txt\n")
    for name in (
        "a.log", "keep.log", "build/out.txt", "sub/build/x.txt", "only-top.txt",
        "sub/only-top.txt", "sub/local.txt", "local.txt", "excluded.txt", "sub/deep/b.log",
    ):  # fmt: skip
        write(name, "needle\n")
    names = [name for name, _, _ in await find_matches(backend, "needle", tree)]
    assert names == ["keep.log", "local.txt", "sub/only-top.txt"]


async def test_tracked_files_that_match_an_ignore_rule_are_searched(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    write("a.log", "needle\n")
    write("b.txt", "needle\n")
    write("out/deep/c.js", "needle\n")
    write("sub/.git/HEAD", "ref: refs/heads/main\n")
    subprocess.run([GIT or "git", "add", "-f", "a.log", "b.txt", "out"], cwd=tree, check=True)
    write(".gitignore", "*.log\n/out/\n")
    write("new.log", "needle\n")
    write("out/new.js", "needle\n")
    write("out/deep/new.js", "needle\n")
    names = [name for name, _, _ in await find_matches(backend, "needle", tree)]
    assert names == ["a.log", "b.txt", "out/deep/c.js"]
    write(".geminiignore", "a.log\n")
    names = [name for name, _, _ in await find_matches(backend, "needle", tree)]
    assert names == ["b.txt", "out/deep/c.js"]


@pytest.mark.skipif(GIT is None, reason="git is not installed")
async def test_tracked_files_of_repositories_inside_and_around_are_searched(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    for name in ("inner/a.log", "part/b.log", "part/deep/c.log"):
        write(name, "needle\n")
    subprocess.run([GIT or "git", "init", "-q", str(tree / "inner")], check=True)
    subprocess.run([GIT or "git", "add", "-f", "a.log"], cwd=tree / "inner", check=True)
    subprocess.run([GIT or "git", "add", "-f", "part"], cwd=tree, check=True)
    write(".gitignore", "*.log\n")
    write("inner/.gitignore", "*.log\n")
    write("inner/new.log", "needle\n")
    names = [name for name, _, _ in await find_matches(backend, "needle", tree)]
    assert names == ["inner/a.log", "part/b.log", "part/deep/c.log"]
    part = await backend.search(Query(pattern="needle", path=tree / "part", root=tree / "part"))
    assert [match.path.name for match in part.matches] == ["b.log", "c.log"]


async def test_what_geminiignore_names_is_left_out(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    write(".geminiignore", "secret/\n*.key\n")
    write("secret/a.txt", "needle\n")
    write("x.key", "needle\n")
    write("open.txt", "needle\n")
    assert await find_matches(backend, "needle", tree) == [("open.txt", 1, "needle")]


async def test_files_for_other_ignorers_hidden_files_and_excluded_directories(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    write(".ignore", "plain.txt\n")
    for name in (
        "plain.txt", ".hidden/x.txt", ".env", "node_modules/m/index.js", "sub/.svn/entries",
        ".git/needle.txt",
    ):  # fmt: skip
        write(name, "needle\n")
    names = [name for name, _, _ in await find_matches(backend, "needle", tree)]
    assert names == [".hidden/x.txt", "plain.txt"]


async def test_an_ignored_place_is_searched_when_it_is_named(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    write(".gitignore", "build/\n*.log\n")
    write(".geminiignore", "*.key\n")
    write("build/out.txt", "needle\n")
    write("build/k.key", "needle\n")
    write("a.log", "needle\n")
    write("node_modules/m/node_modules/n/i.js", "needle\n")
    assert await find_matches(backend, "needle", tree / "build", root=tree) == [
        ("build/out.txt", 1, "needle")
    ]
    assert await find_matches(backend, "needle", tree / "a.log", root=tree) == [
        ("a.log", 1, "needle")
    ]
    assert await find_matches(backend, "needle", tree / "node_modules", root=tree) == [
        ("node_modules/m/node_modules/n/i.js", 1, "needle")
    ]


async def test_rules_above_the_searched_directory_count(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    write(".gitignore", "*.log\nsub/x.txt\n")
    write("sub/a.log", "needle\n")
    write("sub/x.txt", "needle\n")
    write("sub/y.txt", "needle\n")
    assert await find_matches(backend, "needle", tree / "sub", root=tree) == [
        ("sub/y.txt", 1, "needle")
    ]


async def test_repositories_inside_follow_their_own_rules(tree: Path, write: Write) -> None:
    write(".gitignore", "*.log\n")
    if GIT:
        subprocess.run([GIT, "init", "-q", str(tree / "inner")], check=True)
    write("inner/a.log", "needle\n")
    write("inner/b.txt", "needle\n")
    write("inner/.gitignore", "b.txt\n")
    expected = [("inner/a.log", 1, "needle")] if GIT else []
    assert await find_matches(FileSearch(), "needle", tree) == expected


async def test_symlinks_are_not_followed(
    backend: FileSearch, tree: Path, write: Write, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "o.txt").write_text("needle\n", encoding="utf-8")
    write("real.txt", "needle\n")
    (tree / "link.txt").symlink_to(tree / "real.txt")
    (tree / "out").symlink_to(outside)
    (tree / "loop").symlink_to(tree)
    (tree / "broken").symlink_to(tree / "nowhere")
    assert await find_matches(backend, "needle", tree) == [("real.txt", 1, "needle")]


async def test_binary_files_and_special_files_are_passed_over(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    write("nul.bin", b"needle\0\n")
    write("image.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR needle\n")
    write("late.txt", b"needle\n" + b"x" * 10_000 + b"\0\n")
    write("empty.txt", "")
    os.mkfifo(tree / "fifo")
    assert await find_matches(backend, "needle", tree) == [("late.txt", 1, "needle")]


@pytest.mark.requirement("COST-06")
async def test_a_binary_file_that_may_match_is_named(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    write("crash.log", b"one\n" * 200 + bytes(900) + b"x" * (1 << 20) + b"the NeEdLe\n")
    write("other.bin", bytes(range(256)) * 9_000)
    write("text.txt", "needle\n")
    told = f"Binary files that may match were not searched: {tree}/crash.log."
    for pattern, notes in (("needle", (told,)), ("need.e|qqq", (told,)), (r"\w+e", ()), ("ü", ())):
        result = await backend.search(Query(pattern=pattern, path=tree, root=tree))
        assert len(result.matches) == (pattern != "ü"), pattern
        if pattern != "ü":
            assert result.notes == notes, pattern
        else:  # nothing says which of them have it
            assert f"{tree}/crash.log, {tree}/other.bin." in result.notes[0]


async def test_line_ends_and_encodings(backend: FileSearch, tree: Path, write: Write) -> None:
    write("crlf.txt", "one\r\nneedle\r\nthree\r\n")
    write("cr.txt", "a\rneedle\rb\n")
    write("latin.txt", "caf\xe9 needle\n".encode("latin-1"))
    write("bom.txt", "\ufeffneedle\n".encode())
    write("wide-le.txt", "eins\r\nneedle é\r\n".encode("utf-16"))
    write("wide-be.txt", b"\xfe\xff" + "needle\n漢字 needle".encode("utf-16-be"))
    assert await find_matches(backend, "^needle", tree) == [
        ("bom.txt", 1, "needle"),
        ("crlf.txt", 2, "needle"),
        ("wide-be.txt", 1, "needle"),
        ("wide-le.txt", 2, "needle é"),
    ]
    assert await find_matches(backend, "needle$", tree) == [
        ("bom.txt", 1, "needle"),
        ("crlf.txt", 2, "needle"),
        ("latin.txt", 1, "café needle"),
        ("wide-be.txt", 1, "needle"),
        ("wide-be.txt", 2, "漢字 needle"),
    ]


async def test_long_lines_are_cut_and_a_missing_last_line_end_is_no_matter(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    write("min.js", "x" * 500_000 + "needle" + "y" * 3_000_000 + "\nneedle")
    result = await backend.search(Query(pattern="needle", path=tree, root=tree))
    first, second = result.matches
    assert (first.line, first.column) == (1, 500_001)
    assert first.text == f"…{'x' * 997}needle{'y' * 997}…"
    assert (second.line, second.text, second.column) == (2, "needle", 0)


async def test_lines_are_counted_right_across_blocks(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    lines = [f"line {n} {'needle' if n % 25_000 == 0 else ''}" for n in range(1, 100_001)]
    write("big.txt", "\n".join(lines))
    numbers = [n for _, n, _ in await find_matches(backend, r"needle", tree)]
    assert numbers == [25_000, 50_000, 75_000, 100_000]
    assert [n for _, n, _ in await find_matches(backend, r"^\w+ \d+0{4}\b", tree)] == [
        10_000 * n for n in range(1, 11)
    ]


INCLUDES: list[tuple[str, list[str]]] = [
    ("*.py", ["a.py", "sub/b.py"]),
    ("sub/*.py", ["sub/b.py"]),
    ("**/*.{py,ts}", ["a.py", "sub/b.py", "sub/deep/c.ts"]),
    ("sub/**", ["sub/b.py", "sub/deep/c.ts"]),
    ("[ab].py", ["a.py", "sub/b.py"]),
    ("./sub/b.py", ["sub/b.py"]),
    ("*.rs", []),
]


async def test_include_patterns_choose_files(backend: FileSearch, tree: Path, write: Write) -> None:
    for name in ("a.py", "sub/b.py", "sub/deep/c.ts", "d.txt"):
        write(name, "needle\n")
    matched = [
        (
            include,
            [name for name, _, _ in await find_matches(backend, "needle", tree, include=include)],
        )
        for include, _ in INCLUDES
    ]
    assert matched == INCLUDES


async def test_rules_above_a_workspace_without_a_repository_do_not_count(
    backend: FileSearch, project: Path
) -> None:
    (project.parent / ".gitignore").write_text("*\n", encoding="utf-8")
    (project / ".gitignore").write_text("*.log\n", encoding="utf-8")
    for name in ("a.txt", "a.log"):
        (project / name).write_text("needle\n", encoding="utf-8")
    assert await find_matches(backend, "needle", project) == [("a.txt", 1, "needle")]


async def test_lines_that_match_the_exclusion_are_left_out(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    write("a.txt", "needle one\nneedle two\n")
    assert await find_matches(backend, "needle", tree, exclude="TWO$") == [
        ("a.txt", 1, "needle one")
    ]


async def test_odd_file_names_are_found(backend: FileSearch, tree: Path, write: Write) -> None:
    names = ["new\nline.txt", "sp ace.txt", "-dash.txt", "quote'\".txt", "tab\t.txt", "ü.txt"]
    names.append(os.fsdecode(b"raw\xff.txt"))
    for name in names:
        write(name, "needle\n")
    matched = [name for name, _, _ in await find_matches(backend, "needle", tree)]
    assert matched == sorted(names, key=os.fsencode)


async def test_matches_over_the_limit_are_cut_at_the_same_place(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    for name in "cab":
        write(f"{name}.txt", "needle\n" * 4)
    result = await backend.search(Query(pattern="needle", path=tree, root=tree, max_matches=6))
    assert result.limited
    assert [(m.path.name, m.line) for m in result.matches] == [
        ("a.txt", 1), ("a.txt", 2), ("a.txt", 3), ("a.txt", 4), ("b.txt", 1), ("b.txt", 2),
    ]  # fmt: skip
    exact = await backend.search(Query(pattern="needle", path=tree, root=tree, max_matches=12))
    assert not exact.limited


async def test_a_configuration_that_names_programs_runs_none_of_them(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    write("a.txt", "needle\n")
    write("evil.sh", "#!/bin/sh\ntouch ran\n")
    (tree / "evil.sh").chmod(0o755)
    if GIT:
        for key in ("core.fsmonitor", "core.pager", "diff.external", "diff.x.textconv"):
            subprocess.run([GIT, "config", key, "./evil.sh"], cwd=tree, check=True)
        write(".gitattributes", "* diff=x\n")
    assert await find_matches(backend, "needle", tree) == [("a.txt", 1, "needle")]
    assert not (tree / "ran").exists()


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(", r"missing \) at position 1"),
        ("[z-a]", "bad character range at position 4"),
        ("*a", "nothing to repeat at position 0"),
        ("a{3,1}", "min repeat greater than max repeat at position 4|min repeat"),
        ("(" * 900 + ")" * 900, "too deeply nested"),
        ("x" * 3_000, "3,000 characters, the limit is 2,000"),
    ],
)
async def test_a_bad_pattern_is_an_error_that_names_the_place(
    backend: FileSearch, tree: Path, pattern: str, said: str
) -> None:
    with pytest.raises(PatternError, match=said):
        await backend.search(Query(pattern=pattern, path=tree, root=tree))


async def test_a_named_place_that_geminiignore_leaves_out_stays_closed(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    write(".geminiignore", "secret/\n*.key\n")
    write("secret/a.txt", "needle\n")
    write("x.key", "needle\n")
    for name in ("secret", "x.key"):
        result = await backend.search(Query(pattern="needle", path=tree / name, root=tree))
        assert result.matches == ()
        assert [f"{name} is left out by .geminiignore" in note for note in result.notes] == [True]


@pytest.mark.skipif(RG is None, reason="ripgrep is not installed")
async def test_ripgrep_is_used_for_plain_text_and_done_without_for_other_patterns(
    tree: Path, write: Write
) -> None:
    write("a.txt", "needle 42\n")
    backend = FileSearch(RG or "")
    used = [
        (await backend.search(Query(pattern=pattern, path=tree, root=tree))).backend
        for pattern in ("needle", r"\d+", "(?=needle)n")
    ]
    assert used == ["ripgrep", "python", "python"]


SPECIAL = ["needle", "Needle", "n\u00e9edle", "\u212aiss needle", "\u017fneedle", "x"]
NAMES = [
    "a.txt",
    "b.log",
    "c.py",
    "sub/d.txt",
    "sub/e.log",
    "out/f.py",
    ".env",
    "node_modules/g.js",
]
ENCODINGS = [
    "utf-8",
    "utf-8-sig",
    "utf-16",
    "utf-16-be",
    "utf-32",
    "utf-32-be",
    "latin-1",
    "cp1252",
]
BOMS = {"utf-16-be": codecs.BOM_UTF16_BE, "utf-32-be": codecs.BOM_UTF32_BE}


@settings(max_examples=int(os.environ.get("SEARCHES", "40")), deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(NAMES),
        st.tuples(st.lists(st.sampled_from(SPECIAL), max_size=4), st.sampled_from(ENCODINGS)),
    ),
    st.lists(st.sampled_from(["*.log", "/out/", "sub/*", "!e.log"]), max_size=3),
    st.lists(st.sampled_from(NAMES), max_size=2),
    st.sampled_from(["needle", "kiss", "sneedle", "needle|kiss", r"n.?edle", r"\w+", "nothing"]),
    st.sampled_from(["", "sub", "out", "node_modules"]),
    st.sampled_from([None, "*.txt", "sub/*"]),
)
def test_every_program_gives_the_same_result(
    files: dict[str, tuple[list[str], str]],
    rules: list[str],
    tracked: list[str],
    pattern: str,
    place: str,
    include: str | None,
) -> None:
    with TemporaryDirectory() as made:
        top = Path(made).resolve()
        subprocess.run([GIT or "git", "init", "-q", made], check=True)
        for name, (lines, encoding) in files.items():
            (top / name).parent.mkdir(exist_ok=True)
            data = "\n".join(lines).encode(encoding, "replace")
            (top / name).write_bytes(BOMS.get(encoding, b"") + data)
        if chosen := [name for name in tracked if name in files]:
            subprocess.run([GIT or "git", "add", "-f", *chosen], cwd=top, check=True)
        (top / ".gitignore").write_text("\n".join(rules), encoding="utf-8")
        path = top / place if (top / place).is_dir() else top
        query = Query(pattern=pattern, path=path, root=top, include=include)
        results = [
            asyncio.run(FileSearch(program).search(query)) for program in ("", RG, GREP)
            if program is not None
        ]  # fmt: skip
        first = msgspec.structs.replace(results[0], backend="")
        assert all(msgspec.structs.replace(each, backend="") == first for each in results)


LONG = [
    ("x" * 1_500_000 + "needle" + "y" * 1_500_000, 1_500_001),
    ("needle" + "y" * 1_000_000, 1),
    ("x" * 3_000_000 + "needle", 3_000_001),
    ("\u754c" * 1_200_000 + "needle\r", 1_200_001),
]


async def test_a_match_anywhere_in_a_long_line_is_found_and_shown(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    for number, (line, _) in enumerate(LONG):
        write(f"{number}.txt", f"short\n{line}\nneedle\n")
    result = await backend.search(Query(pattern="ne+dle", path=tree, root=tree))
    shown = [match for match in result.matches if match.column]
    assert [match.column for match in shown] == [column for _, column in LONG]
    assert all("needle" in match.text and len(match.text) <= 2_002 for match in shown)
    assert len(result.matches) == 2 * len(LONG)
    assert result.notes == ()


async def test_what_is_beyond_the_longest_line_is_said(
    backend: FileSearch, tree: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "LONGEST_LINE", 5_000)
    monkeypatch.setattr(search, "LONGEST_LINE", 5_000)
    write("a.txt", "needle\n" + "x" * 9_000 + "needle\n" + "needle" + "x" * 4_993 + "\n")
    result = await backend.search(Query(pattern="needle", path=tree, root=tree))
    assert [match.line for match in result.matches] == [1, 3]
    assert result.notes == (
        f"Of line 2 of {tree}/a.txt only the first 5,000 characters were searched.",
    )


async def test_a_match_longer_than_what_is_shown_begins_in_it(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    write("a.txt", "x" * 9_000 + "needle" + "y" * 9_000)
    result = await backend.search(Query(pattern="needley+", path=tree, root=tree))
    assert result.matches[0].text == f"…needle{'y' * 1_994}…"
    assert result.matches[0].column == 9_001
