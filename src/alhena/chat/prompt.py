"""The system prompt, composed from the texts in `prompts/`, and the context of a session."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

from alhena.memory.files import without_tags
from alhena.tools.registry import declared_name
from alhena.wire.content import MODEL, USER, Content, EncodedContent, Part, text_content
from alhena.wire.request import FunctionDeclaration

ACKNOWLEDGEMENT = "Got it. Thanks for the context!"

SECTIONS = {
    "GEMINI_PROMPT_PREAMBLE": "preamble",
    "GEMINI_PROMPT_COREMANDATES": "mandates",
    "GEMINI_PROMPT_PRIMARYWORKFLOWS": "workflows",
    "GEMINI_PROMPT_PLANNINGWORKFLOW": "plan",
    "GEMINI_PROMPT_OPERATIONALGUIDELINES": "operation",
    "GEMINI_PROMPT_INTERACTION": "session",
    "GEMINI_PROMPT_SANDBOX": "sandbox",
    "GEMINI_PROMPT_GIT": "git",
    "GEMINI_PROMPT_TOOLS": "tools",
    "GEMINI_PROMPT_FINALREMINDER": "reminder",
}
"""The variables that take sections of the system prompt away, and the sections."""

OFF = frozenset({"0", "false"})
"""Values of a variable that turn its feature off."""

LISTED_ROOM = 2_800
"""Bytes for tools with what they do; those that do not fit are only named."""
NAMED_ROOM = 800
MAX_SENTENCE = 160
_MOST_OF_DESCRIPTION = 2_000

_SHELL = "run_shell_command"
_CHANGING = frozenset({_SHELL, "write_file", "replace", "smart_edit"})
FULL_CONTEXT = "--- Full File Context ---"
"""First line of the text of the workspace's files."""

MODE_SWITCHES = frozenset({"enter_plan_mode", "exit_plan_mode"})
PLANNING_BEGINS, PLANNING_ENDS = "Switching to Plan mode.", "Plan approved."
"""The beginnings of the answers of the tools that switch plan mode."""

GREETING = "This is alhena. We are setting up the context for our chat."
_PROMPTS = Path(__file__).parent / "prompts"


class PromptFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that the system prompt depends on, besides the tools: none of them changes while a
    session runs. `headless`: no person can be asked; with `unasked` nothing needs approval either.
    `sandbox`: description of the sandbox of commands, "" for none; `contained`: description of the
    container of this process. `repository`: the working directory is in a repository. `without`:
    sections to omit. `small`: the prompt for models with a small window."""

    headless: bool
    small: bool = False
    unasked: bool = False
    sandbox: str = ""
    contained: str = ""
    repository: bool = False
    without: frozenset[str] = frozenset()


def omitted_sections(environ: Mapping[str, str]) -> frozenset[str]:
    """The sections that variables take away."""
    return frozenset(
        section
        for variable, section in SECTIONS.items()
        if environ.get(variable, "").strip().lower() in OFF
    )


def compose_prompt(declarations: Sequence[FunctionDeclaration], facts: PromptFacts) -> str:
    """The system prompt, of the texts in `prompts/` that concern this session. It lists the tools
    that are there, and a line about a tool is included only if that is one of them; the same
    facts always give the same text (CHAT-04)."""
    names = frozenset(item.name for item in declarations)
    if facts.small:
        return _fill_template(_text("small"), names, {})
    values = {"tools": _listing(declarations), "sandbox": facts.sandbox or facts.contained}
    texts = (
        _fill_template(_text(part), names, values)
        for section, part in _parts(facts, names)
        if part and section not in facts.without
    )
    return "\n\n".join(text for text in texts if text)


def system_instruction(prompt: str, memory: str = "", servers: str = "") -> Content:
    """The system instruction: a prompt, after it what the user wants every session to know, and
    last what servers of tools have to say of them, framed."""
    text = prompt.strip()
    if memory:
        text = f"{text}\n\n{_with_memory('user_memory', memory)}"
    if servers:
        text = f"{text}\n\n{servers}"
    return Content(role=USER, parts=(Part(text=text),))


class EnvironmentFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Environment of a session, for its first message. `date` is in words; `temp` is the project's
    temporary directory; `folder_structure` may be "" to omit it."""

    date: str
    platform: str
    temp: str
    directories: tuple[str, ...]
    folder_structure: str
    project_memory: str = ""


