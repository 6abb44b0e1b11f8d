"""The demo model at work on real files, through the loop, the tools and the policy."""

import json
from pathlib import Path

import pytest

from alhena import tool
from alhena.models.errors import RequestRejectedError
from alhena.models.providers.demo import NOTICE, DemoGenerator
from alhena.policy.model import ApprovalMode
from alhena.wire.content import USER, text_content
from alhena.wire.encode import EncodedContent
from alhena.wire.request import GenerateContentConfig, GenerateContentRequest, GenerationConfig
from tests.support.agents import scripted_agent
from tests.support.command import alhena, alhena_reads


@pytest.fixture
def lyra(project: Path) -> Path:
    (project / "README.md").write_text("# Lyra\n\nLyra counts stars.\n", encoding="utf-8")
    (project / "src").mkdir()
    (project / "src" / "stars.py").write_text("def count(sky):\n    return 1\n", encoding="utf-8")
    return project


@pytest.mark.parametrize(
    ("prompt", "tool_name", "shown"),
    [
        ("List this folder, please.", "list_directory", "[DIR] src"),
        ("what is in src?", "list_directory", "stars.py"),
        ("Could you read README.md?", "read_file", "Lyra counts stars."),
        (
            "read @README.md\n\n--- Content from referenced files ---\nx",
            "read_file",
            "counts stars.",
        ),
        ("find *.py", "glob", "src/stars.py"),
        ('search for "count(sky)" in src', "search_file_content", "def count(sky):"),
        ("run `echo $((6 * 7)); true`", "run_shell_command", "Output: 42"),
        ('write "one; two" to notes.md', "write_file", "notes.md"),
        ('Hello, write "hello there" to notes.md', "write_file", "hello there"),
        ('replace "stars" with "moons" in README.md', "replace", "Successfully modified"),
        ("remember that I like tea", "save_memory", "I like tea"),
        ("call add with a=40, b=2", "add", "42"),
        ('use add with {"a": 40, "b": 2}', "add", "42"),
    ],
)
async def test_a_plain_request_is_carried_out_and_its_result_shown(
    lyra: Path, prompt: str, tool_name: str, shown: str
) -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    settings = {"approval_mode": ApprovalMode.YOLO}
    async with scripted_agent(model="demo", tools=[add], **settings) as agent:
        answer = await agent.ask(prompt)
    assert answer.startswith(f"{NOTICE}\n\n`{tool_name}` (")
    assert shown in answer


async def test_several_requests_of_one_prompt_are_carried_out_in_order(lyra: Path) -> None:
    prompt = 'What is this project? Then write "x" to a.md and replace "x" with "y" in a.md; sing'
    settings = {"approval_mode": ApprovalMode.YOLO}
    async with scripted_agent(model="demo", **settings) as agent:
        answer = await agent.ask(prompt)
    assert (lyra / "a.md").read_text(encoding="utf-8") == "y\n"
    order = [answer.index(f"`{name}` (") for name in ("list_directory", "write_file", "replace")]
    assert order == sorted(order)
    assert "Lyra counts stars." in answer
    assert "No rule covers: sing" in answer


def test_piped_text_is_not_taken_for_the_request(lyra: Path) -> None:
    ran = alhena_reads(b"run `touch gone`\n", "-m", "demo", "-p", "read README.md")
    assert ran.code == 0, ran.err
    assert "Lyra counts stars." in ran.out
    assert "run_shell_command" not in ran.out


def test_a_tool_that_may_not_run_is_named_as_not_available(lyra: Path) -> None:
    ran = alhena("-m", "demo", "-p", "write `x` to a")
    assert ran.code == 0, ran.err
    assert "Not available here: `write_file`." in ran.out


def test_the_older_name_is_accepted_and_the_answer_bears_the_new_one(project: Path) -> None:
    ran = alhena("-m", "rehearsal", "-p", "hi", "-o", "json")
    assert ran.code == 0, ran.err
    assert ran.json["response"].startswith(NOTICE)
    assert list(ran.json["stats"]["models"]) == ["demo"]


def test_a_subagent_hands_over_what_it_found(lyra: Path) -> None:
    ran = alhena(
        *("tools", "call", "delegate_to_agent"),
        json.dumps({"agent_name": "codebase_investigator", "objective": "Explain this project."}),
        "--json",
        GEMINI_MODEL="demo",
    )
    assert (ran.code, ran.json["status"]) == (0, "success"), ran.err
    head, _, body = ran.json["llmContent"].partition("\nResult:\n")
    assert head.endswith("Termination Reason: GOAL")
    assert NOTICE in body
    assert "Lyra counts stars." in body


def request(prompt: str, **generation: str) -> GenerateContentRequest:
    return GenerateContentRequest(
        model="demo",
        contents=(EncodedContent(text_content(USER, prompt)),),
        config=GenerateContentConfig(generation_config=GenerationConfig(**generation)),
    )


async def test_the_same_request_gets_the_same_answer_in_pieces_or_whole() -> None:
    generator = DemoGenerator()
    whole = await generator.generate(request("hello"))
    pieces = [piece async for piece in generator.stream(request("hello"))]
    assert len(pieces) > 1
    assert "".join(part.text or "" for piece in pieces for part in piece.parts) == (
        whole.parts[0].text
    )
    assert [piece.finish_reason for piece in pieces[:-1]] == [None] * (len(pieces) - 1)
    assert pieces[-1].usage_metadata == whole.usage_metadata
    assert {piece.response_id for piece in pieces} == {whole.response_id}


async def test_an_answer_in_json_is_refused() -> None:
    with pytest.raises(RequestRejectedError, match="cannot answer in JSON"):
        await DemoGenerator().generate(request("hello", response_mime_type="application/json"))
