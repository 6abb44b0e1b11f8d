"""Extensions through the command, in a home directory of their own."""

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from alhena.config.effective_settings import open_place
from alhena.config.extensions import is_enabled, load_extensions
from tests.support.command import alhena, alhena_reads
from tests.support.patience import PATIENCE_S

HOOKS = {
    "hooks": {
        "BeforeTool": [{"hooks": [{"type": "command", "command": "${extensionPath}/check.sh"}]}]
    }
}


def make_extension(folder: Path, **manifest: object) -> Path:
    """An extension that brings one thing of each kind."""
    for name in ("commands", "skills/reviewer", "hooks", "policies", "agents"):
        (folder / name).mkdir(parents=True)
    full = {
        "name": "demo",
        "version": "1.2.0",
        "mcpServers": {"files": {"command": "server", "args": ["${extensionPath}${/}s.py"]}},
        "excludeTools": ["web_fetch"],
        "settings": [{"name": "Key", "envVar": "DEMO_KEY", "sensitive": True}],
        **manifest,
    }
    (folder / "gemini-extension.json").write_text(json.dumps(full))
    (folder / "GEMINI.md").write_text("Speak plainly.")
    (folder / "commands" / "say.toml").write_text('prompt = "say"')
    (folder / "skills" / "reviewer" / "SKILL.md").write_text(
        "---\nname: reviewer\ndescription: Reviews.\n---\nLook."
    )
    (folder / "hooks" / "hooks.json").write_text(json.dumps(HOOKS))
    (folder / "policies" / "p.toml").write_text(
        '[[rule]]\ntoolName = "write_file"\ndecision = "deny"\npriority = 5\n'
    )
    (folder / "agents" / "helper.md").write_text("---\nname: helper\ndescription: Helps.\n---\nHi")
    return folder


def install_extension(home: Path) -> Path:
    source = make_extension(home.parent / "source")
    done = alhena("extensions", "install", str(source), "--consent")
    assert done.code == 0, done.err
    return home / ".gemini" / "extensions" / "demo"


@pytest.mark.requirement("EXT-02")
def test_nothing_is_installed_without_consent_and_all_it_brings_is_shown(home: Path) -> None:
    done = alhena("extensions", "install", str(make_extension(home.parent / "source")))
    place = home / ".gemini" / "extensions" / "demo"
    assert done.code == 2
    for each in (
        f"server {place}/s.py",
        f"hook BeforeTool: {place}/check.sh",
        "web_fetch",
        "skill reviewer: Reviews.",
        "agent: helper",
        "command: /say",
        "policy: p.toml",
        "DEMO_KEY, a secret",
        "GEMINI.md",
    ):
        assert each in done.out
    assert "--consent" in done.err
    assert not place.exists()


@pytest.mark.requirement("EXT-02")
def test_what_an_extension_brings_is_merged_and_only_restricts(home: Path) -> None:
    place = install_extension(home)
    kept = json.loads((place / ".gemini-extension-install.json").read_text())
    assert kept == {"source": str(home.parent / "source"), "type": "local"}
    assert "/say" in alhena("commands", "list").out
    assert "reviewer" in alhena("skills", "list").out
    assert f"{place}/check.sh: enabled" in alhena("hooks", "list").out
    assert "helper" in alhena("agents", "list").out
    assert "Speak plainly." in alhena("memory", "show").out
    settings = open_place(home.parent / "project", {"HOME": str(home)}).settings
    assert settings.mcp_servers["files"]["trust"] is False
    assert settings.mcp_servers["files"]["args"] == [f"{place}/s.py"]
    for tool in ("web_fetch", "write_file"):
        argv = ("policy", "explain", "--tool", tool, "--args", "{}", "--mode", "yolo", "--json")
        assert json.loads(alhena(*argv).out)["decision"] == "deny"


@pytest.mark.requirement("EXT-02")
def test_a_changed_one_is_not_used_until_it_is_accepted_or_fetched_again(home: Path) -> None:
    place = install_extension(home)
    (place / "hooks" / "hooks.json").write_text(json.dumps(HOOKS).replace("check", "other"))
    done = alhena("hooks", "list")
    assert "other.sh" not in done.out
    listed = alhena("--list-extensions")
    assert listed.out == "No extensions installed.\n"
    assert listed.err.count("have changed since it was installed") == 1
    refused = alhena("extensions", "enable", "demo")
    assert refused.code == 2
    assert alhena("extensions", "enable", "demo", "--consent").code == 0
    assert "other.sh: enabled" in alhena("hooks", "list").out
    assert alhena("extensions", "update", "demo", "--consent").code == 0
    assert "check.sh: enabled" in alhena("hooks", "list").out
    assert "up to date" in alhena("extensions", "update", "demo").out


