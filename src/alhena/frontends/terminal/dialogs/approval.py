"""A tool call that waits for consent: shown whole, asked about, answered."""

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, assert_never

import msgspec

from alhena.display_text import escaped, exact, one_line
from alhena.frontends.shared.listings import count_noun, mode_word
from alhena.frontends.terminal.drawing.call_result import (
    DIFF_COLUMN,
    DIFF_ROWS,
    path_from_here,
)
from alhena.frontends.terminal.drawing.diff import diff_lines
from alhena.frontends.terminal.drawing.lines import (
    TAB,
    Block,
    Line,
    Lines,
    Markdown,
    clip_line,
    line,
    plain,
    width,
)
from alhena.frontends.terminal.drawing.menu import Menu, MenuOption
from alhena.frontends.terminal.drawing.screen import Screen
from alhena.frontends.terminal.drawing.view import ShownCall
from alhena.policy.model import PolicyOutcome, rule_decision
from alhena.scheduler.question import Answer, ConfirmationRequest, Payload
from alhena.scheduler.tracked_call import call_for_policy
from alhena.tools.builtin.ask_user import Answers
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

if TYPE_CHECKING:
    from alhena.agent.toolset.toolset import Toolset

Outcome = ToolConfirmationOutcome
MAX_SAID = 2_000
"""Characters of what a server says of a tool that are shown."""
MOST, COLUMNS = 4, 60
"""Answers of a question, and columns of each, without its number and letter."""
ANSWERS = (
    (Outcome.PROCEED_ONCE, "y", "Yes, this once"),
    (Outcome.PROCEED_ALWAYS, "a", "Session"),
    (Outcome.PROCEED_ALWAYS_TOOL, "a", "Session"),
    (Outcome.PROCEED_ALWAYS_SERVER, "v", "Session"),
    (Outcome.PROCEED_ALWAYS_AND_SAVE, "s", "Save for all sessions"),
    (Outcome.MODIFY_WITH_EDITOR, "e", "Edit it first in your editor"),
    (Outcome.CANCEL, "n", "No, and say why"),
)
RARE = (Outcome.PROCEED_ALWAYS_SERVER, Outcome.PROCEED_ALWAYS_AND_SAVE, Outcome.MODIFY_WITH_EDITOR)
"""Answers that are left out where there is no room, the first of these first. The details have them
after the others, which keep their numbers."""
_Mode = Literal["default", "autoEdit", "yolo"]
_AFTER_PLAN: tuple[tuple[_Mode, str, str], ...] = (
    ("default", "y", "Yes, and ask before changes"),
    ("autoEdit", "a", "Yes, and edit files without asking"),
    ("yolo", "u", "Yes, without asking at all"),
)
"""Approval modes after a plan, the strictest first; yolo only if it is the mode to return to."""
_FULL_NUMBERS = {Outcome.PROCEED_ONCE: 1, Outcome.MODIFY_WITH_EDITOR: 3, Outcome.CANCEL: MOST}
"""Numbers of the answers to a hook's question: those that they have where answers beyond the call
stand between them, so that a number means the same in each question."""
UNTRUSTED = "folder not trusted; /trust offers more"
DETAILS = MenuOption(label="details", key="?")
BACK = MenuOption(label="back", key="?")
_ASKED_ABOUT: dict[type[ConfirmationDetails], str] = {
    EditConfirmation: "Edits need approval",
    ExecConfirmation: "Commands like this need approval",
    McpConfirmation: "MCP tools need approval",
    ExitPlanModeConfirmation: "Plans need approval",
}
_UNKNOWN = re.compile(r"not read-only: (\S+) is not in the list of commands that only read\Z")


def request_blocks(
    request: ConfirmationRequest, rows: int | None = DIFF_ROWS, place: str = ""
) -> tuple[Block, ...]:
    """The call, of a change at most so many rows, and why it is asked about. `place` says which
    subagent made it, and how many questions there are."""
    details = request.details
    after = [*_of_server(details)] if isinstance(details, McpConfirmation) else []
    after += _warnings(getattr(details, "warnings", ()))
    blocks = (
        *_call_blocks(request, rows, place),
        Lines(tuple(after), fold=True),
        Lines(tuple(_why(request)), clip=True),
        Lines(_problem(request), fold=True),
    )
    return tuple(each for each in blocks if isinstance(each, Markdown) or each.lines)


