"""Input: paths after an @, commands, completions, and the history of prompts."""

import os
import stat
import subprocess
from pathlib import Path
from typing import Literal
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from prompt_toolkit.buffer import Buffer, CompletionState
from prompt_toolkit.completion import CompleteEvent, Completion
from prompt_toolkit.document import Document

from alhena.frontends.shared.mentions import (
    Mention,
    attachment,
    existing,
    find_mentions,
    quoted_path,
    shell_note,
)
from alhena.frontends.terminal.commands import (
    COMMANDS,
    KEYS,
    command_names,
    find_command,
    unknown_words,
)
from alhena.frontends.terminal.completion.choice import move_in_list, take_completion
from alhena.frontends.terminal.completion.completer import OFFERED, PromptCompleter, path_word
from alhena.frontends.terminal.completion.file_index import FileIndex, index_of, search
from alhena.frontends.terminal.drawing.lines import plain
from alhena.frontends.terminal.drawing.menu import offer_lines
from alhena.frontends.terminal.entry import NAME, TAIL_BYTES, PromptHistory
from alhena.wire.content import Blob, FunctionResponse, Part
from tests.frontends.terminal.session import PLACEHOLDER, at, leave_at_once
from tests.support.each import for_each
from tests.support.server import ScriptedServer


@for_each(
    ("prompt", "paths"),
    [
        ("look at @src/a.py, please", ("src/a.py",)),
        ("@a.txt.", ("a.txt",)),
        ("@a.txt and @b.txt and @a.txt", ("a.txt", "b.txt")),
        ('@"my file.txt" now', ("my file.txt",)),
        (r"@my\ file.txt now", ("my file.txt",)),
        (r"not \@this", ()),
        ("mail me@example.com", ()),
        ("(@x.md)", ("x.md",)),
        ("@", ()),
        ("@@", ("@",)),
        ("no mention", ()),
    ],
)
def test_paths_behind_an_at_sign_are_found(prompt: str, paths: tuple[str, ...]):
    assert tuple(each.path for each in find_mentions(prompt)) == paths


@for_each(
    ("prompt", "paths"),
    [
        ("see @app/[id]/page.tsx now", ("app/[id]/page.tsx",)),
        ("(@app/(main)/a.ts)", ("app/(main)/a.ts",)),
        ("看看@a.txt，谢谢", ("a.txt",)),
        ("@a.txt请看", ("a.txt",)),
        ("@说明.md。", ("说明.md",)),
        ('"@a.txt"', ("a.txt",)),
        ("'@a.txt'", ("a.txt",)),
        ("@'my file.txt' now", ("my file.txt",)),
        ("@a.txt,@b{1}.txt;", ("a.txt", "b{1}.txt")),
        ("@a.txt: and `@a.txt`", ("a.txt",)),
        ("(@app/) and @app/.", ("app/",)),
        ("@a.txt/../../etc/passwd", ("a.txt/../../etc/passwd",)),
        ("@a.txtx", ("a.txtx",)),
        ("@app/missing.ts", ("app/missing.ts",)),
        ("@app/缺少", ("app/缺少",)),
        (r"@my\ file.txt, yes", ("my file.txt",)),
        ("me@a.txt", ()),
    ],
)
def test_the_longest_beginning_that_names_a_file_is_meant(
    prompt: str, paths: tuple[str, ...], project: Path
):
    for name in ("app/[id]/page.tsx", "app/(main)/a.ts", "a.txt", "说明.md", "my file.txt",
                 "b{1}.txt"):  # fmt: skip
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    assert tuple(each.path for each in find_mentions(prompt, project)) == paths


@for_each("form", ["NFC", "NFD"])
@for_each(
    ("prompt", "path"),
    [
        ("see @d\u00e9j\u00e0/caf\u00e9.txt, please", "d\u00e9j\u00e0/caf\u00e9.txt"),
        ("(@d\u00e9j\u00e0/)", "d\u00e9j\u00e0/"),
        ("@'d\u00e9j\u00e0/caf\u00e9.txt'", "d\u00e9j\u00e0/caf\u00e9.txt"),
        ("@d\u00e9j\u00e0/caf\u00e9.txt\ub97c \ubd10", "d\u00e9j\u00e0/caf\u00e9.txt"),
    ],
)
def test_a_file_is_meant_by_a_canonically_equal_name(
    form: Literal["NFC", "NFD"], prompt: str, path: str, project: Path
):
    other = "NFD" if form == "NFC" else "NFC"
    place = project / normalize(other, "d\u00e9j\u00e0/caf\u00e9.txt")
    place.parent.mkdir(exist_ok=True)
    place.touch()
    (mention,) = find_mentions(normalize(form, prompt), project)
    assert mention.path == normalize(form, path)
    assert existing([mention.path], project) == ((mention.path,), ())


