"""A home and a project as Gemini CLI 0.61 writes them (`extensions install|link|disable|config`,
`skills install|link|disable`, `mcp add`, `extensions new`, files as its documentation has them)."""

import json
import sys
from pathlib import Path

import pytest

from tests.config.places import write
from tests.mcp.kit import SERVED, WAITED_FOR, tool
from tests.support.command import Ran, alhena, keyed
from tests.support.server import ScriptedServer, sse, text

pytestmark = [pytest.mark.requirement("EXT-02"), pytest.mark.requirement("WORLD-04")]

MANIFEST = {
    "name": "full",
    "version": "1.2.0",
    "description": "Everything",
    "contextFileName": ["CTX.md"],
    "excludeTools": ["web_fetch", "run_shell_command(rm -rf)"],
    "mcpServers": {
        "srv": {
            "command": sys.executable,
            "args": ["${extensionPath}${/}server.py"],
            "cwd": "${extensionPath}",
            "env": {"BASE": "$MY_BASE"},
            "timeout": WAITED_FOR,
            "trust": True,
        }
    },
    "settings": [
        {"name": "API Token", "description": "it", "envVar": "MY_TOKEN", "sensitive": True},
        {"name": "Base", "description": "url", "envVar": "MY_BASE"},
    ],
    "themes": [{"name": "green", "type": "custom", "text": {"primary": "#a6e3a1"}}],
    "plan": {"directory": ".plans"},
}
HOOKS = """{"hooks": {"SessionStart": [{"matcher": "startup", "hooks": [
    {"type": "command", "command": "echo ${extensionPath} $MY_BASE > ${extensionPath}/../../hooked"}
]}]}}"""
BROKEN_POLICY = """[[rule]]
toolName = "grep_search"
argsPattern = "(\\.env|id_rsa|passwd)"
decision = "deny"
priority = 200
"""
AUDITOR = """---
name: security-auditor
description: Specialized in finding security vulnerabilities in code.
kind: local
tools:
  - read_file
  - grep_search
  - mcp_usrv_*
model: gemini-3-flash-preview
temperature: 0.2
max_turns: 10
---

You are a ruthless Security Auditor.
"""


def skill(name: str, description: str) -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\nThe body.\n"


def rule(*overrides: str) -> dict[str, list[str]]:
    return {"overrides": list(overrides)}


@pytest.fixture
def there(home: Path, project: Path, tmp_path: Path) -> Path:
    """The folder that extensions and skills were installed from."""
    mine, sources = home / ".gemini", tmp_path / "sources"
    script = write(sources / "full.json", {"tools": [tool("of_full")]})
    of_user = write(sources / "user.json", {"tools": [tool("of_user")]})
    args = [str(SERVED / "odd.py"), str(of_user)]
    usrv = {"command": sys.executable, "args": args, "timeout": WAITED_FOR, "trust": True}
    extensions = {
        "custom-commands": (
            "local",
            {"name": "custom-commands", "version": "1.0.0"},
            {"commands/fs/grep-code.toml": 'prompt = "Find {{args}}"'},
        ),
        "full": (
            "local",
            MANIFEST,
            {
                "CTX.md": "context of full",
                ".env": "MY_BASE=u-value",
                "commands/gcs/sync.toml": 'prompt = "sync {{args}}"\ndescription = "Sync it"\n',
                "commands/deploy.toml": 'prompt = "deploy"\n',
                "skills/sk/SKILL.md": skill("sk", "A skill of the extension"),
                "agents/exagent.md": "---\nname: exagent\ndescription: An agent\n---\nYou are it.",
                "hooks/hooks.json": HOOKS,
                "policies/p.toml": '[[rule]]\ntoolName = "write_file"\ndecision = "deny"\n'
                "priority = 100\n",
                "server.py": f"import runpy, sys\nsys.argv[1:] = [{str(script)!r}]\n"
                f"runpy.run_path({str(SERVED / 'odd.py')!r}, run_name='__main__')\n",
            },
        ),
        "policy-example": (
            "local",
            {"name": "policy-example", "version": "1.0.0"},
            {"policies/policies.toml": BROKEN_POLICY},
        ),
        "skills-example": (
            "github-release",
            {"name": "skills-example", "version": "1.0.0"},
            {"skills/greeter/SKILL.md": skill("greeter", "A friendly greeter skill")},
        ),
        "themes-example": ("local", {"name": "themes-example", "version": "1.0.0"}, {}),
        "exclude": ("link", {"name": "exclude", "version": "1.0.0", "excludeTools": ["glob"]}, {}),
    }
    for name, (kind, manifest, files) in extensions.items():
        folder = mine / "extensions" / name
        metadata = {"source": str(sources / name), "type": kind}
        if kind == "github-release":
            metadata |= {"autoUpdate": True, "releaseTag": "v1"}
        write(folder / ".gemini-extension-install.json", metadata)
        place = sources / name if kind == "link" else folder
        write(place / "gemini-extension.json", manifest)
        for path, content in files.items():
            write(place / path, content)
    everywhere, here = f"{home}/*", f"{project}/*"
    write(
        mine / "extensions" / "extension-enablement.json",
        {
            "full": rule(everywhere),
            "custom-commands": rule(f"!{everywhere}"),
            "policy-example": rule(everywhere),
            "skills-example": rule(everywhere, f"!{here}"),
            "themes-example": rule(f"!{everywhere}", here),
            "exclude": rule(everywhere),
        },
    )
    write(mine / "extension_integrity.json", {"store": {"full": {"hash": "e2", "signature": "9"}}})
    write(mine / "gemini-credentials.json", "56b9aa42:197cc348:494cf2c2")
    write(mine / "projects.json", {"projects": {str(project): "project"}})
    write(mine / "settings.json", {"mcpServers": {"usrv": usrv}})
    write(mine / "skills" / "alpha" / "SKILL.md", skill("alpha", "Alpha does a"))
    write(mine / "skills" / "beta skill" / "SKILL.md", skill("beta skill", "Beta: has a colon"))
    write(sources / "gamma" / "SKILL.md", skill("gamma", ">-\n  Gamma folded\n  text"))
    (mine / "skills" / "gamma").symlink_to(sources / "gamma")
    write(mine / "commands" / "say.toml", 'prompt = "say {{args}}"\ndescription = "Says"\n')
    write(mine / "commands" / "git" / "review.toml", 'prompt = """\nreview @{note.txt}\n"""\n')
    write(mine / "agents" / "security-auditor.md", AUDITOR)
    write(project / "note.txt", "the note")
    write(project / ".gemini" / "commands" / "deploy.toml", 'prompt = "project deploy"\n')
    write(project / ".gemini" / "skills" / "alpha" / "SKILL.md", skill("alpha", "Alpha here"))
    write(project / ".gemini" / "settings.json", {"skills": {"disabled": ["gamma", "beta skill"]}})
    write(project / ".gemini" / "agents" / "mine.md", AUDITOR.replace("security-auditor", "mine"))
    write(mine / "trustedFolders.json", {str(project): "TRUST_FOLDER"})
    return sources


