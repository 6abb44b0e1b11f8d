"""Rules, calls and decisions as values."""

from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from alhena.policy.surroundings import Surroundings


class PolicyOutcome(StrEnum):
    """What a rule, and a decision, can say."""

    ALLOW = "allow"
    DENY = "deny"
    ASK_USER = "ask_user"


class ApprovalMode(StrEnum):
    """How much runs without asking; rules may be bound to modes (POL-06)."""

    DEFAULT = "default"
    AUTO_EDIT = "autoEdit"
    YOLO = "yolo"
    PLAN = "plan"

    @classmethod
    def parse(cls, text: str) -> "ApprovalMode":
        """The mode of a flag or a policy file: `auto_edit` and `autoEdit` are the same.

        Raises ValueError for anything else.
        """
        return cls.AUTO_EDIT if text == "auto_edit" else cls(text)


class Tier(IntEnum):
    """Where a rule comes from; a higher tier always wins (POL-03)."""

    DEFAULT = 1
    USER = 2
    ADMIN = 3


_TIER_NAMES = tuple(tier.name.lower() for tier in Tier)


class CommandClass(StrEnum):
    """A kind of shell commands that a rule can name."""

    READ_ONLY = "read-only"


class PolicyRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule. `priority` is final: tier + (0..999)/1000.

    `tool_names` empty means every tool (of `mcp_name`, when that is set). `args_pattern` is
    searched in the stable JSON of the arguments, `paths` are gitignore patterns for the files a
    call would touch; `command_prefixes`, `command_regex` and `command_class` look at the `command`
    argument of run_shell_command. `source` says where the rule is written, for people; `file` and
    `line` (from 1) say it for programs, and `layer` says whose rule it is where the priority does
    not.
    """

    decision: PolicyOutcome
    priority: float
    tool_names: tuple[str, ...] = ()
    mcp_name: str | None = None
    args_pattern: str | None = None
    command_prefixes: tuple[str, ...] = ()
    command_regex: str | None = None
    command_class: CommandClass | None = None
    paths: tuple[str, ...] = ()
    modes: tuple[ApprovalMode, ...] = ()
    interactive: bool | None = None
    allow_redirection: bool = False
    deny_message: str | None = None
    source: str = ""
    file: str | None = None
    line: int | None = None
    layer: str | None = None

    @property
    def tier(self) -> str:
        """Whose rule this is: default, user, admin, or what `layer` says (workspace, extension)."""
        if self.layer is not None:
            return self.layer
        return _TIER_NAMES[min(max(int(self.priority), 1), len(_TIER_NAMES)) - 1]


class PolicyCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call to decide on. `names` are all names of the tool (declared first, then aliases)."""

    names: tuple[str, ...]
    args: dict[str, Any]
    server_name: str | None = None


class PolicyContext(msgspec.Struct, frozen=True, kw_only=True):
    """The circumstances of a decision. Without `surroundings` nothing is known of directories."""

    mode: ApprovalMode = ApprovalMode.DEFAULT
    interactive: bool = True
    surroundings: "Surroundings | None" = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided and why. `rule` is None when no rule matched; `parts` are the pieces of a
    shell command that decided it."""

    outcome: PolicyOutcome
    reason: str
    rule: PolicyRule | None = None
    parts: tuple[str, ...] = ()

    @property
    def deny_message(self) -> str | None:
        """The rule's own words for a refusal."""
        return self.rule.deny_message if self.rule else None
