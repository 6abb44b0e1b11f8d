"""Line numbers of rules, for any text between them."""

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from alhena.policy.load import table_lines

FILLER = [
    "",
    "[[safety_checker]]",
    "[['safety_checker']]\n[safety_checker.checker]",
    "# a comment with [[rule]] and ' and \" and '''",
    "x = 'a \\'  # [[rule]]",
    'x = "a # \\" \\\\" # "',
    'x = """\n[[rule]]\n"""',
    "x = '''\n[[rule]]\n'''",
    'x = """\n\\"""\n[[rule]]\n""""" # "',
    "x = '''a'''''",
    'x = """"""',
    "x = ['''\n[[rule]]''', \"\"\"\\\n  [[rule]]\"\"\"]",
    'x = """\\\\"""',
]
HEADS = ["[[rule]]", "  [[ rule ]]  # one", '[["rule"]]', "[['rule']] # '"]


@given(st.lists(st.tuples(st.sampled_from(HEADS), st.sampled_from(FILLER)), max_size=12))
def test_each_rule_is_found_at_its_line_and_no_text_is_taken_for_one(
    blocks: list[tuple[str, str]],
) -> None:
    lines: list[str] = []
    begins: list[int] = []
    for head, filler in blocks:
        begins.append(len(lines) + 1)
        lines += [head, *filler.split("\n")]
    text = "\n".join(lines)
    rules: list[Any] = tomllib.loads(text).get("rule", [])
    assert len(rules) == len(blocks)
    assert table_lines(text, "rule") == begins
    assert table_lines(text.replace("\n", "\r\n"), "rule") == begins


@given(st.text(alphabet="\"'\\#[]rule \n", max_size=60))
def test_any_text_is_read_to_its_end(text: str) -> None:
    assert all(1 <= line <= text.count("\n") + 1 for line in table_lines(text, "rule"))


def test_a_megabyte_of_escapes_is_read_in_one_pass() -> None:
    text = 'x = """' + '\\"' * 500_000 + '"""\n[[rule]]\n'
    assert table_lines(text, "rule") == [2]
