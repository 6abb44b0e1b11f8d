"""Runs the hooks of one event and makes one verdict of what they say."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec

from alhena.events import Event, HookCallEvent, WarningEvent
from alhena.hooks.aggregate import aggregate, chained
from alhena.hooks.model import (
    SILENT,
    HookDefinition,
    HookEvent,
    HookGroup,
    HookRun,
    HookSource,
    HookVerdict,
    InputForms,
    OnFailure,
)
from alhena.hooks.output import MESSAGE_LIMIT, HookAnswer, clipped, interpret
from alhena.hooks.plan import HookPlan
from alhena.hooks.run import HookSurroundings, run_hook
from alhena.hooks.trust import fingerprint
from alhena.wire.encoded import encode_value, mend
from alhena.wire.errors import EncodeError

EVENT_OUTPUT = 10_000
"""Characters of a stream that a HookCallEvent carries."""

MAX_AT_ONCE = 8


class Hearing(msgspec.Struct, frozen=True, kw_only=True):
    """One hook, run: `matcher` is that of its group, `said` what it means once its failure has
    been weighed."""

    hook: HookDefinition
    run: HookRun
    answer: HookAnswer
    said: HookVerdict
    input: dict[str, Any]


class Firing:
    """One event on its way through its hooks."""

    def __init__(
        self,
        event: HookEvent,
        groups: tuple[HookGroup, ...],
        around: HookSurroundings,
        emit: Callable[[Event], None],
        forms: InputForms | None = None,
    ) -> None:
        self._forms = forms
        self._event = event
        self._groups = groups
        self._around = around
        self._emit = emit

    async def run(self, plan: HookPlan, fields: dict[str, Any]) -> list[Hearing]:
        """Runs the hooks of a plan; what they say, in the order of the plan."""
        told = {**self._around.base_input(self._event), **fields}
        if plan.sequential:
            heard: list[Hearing] = []
            for hook, names in plan.heard:
                hearing = await self._hear(hook, _as_known(told, names))
                heard.append(hearing)
                told = self._chained(told, hearing.said)
            return heard
        room = asyncio.Semaphore(MAX_AT_ONCE)

        async def in_turn(hook: HookDefinition, names: tuple[str, ...]) -> Hearing:
            async with room:
                return await self._hear(hook, _as_known(told, names))

        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(in_turn(*each)) for each in plan.heard]
        return [task.result() for task in running]

    def _chained(self, told: dict[str, Any], said: HookVerdict) -> dict[str, Any]:
        """What the next is told; of a changed input, every name of what was changed."""
        following = chained(self._event, told, said)
        if said.tool_input is not None and self._forms is not None:
            following["tool_input"] = self._forms.shown(following["tool_input"])
        return following

    def _said(self, hook: HookDefinition, answer: HookAnswer, told: dict[str, Any]) -> HookVerdict:
        """What an answer means; of an input that is given back, what it changes."""
        said = weighed(hook, answer)
        if said.tool_input is None or self._forms is None:
            return said
        given = self._forms.changes(told.get("tool_input", {}), said.tool_input)
        return msgspec.structs.replace(said, tool_input=given or None)

    async def _hear(self, hook: HookDefinition, told: dict[str, Any]) -> Hearing:
        started = time.perf_counter()
        try:
            run = await self._run(hook, told)
        except asyncio.CancelledError:
            self._tell_of_cancellation(hook, told, started)
            raise
        answer = interpret(self._event, run)
        said = self._said(hook, answer, told)
        hearing = Hearing(hook=hook, run=run, answer=answer, said=said, input=told)
        self._tell(hearing)
        return hearing

    async def _run(self, hook: HookDefinition, told: dict[str, Any]) -> HookRun:
        problem = self._changed(hook)
        try:
            document = _encoded(told)
        except EncodeError as error:
            document, problem = b"", str(error)
        if problem:
            return HookRun(
                exit_code=None,
                stdout=b"",
                stderr=b"",
                stdout_bytes=0,
                duration_ms=0.0,
                problem=problem,
            )
        return await run_hook(hook, document, self._around)

    def _changed(self, hook: HookDefinition) -> str:
        """Why a project's hook is not what was trusted any more; "" when it is."""
        if hook.source is not HookSource.PROJECT or not hook.fingerprint:
            return ""
        project = self._around.project_dir
        for group in self._groups:
            for each in group.hooks:
                # As it was written: one that stands in several places was joined with the others.
                if each.place == hook.place and group.event is self._event:
                    now = fingerprint(self._event, group.matcher, each, project)
                    if now == hook.fingerprint:
                        return ""
        return "it is not what was trusted: a file that its command names has changed"

    def _tell(self, hearing: Hearing) -> None:
        hook, run, said = hearing.hook, hearing.run, hearing.said
        failure = hearing.answer.failure
        self._emit(
            HookCallEvent(
                event=self._event,
                name=hook.label,
                kind="command",
                source=hook.source,
                duration_ms=run.duration_ms,
                success=run.exit_code == 0 and not failure,
                outcome=outcome_of(said, failure),
                exit_code=run.exit_code,
                message=failure or said.stop or said.block or said.reason,
                stdout=_excerpt(run.stdout),
                stderr=_excerpt(run.stderr),
                input=hearing.input,
            )
        )
        shown = clipped(hook.label, 200)
        if failure:
            blocks = " Because of its onFailure, this blocks." if said.block is not None else ""
            self._emit(
                WarningEvent(
                    message=f"the {self._event} hook {shown} failed: {failure.rstrip('.')}.{blocks}"
                )
            )
        for message in said.system_messages:
            self._emit(WarningEvent(message=f"the {self._event} hook {shown} says: {message}"))

    def _tell_of_cancellation(
        self, hook: HookDefinition, told: dict[str, Any], started: float
    ) -> None:
        self._emit(
            HookCallEvent(
                event=self._event,
                name=hook.label,
                kind="command",
                source=hook.source,
                duration_ms=round((time.perf_counter() - started) * 1000, 3),
                success=False,
                outcome="cancelled",
                message="it was ended with what it ran for",
                input=told,
            )
        )


async def fire(
    plan: HookPlan,
    fields: dict[str, Any],
    firing: Firing,
) -> HookVerdict:
    """What the hooks of a plan say together."""
    if not plan.hooks:
        return SILENT
    return aggregate([hearing.said for hearing in await firing.run(plan, fields)])


def weighed(hook: HookDefinition, answer: HookAnswer) -> HookVerdict:
    """What an answer means, with its failure taken as the hook wants failures taken."""
    said = answer.verdict
    if not answer.failure or said.stop is not None or said.block is not None:
        return said
    if hook.on_failure is OnFailure.WARN:
        return said
    reason = clipped(f"the hook {hook.label} failed: {answer.failure}", MESSAGE_LIMIT)
    return msgspec.structs.replace(said, block=reason, ask=False, reason="")


def outcome_of(said: HookVerdict, failure: str) -> str:
    """The `outcome` of a HookCallEvent."""
    if said.stop is not None:
        return "stop"
    if said.block is not None:
        return "block"
    if said.ask:
        return "ask"
    return "warn" if failure else "allow"


def _as_known(told: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """The same under the name of the tool that a hook knows, which its matcher tells."""
    if not names or told.get("tool_name") in names:
        return told
    return {**told, "tool_name": names[0]}


def _encoded(told: dict[str, Any]) -> bytes:
    try:
        return encode_value(told)
    except UnicodeEncodeError:
        return encode_value(mend(told))


def _excerpt(data: bytes) -> str:
    return clipped(data[: 4 * EVENT_OUTPUT].decode("utf-8", "replace"), EVENT_OUTPUT)
