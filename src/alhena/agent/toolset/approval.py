"""Approvals: about one call at a time, and those that hold beyond their call."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from alhena.agent.toolset.authority import Authority, exact_command
from alhena.errors import ConfigError
from alhena.events import Event, WarningEvent
from alhena.policy.engine import PolicyEngine, always_rule, tighten
from alhena.policy.gather import FOR_GOOD, IN_SESSION
from alhena.policy.model import (
    ApprovalMode,
    PolicyCall,
    PolicyContext,
    PolicyOutcome,
    PolicyRule,
    Tier,
)
from alhena.policy.parse import RulePlace, parse_rule, rule_fields
from alhena.scheduler.confirmation import Confirmations, call_approver, ends_turn, to_answer
from alhena.scheduler.messages import AppliedUpdate, LastingRule, UpdatePolicy
from alhena.scheduler.question import Answer, Approver, ConfirmationRequest, Edit, Verdict
from alhena.threads import in_daemon_thread
from alhena.tools.contract import AskUserConfirmation, ToolConfirmationOutcome
from alhena.tools.contract import ToolConfirmationOutcome as Outcome

if TYPE_CHECKING:
    from alhena.scheduler.bus import MessageBus


def confirm_with(
    approver: Approver,
    authority: Authority,
    emit: Callable[[Event], None],
    *,
    edit: Edit | None,
    lasting: bool,
) -> Confirmations:
    """Confirmation of calls by `approver`. With `lasting`, saved approvals are offered, which
    become part of the policy."""
    if not lasting:
        return Confirmations(approve=approver, edit=edit)
    approvals = LastingApprovals(authority, emit)
    return Confirmations(approve=approver, offers=approvals.offers, save=approvals.save, edit=edit)


def apply_updates(
    bus: "MessageBus", authority: Authority, emit: Callable[[Event], None]
) -> Callable[[], None]:
    """Applies to the policy each UpdatePolicy that a program publishes on `bus`; schedulers apply
    their own. Returns the function that ends this."""
    approvals = LastingApprovals(authority, emit)

    async def apply(message: UpdatePolicy) -> None:
        if not isinstance(message, AppliedUpdate):
            await approvals.save(message)

    return bus.subscribe(UpdatePolicy, apply)


def serialize_approver(approver: Approver) -> Approver:
    """`approver`, asked about one call at a time although calls wait, and subagents work, side by
    side. After a refusal that ends the turn, those that waited are refused without asking.

    Calls of ask_user pass: the tool puts its questions to the person itself, and that can be
    declined.
    """
    turn = asyncio.Lock()
    refusals = 0

    async def answer(request: ConfirmationRequest) -> Verdict:
        nonlocal refusals
        if isinstance(request.details, AskUserConfirmation):
            return ToolConfirmationOutcome.PROCEED_ONCE
        before = refusals
        async with turn:
            if refusals != before:
                return Answer.no()
            given = await call_approver(approver, request)
            if isinstance(cast("object", given), bool | Outcome | Answer):
                refusals += ends_turn(to_answer(given))
            return given

    return answer


EXACT = "exactCommand"
"""Key of the rule of an approval of one command, word for word: not one of a policy file."""
EDITS = frozenset({"write_file", "replace", "smart_edit"})
"""Tools that auto-edit mode lets run, except files that decide what runs later. A rule for one of
them would let it change those, too."""


class LastingApprovals:
    """The rules that approvals add to the policy of a toolset. Permanent ones are
    saved, too; when that fails, `emit` gets a warning."""

    def __init__(self, authority: Authority, emit: Callable[[Event], None]) -> None:
        self._authority = authority
        self._emit = emit

    def offers(self, call: PolicyCall) -> tuple[LastingRule, ...]:
        """Approvals beyond this call that can be offered. Omits any that would not allow the same
        call, because a rule of higher priority or a safety checker would still ask."""
        authority = self._authority
        if authority.decide(call).outcome is PolicyOutcome.ALLOW:
            return ()
        if call.server_name is None and call.names[0] in EDITS:
            return self._offer_auto_edit(call)
        rule = always_rule(call)
        if rule is None or (call.is_shell and not self._would_allow(call, rule)):
            return self._offer_exact_command(call)
        lasting = [
            (Outcome.PROCEED_ALWAYS, rule, False),
            (Outcome.PROCEED_ALWAYS_AND_SAVE, rule, True),
        ]
        if call.server_name is not None:
            server = replace(rule, tool_names=())
            lasting.insert(1, (Outcome.PROCEED_ALWAYS_TOOL, rule, False))
            lasting.insert(2, (Outcome.PROCEED_ALWAYS_SERVER, server, False))
        return tuple(
            _make_offer(outcome, each, persist=persist, shown=self._find_fingerprint(call, each))
            for outcome, each, persist in lasting
            if self._would_allow(call, each)
        )

    async def save(self, message: UpdatePolicy) -> None:
        """Applies an offer: to the session at once, permanently if chosen."""
        if message.mode is not None:
            self._authority.modes.switch(ApprovalMode(message.mode))
        if message.rule is None:
            return
        if (exact := message.rule.get(EXACT)) is not None:
            self._authority.granted.add(tuple(map(str, exact)))
            self._authority.policy_changed()
            return
        source = FOR_GOOD if message.persist else IN_SESSION
        written = parse_rule(message.rule, tier=Tier.USER, place=RulePlace(source, 1)).rule
        rule = replace(written, source=source, file=None)
        if not self._pin_tools(message, rule):
            return
        if rule not in self._authority.engine.rules:
            self._authority.engine.add_rule(rule)
        self._authority.policy_changed()
        if not message.persist:
            return
        from alhena.policy.saved import save_rule

        try:
            await in_daemon_thread(partial(save_rule, rule, self._authority.saved))
        except ConfigError as error:
            self._emit(WarningEvent(message=str(error)))

    def _find_fingerprint(self, call: PolicyCall, rule: PolicyRule) -> str:
        servers = self._authority.servers_of(call.server_name)
        if servers is None or call.server_name is None:
            return ""
        return servers.remember_shown_tool(call.names[0], every=not rule.tool_names)

    def _pin_tools(self, message: UpdatePolicy, rule: PolicyRule) -> bool:
        """Holds on to what the question showed of a server's tools; whether that could be done,
        where there is a need to."""
        servers = self._authority.servers_of(message.mcp_name)
        if message.mcp_name is None or servers is None:
            return True
        return servers.record_approval(message.mcp_name, message.shown, every=not rule.tool_names)

    def _offer_auto_edit(self, call: PolicyCall) -> tuple[LastingRule, ...]:
        """Auto-edit mode, from default mode, where it lets this call run."""
        authority = self._authority
        if authority.modes.mode is not ApprovalMode.DEFAULT:
            return ()
        if not authority.modes.allows(ApprovalMode.AUTO_EDIT):
            return ()
        context = replace(authority.context, mode=ApprovalMode.AUTO_EDIT)
        if not self._allows(authority.engine, call, context):
            return ()
        words = "edits of workspace files, except files that decide what runs later (auto_edit)"
        return (
            LastingRule(outcome=Outcome.PROCEED_ALWAYS, words=words, mode=ApprovalMode.AUTO_EDIT),
        )

    def _offer_exact_command(self, call: PolicyCall) -> tuple[LastingRule, ...]:
        """The command of a shell call, word for word, for the session: where no rule can allow
        commands like it, or would allow too many."""
        from alhena.policy.command_prefix import root_commands
        from alhena.shell.parse.analysis import analyse
        from alhena.suspicious_text import suspicious

        authority, exact = self._authority, exact_command(call)
        if not exact or not authority.may_grant(authority.decide(call), call, authority.context):
            return ()
        if suspicious(exact[0], root_commands(analyse(exact[0]))):
            return ()
        rule = {EXACT: list(exact)}
        words = "exactly this command"
        return (LastingRule(outcome=Outcome.PROCEED_ALWAYS, words=words, rule=rule),)

    def _would_allow(self, call: PolicyCall, rule: PolicyRule) -> bool:
        trial = PolicyEngine((*self._authority.engine.rules, rule))
        return self._allows(trial, call, self._authority.context)

    def _allows(self, engine: PolicyEngine, call: PolicyCall, context: PolicyContext) -> bool:
        if call.server_name is None:
            return self._authority.decide_by(engine, call, context).outcome is PolicyOutcome.ALLOW
        # What is new of a server's tool is approved along with it.
        decision = tighten(engine.decide(call, context), call, self._authority.filters, context)
        return decision.outcome is PolicyOutcome.ALLOW


def _make_offer(outcome: Outcome, rule: PolicyRule, *, persist: bool, shown: str) -> LastingRule:
    import tomli_w

    fields = rule_fields(rule)
    for key in ("toolName", "commandPrefix"):
        if len(fields.get(key, ())) == 1:
            fields[key] = fields[key][0]
    return LastingRule(
        outcome=outcome,
        words=describe_allowance(rule),
        toml=f"[[rule]]\n{tomli_w.dumps(fields)}",
        rule=fields,
        persist=persist,
        shown=shown,
    )


def describe_allowance(rule: PolicyRule) -> str:
    """Describes what a rule allows."""
    if rule.command_prefixes:
        commands = ", ".join(f"`{each}`" for each in rule.command_prefixes)
        return f"commands starting with {commands}"
    if not rule.tool_names:
        return f"all tools of {rule.mcp_name}"
    names = (_tool_of_server(each, rule.mcp_name) for each in rule.tool_names)
    return f"all calls of {', '.join(names)}"


def _tool_of_server(name: str, server: str | None) -> str:
    """A tool's name; of a server `SERVER/TOOL`."""
    if not server:
        return name
    return f"{server}/{name.removeprefix(f'{server}__')}"
