"""Approval dialogs: the call as shown, and the possible answers."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from alhena.agent.toolset.approval import describe_allowance
from alhena.display_text import exact
from alhena.frontends.shared.listings import mode_word
from alhena.frontends.terminal.access_dialog import MENU as ACCESS
from alhena.frontends.terminal.dialogs.approval import (
    ApprovalDialog,
    choices,
    details_blocks,
    question_menu,
    request_blocks,
)
from alhena.frontends.terminal.drawing.lines import (
    Block,
    Lines,
    Markdown,
    fold_line,
    plain,
    width,
)
from alhena.frontends.terminal.drawing.markdown import render_markdown
from alhena.frontends.terminal.drawing.menu import Menu, MenuChoice, MenuOption, menu_lines, press
from alhena.frontends.terminal.line_screen import picked_by
from alhena.policy.model import Decision, PolicyOutcome, PolicyRule, Tier, rule_decision
from alhena.scheduler.bus import LastingRule
from alhena.scheduler.question import Answer, ConfirmationRequest
from alhena.suspicious_text import suspicious
from alhena.tools.contract import (
    AskUserConfirmation,
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
from tests.frontends.terminal.kit import ListScreen, assert_short, text_of

Outcome = ToolConfirmationOutcome
LASTING = (
    LastingRule(outcome="proceed_always", words="commands starting with `git status`, `ls`"),
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
  Asked because of: rm -rf x\
""")


def test_a_change_is_shown_as_a_diff():
    diff = "--- a.py\tOriginal\n+++ a.py\tWritten\n@@ -9,2 +9,3 @@\n a\n+b\tc\n d\n@@ -40 +41 @@\n-x\n+y\n"
    assert text_of(request_blocks(request(edit(diff)))) == snapshot("""\

? Change /w/a.py
     9   a
    10 + b   c
    11   d
     ⋮
    40 - x
    41 + y
  Edits need approval\
""")
    assert "New file /w/a.py" in text_of(request_blocks(request(edit(diff, new=True))))
    here = msgspec.structs.replace(edit(diff), file_path=str(Path.cwd() / "b" / "a.py"))
    assert "? Change b/a.py\n" in text_of(request_blocks(request(here)))


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
    assert "… 1,460 more lines · ? shows all" in text
    mcp = McpConfirmation(
        title="t", server_name="srv", tool_name="do", tool_display_name="Do", changed=diff
    )
    assert "… 1,460 more lines · ? shows all" in text_of(request_blocks(request(mcp)))


