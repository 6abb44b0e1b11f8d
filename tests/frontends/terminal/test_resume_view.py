"""A session that goes on is shown with what was said in it."""

from pathlib import Path

from inline_snapshot import snapshot

from alhena.frontends.terminal.drawing.resume_view import (
    MAX_CONTENTS,
    EarlierMessages,
    show_earlier,
)
from alhena.frontends.terminal.drawing.view import View
from alhena.wire.content import (
    MODEL,
    USER,
    Blob,
    Content,
    FunctionCall,
    FunctionResponse,
    Part,
    text_content,
)
from tests.frontends.terminal.kit import text_of
from tests.frontends.terminal.session import ENTER, PLACEHOLDER, at, calling, leave
from tests.support.command import alhena
from tests.support.server import ScriptedServer, sse, text


def shown(contents: list[Content], *prompts: str) -> str:
    earlier = EarlierMessages(tuple(contents), frozenset(prompts))
    view = View(titles={"read_file": "Read"})
    return text_of(show_earlier(view, earlier, "the-id")[1])


def test_prompts_answers_and_calls_stand_there_as_they_were_made():
    read = FunctionCall(id="1", name="read_file", args={"path": "a\x1b.py", "limit": 3})
    shell = FunctionCall(id="2", name="run_shell_command", args={"command": "make"})
    contents = [
        Content(role=USER, parts=(Part(text="I ran ls"), Part(text="look at\n@a.py"))),
        Content(
            role=MODEL,
            parts=(
                Part(text="thinking", thought=True),
                Part(text="One.\x1b[2J\n\nTwo"),
                Part(text=" goes on."),
                Part(function_call=read),
                Part(function_call=shell),
            ),
        ),
        Content(
            role=USER,
            parts=(
                Part(function_response=FunctionResponse(id="1", name="read_file")),
                Part(
                    function_response=FunctionResponse(
                        id="2", name="run_shell_command", response={"error": "no"}
                    )
                ),
                Part(text="Reminder"),
            ),
        ),
        text_content(MODEL, "```\ncode\n```\nDone."),
        Content(
            role=USER,
            parts=(Part(text="and this"), Part(inline_data=Blob(mime_type="image/png", data=""))),
        ),
        text_content(USER, "What a hook said."),
    ]
    assert shown(contents, "look at\n@a.py", "and this") == snapshot("""\
┃ > look at
┃   @a.py
  and 8 characters with it

|One.|

|Two goes on.|

✓ Read a\\x1b.py, 3
✗ run_shell_command make

|```
code
```|

|Done.|

┃ > and this
  and a file (image/png)

> What a hook said.\
""")


def test_of_a_long_session_the_end_is_shown_and_how_much_comes_before_it():
    count = MAX_CONTENTS // 2 + 5
    contents = [text_content(role, f"{role} {n}") for n in range(count) for role in (USER, MODEL)]
    told = shown(contents, *(f"user {n}" for n in range(count)))
    assert told.startswith("… 10 earlier messages: alhena sessions show the-id\n\n┃ > user 5\n")
    assert told.endswith(f"┃ > user {count - 1}\n\n|model {count - 1}|")


def test_of_a_prompt_with_very_many_calls_the_last_ones_are_shown():
    contents = [text_content(USER, "go")]
    for number in range(MAX_CONTENTS):
        call = FunctionCall(id=str(number), name="read_file", args={"path": f"f{number}"})
        response = FunctionResponse(id=str(number), name="read_file")
        contents.append(Content(role=MODEL, parts=(Part(text="So."), Part(function_call=call))))
        contents.append(Content(role=USER, parts=(Part(function_response=response),)))
    told = shown([*contents, text_content(MODEL, "Done.")], "go")
    assert told.startswith(
        f"… {MAX_CONTENTS + 3} earlier messages: alhena sessions show the-id\n\n|So.|\n\n"
        f"✓ Read f{MAX_CONTENTS // 2 + 1}\n"
    )
    assert told.endswith(f"✓ Read f{MAX_CONTENTS - 1}\n\n|Done.|")
    assert told.count("Read") == MAX_CONTENTS // 2 - 1


def test_what_nobody_said_is_no_prompt():
    assert shown([text_content(USER, "a summary\nof it"), text_content(MODEL, "Good.")]) == (
        "> a summary of it\n\n|Good.|"
    )


def test_a_session_that_is_taken_up_again_is_shown(server: ScriptedServer, project: Path):
    (project / "a.txt").write_text("some words\n", encoding="utf-8")
    server.reply(calling("read_file", {"file_path": "a.txt"}), sse(text("It has **some** words.")))
    environ = {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": server.url, "GEMINI_MODEL": "m"}
    assert alhena("-p", "what is in a.txt?", **environ).code == 0
    with at(server, "--resume") as terminal:
        told = terminal.until("Resumed session ")
        assert "> what is in a.txt?" in told
        assert "✓ Read a.txt (1 line)" in told
        assert "\nIt has some words." in told
        assert "We are setting up the context" not in told
        assert told.index("It has some") < told.index("Resumed session ")
        terminal.until(PLACEHOLDER)
        leave(terminal)


def test_calls_of_a_resumed_session_stand_there_as_they_were_shown(
    server: ScriptedServer, project: Path
):
    server.reply(
        calling("run_shell_command", {"command": "echo so; exit 3"}),
        calling("write_file", {"file_path": "a.txt", "content": "new\n"}),
        calling("read_file", {"file_path": "gone.txt"}),
        sse(text("Done.")),
    )
    with at(server, "--yolo", "--skip-trust") as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("do it" + ENTER)
        terminal.until("3 calls")
        leave(terminal)
    with at(server, "--resume") as resumed:
        resumed.until("Resumed session ")
        resumed.until(PLACEHOLDER)
        resumed.send("/show" + ENTER)
        told = resumed.until("blocks; /show NUMBER prints one")
        assert "1 Shell echo so; exit 3" in resumed.until("3 Read"), told
        leave(resumed)
    first, second = (
        each.screen.text.partition("> do it\n")[2].partition("Done.")[0]
        for each in (terminal, resumed)
    )
    assert first == second
    assert first.startswith("\n✗ Shell echo so; exit 3")
    assert " · exit 3\n  so\n✓ Write a.txt (+1 -0)\n" in first
    assert "+ new\n✗ Read gone.txt" in first


def test_of_a_resumed_paste_the_lines_around_it_are_shown():
    pasted = "\n".join(["explain this:", *(f"row {n}" for n in range(30)), "", "in one line"])
    told = shown([text_content(USER, pasted), text_content(MODEL, "Good.")], pasted)
    assert told == (
        "┃ > explain this:\n┃   row 0\n┃   … 29 more lines … · Ctrl-O\n┃   \n┃   in one line\n\n|Good.|"
    )
    long = shown([text_content(USER, "x" * 5_000)], "x" * 5_000)
    assert long == f"┃ > {'x' * 295}…"