def _call_blocks(request: ConfirmationRequest, rows: int | None, place: str) -> Iterator[Block]:
    """The call as it would be carried out."""
    said: list[Line] = []
    exactly: list[Line] = []
    match request.details:
        case EditConfirmation() as details:
            what = "New file" if details.is_new_file else "Change"
            title = f"{what} {path_from_here(details.file_path)}"
            exactly += _difference(details.file_diff, rows, details.file_name)
        case ExecConfirmation() as details:
            title = _where(request)
            said += _whole(details.command, "  $ ")
        case McpConfirmation() as details:
            title = f"{details.server_name}/{details.tool_display_name}"
            exactly += _whole(_arguments(details.tool_args or request.args), "  ")
        case InfoConfirmation() as details:
            title = details.title
            said += _whole(details.prompt, "  ")
            exactly += (line(f"  {_inline(url)}", "accent") for url in details.urls)
        case ExitPlanModeConfirmation() as details:
            title = f"Plan ({Path(details.plan_path).name})"
        case AskUserConfirmation() as details:
            title = details.title
            said += (line(f"  {_inline(each.question)}") for each in details.questions)
        case _:
            assert_never(request.details)
    yield Lines(((), _title(title, place), *said), fold=True)
    change = isinstance(request.details, EditConfirmation)
    yield Lines(tuple(exactly), hang=DIFF_COLUMN if change else 0)
    if isinstance(request.details, ExitPlanModeConfirmation):
        yield from (Lines(((),)), Markdown(exact(request.details.plan)), Lines(((),)))


def _of_server(details: McpConfirmation) -> Iterator[Line]:
    """A tool's server, the server's description of the tool, and its changes since the approval."""
    if details.server:
        what, *more = details.server
        yield line("  The server is:", "dim")
        yield from _whole(what, "    ")
        if more:
            yield from _whole(f"with {', '.join(more)}", "    ")
    said = details.tool_description.strip()
    if len(said) > MAX_SAID:
        said = f"{said[:MAX_SAID]}… ({len(details.tool_description) - MAX_SAID:,} characters more)"
    if said:
        yield line("  What the server says of it:", "dim")
        yield from _whole(said, "    ")
    if details.changed:
        yield line("  ! It has changed since it was approved:", "warning")
        yield from _difference(details.changed)


def details_blocks(request: ConfirmationRequest, mode: str) -> tuple[Block, ...]:
    """The facts that a question does not show: the rule that asked, and what each lasting answer
    would allow, below the whole call where that was cut."""
    rule = request.decision.rule
    priority = "" if rule is None else f", priority {rule.final_priority:.3f}"
    facts = [
        ("tool", request.tool_name),
        ("mode", mode_word(mode)),
        ("rule", f"{request.decision.rule_source}{priority}" if rule else "none matches"),
        ("reason", request.reason),
    ]
    if isinstance(request.details, ExitPlanModeConfirmation):
        facts.append(("file", request.details.plan_path))
    facts += (("part", part) for part in _parts(request))
    facts += ((_TEXTS[Outcome(each.outcome)], each.words) for each in request.lasting)
    if not isinstance(request.details, ExecConfirmation | EditConfirmation):
        facts.append(("arguments", _arguments(request.args)))
    told = [row for name, text in dict.fromkeys(facts) for row in _whole(text, f"  {name}: ")]
    whole = request_blocks(request, None)
    above = whole if whole != request_blocks(request) else ()
    return (*above, Lines(tuple(told), fold=True))


_TEXTS = {outcome: text for outcome, _, text in ANSWERS}


def _difference(diff: str, rows: int | None = DIFF_ROWS, name: str = "") -> Iterator[Line]:
    """The lines of a diff, and of a very long one that there are more."""
    shown = diff_lines(diff, name)
    yield from shown[:rows]
    if rows is not None and len(shown) > rows:
        yield line(f"  … {count_noun(len(shown) - rows, 'more line')} · ? shows all", "warning")