@pytest.mark.requirement("EXT-02")
def test_enabling_disabling_choosing_and_removing(home: Path) -> None:
    place = install_extension(home)
    assert alhena("-l").out == "Installed extensions:\n- demo\n"
    alhena("extensions", "disable", "demo", "--scope", "workspace")
    assert "No extensions" in alhena("-l").out
    rules = json.loads((place.parent / "extension-enablement.json").read_text())
    assert rules == {"demo": {"overrides": [f"!{home.parent}/project/*"]}}
    assert "- demo" in alhena("-l", "-e", "demo").out
    alhena("extensions", "enable", "demo")
    assert "No extensions" in alhena("-l", "-e", "none").out
    alhena_reads(b"s3\n", "extensions", "config", "demo", "DEMO_KEY")
    secrets = home / ".gemini" / "extension-secrets.json"
    assert secrets.stat().st_mode & 0o777 == 0o600
    found = load_extensions({"HOME": str(home)}, home.parent)
    assert found.all[0].environ == {"DEMO_KEY": "s3"}
    assert alhena("extensions", "uninstall", "demo").code == 0
    assert not place.exists()
    assert json.loads(secrets.read_text()) == {}


@pytest.mark.requirement("EXT-02")
def test_a_linked_one_follows_its_source(home: Path) -> None:
    source = make_extension(home.parent / "source")
    assert alhena("extensions", "link", str(source), "--consent").code == 0
    (source / "commands" / "more.toml").write_text('prompt = "more"')
    assert "/more" in alhena("commands", "list").out
    alhena("extensions", "uninstall", "demo")
    assert (source / "gemini-extension.json").exists()


@pytest.mark.requirement("EXT-02")
def test_from_git_and_from_an_archive_but_not_through_a_link(home: Path) -> None:
    source = make_extension(home.parent / "source")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-C", str(source)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    done = alhena("extensions", "install", f"file://{source}", "--consent")
    assert done.code == 0, done.err
    of_git = ["git", "-C", str(home / ".gemini" / "extensions" / "demo"), "remote", "get-url"]
    remote = subprocess.run([*of_git, "origin"], check=True, capture_output=True, text=True)
    assert remote.stdout == f"file://{source}\n"  # the reference updates it by this
    alhena("extensions", "uninstall", "demo")
    archive = home.parent / "demo.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(source / "gemini-extension.json", "top/gemini-extension.json")
    assert alhena("extensions", "install", str(archive), "--consent").code == 0
    alhena("extensions", "uninstall", "demo")
    with tarfile.open(archive, "w:gz") as packed:
        link = tarfile.TarInfo("gemini-extension.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        packed.addfile(link, io.BytesIO())
    refused = alhena("extensions", "install", str(archive), "--consent")
    assert refused.code == 52
    assert "gemini-extension.json cannot be read: No such file" in refused.err
    assert os.listdir(home / ".gemini" / "extensions") == []


def test_a_source_of_another_kind_is_named_as_it_was_given(home: Path) -> None:
    refused = alhena("extensions", "install", "git@host.example:a/b", "--consent")
    assert refused.code == 42
    assert "cannot install git@host.example:a/b: it is no folder" in refused.err


@pytest.mark.requirement("EXT-02")
def test_an_interrupted_update_leaves_the_old_one_and_blocks_nothing(home: Path) -> None:
    place = install_extension(home)
    place.rename(place.with_name(".replaced-demo"))
    (place.parent / ".installing-x" / "content").mkdir(parents=True)
    assert "- demo" in alhena("-l").out
    assert alhena("extensions", "update", "demo", "--consent").code == 0
    assert not (place.parent / ".installing-x").exists()


@pytest.mark.requirement("EXT-02")
def test_a_kill_at_any_step_leaves_the_old_one_or_the_new_one_whole_and_blocks_nothing(
    home: Path,
) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.extensions.killing", "12"],
        cwd=home,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert set(json.loads(ran.stdout)["left"]) == {"none", "1.0.0", "2.0.0"}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{\n,", "gemini-extension.json:2: not valid JSON"),
        ('{"name": "bad"}', "version"),
        ('{"name": "a b", "version": "1"}', "letters, digits and dashes"),
        ('{"name": "other", "version": "1"}', "names have to match"),
        ('{"name": "bad", "version": "1", "excludeTools": 3}', "excludeTools"),
    ],
)
def test_a_broken_one_is_named_once_and_the_others_work(
    home: Path, content: str, told: str
) -> None:
    bad = install_extension(home).with_name("bad")
    bad.mkdir()
    (bad / "gemini-extension.json").write_text(content)
    done = alhena("-l")
    assert done.out == "Installed extensions:\n- demo\n"
    assert done.err.count("\n") == 1
    assert told in done.err


@pytest.mark.parametrize(
    ("rules", "enabled"),
    [
        ((), True),
        (("!/home/a/*",), False),
        (("!/home/a/*", "/work/x/*"), True),
        (("!/work/*", "/work/x/"), True),
        (("!/work/y/*",), True),
    ],
)
def test_the_last_rule_that_matches_counts(rules: tuple[str, ...], enabled: bool) -> None:
    assert is_enabled(rules, Path("/work/x"), {"HOME": "/home/a"}) is enabled
