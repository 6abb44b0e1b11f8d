"""`@path` in a prompt of the command line: the same files, rules and warnings as at the terminal."""

from pathlib import Path

from tests.support.command import alhena, alhena_reads, keyed
from tests.support.server import ScriptedServer, call, chunk, sse, text


def sent(server: ScriptedServer) -> list[str]:
    return [part["text"] for part in server.requests[-1].json["contents"][-1]["parts"]]


def test_a_file_that_the_prompt_names_goes_with_it(server: ScriptedServer, project: Path):
    (project / "a.txt").write_text("inside of it\n", encoding="utf-8")
    server.reply(sse(text("I see.")))
    ran = alhena("-p", "look at @a.txt", "-o", "json", **keyed(server))
    assert (ran.code, ran.json["response"], ran.err) == (0, "I see.", "")
    prompt, *attached = sent(server)
    assert prompt == "look at @a.txt"
    assert "inside of it" in "".join(attached)
    assert len(server.requests) == 1
    assert "warnings" not in ran.json


def test_words_of_the_command_line_name_files_too(server: ScriptedServer, project: Path):
    (project / "my file.txt").write_text("inside of it\n", encoding="utf-8")
    server.reply(sse(text("I see.")))
    assert alhena("look", "at", '@"my file.txt"', **keyed(server)).code == 0
    assert "inside of it" in "".join(sent(server)[1:])


def test_what_is_not_there_is_sent_as_text_and_said(server: ScriptedServer, project: Path):
    server.reply(sse(text("Hm.")))
    ran = alhena("-p", "mail me@x.example about @nosuch", "-o", "stream-json", **keyed(server))
    assert ran.code == 0
    assert sent(server) == ["mail me@x.example about @nosuch"]
    assert "@nosuch: there is no such file; sent as text." in ran.err
    (warning,) = ran.of_type("error")
    assert warning["severity"] == "warning"
    assert "@nosuch" in warning["message"]