def _warnings(warnings: tuple[str, ...]) -> Iterator[Line]:
    """Warnings about deceptive text in a call."""
    return (line(f"  ! {one_line(each)}", "warning") for each in warnings)


def choices(
    request: ConfirmationRequest, *, details: bool = False, trusted: bool = True
) -> tuple[Menu, tuple[Answer, ...]]:
    """The menu for a request, and the answer of each option: only answers that the request takes,
    at most MOST of them. With `details` it is the menu below these, which has the others, too. In a
    folder that is not `trusted`, an edit can only be allowed once, which the answer says."""
    plan = request.details if isinstance(request.details, ExitPlanModeConfirmation) else None
    options: list[MenuOption] = []
    answers: list[Answer] = []
    offered = [
        each
        for each in ANSWERS
        if each[0] in request.outcomes and not _is_said_clearer(each[0], request)
    ]
    usual = offered
    for rare in RARE:
        if len(usual) > MOST:
            usual = [each for each in usual if each[0] is not rare]
    offered = [*usual, *(each for each in offered if details and each not in usual)]
    for outcome, key, _ in offered:
        if plan and outcome is Outcome.PROCEED_ONCE:
            for mode, letter, label in _AFTER_PLAN:
                if mode in ("default", "autoEdit", plan.next_mode):
                    options.append(
                        MenuOption(label=label, key=letter, detail=f"{mode_word(mode)} mode")
                    )
                    answers.append(Answer(outcome, Payload(approval_mode=mode)))
            continue
        number = _FULL_NUMBERS.get(outcome, 0) if request.by_hook and not plan else 0
        label = _answer_label(request, outcome)
        once = outcome is Outcome.PROCEED_ONCE and isinstance(request.details, EditConfirmation)
        why = "" if trusted or not once or request.by_hook else UNTRUSTED
        options.append(MenuOption(label=label, key=key, number=number, detail=why))
        answers.append(Answer(outcome))
    title = "Carry out this plan?" if plan else "Allow this?"
    more = BACK if details else DETAILS
    return Menu(title=title, options=tuple(options), more=more), tuple(answers)


def _answer_label(request: ConfirmationRequest, outcome: Outcome) -> str:
    """An answer, with the calls it would allow: cut where they take too much room."""
    words = next((each for each in request.lasting if each.outcome == outcome), None)
    if words is None:
        return _TEXTS[outcome]
    allowed = "edits (auto_edit mode)" if words.mode else one_line(words.words)
    whole = ""
    for text in (_TEXTS[outcome], _TEXTS[outcome].split()[0]):
        whole = f"{text}: {allowed}"
        if width(whole) <= COLUMNS:
            return whole
    return plain([clip_line(line(whole), COLUMNS)])


def _is_said_clearer(outcome: Outcome, request: ConfirmationRequest) -> bool:
    """True when another answer is the same one with clearer words: of a server's tool, "always" is
    always this tool."""
    return (
        outcome is Outcome.PROCEED_ALWAYS
        and isinstance(request.details, McpConfirmation)
        and Outcome.PROCEED_ALWAYS_TOOL in request.outcomes
    )


def question_menu(question: Question) -> Menu | None:
    """The menu for a question of the model's; None for one that is answered in words. The question
    itself is to be read above it."""
    title = question.header or "Your answer"
    match question.type:
        case "yesno":
            options = (MenuOption(label="Yes", key="y"), MenuOption(label="No", key="n"))
            return Menu(title=title, options=options)
        case "choice":
            options = tuple(map(_menu_option, question.options))
            checked = frozenset[int]() if question.multi_select else None
            if question.server:
                search = "" if len(options) > LETTERED and checked is None else None
                return Menu(title=title, options=options, checked=checked, search=search)
            if len(options) < MOST:
                return Menu(title=title, options=(*options, OTHER), checked=checked)
            return Menu(title=title, options=options, more=OTHER, checked=checked)
        case "text":
            return None
        case _:
            assert_never(question.type)


