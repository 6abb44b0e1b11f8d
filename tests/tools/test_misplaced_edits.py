"""Edits that look right and are not: blanks, comments and names that mean something."""

from pathlib import Path

import pytest

from alhena.system.workspace import Workspace
from alhena.tools.builtin.edit_files import SmartEdit
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


@pytest.mark.requirement("TOOLS-11")
@pytest.mark.parametrize(
    ("name", "here", "given"),
    [
        ("a.css", "div [data-x] { color: red }", "div[data-x] { color: red }"),
        ("a.css", "div[data-x] p { top: 0 }", "div [data-x] p { top: 0 }"),
        ("a.css", "a @media b", "a@media b"),
        ("a.js", "const word = /a +/.test(x)", "const word = /a+/.test(x)"),
        ("a.js", "const word = /a+ b/.test(x)", "const word = /a+b/.test(x)"),
        ("a.sh", "rm -rf build *", "rm -rf build*"),
        ("a.sh", "rm -rf build * && make", "rm -rf build* && make"),
        ("a.sh", "A= foo bar", "A=foo bar"),
        ("a.sh", "A =foo bar", "A=foo bar"),
        ("a.sh", "rm -r / tmp/x", "rm -r /tmp/x"),
        ("a.sh", "/ tmp/x --all", "/tmp/x --all"),
        ("a.sh", "~ user/x --all", "~user/x --all"),
        ("a.sh", "ls ~ user/x", "ls ~user/x"),
        ("a.sh", "git commit - a now", "git commit -a now"),
        ("a.sh", "git commit -a now", "git commit-a now"),
        ("a.sh", 'echo one "two"', 'echo one"two"'),
        ("a.sh", "echo 'one' two", "echo 'one'two"),
        ("a.sh", "echo $ HOME now", "echo $HOME now"),
        ("a.sh", ". ./x.sh arg", "../x.sh arg"),
        ("a.yml", "-a b c", "- a b c"),
        ("a.yml", "- a b c", "-a b c"),
        ("a.yml", "key: &anchor value", "key: & anchor value"),
        ("a.toml", "x = [1]\ny [2] = 3", "x = [1]\ny[2] = 3"),
    ],
)
async def test_a_blank_that_parts_or_joins_is_not_free(
    tmp_path: Path, name: str, here: str, given: str
) -> None:
    tool = SmartEdit(Workspace(tmp_path))
    for before, old in ((here, given), (given, here)):
        (tmp_path / name).write_text(f"{before}\n", encoding="utf-8")
        result = await call(
            tool, file_path=name, instruction="Change.", old_string=old, new_string=f"{old} more"
        )
        assert failure_type(result) == MISS
        assert (tmp_path / name).read_text(encoding="utf-8") == f"{before}\n"


@pytest.mark.parametrize(
    ("here", "given"),
    [
        ("x = compute( a, b )", "x = compute(a, b)"),
        ("total=first+second*third", "total = first + second * third"),
        ("if (a==b) { return c; }", "if (a == b) { return c; }"),
        ("value: int = size", "value:int=size"),
        ("f = (a, b)=>a", "f = (a, b) => a"),
        ('img(src="a", alt="b")', 'img( src = "a", alt = "b" )'),
    ],
)
async def test_a_blank_that_only_looks_nicer_is_free(tmp_path: Path, here: str, given: str) -> None:
    (tmp_path / "a.txt").write_text(f"{here}\n", encoding="utf-8")
    result = await call(
        SmartEdit(Workspace(tmp_path)), file_path="a.txt", instruction="Change.",
        old_string=given, new_string=f"{given} more",
    )  # fmt: skip
    assert result.data is not None, result.llm_content
    assert result.data["rung"] == "tokens"
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == f"{here} more\n"