def environment_context(facts: EnvironmentFacts) -> tuple[Content, Content]:
    """The two contents a session starts with: the environment, and its acknowledgement (CHAT-05).

    `project_memory` is what the project's context files say.
    """
    directories = "\n".join(f"  - {directory}" for directory in facts.directories)
    text = (
        f"{GREETING}\n"
        f"Today's date is {facts.date}.\n"
        f"My operating system is: {facts.platform}\n"
        f"The project's temporary directory is: {facts.temp}\n"
        f"I'm working in:\n{directories}"
    )
    if facts.folder_structure:
        text += (
            "\nHere is the folder structure of the current working directories:\n\n"
            f"{facts.folder_structure}"
        )
    if facts.project_memory:
        text += f"\n\n{_with_memory('project_memory', facts.project_memory)}"
    return text_content(USER, text), text_content(MODEL, ACKNOWLEDGEMENT)


def with_full_context(context: Content, text: str) -> Content:
    """The first content of a session with the text of the workspace's files after it."""
    return msgspec.structs.replace(context, parts=(*context.parts, Part(text=text)))


def memory_change_part(text: str) -> Part:
    """Part sent before a prompt after the project's context files changed."""
    return Part(text=_with_memory("changed_memory", text))


_PLANNING = "# Plan mode"
_NOT_PLANNING = "Plan mode is off: work as before it."


def plan_mode_text(names: Iterable[str], *, rules: bool = True) -> str:
    """The text that tells a model with tools of these names of plan mode; `rules`: also how to
    work in it."""
    if not rules:
        return f"{_PLANNING}\nPlan mode is on."
    return _fill_template(_text("plan"), frozenset(names), {})


def plan_mode_part(
    contents: Sequence[EncodedContent], text: Callable[[], str], *, planning: bool
) -> Part | None:
    """Part sent before a prompt where the conversation last told the model otherwise of plan mode;
    `text` describes the mode. The system prompt says nothing of it, so that it stays the same."""
    if _told_of_planning(contents) is planning:
        return None
    return Part(text=text() if planning else _NOT_PLANNING)


def _told_of_planning(contents: Sequence[EncodedContent]) -> bool:
    """True when plan mode is on, by all that a conversation says."""
    for entry in reversed(contents):
        if entry.content.role != USER:
            continue
        for part in reversed(entry.content.parts):
            text = part.text or _answer_of_switch(part)
            if text.startswith((f"{_PLANNING}\n", PLANNING_BEGINS)):
                return True
            if text.startswith((_NOT_PLANNING, PLANNING_ENDS)):
                return False
    return False


def _answer_of_switch(part: Part) -> str:
    """The answer to a call that switches plan mode; "" for any other part."""
    response = part.function_response
    if response is None or declared_name(response.name) not in MODE_SWITCHES:
        return ""
    return str((response.response or {}).get("output", ""))


def _with_memory(name: str, memory: str) -> str:
    """A text of `prompts/` around what memory files say, which cannot end its frame."""
    before, after = _around_memory(name)
    return f"{before}{without_tags(memory)}{after}"


def _around_memory(name: str) -> tuple[str, str]:
    """The text before and after the memory in a file of `prompts/`."""
    before, _, after = _text(name).strip().partition("${memory}")
    return before, after


