"""Whole conversations with the rehearsal over real files."""

from pathlib import Path

import pytest

from alhena.models.rehearsal.report import NOTICE
from alhena.wire.request import FunctionDeclaration
from tests.rehearsal.folder_tools import LOOKING, Conversation, FolderTools

README = "# Lyra\n\nLyra counts stars\nat night.\n\n## Install\n\nRun it.\n\n## Use\n\nLook up.\n"


@pytest.fixture
def folder(project: Path) -> Path:
    (project / "README.md").write_text(README, encoding="utf-8")
    (project / "pyproject.toml").write_text(
        '[project]\nname = "lyra"\nversion = "1.2"\ndescription = "Counts stars"\n',
        encoding="utf-8",
    )
    (project / "src").mkdir()
    (project / "src" / "stars.py").write_text(
        "import sys\n\n\ndef count(sky):\n    # TODO dim stars\n    return len(sky)\n\n\n"
        "class Sky:\n    def name(self):\n        return 'sky'\n\n\ndef main():\n    count('')\n",
        encoding="utf-8",
    )
    (project / "src" / "moon.py").write_text("PHASE = 1\n", encoding="utf-8")
    (project / "notes.txt").write_text("cat dog cat\nCat\n", encoding="utf-8")
    return project


@pytest.fixture
def talk(folder: Path) -> Conversation:
    return Conversation(FolderTools(folder))


async def test_every_answer_opens_with_one_line_that_says_what_this_is(talk: Conversation) -> None:
    for prompt in ("list this folder", "hi", "read README.md", "", "run `true`"):
        answer = await talk.say(prompt)
        first, rest = answer.split("\n", 1)
        assert first == NOTICE
        assert "no language model" in first.lower()
        assert "GEMINI_API_KEY" in first
        assert rest.strip()


async def test_a_folder_is_listed_with_what_is_in_it(talk: Conversation) -> None:
    answer = await talk.say("What is in this folder?")
    assert talk.calls == [("list_directory", {"path": "."})]
    assert "1 folder and 3 files" in answer
    assert "- src/" in answer
    assert f"- README.md ({len(README)} bytes)" in answer


async def test_describing_a_folder_lists_counts_and_reads_its_readme(talk: Conversation) -> None:
    answer = await talk.say("describe this folder")
    assert [[name for name, _ in turn] for turn in talk.call_turns] == [
        ["list_directory", "glob"],
        ["read_file"],
    ]
    assert "“Lyra”" in answer
    assert "Lyra counts stars at night." in answer
    assert "Install, Use" in answer
    assert "5 files: 2 .py, 1 .md, 1 .toml, 1 .txt" in answer
    assert "`src/` 2" in answer


async def test_explaining_the_project_uses_four_tools_and_their_results(talk: Conversation) -> None:
    answer = await talk.say("Explain this project.")
    assert [[name for name, _ in turn] for turn in talk.call_turns] == [
        ["list_directory", "glob", "search_file_content"],
        ["read_file", "read_file"],
    ]
    assert "Lyra counts stars at night." in answer
    assert "name: lyra; version: 1.2; description: Counts stars" in answer
    assert "src/stars.py:14: def main():" in answer


async def test_files_are_found_by_extension_and_shown_relative(talk: Conversation) -> None:
    answer = await talk.say("find all python files in src")
    assert talk.calls == [("glob", {"pattern": "**/*.py", "path": "src"})]
    assert "2 files in `src` match `**/*.py`:\n- moon.py\n- stars.py" in answer


async def test_a_search_takes_its_text_literally(talk: Conversation, folder: Path) -> None:
    (folder / "odd.txt").write_text("axb\na.b (c)\n", encoding="utf-8")
    answer = await talk.say('search for "a.b (c)"')
    assert "odd.txt:2: a.b (c)" in answer
    assert "odd.txt:1" not in answer


async def test_a_search_that_finds_nothing_says_so(talk: Conversation) -> None:
    assert "No line in this folder holds `zebra`." in await talk.say("grep zebra")


async def test_reading_a_file_shows_its_beginning(talk: Conversation, folder: Path) -> None:
    (folder / "long.txt").write_text("".join(f"line {n}\n" for n in range(500)), encoding="utf-8")
    answer = await talk.say("read long.txt")
    assert "`long.txt` has 500 lines" in answer
    assert "line 0\nline 1\n" in answer
    assert "(460 more lines not shown.)" in answer


