"""Arguments that add authority: commands on both sides of rules, by program."""

import re
from pathlib import Path

from alhena.shell.tables import all_programs, main_name, program
from tests.policy.support import ALLOW, ASK, rules, run, shell_rule
from tests.support.each import for_each


def _rows() -> list[tuple[str, bool, str]]:
    rule = ""
    found: list[tuple[str, bool, str]] = []
    for line in Path(__file__).with_name("authority.txt").read_text(encoding="utf-8").splitlines():
        if line[:1] == "[":
            rule = line[1:-1]
        elif line[:1] in {"+", "-"}:
            found += [(rule, line[0] == "+", command.strip()) for command in line[1:].split(";;")]
    return found


@for_each(("rule", "allowed", "command"), _rows())
def test_a_rule_allows_ordinary_arguments_and_asks_about_added_authority(
    rule: str, allowed: bool, command: str
) -> None:
    decided = run(rules(shell_rule("allow", commandPrefix=rule)), command)
    assert decided.outcome is (ALLOW if allowed else ASK), decided.reason


def test_the_page_on_policies_lists_the_programs_with_a_table_and_common_ones_without() -> None:
    page = Path(__file__).parents[2].joinpath("docs/policy.md").read_text(encoding="utf-8")
    listed = page.split("`gcc-12` …):", 1)[1]
    with_table, without = (re.findall("`([^`]+)`", text) for text in listed.split("\n\n")[1:3])
    judged = {name.split()[0] for name in all_programs() if (t := program(name)) and t.judged}
    assert with_table == sorted(judged, key=str.casefold)
    assert without
    assert judged.isdisjoint(map(main_name, without))
