"""Custom commands of the real command, unattended."""

import os
from base64 import b64encode
from pathlib import Path

import pytest

from tests.commands.test_files import written
from tests.support.command import alhena, alhena_reads, keyed
from tests.support.media import png
from tests.support.server import ScriptedServer, sse, text

TRUSTED = {"GEMINI_CLI_TRUST_WORKSPACE": "true"}


def mine(home: Path, name: str, prompt: str) -> Path:
    return written(home / ".gemini" / "commands", name, f"prompt = '''{prompt}'''")


def sent(server: ScriptedServer) -> str:
    """The text of the last prompt that the model was sent."""
    return server.requests[-1].json["contents"][-1]["parts"][0]["text"]


def answering(server: ScriptedServer) -> dict[str, str]:
    server.reply(sse(text("fine")))
    return keyed(server)


@pytest.mark.requirement("EXT-01")
@pytest.mark.parametrize(
    ("prompt", "given", "said"),
    [
        ("Say {{args}}!", "/git:say hello  you", "Say hello  you!"),
        ("Say it.", "/git:say hello", "Say it.\n\n/git:say hello"),
        ("Say it.", "/git:say", "Say it."),
        ("Say {{args}}!", "/git:say @{a.txt} !{id} {{args}}", "Say @{a.txt} !{id} {{args}}!"),
        ("[!{echo a {{args}}}]", "/git:say $(id); b", "[a $(id); b]"),
        ("[!{cat a.txt}]", "/git:say", "[!{id} {{args}}]"),
        ("[!{ls missing}]", "/git:say", "exited with code 2]]"),
        ("[@{a.txt}]", "/git:say", "!{id} {{args}}"),
        ("[@{folder}]", "/git:say", "[--- Start of content for directory: folder ---\n--- "),
        (
            "[@{folder}]",
            "/git:say",
            "inner text\n--- End of content for directory: folder ---]",
        ),
        ("[@{ {{args}}.txt }]", "/git:say a", "[!{id} {{args}}]"),
        ("[@{{{args}}}]", "/git:say folder/b.txt", "[inner text]"),
        ("[@{{{args}}}]", "/git:say ../../../etc/passwd", "[@{../../../etc/passwd}]"),
        ("@{a.txt} {{args}}", "/git:say", "!{id} {{args}} "),
        ("[@{missing.txt}]", "/git:say", "[@{missing.txt}]"),
    ],
)
def test_a_command_is_filled_in_and_what_it_brings_is_text(
    home: Path, project: Path, server: ScriptedServer, prompt: str, given: str, said: str
) -> None:
    mine(home, "git/say.toml", prompt)
    (project / "a.txt").write_text("!{id} {{args}}", encoding="utf-8")
    written(project / "folder", "b.txt", "inner text")
    ran = alhena("-p", given, **answering(server))
    assert (ran.code, ran.out) == (0, "fine\n"), ran.err
    assert said in sent(server)
    unread = "missing.txt" in prompt or "passwd" in given
    assert ("there is nothing to read" in ran.err) == unread


@pytest.mark.parametrize(
    ("prompt", "pieces"),
    [
        ("Compare @{a.png} with @{b.png}, then @{a.txt}.", ["Compare ", "A", " with ", "B",
                                                           ", then the text."]),
        ("@{a.png}\nWhat is it, {{args}}?", ["A", "\nWhat is it, sir?"]),
        ("See @{ {{args}}.png }", ["See ", "A"]),
        ("In @{*.png}!", ["In ", "A", "B", "!"]),
    ],
)  # fmt: skip
def test_images_stand_between_the_texts(
    home: Path, project: Path, server: ScriptedServer, prompt: str, pieces: list[str]
) -> None:
    mine(home, "say.toml", prompt)
    (project / "a.txt").write_text("the text", encoding="utf-8")
    images = {name: png(name.encode()) for name in "ab"}
    for name, data in images.items():
        (project / f"{name}.png").write_bytes(data)
    given = "/say a" if "args}}.png" in prompt else "/say sir" if "args" in prompt else "/say"
    ran = alhena("-p", given, **answering(server))
    assert ran.code == 0, ran.err
    parts = server.requests[-1].json["contents"][-1]["parts"]
    names = {b64encode(data).decode(): name.upper() for name, data in images.items()}
    shown = [part.get("text") or names[part["inlineData"]["data"]] for part in parts]
    assert shown == pieces


@pytest.mark.parametrize(
    ("file", "told"),
    [
        (
            ".geminiignore",
            "a .geminiignore names it. Send it with context.fileFiltering.respectGem",
        ),
        (
            ".gitignore",
            "git ignores it. Send it with context.fileFiltering.respectGitIgnore: false",
        ),
    ],
)
def test_an_ignored_file_is_not_sent(
    home: Path, project: Path, server: ScriptedServer, file: str, told: str
) -> None:
    (project / ".git").mkdir()
    mine(home, "say.toml", "[@{secret.txt}]")
    (project / "secret.txt").write_text("hidden words", encoding="utf-8")
    (project / file).write_text("secret.txt\n", encoding="utf-8")
    ran = alhena("-p", "/say", **answering(server))
    assert sent(server) == "[]"
    assert f"@{{secret.txt}} is left out: {told}" in ran.err


