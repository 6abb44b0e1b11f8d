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


SPELLED = [
    ("git log.*", "git log -5 log", True),
    ("git log.*", "git log --output=x log", False),
    ("git log.*", "git log --output=x git log", False),
    ("git (log|status)", "git log --output=x log", False),
    ("git (log|status)", "git log --output=x status", False),
    ("git log --output=x", "git log --output=x", True),
    ("git log( --output=x)?", "git log --output=x", True),
    ("git (diff|log --output=x)", "git diff --output=x", False),
    ("git (log|show|--output=x) .*", "git log --output=x", False),
    ("awk .*", "awk 'BEGIN { system($0) }' awk", False),
    ("awk .*", "awk '{ print $1 }' awk", True),
    ("npm test", "npm test --script-shell=./e test", False),
    ("npm test.*", "npm test --script-shell=./e npm test", False),
    ("(timeout 5 )?npm (run )?test", "npm test --script-shell=x test", False),
    ("(timeout 5 )?npm (run )?test", "timeout 5 npm run test", True),
    ("sort.*", "sort -o sort", False),
    ("sort .*-r.*", "sort -o x -r", False),
    ("sort -[a-z].*", "sort -o f", False),
    ("sort -o f.*", "sort -o f g", True),
    ("sort -o f.*", "sort -o f --output=g", False),
    ("sort -ro .*", "sort -o f -ro", False),
    ("find [^ ]+ -delete", "find . -delete", False),
    ("find .* -delete", "find . -delete", False),
    ("find . -delete", "find . -delete", True),
    (r"find \. -delete", "find '.' -delete", False),
    ("env npm test", "env npm test", True),
    ("env .* npm", "env npm npm", False),
    ("env (npm|.*)", "env npm", False),
    ("CI=1 npm test", "CI=1 npm test", True),
    (".*npm test", "CI=1 npm test", False),
    (".*=1 npm test|PATH=1", "PATH=1 npm test", False),
    ("git log.*", "git log 2>&1 --output=x log", False),
    ("git >?log.* .*", "git 2>/dev/null log --output=x log", False),
]


@for_each(("pattern", "command", "allowed"), SPELLED)
def test_a_pattern_names_the_leading_words_that_it_spells(
    pattern: str, command: str, allowed: bool
) -> None:
    for fields in (
        {"commandRegex": pattern},
        {"argsPattern": pattern},
        {"argsPattern": f'"command":"{pattern}'},
        {"commandRegex": pattern, "argsPattern": "."},
    ):
        given = rules(shell_rule("allow", **fields))
        assert (run(given, command).outcome is ALLOW) is allowed, fields


def test_a_pattern_names_quoted_words_that_it_spells_in_json() -> None:
    spelled = r'"command":"sed -n \\"w f\\" g'
    given = rules(shell_rule("allow", argsPattern=spelled))
    assert run(given, 'sed -n "w f" g').outcome is ALLOW
    assert run(given, "sed -n 'w f' g").outcome is ASK
    assert run(given, 'sed -n "w f" g -i g').outcome is ASK