def ask_model(server: ScriptedServer, prompt: str) -> Ran:
    server.reply(sse(text("fine")))
    return alhena("-y", "--skip-trust", "-p", prompt, **keyed(server))


def test_all_of_it_is_listed_and_what_is_not_used_is_named(there: Path, home: Path) -> None:
    ran = alhena("extensions", "list", "--json")
    used = {each["name"]: each["used"] for each in ran.json}
    assert used == {
        "custom-commands": False,
        "exclude": True,
        "full": True,
        "policy-example": True,
        "skills-example": False,
        "themes-example": True,
    }
    assert ran.err == ""
    why = "policies.toml: is not TOML: Unescaped"
    assert why in alhena("extensions", "list").out
    assert "It needs values for MY_TOKEN:" in alhena("extensions", "list").out
    listed = alhena("skills", "list").out
    assert "alpha  Alpha here\n" in listed
    assert "beta skill (disabled)  Beta: has a colon\n" in listed
    assert "gamma (disabled)  Gamma folded text\n" in listed
    assert "sk  A skill of the extension\n" in listed
    names = [line for line in alhena("commands", "list").out.splitlines() if line[0] == "/"]
    assert [each.split()[0] for each in names] == [
        "/deploy",
        "/full.deploy",
        "/gcs:sync",
        "/git:review",
        "/say",
    ]
    agents = alhena("agents", "list")
    assert "security-auditor  Specialized" in agents.out
    assert "exagent  An agent" in agents.out
    assert "has not been accepted" in agents.err + agents.out
    servers = alhena("mcp", "list").out
    assert (
        f"✓ srv (from full): {sys.executable} {home}/.gemini/extensions/full/server.py" in servers
    )
    assert "✓ usrv: " in servers


def test_all_of_it_is_used(there: Path, home: Path, server: ScriptedServer) -> None:
    ran = ask_model(server, "/say hello")
    assert (ran.code, ran.out) == (0, "fine\n"), ran.err
    request = server.requests[-1].json
    assert request["contents"][-1]["parts"][0]["text"] == "say hello"
    whole = json.dumps(request)
    assert "context of full" in whole
    assert "<name>alpha</name>" in whole
    assert "Alpha here" in whole
    assert "<name>gamma</name>" not in whole
    assert "security-auditor" in whole
    declared = {each["name"] for each in request["tools"][0]["functionDeclarations"]}
    assert {"read_file", "activate_skill", "of_user", "of_full"} <= declared
    assert not {"web_fetch", "glob", "write_file"} & declared
    hooked = (home / ".gemini" / "hooked").read_text(encoding="utf-8")
    assert hooked == f"{home}/.gemini/extensions/full u-value\n"
    for prompt, sent in (
        ("/git:review", "the note"),
        ("/deploy", "project deploy"),
        ("/full.deploy", "deploy"),
        ("/gcs:sync now", "sync now"),
    ):
        ask_model(server, prompt)
        assert sent in json.dumps(server.requests[-1].json["contents"][-1])


def test_what_is_written_keeps_the_forms_and_members_of_others(
    there: Path, home: Path, project: Path
) -> None:
    assert alhena("extensions", "enable", "custom-commands").code == 0
    assert alhena("extensions", "disable", "full", "--scope", "workspace").code == 0
    rules = json.loads((home / ".gemini/extensions/extension-enablement.json").read_text())
    assert rules["full"] == rule(f"{home}/*", f"!{project}/*")
    assert rules["exclude"] == rule(f"{home}/*")
    write(there / "themes-example" / "gemini-extension.json",
          {"name": "themes-example", "version": "2.0.0"})  # fmt: skip
    assert alhena("extensions", "update", "themes-example", "--consent").code == 0
    kept = json.loads(
        (home / ".gemini/extensions/themes-example/.gemini-extension-install.json").read_text()
    )
    assert kept == {"source": str(there / "themes-example"), "type": "local"}
    assert alhena("skills", "enable", "beta-skill", "--scope", "workspace").code == 0
    assert json.loads((project / ".gemini/settings.json").read_text()) == {
        "skills": {"disabled": ["gamma"]}
    }
    assert alhena("skills", "uninstall", "beta-skill").code == 0
    assert not (home / ".gemini/skills/beta skill").exists()