def test_a_missing_file_behind_a_bracket_does_not_attach_its_folder(
    server: ScriptedServer, project: Path
):
    for name in ("src/app/[locale]/page.tsx", "src/app/other.tsx"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(f"inside of {name}\n", encoding="utf-8")
    server.reply(sse(text("Hm.")), sse(text("Hm.")))
    ran = alhena("-p", "see @src/app/[locale]/gone.tsx", **keyed(server))
    assert "@src/app/[locale]/gone.tsx: there is no such file; sent as text." in ran.err
    assert len(sent(server)) == 1
    ran = alhena("-p", "see **@src/app/[locale]/page.tsx**的内容", **keyed(server))
    assert ran.err == ""
    said = "".join(sent(server)[1:])
    assert "inside of src/app/[locale]/page.tsx" in said
    assert "other.tsx" not in said


def test_only_the_named_lines_go_with_the_prompt(server: ScriptedServer, project: Path):
    lines = "".join(f"line {number}\n" for number in range(1, 21))
    (project / "a.txt").write_text(lines, encoding="utf-8")
    (project / "b.txt").write_text("all of b\n", encoding="utf-8")
    server.reply(sse(text("Hm.")))
    ran = alhena("-p", "compare @a.txt:3-4, @a.txt#L9's and @b.txt", **keyed(server))
    assert (ran.code, ran.err) == (0, "")
    said = "".join(sent(server)[1:])
    assert "all of b" in said
    assert [n for n in range(1, 21) if f"line {n}\n" in f"{said}\n"] == [3, 4, 9]
    assert "--- a.txt, lines 3-4 ---" in said


def test_a_folder_of_which_nothing_can_be_sent_is_said(server: ScriptedServer, project: Path):
    (project / ".git").mkdir()
    (project / ".gitignore").write_text("*.log\n", encoding="utf-8")
    (project / "logs").mkdir()
    (project / "logs/a.log").write_text("inside\n", encoding="utf-8")
    server.reply(sse(text("Hm.")))
    ran = alhena("-p", "look at @logs", **keyed(server))
    assert "@logs: nothing there can be sent: ignore files leave out 1 file." in ran.err
    assert "context.fileFiltering.respectGitIgnore" in ran.err
    assert "inside" not in "".join(sent(server))


def test_nothing_outside_of_the_workspace_is_sent(server: ScriptedServer, tmp_path: Path):
    outside = tmp_path / "outside.txt"
    outside.write_text("a secret\n", encoding="utf-8")
    server.reply(sse(text("Hm.")))
    ran = alhena("-p", f"look at @{outside}", **keyed(server))
    assert ran.code == 0
    assert "a secret" not in str(server.requests[-1].json["contents"])
    assert "not sent along" in ran.err


def test_what_ignore_files_leave_out_is_not_sent_unless_the_settings_say_so(
    server: ScriptedServer, project: Path, home: Path
):
    (project / ".git").mkdir()
    (project / ".gitignore").write_text("*.log\nbuild/\n", encoding="utf-8")
    (project / ".geminiignore").write_text("closed.txt\n", encoding="utf-8")
    (project / "build").mkdir()
    for name in ("a.log", "build/x.txt", "closed.txt", "open.txt"):
        (project / name).write_text(f"inside of {name}\n", encoding="utf-8")
    prompt = "look at @a.log @build @build/x.txt @closed.txt @open.txt"
    server.reply(sse(text("Hm.")), sse(text("Hm.")))
    ran = alhena("-p", prompt, **keyed(server))
    said = "".join(sent(server)[1:])
    assert "inside of open.txt" in said
    assert said.count("inside of") == 1
    assert "@a.log is left out: git ignores it." in ran.err
    assert "context.fileFiltering.respectGitIgnore: false" in ran.err
    assert "@build/x.txt is left out" in ran.err
    assert "@closed.txt is left out: a .geminiignore names it." in ran.err
    settings = home / ".gemini" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    filters = '{"respectGitIgnore": false, "respectGeminiIgnore": false}'
    settings.write_text(f'{{"context": {{"fileFiltering": {filters}}}}}', encoding="utf-8")
    ran = alhena("-p", prompt, **keyed(server))
    assert "left out" not in ran.err
    said = "".join(sent(server)[1:])
    assert all(f"inside of {each}" in said for each in ("a.log", "build/x.txt", "closed.txt"))


def test_a_file_with_secrets_that_the_prompt_names_is_not_sent_unattended(
    server: ScriptedServer, project: Path
):
    (project / ".env").write_text("KEY=gold\n", encoding="utf-8")
    server.reply(sse(text("Hm.")))
    ran = alhena("-p", "look at @.env", **keyed(server))
    assert "gold" not in str(server.requests[-1].json["contents"])
    assert "may hold secrets" in ran.err


def test_what_a_rule_denies_is_not_read_for_a_prompt(
    server: ScriptedServer, project: Path, home: Path
):
    (project / "a.txt").write_text("inside of it\n", encoding="utf-8")
    rule = '[[rule]]\ntoolName = "read_many_files"\ndecision = "deny"\npriority = 500\n'
    (project / "deny.toml").write_text(rule, encoding="utf-8")
    server.reply(sse(text("Hm.")))
    ran = alhena("-p", "look at @a.txt", "--policy", "deny.toml", **keyed(server))
    assert ran.code == 0
    assert sent(server) == ["look at @a.txt"]
    assert "not sent along" in ran.err


def test_what_is_piped_in_names_no_files(server: ScriptedServer, project: Path):
    (project / "a.txt").write_text("inside of it\n", encoding="utf-8")
    server.reply(sse(text("Hm.")), sse(text("Hm.")))
    ran = alhena_reads(b"see @a.txt and @nosuch\n", "-p", "judge this", **keyed(server))
    assert (ran.code, ran.err) == (0, "")
    assert alhena_reads(b"see @a.txt\n", **keyed(server)).code == 0
    for request in server.requests:
        assert "inside of it" not in str(request.json["contents"])


def test_a_session_that_goes_on_has_the_file_once(server: ScriptedServer, project: Path):
    (project / "a.txt").write_text("inside of it\n", encoding="utf-8")
    server.reply(sse(text("I see.")), sse(text("Yes.")))
    alhena("-p", "look at @a.txt", **keyed(server))
    ran = alhena("-r", "-p", "and now?", **keyed(server))
    assert ran.out == "Yes.\n"
    assert str(server.requests[-1].json["contents"]).count("inside of it") == 1


def test_arguments_as_models_send_them_are_taken(server: ScriptedServer, project: Path):
    (project / "a.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    write = {"file_path": "p.json", "content": {"name": "x"}}
    read = {"absolute_path": "a.txt", "offset": "1", "limit": "1"}
    many = {"paths": '["a.txt"]', "exclude": None}
    called = [call("write_file", write), call("read_file", read), call("read_many_files", many)]
    server.reply(sse(chunk(*called, finish="STOP")), sse(text("Done.")))
    ran = alhena("-p", "go", "--approval-mode", "auto_edit", "--skip-trust", **keyed(server))
    assert (ran.code, ran.err) == (0, "")
    assert (project / "p.json").read_text(encoding="utf-8") == '{\n  "name": "x"\n}\n'
    results = [
        part["functionResponse"]["response"]
        for part in server.requests[-1].json["contents"][-1]["parts"]
    ]
    assert all("error" not in each for each in results)
    assert "two" in results[1]["output"]
    assert "three" not in results[1]["output"]
    assert "three" in results[2]["output"]
