"""Edits that look right and are not: blanks, comments and names that mean something."""

from pathlib import Path

import pytest

from alhena.system.workspace import Workspace
from alhena.tools.builtin.smart_edit import SmartEdit
from tests.tools.files import call, failure_type

MISS = "edit_no_occurrence_found"
SOURCE = (
    "class A:\n    def set(self):\n        self.first = 1\n        self.second = 2\n\n"
    "    def get(self):\n        return self.first\n"
)


@pytest.mark.requirement("TOOLS-11")
@pytest.mark.parametrize(
    ("before", "old", "new"),
    [
        ("foo(alpha, beta)\n", "foo(\n    alpha,\n    beta\n)", "foo(\n    alpha,  # why\n    beta\n)"),
        ("foo(a, b, c);\n", "foo(\n  a,\n  b,\n  c);", "foo(\n  a, // the a\n  b,\n  c);"),
        ("select (a, b) from t;\n", "select (\n a,\n b) from t;", "select (\n a, -- x\n b) from t;"),
        ("(cd build; make all)\n", "(cd build\n  make all)", "(cd build\n  make clean\n  make all)"),
        ("run(cmd,  # shell=True\n    t=5)\n", "run(cmd,  #\n    shell=True\n    t=5)", "run(cmd)"),
        ('x = "q\\"" + "b  c"\n', 'x = "q\\"" + "b c"', 'x = "q\\"" + "d"'),
        ('"""usage:  tool"""\n', '"""usage: tool"""', '"""usage: it"""'),
        ("x = `a  b`;\n", "x = `a b`;", "x = `c`;"),
        (".card .title { a }\n", ".card.title { a }", ".card.title { b }"),
        ("#define F (x) (x+1)\n", "#define F(x) (x+1)", "#define F(x) (x+2)"),
        ("echo 2 > file.txt\n", "echo 2> file.txt", "echo 3> file.txt"),
        (
            "def sort_ascending(items):\n    return sorted(items)\n",
            "def sort_descending(items):\n    return sorted(items)",
            "def sort_descending(items):\n    return sorted(items, reverse=True)",
        ),
        ("encoding_table = build()\n", "decoding_table = build()", "decoding_table = None"),
        ("solver.minimize(profit, cost)\n", "solver.maximize(profit, cost)", "solver.maximize(x)"),
        ("service.delete_all_of(users)\n", "service.delete_all_of(user)", "service.keep(user)"),
        ("run_synchronous(job, queue)\n", "run_asynchronous(job, queue)", "run_asynchronous()"),
        # How deep the new lines are meant to stand cannot be known: other lines moved by an odd step.
        (
            SOURCE,
            "       self.first = 1\n       self.second = 2",
            "       self.first = 1\n       self.second = 2\nif late:\n   more()",
        ),
        (
            SOURCE,
            "        self.second = 2\n\ndef get(self):",
            "        self.second = 2\n\n    if late:\n        more()\n\ndef get(self):",
        ),
        (
            SOURCE,
            "      self.first = 1\n      self.second = 2",
            "      self.first = 1\n      if late:\n        self.second = 2",
        ),
    ],
)  # fmt: skip
async def test_what_may_mean_something_else_is_a_miss(
    tmp_path: Path, before: str, old: str, new: str
) -> None:
    (tmp_path / "a.py").write_text(before, encoding="utf-8")
    tool = SmartEdit(Workspace(tmp_path))
    result = await call(
        tool, file_path="a.py", instruction="Change it.", old_string=old, new_string=new
    )
    assert failure_type(result) == MISS
    assert (tmp_path / "a.py").read_text(encoding="utf-8") == before
