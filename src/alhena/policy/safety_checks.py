"""Safety checkers: asks those a call is for; their answers make a decision stricter, never laxer.

An external checker is a program found by name and run within 5 s, its answer checked. It runs in a
session of its own, away from the workspace, without secrets in its environment. The question is a
file on its standard input, so that a program which does not read it blocks nothing. Whatever it
starts ends with it.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

import msgspec
from msgspec.structs import replace

from alhena.config.home import user_checkers_path
from alhena.config.settings import EnvironmentRedaction
from alhena.display_text import one_line
from alhena.policy.checker import (
    NAMES,
    CheckContext,
    CheckerError,
    CheckerType,
    CheckerVerdict,
    CheckInput,
    ContextPart,
    ConversationHistory,
    Environment,
    HistorySource,
    PolicyState,
    SafetyChecker,
    ToolCall,
    check_paths,
)
from alhena.policy.engine import PolicyFilter, denied_if_unattended
from alhena.policy.load import PolicyProblem
from alhena.policy.model import (
    Decision,
    PolicyCall,
    PolicyContext,
    PolicyOutcome,
    Tier,
    stable_json,
)
from alhena.system.environment import child_environment
from alhena.system.errors import ProcessStartError

if TYPE_CHECKING:
    from alhena.system.processes import ProcessEnding, ProcessGroups


SECONDS = 5.0
MAX_ANSWER_BYTES = 1 << 20
_CWD = "/"


class ExternalRunner:
    """Runs programs with the variables `env`, each for at most `seconds`. `groups` ends what runs
    when this process is killed."""

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        groups: "ProcessGroups | None" = None,
        seconds: float = SECONDS,
    ) -> None:
        self._env = dict(env)
        self._groups = groups
        self._seconds = seconds

    async def run(self, program: Path, question: bytes) -> CheckerVerdict:
        """The answer of `program`. Raises CheckerError when there is no valid one."""
        from alhena.system.processes import CommandLimits, ProcessCommand, run_process

        answer = _Answer()
        command = ProcessCommand(
            argv=(str(program),),
            cwd=_CWD,
            env=self._env,
            merge_stderr=False,
            stdin=question,
            leaves_nothing=True,
            label=program.name,  # what makes a session of its own is ended, too
        )
        limits = CommandLimits(inactivity=0, total=self._seconds, output=MAX_ANSWER_BYTES)
        try:
            ending = await run_process(command, answer.feed, limits=limits, groups=self._groups)
        except ProcessStartError as error:
            raise CheckerError(str(error)) from error
        failure = self._failure(ending, answer)
        if failure is not None:
            raise CheckerError(failure)
        return _verdict(bytes(answer.data))

    def _failure(self, ending: "ProcessEnding", answer: "_Answer") -> str | None:
        if answer.too_long:
            return f"it answered more than {MAX_ANSWER_BYTES} bytes"
        if ending.stopped is not None:
            return f"it did not answer within {self._seconds:g} s"
        if ending.signal is not None:
            return f"it was ended by signal {ending.signal}"
        if ending.exit_code != 0:
            return f"it exited with code {ending.exit_code}"
        return None


class _Answer:
    """The output of a program, up to one byte too many."""

    def __init__(self) -> None:
        self.data = bytearray()

    @property
    def too_long(self) -> bool:
        return len(self.data) > MAX_ANSWER_BYTES

    def feed(self, data: bytes) -> None:
        self.data += data[: MAX_ANSWER_BYTES + 1 - len(self.data)]


def _verdict(answer: bytes) -> CheckerVerdict:
    if not answer.strip():
        raise CheckerError("it answered nothing")
    try:
        return msgspec.json.decode(answer, type=CheckerVerdict)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise CheckerError(f"its answer is not valid: {error}") from error


ADMIN_CHECKERS = Path("/etc/gemini-cli/checkers")


class CheckerRegistry:
    """The programs of a user and of an administrator.

    An administrator's policies speak of the administrator's programs alone: no user can put another
    in their place. The user's own are looked for first by all other policies.
    """

    def __init__(
        self,
        user: Path,
        admin: Path = ADMIN_CHECKERS,
        *,
        owner: int | None = None,
        admin_owner: int = 0,
    ) -> None:
        """`owner` is the user id that has to own the user's programs, by default this process's,
        `admin_owner` the one that has to own the administrator's."""
        self._user = (user, os.getuid() if owner is None else owner)
        self._admin = (admin, admin_owner)
        self._admin_owner = admin_owner

    def program(self, checker: SafetyChecker) -> Path:
        """The executable of an external checker. Raises CheckerError, which names the places."""
        if NAMES.fullmatch(checker.name) is None:
            raise CheckerError(f"{checker.name!r} is no name of a checker")
        admin = checker.rule.tier is Tier.ADMIN
        places = [self._admin] if admin else [self._user, self._admin]
        for directory, owner in places:
            path = directory / checker.name
            if os.path.lexists(path):
                return self._require_trusted(path, {owner, self._admin_owner})
        looked = " or ".join(str(directory / checker.name) for directory, _ in places)
        raise CheckerError(f"there is no {looked}")

    def problems(self, checkers: Iterable[SafetyChecker]) -> tuple[PolicyProblem, ...]:
        """Problems that keep checkers from running; these deny every call they are meant for."""
        return tuple(
            PolicyProblem(
                file=checker.rule.file or checker.rule.source,
                table="safety_checker",
                rule=checker.number,
                line=checker.rule.line,
                field="checker.name",
                message=f"{checker.name!r} cannot be run: {error}; what it is for is denied",
                weakens=False,
                remedy="Put an executable file of yours there that no other user can write to.",
            )
            for checker, error in self._missing(checkers)
        )

    def _missing(
        self, checkers: Iterable[SafetyChecker]
    ) -> Iterator[tuple[SafetyChecker, CheckerError]]:
        for checker in checkers:
            if checker.type is not CheckerType.EXTERNAL:
                continue
            try:
                self.program(checker)
            except CheckerError as error:
                yield checker, error

    def _require_trusted(self, path: Path, owners: set[int]) -> Path:
        """The real file of a program that only its owner can change or replace."""
        try:
            real = Path(os.path.realpath(path, strict=True))
            places = dict.fromkeys((path.parent.resolve(), real.parent, real))
            found = [(place, place.stat()) for place in places]
        except OSError as error:
            raise CheckerError(f"{path} cannot be read: {error.strerror or error}") from error
        for place, status in found:
            if status.st_uid not in owners:
                raise CheckerError(f"{place} is owned by user {status.st_uid}")
            if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise CheckerError(f"{place} can be written by others than its owner")
        if not stat.S_ISREG(found[-1][1].st_mode):
            raise CheckerError(f"{path} is not a regular file")
        if not os.access(real, os.X_OK):
            raise CheckerError(f"{path} is not executable")
        return real