@for_each(
    ("prompt", "mentions"),
    [
        ("@src/app/[locale]/page.tsx:12", [("src/app/[locale]/page.tsx", (12, 12))]),
        (
            "@a.txt:1-3, @a.txt#L3 @a.txt#L3-L5.",
            [("a.txt", (1, 3)), ("a.txt", (3, 3)), ("a.txt", (3, 5))],
        ),
        ("在@a.txt:7里", [("a.txt", (7, 7))]),
        ("(@a.txt:12:5)", [("a.txt", (12, 12))]),
        (
            '@"my file.txt":2-4 and @my\\ file.txt#L9',
            [("my file.txt", (2, 4)), ("my file.txt", (9, 9))],
        ),
        ("`@a.txt:3`", [("a.txt", (3, 3))]),
        ("@a.txt#L3C1-L5C9", [("a.txt", (3, 5))]),
        ("@a.txt:9-4", [("a.txt", (4, 9))]),
        ("@a.txt:0 @a.txt:12px", [("a.txt", None)]),
        ("@a.txt::test_it", [("a.txt", None)]),
        (
            "@a.txt's **@a.txt** _@src/app_ ~~@src~~",
            [("a.txt", None), ("src/app", None), ("src", None)],
        ),
        (
            "@`my file.txt` and “@a.txt” «@src»",
            [("my file.txt", None), ("a.txt", None), ("src", None)],
        ),
        (
            "看@src里的代码、@src/。@src/app，然后",
            [("src", None), ("src/", None), ("src/app", None)],
        ),
        ("@a.txt； @a.txt！ @src… @src?", [("a.txt", None), ("src", None)]),
        ("@a.txt:3 and @a.txt", [("a.txt", (3, 3)), ("a.txt", None)]),
        ("@v1:2 @v1", [("v1:2", None), ("v1", None)]),
        ("josé@a.txt", []),
        ("@src/app/[locale]/gone.tsx", [("src/app/[locale]/gone.tsx", None)]),
        ("@src/[id]/gone.tsx.", [("src/[id]/gone.tsx", None)]),
        ("(@src/(main)/x.ts)", [("src/(main)/x.ts", None)]),
        ("@src+old/x @src#x @src=1", [("src+old/x", None), ("src#x", None), ("src=1", None)]),
        ("@src/**/*.ts", [("src/**/*.ts", None)]),
        ('@"no such.txt"', [("no such.txt", None)]),
    ],
)
def test_lines_quotes_and_brackets_around_a_path_are_understood(
    prompt: str, mentions: list[tuple[str, tuple[int, int] | None]], project: Path
):
    for name in ("src/app/[locale]/page.tsx", "a.txt", "my file.txt", "v1", "v1:2"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    assert [(each.path, each.lines) for each in find_mentions(prompt, project)] == mentions


@given(
    st.text(min_size=1, max_size=20).filter(lambda t: not set(t) & set("\n\r") and t.isprintable())
)
def test_a_quoted_path_is_read_back_as_it_is(path: str):
    if path[-1] in ".:" or path.startswith('"'):
        return
    assert find_mentions(f"see @{quoted_path(path)} there") == (Mention(path),)


def test_what_is_not_there_stays_text(project: Path):
    (project / "a.txt").touch()
    assert existing(("a.txt", "b.txt"), project) == (("a.txt",), ("b.txt",))


def test_files_and_media_become_parts_behind_a_mark():
    answer = FunctionResponse(id="1", name="read_many_files", response={"output": "--- a ---"})
    assert [part.text for part in attachment([Part(function_response=answer)])] == [
        "\n--- Content from referenced files ---\n",
        "--- a ---",
    ]
    image = Part(inline_data=Blob(mime_type="image/png", data="AAAA"))
    parts = attachment([Part(function_response=answer), Part(text="words"), image])
    assert parts[1:] == (Part(text="words"), image)


def test_a_command_of_the_person_is_told_in_the_known_words():
    assert shell_note("ls", "a\nb").text == (
        "I ran the following shell command:\n```sh\nls\n```\n\n"
        "This produced the following result:\n```\na\nb\n```"
    )
    long = shell_note("x", "y" * 10_001).text or ""
    assert long.endswith("y\n... (truncated)\n```")
    assert long.count("y") == 10_000


def test_commands_are_named_by_their_names_and_aliases():
    for command in COMMANDS:
        for name in (command.name, *command.aliases):
            assert find_command(f"/{name} and more") == (command, name, "and more")
    assert find_command("/nope") == (None, "nope", "")
    assert find_command("/usr/bin/env is where?") is None
    assert find_command("help") is None
    names = [name for each in COMMANDS for name in (each.name, *each.aliases)]
    assert len(set(names)) == len(names)
    assert {"help", "tools", "policies", "hooks", "clear", "stats", "quit"} <= set(names)


def test_the_terminals_page_names_every_key_and_command():
    root = Path(__file__).parents[3]
    page = (root / "docs" / "terminal.md").read_text(encoding="utf-8")
    for keys, what in KEYS:
        assert f"- {keys}: {what}\n" in page
    for command in COMMANDS:
        for name in (command.name, *command.aliases):
            assert f"`/{name}`" in page


def test_an_unknown_command_is_answered_with_the_nearest():
    assert unknown_words("hlep", ()) == "Unknown command /hlep. Did you mean /help?"
    assert unknown_words("zzzz", ()) == "Unknown command /zzzz. See /help."


def completed(text: str, cwd: Path, *, known: bool = True) -> list[str]:
    index = FileIndex(cwd)
    if known:
        index.refresh()
        index.wait()
    completer = PromptCompleter(cwd, index)
    found = completer.get_completions(Document(text), CompleteEvent())
    return [text[: len(text) + each.start_position] + each.text for each in found]


def test_commands_are_completed_at_the_beginning_only(project: Path):
    assert completed("/h", project) == ["/help", "/hooks"]
    assert completed("/chat", project)[0] == "/chat"
    assert completed("/xport", project) == ["/export"]
    assert set(completed("/", project)) <= {f"/{name}" for name, _ in command_names()}
    assert completed("say /h", project) == []
    assert completed("/help x", project) == []


@pytest.mark.parametrize("git", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_paths_are_completed_without_what_git_ignores(project: Path, *, git: bool, known: bool):
    if git:
        subprocess.run(["git", "init", "-q", str(project)], check=True)
    (project / ".gitignore").write_text("*.log\n", encoding="utf-8")
    (project / "src").mkdir()
    for name in ("app.py", "app.log", "apple pie.txt", "src/deep_name.py", ".hidden"):
        (project / name).touch()
    found = completed("see @ap", project, known=known)
    assert found[:2] == ["see @app.py", "see @apple\\ pie.txt"]
    assert "see @app.log" not in found
    assert completed("@apple\\ p", project, known=known) == ["@apple\\ pie.txt"]
    assert completed("@sr", project, known=known)[0] == "@src/"
    assert "@src/deep_name.py" in completed("@src/", project, known=known)
    assert completed("@.h", project, known=known) == ["@.hidden"]
    assert completed("@nothing/", project, known=known) == []
    assert completed("me@ap", project, known=known) == []


def test_paths_are_found_by_their_names_parts_initials_and_characters(project: Path):
    paths = (
        *("src/tools/file_tool.py", "src/tools/format.py", "docs/tools.md", "src/main.py"),
        *("src/finder/other.py", "文档/说明书.md", ".cache/file_tool.py", "lib/FileTool.java"),
    )

    def find_best(word: str) -> str:
        return search(index_of(iter(paths)), word)[0][0]

    assert find_best("main") == "src/main.py"
    assert find_best("tools") == "docs/tools.md"
    assert find_best("file_t") == "src/tools/file_tool.py"
    assert find_best("ft") == "src/tools/file_tool.py"
    assert find_best("s/t/fo") == "src/tools/format.py"
    assert find_best("filetool") == "lib/FileTool.java"
    assert find_best("说明") == "文档/说明书.md"
    assert find_best("文说") == "文档/说明书.md"
    assert search(index_of(iter(paths)), "zq") == ([], [])


def test_a_longer_word_is_sought_among_the_paths_of_the_shorter_one(project: Path):
    for name in ("render_view.py", "read_value.py", "other.txt"):
        (project / name).touch()
    index = FileIndex(project)
    assert index.find("r") == []
    index.refresh()
    index.wait()
    for word in ("rv", "rvi", "rview", "rviewz", "rv"):
        alone = FileIndex(project)
        alone.refresh()
        alone.wait()
        assert index.find(word) == alone.find(word)
    assert index.find("rview") == ["render_view.py"]


def test_completions_are_bounded(project: Path):
    for number in range(3 * OFFERED):
        (project / f"file_{number:03}").touch()
    assert len(completed("@file", project)) == OFFERED
    assert len(completed("@ile_", project)) == OFFERED
    assert len(completed("@fe", project)) == OFFERED


def open_list(text: str, *words: str) -> Buffer:
    buffer = Buffer()
    buffer.text, buffer.cursor_position = text, len(text)
    found = [Completion(word, -len(text)) for word in words]
    buffer.complete_state = CompletionState(buffer.document, found)
    return buffer


def test_enter_takes_the_highlighted_line_and_sends_only_a_complete_word():
    buffer = open_list("/mo", "/model", "/mode")
    assert take_completion(buffer)
    assert buffer.text == "/model"
    buffer = open_list("/mo", "/model", "/mode")
    move_in_list(buffer, 1)
    assert buffer.text == "/mo"
    assert take_completion(buffer)
    assert buffer.text == "/mode"
    complete = open_list("/mode", "/mode", "/model")
    assert not take_completion(complete)
    assert (complete.text, complete.complete_state) == ("/mode", None)
    assert take_completion(open_list("/mode", "/mode", "/model"), later=True)
    assert not take_completion(open_list("/review", "/review "))
    assert not take_completion(Buffer())
    word = open_list("", "set")
    assert take_completion(word)
    assert word.text == "set"


def test_a_list_has_two_columns_and_says_where_it_is():
    offers = [(f"/{name}", f"about {name}") for name in ("a", "bcd", "说明", "x" * 60)]
    assert plain(offer_lines(offers, 1, 60, 3)) == snapshot("""\
  /a     about a
> /bcd   about bcd
  /说明  about 说明
  2 of 4 · ↑/↓ select · Tab or Enter take · Esc close\
""")
    assert plain(offer_lines(offers, 3, 24, 1)).split("\n")[0] == f"> /{'x' * 18}… …"


@given(st.text(alphabet='ab@\\ "(,/\n', max_size=12))
def test_the_word_at_the_cursor_never_reaches_beyond_the_text(text: str):
    word = path_word(text)
    assert word is None or text.endswith(f"@{word}")


def history(project: Path, warnings: list[str] | None = None) -> PromptHistory:
    warn = ([] if warnings is None else warnings).append
    return PromptHistory(dict(os.environ), project, warn)


def history_file(home: Path) -> Path:
    (found,) = (home / ".gemini" / "tmp").glob(f"*/{NAME}")
    return found


def test_prompts_are_kept_for_the_next_session_and_for_nobody_else(home: Path, project: Path):
    first = history(project)
    for text in ("one", "two\nlines", "one", "drei ü"):
        first.store_string(text)
    assert list(history(project).load_history_strings()) == ["drei ü", "one", "two\nlines"]
    assert stat.S_IMODE(history_file(home).stat().st_mode) == 0o600
    assert list(history(project / "..").load_history_strings()) == []


def test_a_damaged_history_gives_what_can_be_read(home: Path, project: Path):
    history(project).store_string("kept")
    file = history_file(home)
    file.write_bytes(b'{"not": 1}\n\xff\xfe\n"half' + b"\n" + file.read_bytes())
    assert list(history(project).load_history_strings()) == ["kept"]
    file.write_bytes(b'"' + b"x" * TAIL_BYTES + b'"\n"newest"\n')
    assert list(history(project).load_history_strings()) == ["newest"]


def test_a_history_that_cannot_be_used_is_told_once(home: Path, project: Path):
    history(project).store_string("x")
    file = history_file(home)
    file.unlink()
    os.mkfifo(file)
    warnings: list[str] = []
    broken = history(project, warnings)
    assert list(broken.load_history_strings()) == []
    broken.store_string("y")
    broken.store_string("z")
    assert len(warnings) == 1
    warnings.clear()
    history(project, warnings).store_string("y")
    assert len(warnings) == 1


def test_a_path_that_is_typed_before_the_tree_is_known_is_offered(
    server: ScriptedServer, project: Path
):
    (project / "src" / "deep").mkdir(parents=True)
    (project / "src" / "deep" / "shop_file.py").write_text("", encoding="utf-8")
    with at(server, "--skip-trust") as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("@")  # agents are known at once
        terminal.until("src/deep/")
        terminal.send("shopf")
        terminal.until("src/deep/shop_file.py")
        leave_at_once(terminal)
