"""Records of sessions in which what was told of a place stood inside the result that touched it."""

import os
import shutil
from pathlib import Path

from alhena.config.home import claimed_project_temp, note_former_root
from tests.agent.kit import agent, conforming, events_of, turn
from tests.agent.test_compression import set_to
from tests.agent.test_memory import told
from tests.memory.kit import put
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, text

OLD = Path(__file__).parent / "data" / "memory-in-results.jsonl"


async def test_what_goes_with_a_masked_result_is_told_in_its_own_part_at_the_next_touch(
    project: Path,
):
    temp = claimed_project_temp(os.environ, project)
    note_former_root(temp, "/p")  # as the record has it
    (temp / "sessions").mkdir()
    shutil.copy(OLD, temp / "sessions" / "before.jsonl")
    put(project, "sub/x.txt", "x")
    path = put(project, "sub/GEMINI.md", "Use tabs in here.")
    read = call("read_file", {"absolute_path": "sub/x.txt"}, id="c2")
    generator = ScriptedGenerator(turn(read), [text("done")])
    limits = set_to(protectionThresholdTokens=100, minPrunableThresholdTokens=100)
    async with agent(generator, resume="before", settings=limits, skip_trust=True) as running:
        _, error = await events_of(running, "and now?")
    assert error is None
    before = str(generator.seen(0))
    assert "<tool_output_masked>" in before
    assert "Use tabs in here." not in before  # what is inside a result is never taken for memory
    after = generator.seen(1)[-1]["parts"]
    assert after[1]["text"] == told(path, "Use tabs in here.")
    assert conforming(generator)
