"""Skills of the real command."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.skills.test_files import GOOD, written
from tests.support.command import alhena, keyed
from tests.support.server import ScriptedServer, call, chunk, sse, text

TRUSTED = {"GEMINI_CLI_TRUST_WORKSPACE": "true"}


def allowing(home: Path) -> None:
    rules = home / ".gemini" / "policies"
    rules.mkdir(parents=True, exist_ok=True)
    rule = '[[rule]]\ntoolName = "activate_skill"\ndecision = "allow"\npriority = 5\n'
    (rules / "mine.toml").write_text(rule, encoding="utf-8")


def calling(server: ScriptedServer, name: str, args: dict[str, Any]) -> None:
    server.reply(sse(chunk(call(name, args, id=name), finish="STOP")))


def system_prompt(server: ScriptedServer, index: int = -1) -> str:
    return server.requests[index].json["systemInstruction"]["parts"][0]["text"]


@pytest.mark.requirement("EXT-03")
def test_a_skill_is_named_to_the_model_activated_and_its_folder_read(
    home: Path, project: Path, server: ScriptedServer
) -> None:
    folder = written(home / ".gemini" / "skills", "good").parent
    (folder / "more.txt").write_text("further words", encoding="utf-8")
    allowing(home)
    read = {"absolute_path": str(folder / "more.txt")}
    calling(server, "activate_skill", {"name": "nothing"})
    calling(server, "read_file", read)
    calling(server, "activate_skill", {"name": "good"})
    calling(server, "read_file", read)
    server.reply(sse(text("done")))
    ran = alhena("-p", "go", "-o", "stream-json", **keyed(server))
    assert ran.code == 0, ran.err
    assert "<name>good</name>" in system_prompt(server)
    statuses = [each["status"] for each in ran.of_type("tool_result")]
    assert statuses == ["error", "error", "success", "success"]
    answers = json.dumps(server.requests[-1].json["contents"])
    assert "Available skills are: good" in answers
    assert "Do it." in answers
    assert "more.txt" in answers
    assert "further words" in answers


def test_skills_of_a_project_are_there_if_it_is_trusted(
    home: Path, project: Path, server: ScriptedServer
) -> None:
    written(project / ".agents" / "skills", "good")
    allowing(home)
    server.reply(sse(text("one")), sse(text("two")))
    ran = alhena("-p", "go", **keyed(server))
    assert "skills" not in system_prompt(server)
    assert ".agents/skills" in ran.err
    alhena("-p", "go", **keyed(server), **TRUSTED)
    assert "<name>good</name>" in system_prompt(server)


def test_without_leave_to_activate_them_skills_are_not_named(
    home: Path, project: Path, server: ScriptedServer
) -> None:
    written(home / ".gemini" / "skills", "good")
    server.reply(sse(text("one")))
    alhena("-p", "go", **keyed(server))
    assert "available_skills" not in system_prompt(server)


def test_skills_are_listed_disabled_and_enabled(
    home: Path, project: Path, server: ScriptedServer
) -> None:
    written(home / ".agents" / "skills", "good")
    written(home / ".gemini" / "skills", "bad", "x")
    allowing(home)
    ran = alhena("skills", "list")
    assert (ran.code, "good  does good" in ran.out) == (0, True)
    assert "bad/SKILL.md is not used" in ran.err
    assert alhena("skills", "disable", "lost").code == 2
    assert alhena("skills", "disable", "good").code == 0
    assert alhena("skills", "list", "--json").json[0]["enabled"] is False
    server.reply(sse(text("one")), sse(text("two")))
    alhena("-p", "go", **keyed(server))
    assert "good" not in system_prompt(server)
    assert alhena("skills", "enable", "good").out == "good is enabled.\n"
    alhena("-p", "go", **keyed(server))
    assert "<name>good</name>" in system_prompt(server)


def test_a_disabled_skill_of_a_project_stays_disabled_there(home: Path, project: Path) -> None:
    written(project / ".gemini" / "skills", "good", GOOD)
    ran = alhena("skills", "disable", "good", "--scope", "workspace", **TRUSTED)
    assert ran.code == 0, ran.err
    assert "good (disabled)" in alhena("skills", "list", **TRUSTED).out
    settings = project / ".gemini" / "settings.json"
    assert json.loads(settings.read_text(encoding="utf-8")) == {"skills": {"disabled": ["good"]}}
