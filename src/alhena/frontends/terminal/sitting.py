"""One sitting of a person with an agent, from opening to leaving."""

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from alhena.agent.agent import Agent
from alhena.agent.workbench import Workbench
from alhena.config.place import Place
from alhena.display_text import one_line
from alhena.frontends.cli.arguments import RunArguments
from alhena.frontends.here import place_here, session_settings
from alhena.frontends.terminal.asking import Consent
from alhena.frontends.terminal.conversation import Conversation
from alhena.frontends.terminal.lines import Block, Line, line
from alhena.frontends.terminal.screen import Screen, Status
from alhena.frontends.terminal.view import Totals, View, printed
from alhena.policy.model import ApprovalMode
from alhena.tools.registry import ToolRegistry
from alhena.version import __version__
from alhena.wire.content import Part

if TYPE_CHECKING:
    from alhena.agent.restoring import AgentCheckpoints


async def converse(
    arguments: RunArguments, screen: Screen, attach: Callable[[Conversation], None]
) -> None:
    """Works off what a person sends until the person leaves. `attach` is given the conversation as
    soon as it takes input. Raises ConfigError, CredentialsError and what else keeps a session from
    beginning."""
    conversation = Conversation(screen, time.monotonic)
    place = place_here(skip_trust=arguments.skip_trust, told=False)
    if place.undecided:
        from alhena.frontends.terminal.trusting import ask_trust

        if await ask_trust(place, screen.choose, conversation.print):
            place = place_here(skip_trust=arguments.skip_trust, told=False)
    if place.pending:
        from alhena.frontends.terminal.trusting import ask_changed

        if await ask_changed(place, screen.choose, conversation.print):
            place = place_here(skip_trust=arguments.skip_trust, told=False)
    async with _agent(arguments, place, conversation) as agent:
        greeting = f"alhena {__version__}  /help tells what can be done here"
        conversation.print([line(greeting, "dim")])
        if agent.workbench.resumed:
            from alhena.frontends.terminal.earlier import recalled

            conversation.view, blocks = await recalled(agent, conversation.view)
            screen.update(conversation.view, blocks)
            conversation.print([line(f"Session {agent.session_id} goes on.", "dim")])
        if arguments.prompt_interactive:
            conversation.submit(arguments.prompt_interactive)
        attach(conversation)
        await conversation.run(agent)


def _agent(arguments: RunArguments, place: Place, conversation: Conversation) -> Agent:
    asked = session_settings(arguments, place)
    return Agent(
        model=arguments.model,
        policy=arguments.policy_paths,
        approve=conversation.approve,
        settings=replace(
            asked,
            ask=conversation.ask,
            edit=conversation.edit,
            wait_for_servers=False,
            facts={**asked.facts, "output_format": "text"},
        ),
    )


class ToolTitles(Mapping[str, str]):
    """What people know the tools by, also those that are hidden for now or came later."""

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry

    def __getitem__(self, name: str) -> str:
        entry = self._registry.find(name, excluded=True)
        if entry is None:
            raise KeyError(name)
        return entry.tool.display_name

    def __iter__(self) -> Iterator[str]:
        return (tool.name for tool in self._registry.all_tools)

    def __len__(self) -> int:
        return len(self._registry.all_tools)


CYCLE = (ApprovalMode.DEFAULT, ApprovalMode.AUTO_EDIT, ApprovalMode.PLAN)
Clock = Callable[[], float]


class ShownSession:
    """A session with what the screen shows of it. `clock` gives seconds."""

    def __init__(self, screen: Screen, clock: Clock) -> None:
        self.view = View()
        self.keys = screen.keys
        self._screen = screen
        self._clock = clock
        self._started = clock()
        self._queue: deque[str] = deque()
        self._wake = asyncio.Event()
        self._leaving = False
        self._agent: Agent | None = None
        self._notes: list[Part] = []
        self._tasks = asyncio.TaskGroup()
        self._announced: dict[str, asyncio.Event] = {}
        self._consent = Consent(screen)
        self._failed = False
        self._proposing = False

    @property
    def agent(self) -> Agent:
        """The agent at work. Only while `run` runs."""
        if self._agent is None:
            raise RuntimeError("the conversation has not begun")
        return self._agent

    @property
    def workbench(self) -> Workbench:
        """Tools, policies and hooks of the session."""
        return self.agent.workbench

    @property
    def totals(self) -> Totals:
        """What was counted so far."""
        return self.view.totals

    @property
    def age_ms(self) -> float:
        """How long the session has lasted."""
        return (self._clock() - self._started) * 1000

    @property
    def identity(self) -> tuple[str, str]:
        """The session's id and its model."""
        return self.agent.session_id, self.agent.model

    @property
    def checkpoints(self) -> "AgentCheckpoints":
        """What the session can go back to."""
        return self.agent.checkpoints

    def tell(self, note: str) -> None:
        """Tells the model something, with the next prompt."""
        self._notes.append(Part(text=note))

    def propose(self) -> None:
        """Has the calls made again that the session went back to, when the command is over."""
        self._notes.clear()  # of what was taken back
        self._proposing = True

    def next_mode(self) -> None:
        """To the next approval mode; from yolo to the first."""
        if self._agent is not None:
            modes = self.workbench.modes
            at = CYCLE.index(modes.mode) if modes.mode in CYCLE else -1
            modes.switch(CYCLE[(at + 1) % len(CYCLE)])

    def toggle_yolo(self) -> None:
        """Everything runs without asking, or as by default again."""
        if self._agent is not None:
            modes = self.workbench.modes
            on = modes.mode is ApprovalMode.YOLO
            modes.switch(ApprovalMode.DEFAULT if on else ApprovalMode.YOLO)
            if not modes.allows_yolo:
                self.print([line("security.disableYoloMode turns yolo mode off.", "warning")])

    def show_status(self) -> None:
        """Brings the line at the foot up to date."""
        if self._agent is None:
            self._screen.show_status(Status(queued=tuple(self._queue)))
            return
        self._screen.show_status(
            Status(
                cwd=_shortened(self.workbench.workspace.cwd, os.environ),
                mode=self.workbench.modes.mode,
                model=self.agent.model,
                queued=tuple(self._queue),
            )
        )

    def print(
        self, lines: list[Line], group: str = "notice", *, clip: bool = False, hang: int = 2
    ) -> None:
        """Prints lines above the prompt."""
        self.view, blocks = printed(self.view, group, lines, clip=clip, hang=hang)
        self._show(blocks)

    def _show(self, blocks: tuple[Block, ...]) -> None:
        self._screen.update(self.view, blocks)


def _shortened(path: Path, environ: Mapping[str, str]) -> str:
    """A path with `~` for the home directory."""
    home = environ.get("HOME", "")
    text = str(path)
    if home and (text == home or text.startswith(f"{home.rstrip('/')}/")):
        text = f"~{text[len(home.rstrip('/')) :]}"
    return one_line(text)