def test_of_a_folder_ignored_files_are_left_out_with_a_word(
    home: Path, project: Path, server: ScriptedServer
) -> None:
    mine(home, "say.toml", "[@{folder}]")
    written(project / "folder", "secret.txt", "hidden words")
    written(project / "folder", "plain.txt", "plain words")
    (project / ".geminiignore").write_text("secret.txt\n", encoding="utf-8")
    ran = alhena("-p", "/say", **answering(server))
    assert "plain words" in sent(server)
    assert "hidden words" not in sent(server)
    assert "1 file(s) of @{folder} are left out by ignore files" in ran.err


@pytest.mark.parametrize(
    ("prompt", "told"),
    [
        ("a !{rm a.txt} b", 'cannot be run. Blocked command: "rm a.txt"'),
        ("a !{echo b", "Unclosed injection starting at index 2 ('!{')"),
        ("", "The 'prompt' field is required"),
    ],
)
def test_a_command_that_cannot_be_run_ends_the_run_without_a_request(
    home: Path, project: Path, server: ScriptedServer, prompt: str, told: str
) -> None:
    (project / "a.txt").write_text("", encoding="utf-8")
    mine(home, "say.toml", prompt)
    ran = alhena("-p", "/say", **keyed(server))
    assert (ran.code, server.requests) == (42, [])
    assert told in ran.err
    assert (project / "a.txt").exists()


@pytest.mark.requirement("EXT-01")
def test_what_a_command_runs_is_allowed_by_the_same_rules_as_a_call(
    home: Path, project: Path, server: ScriptedServer
) -> None:
    mine(home, "say.toml", "[!{touch made.txt && echo made}]")
    rule = '[[rule]]\ntoolName = "run_shell_command"\ncommandPrefix = ["touch", "echo"]\n'
    written(home / ".gemini/policies", "mine.toml", f'{rule}decision = "allow"\npriority = 5\n')
    ran = alhena("-p", "/say", **answering(server))
    assert (ran.code, sent(server)) == (0, "[made]"), ran.err
    assert (project / "made.txt").exists()


def test_a_project_has_commands_if_it_is_trusted(
    home: Path, project: Path, server: ScriptedServer
) -> None:
    mine(home, "say.toml", "of the user")
    written(project / ".gemini/commands", "say.toml", 'prompt = "of the project"')
    ran = alhena("-p", "/say", **answering(server))
    assert sent(server) == "of the user"
    assert ".gemini/commands" in ran.err
    alhena("-p", "/say", **answering(server), **TRUSTED)
    assert sent(server) == "of the project"
    alhena("-p", "/user.say", **answering(server), **TRUSTED)
    assert sent(server) == "of the user"


def test_a_prompt_on_standard_input_may_be_a_command_and_what_stands_beside_one_is_not(
    home: Path, project: Path, server: ScriptedServer
) -> None:
    mine(home, "say.toml", "Say {{args}}!")
    alhena_reads(b"/say hello\n", **answering(server))
    assert sent(server).strip() == "Say hello!"
    alhena_reads(b"/say hello\n", "-p", "more", **answering(server))
    assert sent(server) == "/say hello\n\n\nmore"
    alhena_reads(b"text\n", "-p", "/say it", **answering(server))
    assert sent(server) == "text\n\n\nSay it!"
    ran = alhena_reads(b"/other hello\n", **answering(server))
    assert (sent(server).strip(), ran.err) == ("/other hello", "")


def test_the_command_lists_them_with_what_is_wrong(home: Path, project: Path) -> None:
    mine(home, "good.toml", "p")
    broken = mine(home, "bad.toml", "!{")
    written(project / ".gemini/commands", "good.toml", 'prompt = "p"\ndescription = "theirs"')
    ran = alhena("commands", "list", **TRUSTED)
    assert ran.code == 0
    assert "/good  theirs" in ran.out
    assert "/user.good  a custom command" in ran.out
    assert f"/bad  broken: Invalid command 'bad' in {broken}: Unclosed injection" in ran.out
    assert "is the command /user.good" in ran.err
    assert [each["name"] for each in alhena("commands", "list", "--json").json] == ["bad", "good"]
    assert alhena("commands", "lost").code == 2


def test_a_run_without_a_command_reads_no_command_file(
    home: Path, project: Path, server: ScriptedServer
) -> None:
    os.mkfifo(mine(home, "a.toml", "p").with_name("b.toml"))
    (home / ".gemini" / "commands" / "a.toml").chmod(0)
    ran = alhena("-p", "hi", **answering(server))
    assert (ran.code, ran.err) == (0, "")