def test_other_calls_are_shown_in_their_own_words():
    mcp = McpConfirmation(
        title="t", server_name="srv", tool_name="do", tool_display_name="Do things"
    )
    assert text_of(request_blocks(request(mcp, a=1, b="two"))) == snapshot("""\

? srv/Do things
  {
    "a": 1,
    "b": "two"
  }
  MCP tools need approval\
""")
    info = InfoConfirmation(title="Fetch?", prompt="summarise it", urls=("https://example.com/",))
    assert text_of(request_blocks(request(info))) == snapshot("""\

? Fetch?
  summarise it
  https://example.com/
  No rule matches\
""")
    plan = ExitPlanModeConfirmation(
        title="t", plan_path="/p/plan.md", plan="# Do\n\x1b[2Jit", next_mode="default"
    )
    assert text_of(request_blocks(request(plan))) == snapshot("""\

? Plan (plan.md)

|# Do
\\x1b[2Jit|

  Plans need approval\
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
    assert PLAN in shown
    assert "\n\\u202ego\\{300 spaces}rm" in shown
    blocks = request_blocks(request(plan))
    (drawn,) = (each.text for each in blocks if isinstance(each, Markdown))
    rendered = " ".join(render_markdown(drawn, 60, colour=False).split())
    assert "then remove the backups and push --force" in rendered


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


def test_only_what_is_offered_can_be_answered():
    menu, answers = choices(request(command("ls")))
    assert answers == (Answer(Outcome.PROCEED_ONCE), Answer(Outcome.CANCEL))
    assert len(answers) == len(menu.options)


def offered(details: ConfirmationDetails, *lasting: LastingRule) -> ConfirmationRequest:
    """A request with all answers that its kind can have."""
    always = [Outcome(each.outcome) for each in lasting]
    edits = [Outcome.MODIFY_WITH_EDITOR] if isinstance(details, EditConfirmation) else []
    outcomes = (Outcome.PROCEED_ONCE, *always, *edits, Outcome.CANCEL)
    return msgspec.structs.replace(request(details), outcomes=outcomes, lasting=lasting)


SERVERS = tuple(
    LastingRule(outcome=outcome, words=words, persist=outcome == "proceed_always_and_save")
    for outcome, words in (
        ("proceed_always", "all calls of srv/do"),
        ("proceed_always_tool", "all calls of srv/do"),
        ("proceed_always_server", "all tools of srv"),
        ("proceed_always_and_save", "all calls of srv/do"),
    )
)
LONG = tuple(
    LastingRule(outcome=outcome, words=f"commands starting with `{'very-' * 20}long`")
    for outcome in ("proceed_always", "proceed_always_and_save")
)
AUTO_EDIT = LastingRule(outcome="proceed_always", words="edits", mode="autoEdit")
ASKED = {
    "edit": offered(edit("@@ -1 +1 @@\n-x\n+y\n"), AUTO_EDIT),
    "shell": offered(command("ls"), *LASTING),
    "long rule": offered(command("ls"), *LONG),
    "mcp": offered(
        McpConfirmation(title="t", server_name="srv", tool_name="do", tool_display_name="Do"),
        *SERVERS,
    ),
    "web": offered(
        InfoConfirmation(title="Fetch?", prompt="read", urls=("https://example.com/",)),
        LastingRule(outcome="proceed_always", words="all calls of web_fetch"),
        LastingRule(outcome="proceed_always_and_save", words="all calls of web_fetch"),
    ),
    "ask_user": offered(AskUserConfirmation(title="t", questions=())),
    **{
        f"plan to {mode}": offered(
            ExitPlanModeConfirmation(title="t", plan_path="/p", plan="p", next_mode=mode)
        )
        for mode in ("default", "autoEdit", "yolo")
    },
}
LABELS = snapshot(
    {
        "edit": [
            "Yes, this once",
            "Session: edits (auto_edit mode)",
            "Edit it first in your editor",
            "No, and say why",
        ],
        "shell": [
            "Yes, this once",
            "Session: commands starting with `git status`, `ls`",
            "Save for all sessions: commands like it",
            "No, and say why",
        ],
        "long rule": [
            "Yes, this once",
            "Session: commands starting with `very-very-very-very-very-v…",
            "Save: commands starting with `very-very-very-very-very-very…",
            "No, and say why",
        ],
        "mcp": [
            "Yes, this once",
            "Session: all calls of srv/do",
            "Save for all sessions: all calls of srv/do",
            "No, and say why",
        ],
        "web": [
            "Yes, this once",
            "Session: all calls of web_fetch",
            "Save for all sessions: all calls of web_fetch",
            "No, and say why",
        ],
        "ask_user": ["Yes, this once", "No, and say why"],
        "plan to default": [
            "Yes, and ask before changes",
            "Yes, and edit files without asking",
            "No, and say why",
        ],
        "plan to autoEdit": [
            "Yes, and ask before changes",
            "Yes, and edit files without asking",
            "No, and say why",
        ],
        "plan to yolo": [
            "Yes, and ask before changes",
            "Yes, and edit files without asking",
            "Yes, without asking at all",
            "No, and say why",
        ],
    }
)


def asked_menus() -> dict[str, Menu]:
    """The menu of every kind of question."""
    long = QuestionOption(label="A label far longer than asked for " * 4, description="why " * 40)
    short = QuestionOption(label="A", description="the first")
    menus = {name: choices(each)[0] for name, each in ASKED.items()}
    for count in (1, 3, 4):
        question = Question(
            question="?", header="h", type="choice", options=(long, short, short, long)[:count]
        )
        menu = question_menu(question)
        several = question_menu(msgspec.structs.replace(question, multi_select=True))
        assert menu is not None
        assert several is not None
        menus |= {f"{count} choices": menu, f"several of {count}": several}
    yes = question_menu(Question(question="?", header="h", type="yesno"))
    assert yes is not None
    return menus | {"yes or no": yes, "access": ACCESS}


def test_every_question_has_at_most_four_short_answers():
    menus = asked_menus()
    for menu in menus.values():
        assert_short(menu)
    labels = {name: [each.label for each in menus[name].options] for name in ASKED}
    assert labels == LABELS


def test_details_have_the_rule_the_mode_the_whole_change_and_all_answers():
    diff = "@@ -0,0 +1,1500 @@\n" + "".join(f"+line {n}\n" for n in range(1500))
    rule = PolicyRule(
        decision=PolicyOutcome.ASK_USER, priority=10, tool_names=("tool",), source="my.toml:3"
    )
    asked = msgspec.structs.replace(
        ASKED["mcp"],
        details=edit(diff),
        decision=rule_decision(rule),
        reason=rule_decision(rule).reason,
    )
    first = text_of(request_blocks(asked))
    assert "line 1499" not in first
    assert "\n  Edits need approval (user policy)" in first
    shown = text_of(details_blocks(asked, "autoEdit"))
    assert "line 1499" in shown
    for fact in (
        "tool: tool",
        "mode: auto_edit",
        "rule: user (my.toml:3), priority ",
        f"reason: {rule_decision(rule).reason}",
        "Session: all tools of srv",
    ):
        assert f"\n  {fact}" in shown
    (menu, few), (whole, all_of_them) = (choices(ASKED["mcp"], details=d) for d in (False, True))
    assert {each.outcome for each in all_of_them} == set(ASKED["mcp"].outcomes) - {
        Outcome.PROCEED_ALWAYS
    }
    assert all_of_them[: len(few)] == few  # digits and letters stay
    assert [each.key for each in menu.options] == ["y", "a", "s", "n"]
    assert [each.key for each in whole.options] == ["y", "a", "s", "n", "v"]


def test_a_rule_too_long_for_an_answer_is_cut_and_whole_in_the_details():
    assert LONG[0].words not in text_of(request_blocks(ASKED["long rule"]))
    assert f"  Session: {LONG[0].words}" in text_of(details_blocks(ASKED["long rule"], "default"))


def test_the_reason_is_one_line():
    parts = request(command("cd x && npm run build"), "npm run build")
    assert "\n  Asked because of: npm run build" in text_of(request_blocks(parts))
    told = text_of(details_blocks(parts, "default"))
    assert "reason: no rule matches\n  part: npm run build" in told
    many = ("npm run build -- --mode production --config a.js", "rm -rf dist", "sh run.sh")
    shown = text_of(request_blocks(request(command("x"), *many)))
    assert shown.endswith("of: npm run build …, rm …, sh run.sh")
    rule = PolicyRule(decision=PolicyOutcome.ASK_USER, priority=1, tier=Tier.DEFAULT)
    reason = rule_decision(rule).reason
    asked = msgspec.structs.replace(
        request(command("python x.py")),
        decision=rule_decision(rule),
        reason=f"{reason}; not read-only: python is not in the list of commands that only read",
    )
    whole = msgspec.structs.replace(asked, parts=("python x.py",), args={"command": "python x.py"})
    for each in (asked, whole):
        last = text_of(request_blocks(each)).splitlines()[-1]
        assert last == "  Not a known read-only command: python"
    assert "? Run a command  (1 of 3)\n" in text_of(request_blocks(asked, place="1 of 3"))


async def test_a_question_is_asked_again_behind_its_details():
    screen, shown = ListScreen("details", "Session: all tools of srv"), list[Block]()
    answer = await ApprovalDialog(screen).answer(ASKED["mcp"], shown.extend, "default")
    assert answer.outcome is Outcome.PROCEED_ALWAYS_SERVER
    assert text_of(shown).count("mode: default") == 1
    screen, shown = ListScreen("details", "back", "Save for all sessions"), list[Block]()
    answer = await ApprovalDialog(screen).answer(ASKED["mcp"], shown.extend, "default")
    assert answer.outcome is Outcome.PROCEED_ALWAYS_AND_SAVE
    assert text_of(shown).count("mode: default") == 1
    assert text_of(shown).count("  Session: ") == 2  # tools of the server; this tool


async def test_words_of_a_question_are_broken_between_words_and_a_change_is_not():
    shown = list[Block]()
    questions = (Question(question="Which " * 20, header="h", type="yesno"),)
    await ApprovalDialog(ListScreen("Yes")).ask(questions, shown.extend)
    shown += request_blocks(ASKED["web"])[:1]
    assert all(isinstance(each, Lines) and each.fold for each in shown)
    folds = [isinstance(each, Lines) and each.fold for each in request_blocks(ASKED["edit"])]
    assert False in folds
    long = request_blocks(request(command("echo " + "word " * 30)))[0]
    assert isinstance(long, Lines)
    rows = [row for each in long.lines for row in fold_line(each, 40)]
    assert {plain([row])[:4] for row in rows[3:]} == {" " * 4}


@pytest.mark.parametrize(
    ("several", "answers", "told"),
    [
        (False, ["Something else", "my own"], "my own"),
        (False, ["b"], "b"),
        (True, [("a", "c", "Something else"), "my own"], "a, c, my own"),
    ],
)
async def test_words_of_ones_own_are_an_answer_beside_four_options(
    several: bool, answers: list[Any], told: str
):
    options = tuple(QuestionOption(label=each) for each in "abcd")
    question = Question(
        question="Which?", header="h", type="choice", options=options, multi_select=several
    )
    screen = ListScreen(*answers)
    assert await ApprovalDialog(screen).ask((question,), lambda _blocks: None) == {0: told}
    assert "o Something else · ↑/↓ select" in plain(menu_lines(screen.menus[0], 90)[0])


def test_the_key_of_an_answer_outside_the_list_picks_it():
    menu = Menu(title="t", options=ABC.options, more=MenuOption(label="details", key="?"))
    assert press(menu, "?") == MenuChoice(frozenset({3}))
    assert press(menu, "4") is menu
    assert picked_by(menu, "?") == frozenset({3})
    assert picked_by(menu, "4") is None
    ticked = msgspec.structs.replace(menu, checked=frozenset({1}))
    assert press(ticked, "?") == MenuChoice(frozenset({1, 3}))


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
    assert [each.detail for each in menu.options] == [
        *(f"{mode_word(mode)} mode" for mode in modes),
        "",
    ]
    assert len({each.key for each in menu.options}) == len(menu.options)


def test_what_may_deceive_and_why_it_is_asked_again_stand_below():
    asked = request(command("l\u0455", "a letter that is not what it looks like"))
    asked = msgspec.structs.replace(asked, problem="The editor could not be started.")
    assert text_of(request_blocks(asked)).splitlines()[-3:] == snapshot(
        [
            "  ! a letter that is not what it looks like",
            "  Commands like this need approval",
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
    assert describe_allowance(rule) == "commands starting with `git status`, `ls`"
    edits = PolicyRule(decision=PolicyOutcome.ALLOW, priority=1, tool_names=("replace",))
    assert describe_allowance(edits) == "all calls of replace"


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


ABC = Menu(title="t", options=tuple(MenuOption(label=c, key=c) for c in "abc"))


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
    state: Menu | MenuChoice = ABC
    for key in keys:
        assert isinstance(state, Menu)
        state = press(state, key)
    assert state == MenuChoice(None if picked is None else frozenset(picked))


def test_several_can_be_ticked():
    menu = Menu(title="t", options=ABC.options, checked=frozenset())
    for key in ("space", "3", "c", "b"):
        made = press(menu, key)
        assert isinstance(made, Menu)
        menu = made
    assert press(menu, "enter") == MenuChoice(frozenset({0, 1}))


@given(st.lists(st.sampled_from(["up", "down", "space", "1", "9", "q", ""]), max_size=30))
def test_a_menu_is_always_drawn_within_its_columns(keys: list[str]):
    menu = Menu(title="t", options=(MenuOption(label="漢字" * 30, detail="d"), *ABC.options[1:2]))
    for key in keys:
        made = press(menu, key)
        if isinstance(made, Menu):
            menu = made
    for columns in (5, 20):
        rows, chosen = menu_lines(menu, columns)
        assert 0 < chosen.start < chosen.stop < len(rows)
        assert all(sum(width(text) for _, text in row) <= columns for row in rows)
