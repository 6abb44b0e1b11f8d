"""The tools that a session declares, and what they cost."""

from pathlib import Path

import pytest

from alhena.config.settings import settings_of
from alhena.policy.model import ApprovalMode
from tests.agent.kit import agent, answers, turn
from tests.agent.serving import declared
from tests.support.command import alhena, keyed
from tests.support.scripted import ScriptedGenerator
from tests.support.server import ScriptedServer, call, sse, text

EDIT = {"file_path": "a.txt", "old_string": "one  two", "new_string": "three"}


def test_the_first_request_in_yolo_mode_is_small(server: ScriptedServer, project: Path):
    server.reply(sse(text("fine")))
    ran = alhena("-p", "hi", "--yolo", "--skip-trust", **keyed(server))
    assert ran.code == 0
    (request,) = server.requests
    assert len(request.body) <= 28_000


async def test_one_edit_tool_is_declared_and_the_other_is_accepted(project: Path):
    (project / "a.txt").write_text("one two\n", encoding="utf-8")
    smart = call("smart_edit", {**EDIT, "instruction": "Say three."}, id="e")
    generator = ScriptedGenerator(turn(smart), [text("done")])
    async with agent(generator, approval_mode=ApprovalMode.YOLO) as running:
        await running.ask("go")
    assert "replace" in declared(generator)
    assert "smart_edit" not in declared(generator)
    assert "output" in answers(generator)[0]
    assert (project / "a.txt").read_text(encoding="utf-8") == "three\n"


SLIP = {
    "file_path": "a.py",
    "old_string": "def area(breadht, diameter):\n    return breadth * diametr",
    "new_string": "def area(breadth, diameter):\n    return breadth * diameter / 1e4",
}


@pytest.mark.parametrize("instruction", ["Scale the area.", ""])
async def test_with_an_instruction_replace_finds_text_with_a_slip(project: Path, instruction: str):
    before = "def area(breadth, diameter):\n    return breadth * diameter\n"
    (project / "a.py").write_text(before, encoding="utf-8")
    edit = {**SLIP, **({"instruction": instruction} if instruction else {})}
    generator = ScriptedGenerator(turn(call("replace", edit, id="e")), [text("done")])
    async with agent(generator, approval_mode=ApprovalMode.YOLO) as running:
        await running.ask("go")
    after = (project / "a.py").read_text(encoding="utf-8")
    assert ("1e4" in after) is bool(instruction)


@pytest.mark.parametrize(
    ("core", "expected"),
    [
        (["replace", "smart_edit"], {"replace", "smart_edit"}),
        (["smart_edit"], {"smart_edit"}),
        (["replace"], {"replace"}),
    ],
)
async def test_a_setting_that_names_the_other_edit_tool_has_it_declared(
    project: Path, core: list[str], expected: set[str]
):
    generator = ScriptedGenerator([text("done")])
    made = settings_of({"tools": {"core": core}}, "test")
    async with agent(generator, settings=made, approval_mode=ApprovalMode.YOLO) as running:
        await running.ask("go")
    assert set(declared(generator)) & {"replace", "smart_edit"} == expected
