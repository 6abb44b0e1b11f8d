"""Programs that run others: a rule against one program reaches through them."""

from pathlib import Path

from tests.policy.support import ALLOW, YOLO, rules, run, shell_rule
from tests.support.each import for_each

RULES = rules(shell_rule("deny", 999, commandPrefix="rm"), YOLO)


def _rows() -> list[tuple[bool, str]]:
    text = Path(__file__).with_name("denied.txt").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if line[:2] in {"+ ", "- "})
    return [(line[0] == "+", each.strip()) for line in lines for each in line[1:].split(" ;; ")]


@for_each(("allowed", "command"), _rows())
def test_a_denied_program_does_not_run_within_another(allowed: bool, command: str) -> None:
    decided = run(RULES, command)
    assert (decided.outcome is ALLOW) is allowed, decided.reason