async def test_text_with_fences_is_fenced_more_deeply(talk: Conversation, folder: Path) -> None:
    (folder / "f.md").write_text("```\ncode\n```\n", encoding="utf-8")
    assert "````\n```\ncode\n```\n````" in await talk.say("read f.md")


async def test_a_source_file_is_outlined_by_its_definitions(talk: Conversation) -> None:
    answer = await talk.say("summarise src/stars.py by its outline")
    assert "def count(sky)\nclass Sky\n  def name(self)\ndef main()\n" in answer


async def test_every_occurrence_is_replaced_on_disk(talk: Conversation, folder: Path) -> None:
    answer = await talk.say("replace cat with bird in notes.txt")
    assert talk.calls[-1][1]["expected_replacements"] == 2
    assert (folder / "notes.txt").read_text(encoding="utf-8") == "bird dog bird\nCat\n"
    assert "Replaced `cat` by `bird` 2 times in `notes.txt`" in answer


async def test_a_long_file_is_read_to_its_end_before_it_is_changed(folder: Path) -> None:
    (folder / "big.txt").write_text("x = 1\n" * 25, encoding="utf-8")
    talk = Conversation(FolderTools(folder, window=10))
    await talk.say("change x to y in big.txt")
    assert talk.calls[1] == (
        "read_file",
        {"absolute_path": "big.txt", "offset": 10, "limit": 15},
    )
    assert (folder / "big.txt").read_text(encoding="utf-8") == "y = 1\n" * 25


async def test_text_that_is_not_there_changes_nothing(talk: Conversation, folder: Path) -> None:
    answer = await talk.say("replace DOG with cow in notes.txt")
    assert [name for name, _ in talk.calls] == ["read_file"]
    assert "does not occur" in answer
    assert "another case it stands in line 1" in answer
    assert (folder / "notes.txt").read_text(encoding="utf-8") == "cat dog cat\nCat\n"


async def test_a_file_is_created_and_then_read_as_it(talk: Conversation, folder: Path) -> None:
    answer = await talk.say('create hello.txt with "Hello, world" and then read it')
    assert (folder / "hello.txt").read_text(encoding="utf-8") == "Hello, world"
    assert [name for name, _ in talk.calls] == ["write_file", "read_file"]
    assert "Wrote 12 characters to `hello.txt`" in answer
    assert "`hello.txt` has 1 line" in answer


async def test_a_block_below_a_first_line_becomes_the_text(
    talk: Conversation, folder: Path
) -> None:
    await talk.say("create doc.md with:\n\n# Title\n\nRead this; then run `rm -rf x`.")
    assert [name for name, _ in talk.calls] == ["write_file"]
    text = (folder / "doc.md").read_text(encoding="utf-8")
    assert text == "# Title\n\nRead this; then run `rm -rf x`.\n"


async def test_a_command_is_run_and_its_end_reported(talk: Conversation) -> None:
    answer = await talk.say("run `echo out; echo Error: no; exit 3`")
    assert "ended with exit code 3" in answer
    assert "out\nError: no\n" in answer


async def test_a_fact_is_remembered(talk: Conversation) -> None:
    answer = await talk.say("remember that I like tea, and biscuits.")
    assert talk.tools.facts == ["I like tea, and biscuits."]
    assert "Remembered: I like tea, and biscuits." in answer


async def test_several_steps_run_in_order_and_reading_ones_together(
    talk: Conversation, folder: Path
) -> None:
    answer = await talk.say(
        "list src and read README.md, then create a.txt with one; replace one with two in a.txt"
        " and then run `cat a.txt`"
    )
    assert [[name for name, _ in turn] for turn in talk.call_turns] == [
        ["list_directory", "read_file"],
        ["write_file"],
        ["read_file"],
        ["replace"],
        ["run_shell_command"],
    ]
    assert answer.index("`src` holds") < answer.index("`README.md` has") < answer.index("Wrote 3")
    assert answer.rstrip().endswith("Its output:\n```\ntwo\n```")


