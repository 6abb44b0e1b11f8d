"""A person and an agent: prompts in, commands, questions and answers out."""

import asyncio
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Self

import msgspec

from alhena.agent.between_prompts import compress
from alhena.agent.run import EventStream
from alhena.agent.runner import SessionRunner, drive_start
from alhena.agent.toolset.toolset import Toolset, window_of
from alhena.display_text import one_line
from alhena.errors import AlhenaError
from alhena.events import (
    ApiRequestEvent,
    ApiResponseEvent,
    CompressedEvent,
    ConfirmationRequestEvent,
    ErrorEvent,
    Event,
    FinishedEvent,
    ModelFallbackEvent,
    ToolCallResponseEvent,
    UserMessageEvent,
)
from alhena.frontends.shared.current_settings import SessionFolder
from alhena.frontends.shared.listings import mode_word
from alhena.frontends.shared.mentions import PromptCommands, attach_mentions, shell_note
from alhena.frontends.terminal import commands
from alhena.frontends.terminal.console import NO_EDITOR, ConsoleFactory, Use, editor_command
from alhena.frontends.terminal.dialogs.approval import ApprovalDialog, may_be_asked_about
from alhena.frontends.terminal.drawing.call_result import ASK, PagerBlocks
from alhena.frontends.terminal.drawing.lines import Block, Line, line, warning_line
from alhena.frontends.terminal.drawing.remedies import sitting_words
from alhena.frontends.terminal.drawing.screen import FootStatus, Screen
from alhena.frontends.terminal.drawing.view import (
    ToolTitles,
    View,
    advance,
    end_run,
    print_lines,
    prompt_lines,
    usage_words,
)
from alhena.frontends.terminal.ide import EditorLink
from alhena.frontends.terminal.looks.footer import FooterFacts, FooterRequest, shown_items
from alhena.frontends.terminal.prompt_queue import PromptQueue
from alhena.frontends.terminal.work_commands import asks_to_end, running_commands
from alhena.policy.model import ApprovalMode
from alhena.scheduler.question import ConfirmationRequest, Verdict
from alhena.scheduler.states import CompletedToolCall
from alhena.session.store import project_store
from alhena.tools.builtin.ask_user import Answers
from alhena.tools.contract import ProposedContents, Question, TerminalOutput, ToolFailure
from alhena.tools.edit.external_editor import edit_externally
from alhena.wire.content import Part

STATUS_EVENTS = ModelFallbackEvent | ApiResponseEvent | CompressedEvent | ToolCallResponseEvent
"""Events that change the line at the foot."""
CYCLE = (ApprovalMode.DEFAULT, ApprovalMode.AUTO_EDIT, ApprovalMode.PLAN)
Clock = Callable[[], float]


