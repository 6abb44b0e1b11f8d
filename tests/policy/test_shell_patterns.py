"""Patterns of rules on shell commands: to restrict generously, to allow by what surely runs."""

from typing import Any

from tests.policy.support import ALLOW, ASK, DENY, SHELL, YOLO, ask, rules, run, shell_rule
from tests.support.each import for_each

PATTERNS = [
    ("commandRegex", "npm t", "npm t", True),
    ("commandRegex", "npm t", "npm t x", True),
    ("commandRegex", "npm t", "npm tRASH", False),
    ("commandRegex", "npm t", "npm t'RASH'", False),
    ("commandRegex", "npm t", "npm t\\\nRASH", False),
    ("commandRegex", "npm (t|test)", "npm test", True),
    ("commandRegex", "npm ", "npm test", True),
    ("commandRegex", "npm test$", "npm test x", False),
    ("commandRegex", "(?i)^NPM t", "npm t", True),
    ("commandRegex", "npm t.*", "npm tRASH", True),
    ("argsPattern", "git status", "git status -s", True),
    ("argsPattern", "git status", "rm x 'git status'", False),
    ("argsPattern", "git status", "git statusx", False),
    ("argsPattern", '"command":"npm t', "npm t\tx", True),
    ("argsPattern", '"command":"npm t', "npm tRASH", False),
    ("argsPattern", '"command":"npm t', 'npm t"RASH"', False),
    ("argsPattern", '"command":"npm test"', "npm test", True),
    ("argsPattern", "man", "man ls", True),
    ("argsPattern", "man", "rm x", False),  # the key is "command"
    ("argsPattern", ".*", "ls -l", True),
]


@for_each(("field", "pattern", "command", "allowed"), PATTERNS)
def test_an_allow_by_pattern_has_to_match_the_program_and_whole_words(
    field: str, pattern: str, command: str, allowed: bool
) -> None:
    fields: dict[str, Any] = {field: pattern}
    given = rules(shell_rule("allow", **fields))
    assert (run(given, command).outcome is ALLOW) is allowed
    denied = rules(shell_rule("deny", 999, **fields), YOLO)
    if allowed:
        assert run(denied, command).outcome is DENY


def test_a_pattern_for_another_field_narrows_an_allow_and_makes_none() -> None:
    web = '"directory":"web"'
    args = {"command": "make test", "directory": "web"}
    alone = rules(shell_rule("allow", argsPattern=web))
    assert ask(alone, SHELL, args).outcome is ASK
    both = rules(shell_rule("allow", argsPattern=web, commandPrefix="make"))
    assert ask(both, SHELL, args).outcome is ALLOW
    assert ask(both, SHELL, args | {"directory": "x"}).outcome is ASK