def no_history() -> ConversationHistory:
    """The history of what is no conversation."""
    return ConversationHistory()


def check_input(
    checker: SafetyChecker,
    call: PolicyCall,
    decision: Decision,
    context: PolicyContext,
    history: HistorySource,
) -> CheckInput:
    """The question to `checker` about a call and the decision so far, with the parts of the context
    that it wants, or with all.

    Raises CheckerError when one of them is not known.
    """
    wanted = tuple(ContextPart) if checker.required_context is None else checker.required_context
    return CheckInput(
        tool_call=ToolCall(name=call.names[0], args=call.args),
        context=CheckContext(
            policy=PolicyState(
                mode=context.mode,
                decision=decision.outcome,
                rule=None if decision.rule is None else decision.rule.source,
            ),
            environment=_environment(context) if ContextPart.ENVIRONMENT in wanted else None,
            history=history() if ContextPart.HISTORY in wanted else None,
        ),
        config=checker.config,
    )


def _environment(context: PolicyContext) -> Environment:
    if context.surroundings is None:
        raise CheckerError("the directories of the session are not known")
    roots = tuple(dict.fromkeys(context.surroundings.roots))
    return Environment(cwd=context.surroundings.cwd, workspaces=roots)


class CheckerSelection:
    """Checkers, the strongest first; of equals the first that was loaded."""

    def __init__(self, checkers: Iterable[SafetyChecker]) -> None:
        ordered = sorted(checkers, key=lambda checker: -checker.rule.final_priority)
        self._checkers = [(each, PolicyFilter(each.name, [each.rule])) for each in ordered]

    def active(self, call: PolicyCall, context: PolicyContext) -> tuple[SafetyChecker, ...]:
        """Those that are for this call, also when that is not certain; nothing is run."""
        return tuple(
            checker
            for checker, condition in self._checkers
            if condition.decide(call, context) is not None
        )


