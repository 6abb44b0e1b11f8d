"""Approval dialogs: the call as shown, and the possible answers."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from alhena.display_text import exact
from alhena.frontends.terminal.approval_dialog import (
    choices,
    question_menu,
    request_blocks,
    rule_words,
)
from alhena.frontends.terminal.drawing.lines import plain, width
from alhena.frontends.terminal.drawing.menu import Menu, Option, Picked, menu_lines, press
from alhena.policy.model import Decision, PolicyOutcome, PolicyRule
from alhena.scheduler.bus import LastingRule
from alhena.scheduler.confirmation import Answer, ConfirmationRequest
from alhena.suspicious_text import suspicious
from alhena.tools.contract import (
    ConfirmationDetails,
    EditConfirmation,
    ExecConfirmation,
    ExitPlanModeConfirmation,
    InfoConfirmation,
    McpConfirmation,
    Question,
    QuestionOption,
    ToolConfirmationOutcome,
)
from tests.frontends.terminal.kit import text_of

Outcome = ToolConfirmationOutcome
LASTING = (
    LastingRule(outcome="proceed_always", words="commands that begin with `git status`, `ls`"),
    LastingRule(outcome="proceed_always_and_save", words="commands like it", persist=True),
)


def request(details: ConfirmationDetails, *parts: str, **args: Any) -> ConfirmationRequest:
    return ConfirmationRequest(
        call_id="1",
        name="tool",
        tool_name="tool",
        args=args,
        details=details,
        decision=Decision(outcome=PolicyOutcome.ASK_USER, reason="no rule matches", parts=parts),
        reason="no rule matches",
        parts=parts,
    )


def command(text: str, *warnings: str) -> ExecConfirmation:
    return ExecConfirmation(
        title="t",
        command=text,
        command_shown=exact(text),
        root_command="x",
        root_commands=("x",),
        warnings=warnings or suspicious(text),
    )


def edit(diff: str, *, new: bool = False) -> EditConfirmation:
    return EditConfirmation(
        title="t",
        file_path="/w/a.py",
        file_name="a.py",
        file_diff=diff,
        original_content=None if new else "",
        new_content="",
        is_new_file=new,
    )


def test_a_command_is_shown_whole_with_where_and_why():
    asked = request(command("git status &&\n  rm -rf x"), "rm -rf x", directory="sub")
    assert text_of(request_blocks(asked)) == snapshot("""\

? Run a command in sub
  $ git status &&
      rm -rf x
  why: no rule matches
  part: rm -rf x\
""")


def test_a_change_is_shown_as_a_diff():
    diff = "--- a.py\tOriginal\n+++ a.py\tWritten\n@@ -9,2 +9,3 @@\n a\n+b\tc\n d\n@@ -40 +41 @@\n-x\n+y\n"
    assert text_of(request_blocks(request(edit(diff)))) == snapshot("""\

? Change /w/a.py
     9   a
    10 + b   c
    11   d
     ⋮
       - x
    41 + y
  why: no rule matches\
""")
    assert "New file /w/a.py" in text_of(request_blocks(request(edit(diff, new=True))))


@pytest.mark.parametrize(
    "details",
    [
        edit("@@ -1 +1 @@\n-x\n+y\n"),
        command("ls"),
        McpConfirmation(title="t", server_name="srv", tool_name="do", tool_display_name="Do"),
        InfoConfirmation(title="Fetch?", prompt="read", urls=("https://example.com/",)),
    ],
    ids=lambda details: type(details).__name__,
)
def test_what_may_deceive_a_reader_is_warned_of(details: ConfirmationDetails):
    warned = msgspec.structs.replace(details, warnings=("it hides\x1b[8m something",))
    assert "\n  ! it hides\\x1b[8m something\n" in text_of(request_blocks(request(warned)))


def test_what_a_diff_leaves_out_is_counted():
    diff = "@@ -0,0 +1,1500 @@\n" + "".join(f"+line {n}\n" for n in range(1500))
    text = text_of(request_blocks(request(edit(diff))))
    assert "! 500 more lines are not shown here." in text
    mcp = McpConfirmation(
        title="t", server_name="srv", tool_name="do", tool_display_name="Do", changed=diff
    )
    assert "! 500 more lines are not shown here." in text_of(request_blocks(request(mcp)))


def test_other_calls_are_shown_in_their_own_words():
    mcp = McpConfirmation(
        title="t", server_name="srv", tool_name="do", tool_display_name="Do things"
    )
    assert text_of(request_blocks(request(mcp, a=1, b="two"))) == snapshot("""\