LETTERED = 9
"""Most options of a server's question that are picked by number; more are searched."""
MASK = "••••••"
OTHER = MenuOption(label="Something else", key="o", detail="in your own words")


def _menu_option(given: QuestionOption) -> MenuOption:
    """An option of the model's, cut to what an answer may be."""
    whole = f"{given.label}  {given.description}"
    detail = given.description if width(whole) <= COLUMNS else ""
    return MenuOption(label=plain([clip_line(line(given.label), COLUMNS)]), detail=detail)


def _long_options(question: Question) -> Iterator[Line]:
    """Options that do not fit in an answer, whole."""
    for each in question.options:
        if width(f"{each.label}  {each.description}") > COLUMNS:
            told = f": {each.description}" if each.description else ""
            yield line(f"  · {one_line(each.label + told, MAX_SAID)}", "dim")


def _title(text: str, place: str = "") -> Line:
    after = line(f"  ({place})", "dim") if place else ()
    return (("warning", "? "), *line(_inline(text), "bold"), *after)


def _inline(text: str) -> str:
    """All of a text on one line, nothing in it hidden."""
    return escaped(exact(text))


def _whole(text: str, first: str) -> list[Line]:
    """All of a text, line by line, nothing in it hidden."""
    rows = exact(text).expandtabs(TAB).split("\n")
    rest = " " * len(first)
    return [(("dim", rest if index else first), ("", row)) for index, row in enumerate(rows)]


def _where(request: ConfirmationRequest) -> str:
    directory = request.args.get("directory")
    where = f" in {directory}" if isinstance(directory, str) and directory else ""
    background = ", in the background" if request.args.get("is_background") else ""
    return f"Run a command{where}{background}"


def _arguments(args: dict[str, Any]) -> str:
    return msgspec.json.format(msgspec.json.encode(args), indent=2).decode("utf-8")


def _parts(request: ConfirmationRequest) -> tuple[str, ...]:
    """The parts of a command that it is asked about, where these are not all of it."""
    return () if request.parts == (request.args.get("command"),) else request.parts


def _why(request: ConfirmationRequest) -> list[Line]:
    """The reason of a question in one line; the rest of it is for the details."""
    if isinstance(request.details, ExecConfirmation) and (parts := _parts(request)):
        told = ", ".join(parts)
        if width(told) > COLUMNS:  # the whole command is above
            told = ", ".join(map(_shorten_part, parts))
        return [line(f"  Asked because of: {one_line(told, MAX_SAID)}", "dim")]
    return [line(f"  {one_line(_reason(request))}", "dim")] if request.reason else []


def _shorten_part(part: str) -> str:
    """The words of a command before its first option."""
    words = part.split()
    end = next((at for at, each in enumerate(words) if each.startswith("-") and at), len(words))
    return part if end == len(words) else f"{' '.join(words[:end])} …"


def _problem(request: ConfirmationRequest) -> tuple[Line, ...]:
    if not request.problem:
        return ()
    return ((("warning", "  ! "), *line(one_line(request.problem), "warning")),)


def _reason(request: ConfirmationRequest) -> str:
    """The reason of a question; where the rule is written is for the details."""
    rule, asked = request.decision.rule, _ASKED_ABOUT.get(type(request.details), "")
    if rule is None:
        return asked or _capital(request.reason)
    if not request.reason.startswith(known := rule_decision(rule).reason):
        return _capital(request.reason)
    more = request.reason.removeprefix(known).lstrip("; ")
    if unknown := _UNKNOWN.match(more):
        return f"Not a known read-only command: {unknown[1]}"
    if more:
        return _capital(more)
    author = "" if rule.author == "default" else f" ({rule.author} policy)"
    return f"{asked or 'This needs approval'}{author}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def may_be_asked_about(call: ShownCall, toolset: "Toolset") -> bool:
    """True for a call that waits for the person, or will as far as the policy says."""
    if call.status == "awaiting_approval":
        return True
    found = toolset.registry.find_call(call.name, dict(call.args))
    if found is None or call.status not in ("", "validating"):
        return False
    entry, args = found
    asked = call_for_policy(entry, args)
    return toolset.authority.decide(asked).outcome is PolicyOutcome.ASK_USER