async def test_the_same_call_is_made_once_for_two_steps(talk: Conversation) -> None:
    answer = await talk.say("list this folder and describe this folder")
    assert [name for name, _ in talk.call_turns[0]] == ["list_directory", "glob"]
    assert answer.count("This folder") == 2


async def test_ids_are_never_used_twice_in_a_session(talk: Conversation) -> None:
    for prompt in ("explain this project", "list src and list src/", "list src and list src/"):
        await talk.say(prompt)
    assert all(talk.ids)
    assert len(set(talk.ids)) == len(talk.ids) > 6


async def test_a_second_prompt_is_not_answered_from_the_first_ones_results(
    talk: Conversation,
) -> None:
    await talk.say("read notes.txt")
    answer = await talk.say("read README.md")
    assert talk.calls[-1] == ("read_file", {"absolute_path": "README.md"})
    assert "cat dog" not in answer


@pytest.mark.parametrize(
    ("prompt", "tool", "flag"),
    [
        ("replace cat with dog in notes.txt", "replace", "auto_edit"),
        ("create x.txt with y", "write_file", "auto_edit"),
        ("run `ls`", "run_shell_command", "yolo"),
    ],
)
async def test_a_tool_that_is_not_declared_is_named_with_the_flag_that_allows_it(
    folder: Path, prompt: str, tool: str, flag: str
) -> None:
    talk = Conversation(FolderTools(folder), names=LOOKING)
    answer = await talk.say(prompt)
    assert f"`{tool}` is not available" in answer
    assert f"--approval-mode {flag}" in answer
    assert talk.calls == []


async def test_what_can_be_done_is_done_when_one_tool_is_missing(folder: Path) -> None:
    talk = Conversation(FolderTools(folder), names=LOOKING)
    answer = await talk.say("remember tea; read notes.txt")
    assert "`save_memory` is not available here." in answer
    assert "cat dog cat" in answer


async def test_a_failed_tool_is_reported_and_not_tried_again(talk: Conversation) -> None:
    answer = await talk.say("read missing.txt and list src")
    assert [name for name, _ in talk.calls] == ["read_file", "list_directory"]
    assert "I could not read `missing.txt`: `read_file` answered: File not found" in answer
    assert "`src` holds" in answer


async def test_a_binary_file_is_said_to_be_no_text(talk: Conversation, folder: Path) -> None:
    (folder / "a.bin").write_bytes(b"\0\1")
    assert "`a.bin` is no text: Cannot display" in await talk.say("read a.bin")
    assert "Cannot display" in await talk.say("replace x with y in a.bin")


async def test_other_words_get_examples_that_work_in_this_folder(
    talk: Conversation, folder: Path
) -> None:
    answer = await talk.say("Write me a poem about the sea")
    assert "No rule covers `Write me a poem about the sea`" in answer
    examples = [line[2:] for line in answer.splitlines() if line.startswith("- ")]
    assert "read README.md" in examples
    assert "describe src/" in examples
    for example in examples:
        answer = await Conversation(FolderTools(folder)).say(example)
        assert "No rule covers" not in answer, example
        assert "I could not" not in answer, example


async def test_a_declared_tool_of_ones_own_can_be_called_by_name(folder: Path) -> None:
    add = FunctionDeclaration(
        name="add",
        parameters_json_schema={
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    )
    double = FunctionDeclaration(
        name="double",
        parameters_json_schema={"type": "object", "properties": {"n": {"type": "integer"}}},
    )

    class Sums(FolderTools):
        def run(self, name: str, args: dict[str, int]) -> dict[str, str]:
            return {"output": str(sum(args.values()) * (2 if name == "double" else 1))}

    talk = Conversation(Sums(folder), names=(), extra=(add, double))
    assert "`add` answered:\n```\n5\n```" in await talk.say("call add with a=2, b=3")
    assert "`add` answered:\n```\n9\n```" in await talk.say(
        'use the add tool with {"a": 4, "b": 5}'
    )
    assert "`double` answered:\n```\n14\n```" in await talk.say("use double with 7")
    assert "`add` takes a=…, b=…" in await talk.say("call add with nonsense")
    assert "no tool `sub`" in await talk.say("call sub with a=1")
    assert "- call add with a=…, b=…" in await talk.say("hello")
