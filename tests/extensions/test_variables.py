"""Variables in what extensions bring, and in servers and hooks of settings."""

import json
from pathlib import Path

import pytest

from alhena.config.layers import expand_variables
from tests.support.command import alhena, alhena_reads, keyed
from tests.support.server import ScriptedServer, call, chunk, sse, text

SKILL = """---
name: of-${SHOP}
description: Sells at ${SHOP} in ${workspacePath}, not ${TOKEN}.
---
Run ${extensionPath}${/}run${pathSeparator}x for ${SHOP} with ${TOKEN} and ${other} and $SHOP.
"""
AGENT = """---
name: helper
description: Helps ${SHOP} from ${extensionPath}.
---
You are in ${extensionPath} at ${SHOP}, ${TOKEN}. Task: ${query}
"""


MANIFEST = {
    "name": "demo",
    "version": "1.0.0",
    "settings": [
        {"name": "Shop", "envVar": "SHOP"},
        {"name": "Token", "envVar": "TOKEN", "sensitive": True},
    ],
}


@pytest.fixture
def source(home: Path) -> Path:
    del home
    folder = Path.cwd().parent / "source"
    for name in ("skills/one", "agents"):
        (folder / name).mkdir(parents=True)
    manifest = {**MANIFEST}
    manifest["mcpServers"] = {
        "remote": {"httpUrl": "${SHOP}"},
        "part": {"url": "https://$SHOP/sse", "headers": {"A": "$TOKEN"}},
        "program": {"command": "${SHOP}"},
        "usual": {"httpUrl": "${SHOP:-http://127.0.0.1:1}", "headers": {"A": "$TOKEN"}},
    }
    (folder / "gemini-extension.json").write_text(json.dumps(manifest))
    (folder / "skills" / "one" / "SKILL.md").write_text(SKILL)
    (folder / "agents" / "helper.md").write_text(AGENT)
    return folder


@pytest.mark.parametrize("how", ["install", "link"])
def test_variables_are_put_into_skills_and_agents_and_no_secret(
    home: Path, source: Path, how: str, server: ScriptedServer
) -> None:
    done = alhena("extensions", how, str(source), "--consent")
    assert done.code == 0, done.err
    there = home / ".gemini" / "extensions" / "demo" if how == "install" else source
    assert f"Helps ${{SHOP}} from {there}." in done.out
    for name, value in (("SHOP", "http://shop.test/"), ("TOKEN", "s3cret-value")):
        assert alhena_reads(f"{value}\n".encode(), "extensions", "config", "demo", name).code == 0
    listed = alhena("skills", "list").out
    assert f"Sells at http://shop.test/ in {Path.cwd()}, not ${{TOKEN}}." in listed
    assert f"Helps http://shop.test/ from {there}." in alhena("agents", "list").out
    server.reply(
        sse(chunk(call("activate_skill", {"name": "of-http---shop.test-"}), finish="STOP"))
    )
    server.reply(sse(text("done")))
    ran = alhena("-y", "--skip-trust", "-p", "go", **keyed(server))
    assert ran.code == 0, ran.err
    sent = json.dumps(server.requests[-1].json)
    assert f"Run {there}/run/x for http://shop.test/ with ${{TOKEN}} and ${{other}}" in sent
    assert "s3cret-value" not in sent


def test_a_url_of_a_setting_is_no_fault_before_it_has_a_value(home: Path, source: Path) -> None:
    assert alhena("extensions", "validate", str(source)).code == 0
    done = alhena("extensions", "install", str(source), "--consent")
    assert "URL" not in done.err
    listed = alhena("mcp", "list").out.splitlines()
    told = "turned off: it needs a value for SHOP. Set it: alhena extensions config demo."
    for name in ("remote", "part", "program"):
        assert f"- {name} (from demo) - {told}" in listed
    assert any("usual (from demo): http://127.0.0.1:1" in line for line in listed)
    (source / "gemini-extension.json").write_text(
        json.dumps({**MANIFEST, "mcpServers": {"remote": {"httpUrl": "${SHOP}"}}})
    )
    assert alhena("extensions", "update", "demo", "--consent").code == 0
    started = alhena("-p", "hi", "--model", "demo", "--skip-trust")
    assert (started.code, started.err) == (0, "")
    assert "it needs a value for SHOP" in alhena("mcp", "auth", "remote").err


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("$UNSET", ""),
        ("a-${UNSET}-b", "a--b"),
        ("Bearer $UNSET", "Bearer "),
        ("${UNSET:-x}", "x"),
        (r"\$UNSET", "$UNSET"),
        ("$SET", "$UNSET"),
    ],
)
def test_an_unset_variable_is_empty_where_it_is_sent_or_given(written: str, meant: str) -> None:
    entry = {
        "env": {"A": written},
        "headers": {"B": written},
        "url": written,
        "httpUrl": written,
        "args": [written],
    }
    hooks = {"BeforeTool": [{"hooks": [{"command": written, "env": {"A": written}}]}]}
    environ = {"SET": "$UNSET"}
    found = expand_variables({"mcpServers": {"a.b": entry}, "hooks": hooks}, environ)
    server = found["mcpServers"]["a.b"]
    assert server["env"] == {"A": meant}
    assert server["headers"] == {"B": meant}
    assert server["url"] == server["httpUrl"] == meant
    kept = written if "UNSET" in written and written[0] != "\\" and ":-" not in written else meant
    assert server["args"] == [kept]
    (hook,) = found["hooks"]["BeforeTool"][0]["hooks"]
    assert hook == {"command": written, "env": {"A": meant}}


def test_a_credential_held_back_from_a_workspace_stays_held_back() -> None:
    entry = {"mcpServers": {"s": {"env": {"A": "$KEY"}}}}
    found = expand_variables(entry, {"KEY": "k"}, withheld=frozenset({"KEY"}))
    assert found == entry