REASON = "What should the model do instead?"
REASON_HINT = "Enter on an empty line stops"


class ApprovalDialog:
    """Puts questions on a screen, one after the other, whoever has them. `own` are ids of calls
    that the person made."""

    def __init__(self, screen: Screen) -> None:
        self.own: set[str] = set()
        self._screen = screen
        self._turn = asyncio.Lock()
        self._number = 0
        self._behind: set[str] = set()
        self._asked: set[str] = set()

    async def answer(
        self,
        request: ConfirmationRequest,
        show: Callable[[tuple[Block, ...]], None],
        mode: str,
        waiting: Callable[[], list[str]] = list,
        *,
        trusted: bool = True,
    ) -> Answer:
        """The person's answer to a call that waits in a mode. `waiting` are ids of all calls that
        are to be asked about; `trusted`: the folder is. Dismissing the question is a no, and a no
        without words stops the turn."""
        async with self._turn:
            self._asked.add(request.call_id)
            place = self._place(request.call_id, {*waiting()} - self._asked)
            place = ", ".join(filter(None, (_inline(request.agent), place)))
            show(request_blocks(request, place=place))
            details = False
            while True:
                menu, answers = choices(request, details=details, trusted=trusted)
                picked = await self._screen.choose(menu)
                if not picked or min(picked) < len(answers):
                    break
                details = not details
                if details:
                    show(details_blocks(request, mode))
            answer = answers[min(picked)] if picked else Answer(Outcome.CANCEL)
            if answer.outcome is not Outcome.CANCEL:
                return answer
            reason = await self._screen.ask_text(REASON, REASON_HINT) if picked else None
            return Answer(Outcome.CANCEL, Payload(reason=reason or None))

    def forget_calls(self) -> None:
        """The calls that were asked about have ended: later ones may have the same ids."""
        self._asked.clear()
        self._behind = set()

    def _place(self, call_id: str, behind: set[str]) -> str:
        """`2 of 3`: the number of a question, counted from the first behind which others waited."""
        self._number = self._number + 1 if call_id in self._behind else 1
        self._behind = behind
        count = self._number + len(behind)
        return f"{self._number} of {count}" if count > 1 else ""

    async def ask(
        self, questions: tuple[Question, ...], show: Callable[[tuple[Block, ...]], None]
    ) -> Answers | None:
        """The answers to questions of the model or a server; None when one was dismissed."""
        answers: dict[int, str] = {}
        async with self._turn:
            for index, question in enumerate(questions):
                count = len(questions)
                place = f"{index + 1} of {count}" if count > 1 else ""
                first, *more = exact(question.question).split("\n")
                shown = (
                    (),
                    _title(first, place),
                    *(line(f"  {each}", "bold") for each in more),
                    *_long_options(question),
                )
                show((Lines(shown, fold=True),))
                found = await self._one(question)
                rows = (MASK,) if found and question.secret else (found or "").splitlines()
                told = [line(f"  {row}", "accent") for row in rows] or [line("  no answer", "dim")]
                show((Lines(tuple(told), fold=True),))
                if found is None:
                    return None
                if found:
                    answers[index] = found
        return answers

    async def _one(self, question: Question) -> str | None:
        menu = question_menu(question)
        if menu is None:
            return await self._screen.ask_text(
                _label(question), question.placeholder, secret=question.secret
            )
        picked = await self._screen.choose(menu)
        if picked is None:
            return None
        if question.type == "yesno":
            return menu.options[min(picked)].label
        given = len(question.options)
        labels = [question.options[each].label for each in sorted(picked) if each < given]
        if given in picked:
            other = await self._screen.ask_text(_label(question), question.placeholder)
            if other is None:
                return None
            labels += [other] if other else []
        return ", ".join(labels)


def _label(question: Question) -> str:
    return f"{question.header or 'Your answer'}:"