MAX_REASON = 1000


class SafetyChecks:
    """The checkers of a session, asked in the order of their priorities.

    `history` tells the conversation to those that want to know it; it can be set later.
    """

    def __init__(
        self,
        checkers: Iterable[SafetyChecker],
        registry: CheckerRegistry,
        runner: ExternalRunner,
        history: HistorySource = no_history,
    ) -> None:
        self._selection = CheckerSelection(checkers)
        self._registry = registry
        self._runner = runner
        self.history = history

    def hear(self, history: HistorySource) -> None:
        """Tells the conversation to checkers from now on."""
        self.history = history

    async def check(self, call: PolicyCall, decision: Decision, context: PolicyContext) -> Decision:
        """`decision`, or what the checkers for this call want instead. One that fails denies, and
        the first denial ends it; an allow changes nothing."""
        if decision.outcome is PolicyOutcome.DENY:
            return decision
        for checker in self._selection.active(call, context):
            verdict = await self._verdict(checker, call, decision, context)
            decision = _apply_verdict(decision, checker, verdict)
            if decision.outcome is PolicyOutcome.DENY:
                return decision
        return denied_if_unattended(decision, context)

    async def _verdict(
        self, checker: SafetyChecker, call: PolicyCall, decision: Decision, context: PolicyContext
    ) -> CheckerVerdict:
        try:
            question = check_input(checker, call, decision, context, self.history)
            return await self._ask_checker(checker, question)
        except CheckerError as error:
            return CheckerVerdict(
                PolicyOutcome.DENY, f"it failed, which counts as a denial: {error}"
            )

    async def _ask_checker(self, checker: SafetyChecker, question: CheckInput) -> CheckerVerdict:
        match checker.type:
            case CheckerType.IN_PROCESS:
                return check_paths(question)
            case CheckerType.EXTERNAL:
                program = self._registry.program(checker)
                return await self._runner.run(program, _encoded(question))
            case _:
                assert_never(checker.type)


def _encoded(question: CheckInput) -> bytes:
    """The question as JSON. Raises CheckerError."""
    try:
        return stable_json(msgspec.to_builtins(question)).encode("utf-8")
    except (ValueError, TypeError, RecursionError) as error:
        raise CheckerError(f"it cannot be asked: {error}") from error


def _apply_verdict(decision: Decision, checker: SafetyChecker, verdict: CheckerVerdict) -> Decision:
    """`decision`, as strict as the verdict wants it; its rule has the words for the model."""
    said = one_line(verdict.reason or "")
    if len(said) > MAX_REASON:
        said = f"{said[:MAX_REASON]}…"
    rule = replace(checker.rule, deny_message=f'Safety checker "{checker.name}": {said}')
    reason = f"{checker.label}: {said.rstrip('.')}"
    match verdict.decision:
        case PolicyOutcome.ALLOW:
            return decision
        case PolicyOutcome.ASK_USER:
            if decision.outcome is PolicyOutcome.ASK_USER:
                reason = f"{reason}; also {decision.reason}"
            return replace(
                decision,
                outcome=PolicyOutcome.ASK_USER,
                reason=f"approval required by {reason}",
                rule=replace(rule, decision=PolicyOutcome.ASK_USER),
            )
        case PolicyOutcome.DENY:
            return replace(
                decision, outcome=PolicyOutcome.DENY, reason=f"denied by {reason}", rule=rule
            )
        case _:
            assert_never(verdict.decision)


def open_checks(
    checkers: tuple[SafetyChecker, ...],
    environ: Mapping[str, str],
    redaction: EnvironmentRedaction,
    groups: "ProcessGroups | None" = None,
) -> SafetyChecks:
    """The checkers, with the user's programs and an environment without secrets. `groups` ends
    those at work when this process is killed."""
    env = child_environment(environ, redaction).variables
    return SafetyChecks(
        checkers,
        CheckerRegistry(user_checkers_path(environ)),
        ExternalRunner(env, groups=groups),
    )
