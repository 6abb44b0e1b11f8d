"""`alhena policy test`: the examples beside rules, tried."""

import json
from pathlib import Path

import pytest

from alhena.frontends.main import run

GOOD = """
[[rule]]
toolName = "write_file"
argsPattern = '\\.lock"'
decision = "deny"
priority = 1
match = ['{"file_path": "a.lock"}']
not_match = [{ args = { file_path = "a.txt" } }]
"""
BAD = GOOD.replace("a.txt", "b.lock")


def write(name: str, source: str) -> str:
    Path(name).write_text(source, encoding="utf-8")
    return name


def alhena(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = run(["policy", "test", *argv])
    out, err = capsys.readouterr()
    return code, out, err


def test_each_rule_has_a_line_and_all_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    plain = '[[rule]]\ntoolName = "x"\ndecision = "allow"\npriority = 1\nreviewed = true\n'
    file = write("p.toml", GOOD + plain)
    assert alhena(capsys, file) == (
        0,
        """\
ok     p.toml:2 rule 1: deny, 2 examples
ok     p.toml:9 rule 2: allow, 0 examples
       warning: reviewed is no field of a rule; it is ignored
2 rules, 2 examples, 0 failed
""",
        "",
    )


def test_a_rule_for_a_tool_that_is_not_there_is_pointed_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rule = '[[rule]]\ntoolName = "{}"\n{}decision = "deny"\npriority = 1\n'
    code, out, _ = alhena(capsys, write("p.toml", rule.format("raed_file", "")))
    assert code == 1
    assert "error: toolName 'raed_file' is no built-in tool. Did you mean read_file?" in out
    code, out, _ = alhena(
        capsys, write("p.toml", rule.format("raed_file", "").replace("deny", "allow"))
    )
    assert code == 0
    assert "warning: toolName 'raed_file' is no built-in tool. Did you mean read_file?" in out
    for name, more in (
        *(("ReadFileTool", ""), ("read_file", ""), ("raed*", ""), ("mcp_x_raed_file", "")),
        *(("x__raed_file", ""), ("raed_file", 'mcpName = "x"\n'), ("my_linter", "")),
    ):
        _, out, _ = alhena(capsys, write("p.toml", rule.format(name, more)))
        assert "warning" not in out, name


def test_a_broken_example_is_named_and_the_exit_code_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = alhena(capsys, write("p.toml", GOOD + BAD))
    failed = next(line for line in out.splitlines() if line.startswith("FAILED"))
    assert (code, err) == (1, "")
    assert failed.startswith("FAILED p.toml:10 rule 2: not_match example")
    assert "b.lock" in failed
    assert out.endswith("2 rules, 4 examples, 1 failed\n")


def test_a_rule_that_is_none_fails_too(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = alhena(capsys, write("p.toml", "[[rule]]\ntoolName = 'x\\u001b[2J'\n"))
    assert (code, "decision is missing" in out, "\x1b" in out) == (1, True, False)


@pytest.mark.parametrize("source", ["[[rule]", "rule = 1", f"{GOOD}[[rules]]\n", None])
def test_a_file_that_cannot_be_read_is_a_configuration_error(
    capsys: pytest.CaptureFixture[str], source: str | None
) -> None:
    good = write("good.toml", BAD)
    if source is not None:
        write("p.toml", source)
    code, out, err = alhena(capsys, good, "p.toml")
    assert code == 52
    assert "FAILED good.toml:2 rule 1" in out
    assert err.startswith("alhena: p.toml:")
    assert err.count("\n") == 1


def test_without_a_file_the_users_policies_are_tried(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    assert alhena(capsys) == (0, "0 rules, 0 examples, 0 failed\n", "")
    policies = home / ".gemini" / "policies"
    policies.mkdir(parents=True)
    write(str(policies / "p.toml"), GOOD)
    other = write("other.toml", BAD)
    settings = json.dumps({"policyPaths": [str(Path(other).absolute())]})
    write(str(home / ".gemini" / "settings.json"), settings)
    code, out, _ = alhena(capsys)
    assert (code, out.count("\n")) == (1, 3)


def test_a_directory_stands_for_its_files(capsys: pytest.CaptureFixture[str]) -> None:
    Path("policies").mkdir()
    write("policies/a.toml", GOOD)
    write("policies/b.toml", BAD)
    code, out, _ = alhena(capsys, "policies")
    assert (code, out.count("policies/a.toml"), out.count("policies/b.toml")) == (1, 1, 1)


def test_json_is_one_document_with_every_rule(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = alhena(capsys, "--json", write("p.toml", GOOD + BAD), "gone.toml")
    document = json.loads(out)
    assert (code, document["ok"]) == (52, False)
    assert document["summary"] == {"rules": 2, "examples": 4, "failed": 1}
    one, two = document["rules"]
    assert (one["ok"], one["line"], one["examples"], one["problems"]) == (True, 2, 2, [])
    assert one["rule"]["toolName"] == ["write_file"]
    assert (two["ok"], two["rule"], two["problems"][0]["field"]) == (False, None, "not_match")
    assert [problem["file"] for problem in document["problems"]] == ["gone.toml"]


def test_what_it_cannot_be_told_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = alhena(capsys, "--what")
    assert (code, out) == (2, "")
    assert "--what" in err


def test_a_safety_checker_that_is_none_fails_beside_the_rules(
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = write("p.toml", f"{GOOD}[[safety_checker]]\ntoolName = 'write_file'\n")
    code, out, _ = alhena(capsys, file)
    assert (code, out.startswith("ok     p.toml:2 rule 1")) == (1, True)
    assert out.splitlines()[1].startswith("FAILED p.toml:")
    document = json.loads(alhena(capsys, file, "--json")[1])
    assert (document["ok"], len(document["problems"])) == (False, 1)
