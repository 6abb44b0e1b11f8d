"""Extensions, skills and hooks that two commands change at once, or one that is interrupted."""

import json
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from alhena.extensions import installation
from alhena.frontends.cli import extensions as commands
from alhena.frontends.cli import skills
from alhena.frontends.shared import files
from alhena.system.private_files import change_file
from tests.extensions.test_extensions import install_extension, make_extension
from tests.support.command import Ran, alhena, alhena_process, alhena_reads


def do_first(monkeypatch: pytest.MonkeyPatch, module: object, work: Callable[[], object]) -> None:
    """Has another command change a file when this one is about to."""
    change = change_file

    def after_work(*arguments: Any) -> None:
        monkeypatch.setattr(module, "change_file", change)
        work()
        change(*arguments)

    monkeypatch.setattr(module, "change_file", after_work)


def test_two_commands_at_once_both_keep_their_values_and_rules(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = ({"name": n, "envVar": f"DEMO_{n}", "sensitive": True} for n in "AB")
    source = make_extension(home.parent / "source", settings=[one, other])
    assert alhena("extensions", "install", str(source), "--consent").code == 0

    def config(variable: str) -> None:
        assert alhena_reads(b"s\n", "extensions", "config", "demo", variable).code == 0

    do_first(monkeypatch, installation, lambda: config("DEMO_B"))
    config("DEMO_A")
    secrets = json.loads((home / ".gemini" / "extension-secrets.json").read_text())
    assert secrets == {"demo": {"DEMO_A": "s", "DEMO_B": "s"}}

    def disable_here() -> None:
        assert alhena("extensions", "disable", "demo", "--scope", "workspace").code == 0

    def disable_elsewhere() -> None:
        (home / "elsewhere").mkdir()
        monkeypatch.chdir(home / "elsewhere")
        disable_here()

    do_first(monkeypatch, installation, disable_elsewhere)
    disable_here()
    found = json.loads((home / ".gemini" / "extensions" / "extension-enablement.json").read_text())
    assert len(found["demo"]["overrides"]) == 2


def test_two_commands_at_once_both_disable_their_skill_or_hook(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        folder = home / ".gemini" / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: x\n---\nLook.")
    hooks = [{"type": "command", "name": name, "command": "true"} for name in "ab"]
    settings = home / ".gemini" / "settings.json"
    settings.write_text(json.dumps({"hooks": {"BeforeTool": [{"hooks": hooks}]}}))
    for kind in ("skills", "hooks"):
        do_first(monkeypatch, files, lambda kind=kind: alhena(kind, "disable", "b"))
        assert alhena(kind, "disable", "a").code == 0
    found = json.loads(settings.read_text())
    assert sorted(found["skills"]["disabled"]) == ["a", "b"]
    assert sorted(found["hooksConfig"]["disabled"]) == ["a", "b"]


def test_an_extension_that_came_while_a_person_was_asked_is_not_replaced_by_a_link(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked = make_extension(home.parent / "linked")
    agrees = commands.agrees

    def agree(*_question: str, consent: bool) -> bool:
        monkeypatch.setattr(commands, "agrees", agrees)
        install_extension(home)
        return not consent

    monkeypatch.setattr(commands, "agrees", agree)
    done = alhena("extensions", "link", str(linked))
    assert "there is an extension demo already" in done.err
    place = home / ".gemini" / "extensions" / "demo"
    assert json.loads((place / ".gemini-extension-install.json").read_text())["type"] == "local"


def test_an_installation_does_not_disturb_what_another_command_uninstalls(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = install_extension(home)
    alhena_reads(b"s3\n", "extensions", "config", "demo", "DEMO_KEY")
    other = make_extension(home.parent / "other", name="other")
    rmtree = shutil.rmtree
    install = ("extensions", "install", str(other), "--consent")
    with ThreadPoolExecutor() as pool:
        installing: list[Future[Ran]] = []

        def rmtree_slowly(path: Path, **options: Any) -> None:
            if str(path).endswith(".installing-demo"):
                installing.append(pool.submit(alhena_process, *install))
                time.sleep(2)
            rmtree(path, **options)

        monkeypatch.setattr(shutil, "rmtree", rmtree_slowly)
        done = alhena("extensions", "uninstall", "demo")
        assert installing[0].result().code == 0
    assert (done.code, done.out) == (0, "demo is removed.\n")
    assert not place.exists()
    assert json.loads((home / ".gemini" / "extension-secrets.json").read_text()) == {}
    assert (place.parent / "other").exists()


def test_an_interrupted_uninstallation_leaves_no_secrets(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_extension(home)
    alhena_reads(b"s3\n", "extensions", "config", "demo", "DEMO_KEY")
    rmtree = shutil.rmtree

    def interrupt(path: Path, **options: Any) -> None:
        if str(path).endswith(".installing-demo"):
            raise KeyboardInterrupt
        rmtree(path, **options)

    monkeypatch.setattr(shutil, "rmtree", interrupt)
    assert alhena("extensions", "uninstall", "demo").code == 130
    assert json.loads((home / ".gemini" / "extension-secrets.json").read_text()) == {}
    assert alhena("extensions", "list").err == ""


def test_what_was_uninstalled_while_others_were_updated_is_not_installed_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = install_extension(home)
    (home.parent / "source" / "GEMINI.md").write_text("Speak.")
    fetch = installation.fetch

    def uninstall_first(*arguments: Any) -> list[str]:
        shutil.rmtree(place)  # under the lock that the command would wait for
        return fetch(*arguments)

    monkeypatch.setattr(installation, "fetch", uninstall_first)
    done = alhena("extensions", "update", "--all", "--consent")
    assert done.code == 1
    assert "demo: it was uninstalled meanwhile" in done.err
    assert not place.exists()


def test_a_skill_that_came_while_a_person_was_asked_is_told_and_nothing_is_linked(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        (home / "source" / name).mkdir(parents=True)
        text = f"---\nname: {name}\ndescription: x\n---\nLook."
        (home / "source" / name / "SKILL.md").write_text(text)

    def agree(*_question: str, consent: bool) -> bool:
        (home / ".gemini" / "skills" / "b").mkdir(parents=True)
        return not consent

    monkeypatch.setattr(skills, "agrees", agree)
    done = alhena("skills", "link", str(home / "source"))
    assert "there is a skill b in" in done.err
    assert [each.name for each in (home / ".gemini" / "skills").iterdir()] == ["b"]
