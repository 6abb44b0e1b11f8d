"""The parts of a model's context window: /context."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from alhena.agent.runner import Upcoming, upcoming
from alhena.agent.toolset.workbench import window_of
from alhena.chat.estimates import content_tokens, part_tokens, text_tokens, value_tokens
from alhena.display_text import one_line
from alhena.frontends.terminal.drawing.lines import Line, line
from alhena.memory.files import MemoryKind
from alhena.wire.content import Content, Part

if TYPE_CHECKING:
    from alhena.frontends.terminal.commands import CommandContext
    from alhena.memory.files import LoadedMemory

LARGEST = 10
NAME_COLUMNS = 200
SYSTEM, TOOLS, MEMORY = "System prompt", "Tools", "Memory"
CONVERSATION, RESULTS = "Conversation", "Results"
KINDS = (SYSTEM, TOOLS, MEMORY, CONVERSATION, RESULTS)


class Item(msgspec.Struct, frozen=True):
    """A part of the window, of one of the KINDS."""

    kind: str
    name: str
    tokens: int


async def context(context: "CommandContext", _rest: str) -> list[Line]:
    """/context: the parts of the context window, by their sizes."""
    bench, model = context.workbench, context.identity[1]
    request = await upcoming(context.agent)
    files = () if bench.memory is None else bench.memory.memory.files
    items = [each for each in window_items(request, files) if each.tokens]
    estimated = sum(each.tokens for each in items)
    used, how = estimated, "estimated; the service has counted nothing yet"
    if request.measured is not None:
        length, counted = request.measured
        later = sum(map(content_tokens, request.contents[length:]))
        used, how = (
            counted + later,
            f"{counted:,} counted by the service, {later:,} estimated since",
        )
    window = window_of(bench, model)
    lines = [
        line(f"Context: {used:,} of {window:,} tokens ({used / window:.1%})", "bold"),
        line(f"  {how}", "dim"),
    ]
    lines += (_row(Item(kind, kind, _sum(items, kind)), estimated) for kind in KINDS)
    lines.append(line("Largest", "bold"))
    largest = sorted(items, key=lambda each: each.tokens, reverse=True)[:LARGEST]
    return [*lines, *(_row(each, estimated) for each in largest)]


def _sum(items: Iterable[Item], kind: str) -> int:
    return sum(each.tokens for each in items if each.kind == kind)


def _row(item: Item, whole: int) -> Line:
    share = f"{item.tokens / max(whole, 1):>4.0%}"
    name = one_line(item.name, NAME_COLUMNS)
    return (("dim", f"  {item.tokens:>9,} {share}  "), *line(name))


def window_items(request: Upcoming, files: "Iterable[LoadedMemory]") -> Iterator[Item]:
    """The parts of the next request with estimates of their tokens. The project's memory is in its
    first content, all other memory in the system prompt."""
    system = request.config.system_instruction
    tokens = 0 if system is None else content_tokens(system)
    memory = 0
    for each in files:
        size = int(text_tokens(each.block))
        if each.kind is MemoryKind.PROJECT:
            memory += size
        else:
            tokens -= size
        yield Item(MEMORY, str(each.path), size)
    yield Item(SYSTEM, "system prompt", max(tokens, 0))
    for tool in request.config.tools or ():
        for declared in tool.function_declarations or ():
            yield Item(TOOLS, declared.name, int(value_tokens(declared)))
    told: dict[str, str] = {}
    for content in request.contents:
        for item in _content_items(content, told):
            less = min(memory, item.tokens) if item.kind == CONVERSATION else 0
            memory -= less
            yield msgspec.structs.replace(item, tokens=item.tokens - less)


def _content_items(content: Content, told: dict[str, str]) -> Iterator[Item]:
    """A content's results and calls, and the rest of it in one. `told` has the calls by their
    ids."""
    words = list[Part]()
    for part in content.parts:
        call, response = part.function_call, part.function_response
        if call is not None:
            about = next((each for each in (call.args or {}).values() if isinstance(each, str)), "")
            name = f"{call.name} {about}"
            told[call.id or ""] = name
            yield Item(CONVERSATION, f"call: {name}", int(part_tokens(part)))
        elif response is not None:
            name = told.get(response.id or "", response.name)
            yield Item(RESULTS, f"result: {name}", int(part_tokens(part)))
        else:
            words.append(part)
    if words:
        who = "answer" if content.role == "model" else "prompt"
        text = next((part.text for part in words if part.text and not part.thought), "")
        tokens = int(sum(map(part_tokens, words)))
        yield Item(CONVERSATION, f"{who}: {text or 'media'}", tokens)