? Do things of srv
  {
    "a": 1,
    "b": "two"
  }
  why: no rule matches\
""")
    info = InfoConfirmation(title="Fetch?", prompt="summarise it", urls=("https://example.com/",))
    assert text_of(request_blocks(request(info))) == snapshot("""\

? Fetch?
  summarise it
  https://example.com/
  why: no rule matches\
""")
    plan = ExitPlanModeConfirmation(
        title="t", plan_path="/p/plan.md", plan="# Do\n\x1b[2Jit", next_mode="default"
    )
    assert text_of(request_blocks(request(plan))) == snapshot("""\

? Plan (/p/plan.md)
  # Do
  \\x1b[2Jit
  why: no rule matches\
""")


PLAN = """# Plan

1. Change List<int> to Vec<str>, [as said](http://x).

<!-- 3. then remove the backups and push --force -->

<div>
4. delete *tests*
</div>

[3]: rm-the-database
```sh
# comment
```
| a |
|---|
| b | and rm -rf |
"""


def test_a_plan_is_shown_as_it_was_written():
    plan = ExitPlanModeConfirmation(
        title="t", plan_path="/p", plan=PLAN + "\u202ego" + " " * 300 + "rm", next_mode="default"
    )
    shown = text_of(request_blocks(request(plan)))
    assert "".join(f"  {each}\n" for each in PLAN.splitlines()) in shown
    assert "\n  \\u202ego\\{300 spaces}rm" in shown


HIDING = [
    "ls\x1b[2K\x1b[1A",
    "ls \u202e hs.live\u202c",
    "ls" + " " * 300 + "; rm x",
    "ls\r\nrm x\x08",
    "ls\u200b\u2066",
    "ls" + "\n" * 30 + "rm x",
]


@pytest.mark.parametrize("text", HIDING)
def test_nothing_of_a_command_can_be_hidden(text: str):
    blocks = (
        request_blocks(request(command(text), text, directory=text))
        + request_blocks(request(edit(f"@@ -1 +1 @@\n+{text}\n")))
        + request_blocks(request(InfoConfirmation(title=text, prompt=text, urls=(text,))))
    )
    shown = text_of(blocks)
    for char in "\x1b\r\x08\u202e\u202c\u200b\u2066":
        assert char not in shown
    assert " " * 60 not in shown
    assert "\n\n\n\n\n\n" not in shown
    assert shown.count("rm x") >= (4 if "rm x" in text else 0)


def test_what_may_deceive_is_said_below_the_command():
    blocks = request_blocks(request(command("ls \u202e x")))
    assert "! contains a right-to-left override (\\u202e) at column 4\n" in text_of(blocks)


def test_only_what_is_offered_can_be_answered_and_what_lasts_is_told():
    asked = request(command("ls"))
    menu, answers = choices(asked)
    assert answers == (Answer(Outcome.PROCEED_ONCE), Answer(Outcome.CANCEL))
    asked = msgspec.structs.replace(asked, outcomes=tuple(Outcome), lasting=LASTING)
    menu, answers = choices(asked)
    assert plain(menu_lines(menu, 90)[0]) == snapshot("""\
Allow this?
> 1/y Yes, this once
  2/a Yes, always: commands that begin with `git status`, `ls`  for this session
  3/t Yes, always allow this tool
  4/v Yes, always allow this server
  5/s Yes, always in all sessions: commands like it  saved
  6/e Edit it first in your editor
  7/n No, and say why
  Use arrow keys, a number or a letter; Enter confirms; Esc rejects\
""")
    assert {each.outcome for each in answers} == set(Outcome)
    assert len(answers) == len(menu.options)


def test_the_answers_on_a_servers_tool_say_what_each_of_them_is_about():
    details = McpConfirmation(title="t", server_name="srv", tool_name="do", tool_display_name="do")
    tool, server = "every call of do", "every tool of the server srv"
    lasting = tuple(
        LastingRule(outcome=outcome, words=words, persist=outcome == "proceed_always_and_save")
        for outcome, words in (
            ("proceed_always", tool),
            ("proceed_always_tool", tool),
            ("proceed_always_server", server),
            ("proceed_always_and_save", tool),
        )
    )
    asked = msgspec.structs.replace(request(details), outcomes=tuple(Outcome), lasting=lasting)
    menu, answers = choices(asked)
    assert [each.label for each in menu.options] == [
        "Yes, this once",
        "Yes, always allow this tool: every call of do",
        "Yes, always allow this server: every tool of the server srv",
        "Yes, always in all sessions: every call of do",
        "Edit it first in your editor",
        "No, and say why",
    ]
    assert [each.outcome for each in answers][1:3] == [
        "proceed_always_tool",
        "proceed_always_server",
    ]
    only = msgspec.structs.replace(
        asked, outcomes=(Outcome.PROCEED_ONCE, Outcome.PROCEED_ALWAYS), lasting=lasting[:1]
    )
    assert [each.key for each in choices(only)[0].options] == ["y", "a"]


@pytest.mark.parametrize(
    ("next_mode", "modes"),
    [
        ("default", ["default", "autoEdit"]),
        ("autoEdit", ["default", "autoEdit"]),
        ("yolo", ["default", "autoEdit", "yolo"]),
        ("plan", ["default", "autoEdit"]),
    ],
)
def test_who_approves_a_plan_says_how_it_is_carried_out(next_mode: str, modes: list[str]):
    plan = ExitPlanModeConfirmation(
        title="t", plan_path="/p/plan.md", plan="# Do it", next_mode=next_mode
    )
    menu, answers = choices(request(plan))
    assert [each.payload.approval_mode for each in answers] == [*modes, None]
    assert answers[-1].outcome is Outcome.CANCEL
    assert [each.detail for each in menu.options] == [*(f"{mode} mode" for mode in modes), ""]
    assert len({each.key for each in menu.options}) == len(menu.options)


def test_what_may_deceive_and_why_it_is_asked_again_stand_below():
    asked = request(command("l\u0455", "a letter that is not what it looks like"))
    asked = msgspec.structs.replace(asked, problem="The editor could not be started.")
    assert text_of(request_blocks(asked)).splitlines()[-3:] == snapshot(
        [
            "  ! a letter that is not what it looks like",
            "  why: no rule matches",
            "  ! The editor could not be started.",
        ]
    )


def test_a_rule_is_told_in_words():
    rule = PolicyRule(
        decision=PolicyOutcome.ALLOW,
        priority=950,
        tool_names=("run_shell_command",),
        command_prefixes=("git status", "ls"),
    )
    assert rule_words(rule) == "commands that begin with `git status`, `ls`"
    edits = PolicyRule(decision=PolicyOutcome.ALLOW, priority=1, tool_names=("replace",))
    assert rule_words(edits) == "every call of replace"


def test_questions_of_the_model_become_menus():
    choice = Question(
        question="Which?",
        header="h",
        type="choice",
        options=(QuestionOption(label="A", description="first"), QuestionOption(label="B")),
    )
    menu = question_menu(choice)
    assert menu is not None
    assert [each.label for each in menu.options] == ["A", "B", "Something else"]
    assert menu.checked is None
    yes = question_menu(Question(question="Sure?", header="h", type="yesno"))
    assert yes is not None
    assert [each.key for each in yes.options] == ["y", "n"]
    assert question_menu(Question(question="Name?", header="h", type="text")) is None


ABC = Menu(title="t", options=tuple(Option(label=c, key=c) for c in "abc"))


@pytest.mark.parametrize(
    ("keys", "picked"),
    [
        (["enter"], {0}),
        (["down", "enter"], {1}),
        (["up", "enter"], {2}),
        (["down", "down", "down", "enter"], {0}),
        (["2"], {1}),
        (["c"], {2}),
        (["x", "space", "0", "4", "enter"], {0}),
        (["down", "escape"], None),
    ],
)
def test_keys_move_and_pick(keys: list[str], picked: set[int] | None):
    state: Menu | Picked = ABC
    for key in keys:
        assert isinstance(state, Menu)
        state = press(state, key)
    assert state == Picked(None if picked is None else frozenset(picked))


def test_several_can_be_ticked():
    menu = Menu(title="t", options=ABC.options, checked=frozenset())
    for key in ("space", "3", "c", "b"):
        made = press(menu, key)
        assert isinstance(made, Menu)
        menu = made
    assert press(menu, "enter") == Picked(frozenset({0, 1}))


@given(st.lists(st.sampled_from(["up", "down", "space", "1", "9", "q", ""]), max_size=30))
def test_a_menu_is_always_drawn_within_its_columns(keys: list[str]):
    menu = Menu(title="t", options=(Option(label="漢字" * 30, detail="d"), *ABC.options[1:2]))
    for key in keys:
        made = press(menu, key)
        if isinstance(made, Menu):
            menu = made
    for columns in (5, 20):
        rows, chosen = menu_lines(menu, columns)
        assert 0 < chosen.start < chosen.stop < len(rows)
        assert all(sum(width(text) for _, text in row) <= columns for row in rows)
