"""Long conversations: the cost of an estimate per turn, and of masking many old results."""

import tempfile
import time
from functools import partial
from pathlib import Path

from alhena.agent.compression import save_outputs
from alhena.chat.chat import Chat, Outlets
from alhena.chat.compression import CompressionOptions, CompressionServices, ContextRoom
from alhena.chat.history import History
from alhena.chat.masking import MaskingLimits, mask_results, prefix_sums, to_mask
from alhena.chat.summary import find_cut
from alhena.chat.turn import ModelTraits
from alhena.models.providers.demo import DemoGenerator
from alhena.tools.output_store import OutputStore
from alhena.wire.content import MODEL, USER, Content, FunctionCall, FunctionResponse, Part
from alhena.wire.request import GenerateContentConfig
from bench.measure import median_ms, row, timed_ms

ENTRIES = 10_000
OUTPUTS = 1_000
RESULT = "a line of some forty characters, as logs have\n" * 40
ROUNDS = 200


def run() -> None:
    _turns()
    _masking()


def _turns() -> None:
    history = History(_contents(ENTRIES // 2))
    chat = Chat(
        DemoGenerator(),
        ModelTraits(name="m"),
        GenerateContentConfig(),
        history,
        Outlets(lambda _event: None, _at_once),
    )
    services = CompressionServices(
        ask=_never,
        keep=lambda texts: [None] * len(texts),
        limit=lambda _name: 100_000_000,
        emit=lambda _event: None,
    )
    room = ContextRoom(chat, 0, CompressionOptions(masking=None), services)
    _carry(room, _response(0))
    taken: list[float] = []
    for index in range(ROUNDS):
        history.add_model(_call(index))
        begun = time.perf_counter()
        _carry(room, _response(index))
        taken.append(time.perf_counter() - begun)
        history.add_user(_response(index).parts)
    value = median_ms(taken)
    name = f"compression: estimate of a turn at {ENTRIES:,} contents"
    row(name, f"{value:.3f} ms", "", None, "<= 0.2 ms", ok=value <= 0.2)
    entries = history.contents
    sums = prefix_sums(entries)
    value = timed_ms(lambda: find_cut(entries, 0, sums), 15)
    row("compression: where to cut it", f"{value:.1f} ms", "", None, "<= 30 ms", ok=value <= 30)


def _masking() -> None:
    entries = History(_contents(OUTPUTS)).contents
    limits = MaskingLimits(protected=0, latest=False)
    plan = to_mask(entries, limits)
    assert sum(map(len, plan.values())) == OUTPUTS
    value = timed_ms(lambda: to_mask(entries, limits), 15)
    name = "compression: which of 1,000 to mask"
    row(name, f"{value:.1f} ms", "", None, "<= 10 ms", ok=value <= 10)
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder, "plain")
        plain.mkdir()
        begun = time.perf_counter()
        for index in range(OUTPUTS):
            (plain / f"{index}").write_text(RESULT, encoding="utf-8")
        base = (time.perf_counter() - begun) * 1000
        store = OutputStore(Path(folder, "kept"), "s")
        begun = time.perf_counter()
        changed = mask_results(
            {i: entries[i].content for i in plan}, plan, partial(save_outputs, store)
        )
        assert changed.keys() == plan.keys()
        value = (time.perf_counter() - begun) * 1000
    name = f"compression: {OUTPUTS:,} results masked"
    ratio = value / base
    row(name, f"{value:.0f} ms", f"plain files {base:.0f} ms", ratio, "<= 4", ok=ratio <= 4)


def _carry(room: ContextRoom, content: Content) -> None:
    """Makes room, which needs no waiting here."""
    try:
        room.make(content.parts, "p").send(None)
    except StopIteration:
        return
    raise AssertionError("something was waited for")


def _contents(pairs: int) -> list[Content]:
    made = [Content(role=USER, parts=(Part(text="go"),))]
    for index in range(pairs):
        made += [_call(index), _response(index)]
    return made


def _call(index: int) -> Content:
    call = FunctionCall(id=f"c{index}", name="read_file", args={"path": f"{index}.py"})
    return Content(role=MODEL, parts=(Part(function_call=call),))


def _response(index: int) -> Content:
    response = FunctionResponse(id=f"c{index}", name="read_file", response={"output": RESULT})
    return Content(role=USER, parts=(Part(function_response=response),))


async def _at_once() -> None:
    """Returns at once."""


async def _never(*_: object) -> str:
    raise AssertionError("nobody is asked")