class ShownSession:
    """A session with what the screen shows of it. `clock` gives seconds."""

    def __init__(
        self,
        screen: Screen,
        clock: Clock,
        folder: SessionFolder,
        console: ConsoleFactory | None = None,
    ) -> None:
        self.view = View()
        self.keys = screen.keys
        self.screen = screen
        self._clock = clock
        self._started = clock()
        self.queue = PromptQueue(self.show_status)
        self.take_back = self.queue.take_back
        self._leaving = False
        self._why = ""
        self._agent: SessionRunner | None = None
        self._notes: list[Part] = []
        self._tasks = asyncio.TaskGroup()
        self._announced: dict[str, asyncio.Event] = {}
        self._consent = ApprovalDialog(screen)
        self._failed = self.working = False
        self._leave_asked: asyncio.Task[None] | None = None
        self._shell_mode = False
        self._proposing = False
        self.console = None if console is None else console(self._use_of_terminal)
        self.folder = folder
        self._facts = FooterFacts(self.show_status)
        self.pages = PagerBlocks()
        self.prompts = PromptCommands(lambda: self.toolset, commands.NAMES)
        self.ide = EditorLink(self.print)

    @property
    def agent(self) -> SessionRunner:
        """The agent at work. Only while `run` runs."""
        if self._agent is None:
            raise RuntimeError("the conversation has not begun")
        return self._agent

    @property
    def toolset(self) -> Toolset:
        """Tools, policies and hooks of the session."""
        return self.agent.toolset

    @property
    def age_ms(self) -> float:
        """Age of the session."""
        return (self._clock() - self._started) * 1000

    @property
    def identity(self) -> tuple[str, str]:
        """The session's id and its model."""
        return self.agent.session_id, self.agent.model

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
            modes = self.toolset.authority.modes
            cycle = [mode for mode in CYCLE if modes.allows(mode)]
            at = cycle.index(modes.mode) if modes.mode in cycle else -1
            modes.switch(cycle[(at + 1) % len(cycle)])
            if not modes.may_act and modes.mode is ApprovalMode.PLAN:
                self._print_untrusted("auto_edit")

    def toggle_yolo(self) -> None:
        """Everything runs without asking, or as by default again."""
        if self._agent is not None:
            modes = self.toolset.authority.modes
            on = modes.mode is ApprovalMode.YOLO
            modes.switch(ApprovalMode.DEFAULT if on else ApprovalMode.YOLO)
            if not modes.may_act:
                self._print_untrusted("yolo")
            elif not modes.allows_yolo:
                self.print([line("security.disableYoloMode turns yolo mode off.", "warning")])

    def _print_untrusted(self, mode: str) -> None:
        self.print([warning_line(f"Mode {mode} needs a trusted folder. To trust this one: /trust")])

    def show_status(self) -> None:
        """Brings the line at the foot up to date."""
        if self._agent is None:
            self.screen.show_status(FootStatus(queued=self.queue.texts))
            return
        bench, ui = self.toolset, self.folder.place.settings.ui
        cwd, hidden = shorten_path(bench.workspace.cwd, os.environ), ui.hide_footer
        more = shown_items(ui, self._facts, bench.sandbox, bench.spending.cost())
        if runs := len(running_commands(self)) + len(self.view.subagents):
            more = (f"{runs} running", *more)
        self.screen.show_status(
            FootStatus(
                cwd="" if hidden or ui.footer.hide_cwd else cwd,
                mode="shell" if self._shell_mode else mode_word(bench.authority.modes.mode),
                model="" if hidden or ui.footer.hide_model_info else self.agent.model,
                more=more,
                queued=self.queue.texts,
                kept=self.queue.kept,
                soon=self.working and self.queue.soon,
                context=0.0 if ui.footer.hide_context_percentage else self._context_share,
            )
        )

    @property
    def _context_share(self) -> float:
        """The used share of the context window."""
        return self.view.context / window_of(self.toolset, self.agent.model)

    def _refresh_footer(self) -> None:
        """Has the facts of the footer found out again."""
        place, bench, totals = self.folder.place, self.toolset, self.view.totals
        self._facts.refresh(
            FooterRequest(
                cwd=bench.workspace.cwd,
                environ=os.environ,
                trusted=place.trust.trusted,
                command=place.settings.ui.status_line,
                told={
                    "session_id": self.agent.session_id,
                    "model": self.agent.model,
                    "cwd": str(bench.workspace.cwd),
                    "tokens": totals.input_tokens + totals.output_tokens,
                    "context_percent": round(100 * self._context_share, 1),
                    "cost": bench.spending.cost(),
                },
            )
        )
        self.show_status()

    def print(
        self, lines: list[Line], group: str = "notice", *, clip: bool = False, fold: bool = True
    ) -> None:
        """Prints lines above the prompt."""
        self.view, blocks = print_lines(self.view, group, lines, clip=clip, fold=fold)
        self._show(blocks)

    def interject(self) -> list[str]:
        """Takes the prompts that go in with the results of the current calls, and shows them."""
        texts = self.queue.take_soon()
        for text in texts:
            self.pages.prompt(text)
            self.print(prompt_lines(self.queue.take_mark(text)), "user")
        return texts

    def send_at_once(self) -> bool:
        """Sends a first prompt that waits for MCP servers; False when none does."""
        control = None if self._agent is None else self.toolset.server_control
        return control is not None and control.stop_startup_wait()

    def _use_of_terminal(self, call_id: str) -> Use:
        """The person sees the output of a call of their own as it comes."""
        if call_id in self._consent.own:
            self.view = msgspec.structs.replace(self.view, shown=self.view.shown | {call_id})
            return "keys"
        shell = self.folder.place.settings.tools.shell
        return "output" if shell.uses_terminal(redraws=self.screen.keys) else "none"

    def _show(self, blocks: tuple[Block, ...]) -> None:
        self.screen.update(self.view, blocks)


def shorten_path(path: Path, environ: Mapping[str, str]) -> str:
    """A path with `~` for the home directory."""
    home = environ.get("HOME", "")
    inside = home and path.is_relative_to(home)
    return one_line(str("~" / path.relative_to(home) if inside else path))


