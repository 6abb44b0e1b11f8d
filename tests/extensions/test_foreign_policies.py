"""Policies of extensions that cannot be read: said once, and runs go on; one's own stop a run."""

import json
from pathlib import Path

import pytest

from tests.support.command import alhena, keyed
from tests.support.server import ScriptedServer, sse, text

GOOD = '[[rule]]\ntoolName = "write_file"\ndecision = "deny"\npriority = 5\n'
ODD = {
    "table": ('[policy]\nversion = "1"\n', "policy is not known here"),
    "plural": (GOOD.replace("[[rule]]", "[[rules]]"), "rules is not known here"),
    "single": (GOOD.replace("[[rule]]", "[rule]"), "not written as [[rule]]"),
    "decision": (GOOD.replace('"deny"', '"forbid"'), "decision cannot be 'forbid'"),
    "mode": (f'{GOOD}modes = ["turbo"]\n', "modes cannot be"),
    "priority": (GOOD.replace("= 5", "= 5000"), "priority cannot be 5000"),
    "pattern": (f'{GOOD}argsPattern = "("\n', "argsPattern"),
    "no TOML": ("[[rule]\n", "is not TOML"),
    "no UTF-8": ("# caf\xe9\n", "is not UTF-8"),
    "slip": (GOOD.replace("write_file", "write_fiel"), "Did you mean write_file?"),
}


def source(tmp_path: Path, content: str) -> Path:
    folder = tmp_path / "guard"
    (folder / "policies").mkdir(parents=True)
    manifest = {"name": "guard", "version": "1.0.0"}
    (folder / "gemini-extension.json").write_text(json.dumps(manifest))
    (folder / "policies" / "p.toml").write_bytes(content.encode("latin-1"))
    return folder


def explain(tool: str) -> str:
    asked = ("policy", "explain", "--tool", tool, "--args", "{}", "--mode", "yolo", "--json")
    return alhena(*asked).json["decision"]


@pytest.mark.parametrize("command", ["install", "link"])
@pytest.mark.parametrize("case", ODD)
def test_an_odd_policy_of_an_extension_is_said_at_once_and_stops_no_run(
    case: str, command: str, tmp_path: Path, server: ScriptedServer
) -> None:
    content, told = ODD[case]
    done = alhena("extensions", command, str(source(tmp_path, content)), "--consent")
    assert done.code == 0
    assert told in done.err
    assert "What it would restrict is not restricted." in done.err
    assert told in alhena("extensions", "list").out
    server.reply(sse(text("fine")))
    ran = alhena("-p", "hi", **keyed(server))
    assert (ran.code, ran.out.strip(), ran.err) == (0, "fine", "")


def test_the_sound_rules_beside_an_odd_one_hold(tmp_path: Path) -> None:
    bad = '\n[[rule]]\ntoolName = "glob"\ndecision = "maybe"\npriority = 5\n'
    folder = source(tmp_path, f'name = "x"\n{GOOD}{bad}')
    done = alhena("extensions", "install", str(folder), "--consent")
    assert "decision cannot be 'maybe'" in done.err
    assert (explain("write_file"), explain("glob")) == ("deny", "allow")


@pytest.mark.parametrize("case", ODD)
def test_one_s_own_odd_policy_stops_a_run(case: str, home: Path, server: ScriptedServer) -> None:
    content, told = ODD[case]
    path = home / ".gemini" / "policies" / "p.toml"
    path.parent.mkdir(parents=True)
    path.write_bytes(content.encode("latin-1"))
    ran = alhena("-p", "hi", **keyed(server))
    assert ran.code == 52
    assert told in ran.err


@pytest.mark.parametrize("value", ['"x"', "1.5", "true", "2026-01-01"])
def test_an_unknown_value_at_the_top_is_a_warning(value: str, home: Path) -> None:
    path = home / ".gemini" / "policies" / "p.toml"
    path.parent.mkdir(parents=True)
    path.write_text(f"title = {value}\n{GOOD}")
    assert explain("write_file") == "deny"
    told = alhena("policy", "explain", "--tool", "glob", "--args", "{}").err
    assert "p.toml: title is ignored" in told


@pytest.mark.parametrize("prefix", ['""', '["", "git"]'])
def test_an_empty_prefix_means_any_command(prefix: str, home: Path) -> None:
    path = home / ".gemini" / "policies" / "p.toml"
    path.parent.mkdir(parents=True)
    path.write_text(f'[[rule]]\ncommandPrefix = {prefix}\ndecision = "deny"\npriority = 5\n')
    command = ("--tool", "run_shell_command", "--args", '{"command": "npm ci | tee x"}')
    told = alhena("policy", "explain", *command, "--json").json
    assert (told["decision"], told["rule"]["file"]) == ("deny", str(path))
    assert explain("glob") == "allow"
