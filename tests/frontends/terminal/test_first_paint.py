"""Modules loaded before the prompt is painted: the screen's, none of the agent's."""

from tests.test_fast_paths import loaded, rooms, third_party

PAINT = """
import asyncio, io
from alhena.frontends.terminal import run
from alhena.frontends.terminal.app import TerminalScreen
from alhena.frontends.terminal.completion.completer import PromptCompleter
from alhena.frontends.terminal.entry import PromptHistory
from pathlib import Path
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

class Painted(asyncio.Event):
    def set(self):
        if not self.is_set():
            painted.update(sys.modules)
        super().set()

async def paint():
    with create_pipe_input() as keys:
        screen = TerminalScreen(
            keys,
            Vt100_Output(io.StringIO(), lambda: Size(24, 80), enable_cpr=False),
            history=PromptHistory({"HOME": "."}, Path("."), print),
            completer=PromptCompleter(Path(".")),
        )
        screen.painted = Painted()
        drawing = asyncio.create_task(screen.run())
        await screen.painted.wait()
        drawing.cancel()
        await asyncio.wait({drawing})

painted = set()
asyncio.run(paint())
for name in set(sys.modules) - painted - before:
    del sys.modules[name]
"""


def test_the_prompt_is_painted_before_anything_of_the_agent_is_loaded():
    modules = loaded("-m", "demo", body=PAINT)
    assert third_party(modules) == {"msgspec", "prompt_toolkit", "typing_extensions", "wcwidth"}
    found = {name.split(".")[1] for name in rooms(modules) if "." in name}
    heavy = {"agent", "bus", "chat", "hooks", "mcp", "models", "scheduler", "telemetry", "tools"}
    assert not found & heavy
    assert "frontends" in found