MAX_MESSAGE = 2_000


class Conversation(ShownSession):
    """Carries out what a person sends, in order; what cannot start yet is queued.

    Its `approve` and `ask` are to be the agent's.
    """

    def submit(
        self, text: str, *, early: bool = False, late: bool = False, shown: str = ""
    ) -> None:
        """Takes what the person sends. `early`: it was sent before the session began, and is
        carried out in order; `late`: it waits for the end of what runs; `shown`: its text with
        marks for what was pasted, for the screen."""
        text = text.strip()
        if self._leaving:
            return
        if shown:
            self.queue.mark(text, shown)
        if self._shell_mode and text and text[0] not in "/!":
            text = f"!{text}"
        text = commands.PLAIN.get(text, text)
        named = commands.find_command(text)
        if early or named is None:
            at_once = False
        elif named[0] is None:
            at_once = named[1] not in self.prompts
        else:
            at_once = named[0].name in commands.AT_ONCE
            if named[0].idle and self.working:
                stop = "Esc" if self.keys else "Ctrl-C"
                self._warn(f"/{named[0].name}: something is running. {stop} interrupts it.")
                return
        if at_once:
            self._tasks.create_task(self._run_beside(text))
            return
        late = late or not self.working or self.folder.place.settings.ui.queue == "end"
        self.queue.add(text, command=named is not None or text.startswith("!"), late=late)

    async def run(
        self,
        agent: SessionRunner,
        begun: Callable[[Self], None] | None = None,
        *,
        ide: bool = False,
    ) -> None:
        """Works off what is submitted until `leave`. The agent is open, and is not closed here.
        `begun` is called as soon as everything a person may send can be carried out. With `ide`
        the editor around the terminal is connected."""
        try:
            async with self._tasks:
                self._agent = agent
                self._begin()
                if begun is not None:
                    begun(self)
                self.ide.begin(self.toolset.workspace, enabled=ide)
                await self._run_queued()
        except BaseExceptionGroup as group:  # of defects the first says what there is to say
            raise group.exceptions[0] from None
        finally:
            self._leaving = True
            await self.ide.stop()
            await self._facts.close()
            self._farewell()
            self.screen.close()

    def _farewell(self) -> None:
        """Says why the session ends, what it used, and how to resume it."""
        lines = [line(f"■ {self._why}", "warning")] if self._why else []
        store = project_store(os.environ, self.toolset.workspace.cwd)
        if self.view.totals.requests and store.path(self.agent.session_id).exists():
            used = usage_words(self.view.totals, self.age_ms)
            lines += [line(f"  Session: {used}", "dim")]
            lines += [line(f"  To resume it: alhena --resume {self.agent.session_id}", "dim")]
            lines += [line("  After that, /diff shows its changes and /trace its timeline.", "dim")]
        self.print(lines, "end")

    async def _run_queued(self) -> None:
        await self._start_hooks()
        while not self._leaving:
            if not (text := await self.queue.next()):
                continue
            self._failed, self.working = False, True
            try:
                await self._carry(text)
            finally:
                self.working = False
                self.view = end_run(self.view)
                self._announced.clear()
                self._show(())
                self._refresh_footer()
            if self.queue.to_ask and self.queue.kept:
                hint = "Enter sends them, Up edits the last" if self.keys else "an empty line sends"
                await self.queue.ask(self.screen.choose, hint)
                self._show(())

    def interrupt(self) -> bool:
        """Stops what runs, or else leaves shell mode; False when there is neither."""
        if self._agent is not None and self._agent.interrupt():
            self.queue.hold()
            return True
        left, self._shell_mode = self._shell_mode, False
        if left:
            self._switch_shell(on=False)
        return left

    def kill(self) -> None:
        """Ends all processes of the session, at once."""
        if self._agent is not None:
            self._agent.kill()

    def leave(self, why: str = "") -> bool:
        """Ends the program: what runs is stopped, what waits is dropped. Said again, it hastens
        nothing but the end of the screen. False where the person is asked first, because commands
        run in the background, unless there is a reason (`why`)."""
        if self._leaving:
            self.screen.close()
            return True
        if not why and self.keys and self._agent is not None and running_commands(self):
            if self._leave_asked is None or self._leave_asked.done():
                self._leave_asked = self._tasks.create_task(self._ask_to_leave())
            return False
        return self._leave(why)

    def _leave(self, why: str) -> bool:
        self._leaving, self._why = True, why
        self.queue.close()
        self.interrupt()
        return True

    async def _ask_to_leave(self) -> None:
        if await asks_to_end(self):
            self._leave("")

    async def clear(self) -> None:
        """Begins another session."""
        await self.agent.clear()
        self.pages.changes.clear()
        self._notes.clear()
        self.ide.forget()
        self._begin()
        await self._start_hooks()

    async def begin_again(self) -> list[Line]:
        """Begins another session with settings that were read again, unless one is in use."""
        if self.view.totals.requests:
            return [line("The next session uses it: /clear begins one.")]
        await self.clear()
        return [line("Session restarted with the project's settings.", "dim")]

    async def _start_hooks(self) -> None:
        try:
            if not self._leaving:
                await self._follow(self.agent.run_aside(drive_start))
        except AlhenaError as error:
            if not self._leaving:
                self._warn(str(error))

    async def go_on(self, session_id: str) -> None:
        """Switches to another session and shows its conversation."""
        await self.agent.clear(session_id)
        self._notes.clear()
        self.ide.forget()
        self._begin()
        from alhena.frontends.terminal.drawing.resume_view import load_earlier

        apart = msgspec.structs.replace(self.view, group="notice")
        self.view, blocks = await load_earlier(self.agent, apart, self.pages)
        self._show(blocks)

    async def compress(self) -> CompressedEvent:
        """Compresses the conversation, which the screen shows as work."""
        self.view = msgspec.structs.replace(self.view, busy_since=self._clock())
        self._show(())
        return await compress(
            self.agent, lambda event: isinstance(event, CompressedEvent) or self._feed(event)
        )

    async def approve(self, request: ConfirmationRequest) -> Verdict:
        """Asks the person about a call, behind everything that came before it."""
        if request.call_id in self._consent.own:
            decision = request.decision
            if decision.rule is None or decision.rule.author == "default":
                return True  # typed by the person: nobody else would be asked
        await self._announced.setdefault(request.correlation_id, asyncio.Event()).wait()
        shown = self.view.shown | {request.call_id}
        self.view = msgspec.structs.replace(self.view, shown=shown, group="calls")
        modes = self.toolset.authority.modes
        return await self.ide.answer(
            request,
            lambda: self._consent.answer(
                request, self._show, modes.mode, self._calls_to_ask_about, trusted=modes.may_act
            ),
        )

    def _calls_to_ask_about(self) -> list[str]:
        """Ids of the calls that wait for the person, or will as far as the policy says."""
        bench = self.toolset
        return [each.call_id for each in self.view.calls if may_be_asked_about(each, bench)]

    async def edit(self, contents: ProposedContents) -> str | ToolFailure:
        """Opens the person's editor on a proposed change; what they leave of it."""
        preferred = self.folder.place.settings.general.preferred_editor
        command = editor_command(os.environ, preferred)
        if command is None:
            return ToolFailure(NO_EDITOR)
        async with self.screen.suspend():
            return await edit_externally(contents, command, os.environ)

    async def ask(self, questions: tuple[Question, ...]) -> Answers | None:
        """Puts questions to the person. Dismissing one of the model's stops the turn."""
        self.view = msgspec.structs.replace(self.view, group="calls")
        answers = await self._consent.ask(questions, self._show)
        if answers is None and any(each.name == ASK and each.ran for each in self.view.calls):
            self.view = msgspec.structs.replace(self.view, refused=True)
            self.agent.interrupt()
        return answers

    def _begin(self) -> None:
        self.view = View(titles=ToolTitles(self.toolset.registry), group=self.view.group)
        self._started = self._clock()
        self.toolset.authority.modes.subscribe(self.show_status)
        self._refresh_footer()

    def _switch_shell(self, *, on: bool) -> None:
        self._shell_mode = on
        leave = "Esc" if self.keys else "!"
        opened = f"Shell mode: each line is a command. {leave} leaves it."
        self.print([line(opened if on else "Shell mode off.", "dim")])
        self.show_status()

    async def _carry(self, text: str) -> None:
        """One thing that was submitted, to its end. What goes wrong is shown."""
        try:
            if (named := commands.find_command(text)) is not None:
                await self._command(text, *named)
            elif text.startswith("!") and text.lstrip("! "):
                await self._shell(text.removeprefix("!").strip())
            elif text == "!":
                self._switch_shell(on=not self._shell_mode)
            else:
                await self._prompt(text)
        except AlhenaError as error:
            if not self._failed:  # else it has been shown as an event
                words = sitting_words(one_line(str(error), MAX_MESSAGE))
                self.print([line(f"✗ {words[:1].upper()}{words[1:]}", "error")])

    async def _run_beside(self, text: str) -> None:
        """A command beside what runs."""
        await self._carry(text)
        self._show(())

    async def _command(
        self, text: str, command: commands.SlashCommand | None, name: str, rest: str
    ) -> None:
        self.print(prompt_lines(text), "user")
        if command is None and name in self.prompts:
            call = partial(self._call, own=False)
            filled = self.prompts.fill(name, rest.strip(), call, self._warn)
            prompt = await filled
            await self._send(prompt.text, within=prompt.within)
            return
        if command is None:
            lines = [line(commands.unknown_words(name, self.prompts.names()), "error")]
        else:
            lines = await command.carry(self, rest)
        self.print(lines, "command")
        proposing, self._proposing = self._proposing, False
        if proposing:
            await self._follow(self.agent.checkpoints.propose())

    async def _prompt(self, text: str) -> None:
        self.pages.prompt(text)
        self.print(prompt_lines(self.queue.take_mark(text)), "user")
        await self._send(text, await self._attach_mentions(text))

    async def _send(
        self,
        text: str,
        attached: tuple[Part, ...] = (),
        within: tuple[tuple[int, Part], ...] = (),
    ) -> None:
        opened = self.ide.note()
        before = self._notes if opened is None else [*self._notes, opened]
        self._tell_startup_wait()
        async for event in self.agent.run(text, before=before, attached=attached, within=within):
            if isinstance(event, FinishedEvent):  # the history has them now
                self._notes.clear()
                self.ide.note_sent()
            if not isinstance(event, UserMessageEvent):  # it stands there already
                self._feed(event)

    def _tell_startup_wait(self) -> None:
        """Says for which servers the first prompt is about to wait."""
        control = self.toolset.server_control
        seconds = self.folder.place.settings.mcp.startup_wait
        if control is None or not self.toolset.sources.waiting or seconds <= 0:
            return
        if names := control.connecting:
            stop = "; Esc sends at once" if self.keys else ""
            told = one_line(", ".join(names), MAX_MESSAGE)
            self.print(
                [line(f"Waiting for MCP servers: {told} ({seconds:g} s at most{stop})", "dim")]
            )

    async def _attach_mentions(self, text: str) -> tuple[Part, ...]:
        """Contents of a prompt's @paths."""
        return await attach_mentions(text, self.toolset, self._call, self._warn)

    def _warn(self, text: str) -> None:
        self.print([warning_line(text)])

    async def _shell(self, command: str) -> None:
        """A command of the person's own; the model hears of it with the next prompt."""
        self.print(prompt_lines(f"!{command}"), "user")
        done = await self._call("run_shell_command", {"command": command})
        if done is None:
            return
        display = done.response.result_display
        output = display.text if isinstance(display, TerminalOutput) else done.response.error or ""
        if not isinstance(display, TerminalOutput) or display.exit_code is None:
            output = "\n".join(filter(None, (output, done.response.error)))
        self._notes.append(shell_note(command, output or "(empty)"))

    async def _call(
        self, name: str, args: Mapping[str, object], *, own: bool = True
    ) -> CompletedToolCall | None:
        """A call of the person's own, or of a custom command, through the same gate as the
        model's."""
        run = self.agent.call(name, dict(args))
        if own:
            self._consent.own.add(run.call_id)
            self.view = msgspec.structs.replace(self.view, own=self.view.own | {run.call_id})
        try:
            await self._follow(run)
        finally:
            self._consent.own.discard(run.call_id)
        return run.completed

    async def _follow(self, run: EventStream) -> None:
        async for event in run:
            self._feed(event)

    def _feed(self, event: Event) -> None:
        self._failed = self._failed or isinstance(event, ErrorEvent)
        self.view = msgspec.structs.replace(self.view, page=self.pages.feed(event))
        self.view, blocks = advance(self.view, event, self._clock())
        self._show(blocks)
        if isinstance(event, STATUS_EVENTS):
            self.show_status()
        elif isinstance(event, ApiRequestEvent) and event.role == "main":
            self._consent.forget_calls()
        elif isinstance(event, ConfirmationRequestEvent):
            self._announced.setdefault(event.correlation_id, asyncio.Event()).set()