def last_sent_memory(contents: Sequence[Content]) -> str | None:
    """The project's context files as last sent in the conversation; None if never sent."""
    changed, began = _around_memory("changed_memory"), _around_memory("project_memory")
    for index in range(len(contents) - 1, -1, -1):
        if contents[index].role != USER:
            continue
        for part in contents[index].parts:
            text = part.text or ""
            if text.startswith(changed[0]) and text.endswith(changed[1]):
                return text[len(changed[0]) : len(text) - len(changed[1])]
            if text.startswith(GREETING) and began[0] in text and text.endswith(began[1]):
                return text.partition(began[0])[2].removesuffix(began[1])
    return None


@cache
def _text(name: str) -> str:
    return (_PROMPTS / f"{name}.md").read_text(encoding="utf-8")


def _parts(facts: PromptFacts, names: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """The sections in their order, each with its text, "" where there is none for these facts and
    tools."""
    commands = _SHELL in names
    session = "interactive"
    if facts.headless:
        session = "headless_unasked" if facts.unasked else "headless"
    work = "workflows" if names & _CHANGING else "looking"
    around = "sandbox" if facts.sandbox else "contained" if facts.contained else "no_sandbox"
    return (
        ("preamble", "preamble_headless" if facts.headless else "preamble"),
        ("mandates", "mandates"),
        ("workflows", work),
        ("operation", "operation"),
        ("session", session),
        ("sandbox", around if commands else ""),
        ("git", "git" if commands and facts.repository else ""),
        ("tools", "tools"),
        ("reminder", "reminder"),
    )


def _fill_template(text: str, names: frozenset[str], values: Mapping[str, str]) -> str:
    """A text with its values and names of tools, without the lines that speak of tools that are not
    there, and without headings that nothing is left of."""
    kept: list[str] = []
    for line in text.strip().split("\n"):
        told = _line(line, names, values)
        if told is None:
            continue
        if told.startswith("# "):
            _drop_heading(kept)
        kept.append(told)
    _drop_heading(kept)
    return "\n".join(kept).strip()


def _drop_heading(lines: list[str]) -> None:
    """Takes a heading away that nothing but blank lines comes after."""
    last = len(lines) - 1
    while last >= 0 and not lines[last]:
        last -= 1
    if last >= 0 and lines[last].startswith("# "):
        del lines[last:]


def _line(line: str, names: frozenset[str], values: Mapping[str, str]) -> str | None:
    """A line with `${value}` and `${tool|tool}` told; None when none of the tools is there."""
    told = ""
    while "${" in line:
        before, _, rest = line.partition("${")
        inside, _, line = rest.partition("}")
        value = values.get(inside)
        if value is None:
            there = [f"`{name}`" for name in inside.split("|") if name in names]
            if not there:
                return None
            value = " or ".join((", ".join(there[:-1]), there[-1])) if there[1:] else there[0]
        told += before + value
    return told + line


def _listing(declarations: Sequence[FunctionDeclaration]) -> str:
    """The tools, a line each with what it is for, as many as there is room for."""
    lines: list[str] = []
    others: list[str] = []
    left = LISTED_ROOM
    for item in declarations:
        line = f"- {item.name}: {_first_sentence(item.description)}"
        left -= _size(line) + 1
        if left >= 0:
            lines.append(line)
        else:
            others.append(item.name)
    if others:
        named = 0
        room = NAMED_ROOM
        while named < len(others) and len(others[named]) + 2 <= room:
            room -= len(others[named]) + 2
            named += 1
        more = f", and {len(others) - named} more" if named < len(others) else ""
        lines.append(f"- also, as declared: {', '.join(others[:named])}{more}")
    return "\n".join(lines) or "There are none: answer from what you know."


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _first_sentence(text: str) -> str:
    """The description up to its first full stop, on one line."""
    line = " ".join(text[:_MOST_OF_DESCRIPTION].split())
    end = line.find(". ")
    line = line if end < 0 else line[: end + 1]
    if len(line) <= MAX_SENTENCE:
        return line
    cut = line[:MAX_SENTENCE]
    return f"{(cut.rpartition(' ')[0] or cut).rstrip(',:;')} …"
