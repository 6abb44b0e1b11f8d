"""However much is printed, the screen answers keys meanwhile."""

import asyncio

from alhena.frontends.terminal.app import MAX_ROWS
from alhena.frontends.terminal.drawing.lines import Lines, Markdown, line
from alhena.frontends.terminal.drawing.view import View
from tests.frontends.terminal.test_screen import Shown, Somebody, shown

MANY = 2_000


class Watching(Somebody):
    """Remembers what was written when something was done."""

    def __init__(self, made: Shown) -> None:
        super().__init__()
        self.made = made
        self.seen = ""

    def submit(self, text: str, *, early: bool = False) -> None:
        self.seen = self.made.written.getvalue()
        super().submit(text, early=early)


async def test_keys_are_heard_while_much_is_made_ready_and_written():
    async with shown() as made:
        somebody = Watching(made)
        made.screen.hands.attach(somebody)
        made.screen.update(View(), [Markdown("First of all.")])
        await made.until("First of all.")
        made.screen.update(View(), [Markdown(f"so *many* {number}.") for number in range(MANY)])
        for _ in range(10):  # steps of the loop; each block takes one
            await asyncio.sleep(0)
        made.keys.send_text("now\r")
        await somebody.until("submit now")
        assert f"so many {MANY - 1}." not in somebody.seen
        text = await made.closed()
    places = [text.index(f"so many {number}.") for number in range(MANY)]
    assert places == sorted(places)


async def test_one_drawing_does_not_write_everything():
    rows = MAX_ROWS // 4
    async with shown() as made:
        chunks: list[int] = []
        write = made.written.write

        def counted(text: str) -> int:
            chunks.append(text.count("row of it"))
            return write(text)

        made.written.write = counted
        block = Markdown("\n\n".join(["row of it"] * rows))
        made.screen.update(View(), [block] * 40)
        made.screen.update(View(), [Lines((line("the end"),))])
        await made.until("the end")
        assert sum(chunks) == 40 * rows
        assert max(chunks) <= MAX_ROWS + rows
        assert "row of it" in await made.closed()


async def test_what_is_not_written_yet_is_written_when_the_screen_closes():
    async with shown() as made:
        made.screen.update(View(), [Lines((line(f"row {number}."),)) for number in range(MANY)])
        text = await made.closed()
    assert [f"row {number}." in text for number in range(MANY)] == [True] * MANY
