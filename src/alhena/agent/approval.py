"""How a session asks its person: about one call at a time, over its bus."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from alhena.events import Event, WarningEvent
from alhena.scheduler.bus import AskUserRequest, MessageBus, UpdatePolicy
from alhena.scheduler.confirmation import (
    Answer,
    Approver,
    Asking,
    ConfirmationRequest,
    Verdict,
    answer_of,
    asked,
    listen,
)
from alhena.tools.confirmation import AskUserConfirmation, Question, ToolConfirmationOutcome

if TYPE_CHECKING:
    from alhena.agent.workbench import Workbench
    from alhena.tools.builtin.ask_user import Answers, Ask


def session_bus(
    approver: Approver | None, given: MessageBus | None, emit: Callable[[Event], None]
) -> tuple[MessageBus, Callable[[], Awaitable[None]]]:
    """The bus of a session: the program's own, or a new one; `approver` answers over it. And what
    ends the session's part in it."""
    bus = given or MessageBus(lambda text: emit(WarningEvent(message=text)))
    leave = None if approver is None else listen(one_at_a_time(approver), bus)

    async def close() -> None:
        if leave is not None:
            leave()
        if given is None:
            await bus.aclose()

    return bus, close


def open_asking(
    bench: "Workbench",
    emit: Callable[[Event], None],
    approver: Approver | None,
    bus: MessageBus | None,
) -> Asking:
    """How a scheduler of a workbench asks: over `bus`, or one on which `approver` answers. What is
    approved beyond a call becomes part of the workbench's policy."""
    own = bus is None
    if bus is None:
        bus = MessageBus(lambda text: emit(WarningEvent(message=text)))
        if approver is not None:
            listen(approver, bus)
    if bench.saved is None or not bench.offers_always:
        return Asking(bus=bus, edit=bench.edit)
    from alhena.agent.lasting import LastingApprovals

    lasting = LastingApprovals(bench, bench.saved, emit)
    leave = bus.subscribe(UpdatePolicy, lasting.update)
    if not own:  # one of its own goes with the scheduler, of which a workbench may have thousands
        bench.when_closed.append(leave)
    return Asking(bus=bus, offers=lasting.offers, edit=bench.edit)


def one_at_a_time(approver: Approver) -> Approver:
    """`approver`, asked about one call at a time although calls wait, and subagents work, side by
    side.

    Calls of ask_user pass: the tool puts its questions to the person itself, and that can be
    declined.
    """
    turn = asyncio.Lock()

    async def answer(request: ConfirmationRequest) -> Verdict:
        if isinstance(request.details, AskUserConfirmation):
            return ToolConfirmationOutcome.PROCEED_ONCE
        async with turn:
            return await asked(approver, request)

    return answer


def asks_over(bus: MessageBus) -> Approver:
    """Puts requests of another scheduler to whoever answers over `bus`."""

    async def answer(request: ConfirmationRequest) -> Answer:
        passed_on = msgspec.structs.replace(request, correlation_id=bus.new_id())
        return answer_of(await bus.request(passed_on, None))

    return answer


def questions_over(bus: MessageBus) -> "Ask":
    """Puts the model's questions to whoever answers over `bus`."""

    async def ask(questions: tuple[Question, ...]) -> "Answers | None":
        request = AskUserRequest(
            correlation_id=bus.new_id(),
            questions=tuple(msgspec.to_builtins(each) for each in questions),
        )
        response = await bus.request(request, None)
        if response.cancelled:
            return None
        return {int(key): text for key, text in response.answers.items() if key.isdecimal()}

    return ask
