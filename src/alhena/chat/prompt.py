"""The system prompt, composed from the texts in `prompts/`, and the context of a session."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from alhena.wire.content import MODEL, USER, Content, Part, text_content
from alhena.wire.request import FunctionDeclaration

ACKNOWLEDGEMENT = "Got it. Thanks for the context!"

_FRAMES = ("loaded_context", "project_context", "global_context")
_PROMPTS = Path(__file__).parent / "prompts"


def system_instruction(
    declarations: Sequence[FunctionDeclaration], *, headless: bool, plan: bool, memory: str = ""
) -> Content:
    """The system instruction of a session; it lists the tools that are there. `memory` is what the
    user wants every session to know (CHAT-04)."""
    mode = "".join(
        _text(name) for name, wanted in (("plan", plan), ("headless", headless)) if wanted
    )
    tools = "\n".join(
        f"- {item.name}: {_first_sentence(item.description)}" for item in declarations
    )
    text = _text("system").replace("${mode}", mode)
    text = text.replace("${tools}", tools or "There are none: answer from what you are told.")
    if memory:
        text = f"{text.strip()}\n\n{_with_memory('user_memory', memory)}"
    return Content(role=USER, parts=(Part(text=text.strip()),))


class EnvironmentFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a session tells the model about where it runs. `date` is in words."""

    date: str
    platform: str
    directories: tuple[str, ...]
    folder_structure: str
    project_memory: str = ""
    full_context: str = ""


def environment_context(facts: EnvironmentFacts) -> tuple[Content, Content]:
    """The two contents a session starts with: the environment, and its acknowledgement (CHAT-05).

    `project_memory` is what the project's context files say. `full_context`, when there is any,
    holds the text of the workspace's files and comes last.
    """
    directories = "\n".join(f"  - {directory}" for directory in facts.directories)
    text = (
        "This is alhena. We are setting up the context for our chat.\n"
        f"Today's date is {facts.date}.\n"
        f"My operating system is: {facts.platform}\n"
        f"I'm working in:\n{directories}\n"
        f"Here is the folder structure of the current working directories:\n\n"
        f"{facts.folder_structure}"
    )
    if facts.project_memory:
        text += f"\n\n{_with_memory('project_memory', facts.project_memory)}"
    texts = (text, facts.full_context) if facts.full_context else (text,)
    return text_content(USER, *texts), text_content(MODEL, ACKNOWLEDGEMENT)


def changed_memory(text: str) -> Part:
    """What goes before a prompt when the project's context files say something else now."""
    return Part(text=_with_memory("changed_memory", text))


def _with_memory(name: str, memory: str) -> str:
    """A text of `prompts/` around what memory files say, which cannot end its frame."""
    return _text(name).strip().replace("${memory}", unframed(memory))


def unframed(memory: str) -> str:
    """What memory files say, with nothing in it that could end the frame it is told in."""
    for tag in _FRAMES:
        memory = memory.replace(f"</{tag}>", f"&lt;/{tag}>")
    return memory


def told_of_project(contents: Iterable[Content]) -> str:
    """The text in which a conversation was last told what the project's context files say; "" for
    none."""
    texts = (part.text or "" for item in contents if item.role == USER for part in item.parts)
    return next((text for text in reversed(list(texts)) if "<project_context>" in text), "")


def _text(name: str) -> str:
    return (_PROMPTS / f"{name}.md").read_text(encoding="utf-8")


def _first_sentence(text: str) -> str:
    """The description up to its first full stop, on one line."""
    line = " ".join(text.split())
    end = line.find(". ")
    return line if end < 0 else line[: end + 1]
