"""A corpus of edits: none may go wrong, whatever rung finds the place. The edits break Python, so the
file is called a text."""

from collections import Counter
from pathlib import Path

import pytest

from alhena.system.workspace import Workspace
from alhena.tools.builtin.edit_files import Replace, SmartEdit
from alhena.tools.edit.matching import MatchStep
from tests.support.edit_cases import KINDS, MISS, cases
from tests.tools.files import call, failure_type

LADDER = {rung.value for rung in MatchStep} - {"corrected"}


DOUBTFUL = {"blanks between tokens", "a letter missing"}
"""Kinds of slips that may also be meant: a miss is right wherever that cannot be ruled out."""


@pytest.mark.requirement("TOOLS-11")
@pytest.mark.parametrize("kind", KINDS)
async def test_smart_edit_makes_the_edit_that_was_meant_or_none(kind: str, project: Path) -> None:
    tool = SmartEdit(Workspace(project))
    count = missed = 0
    for case in cases(kind):
        (project / "a.txt").write_bytes(case.before)
        result = await call(tool, file_path="a.txt", instruction="Rename it.", **case.params)
        count += 1
        if kind in DOUBTFUL and result.error and result.error.type == MISS:
            assert (project / "a.txt").read_bytes() == case.before, case.name
            missed += 1
            continue
        assert (project / "a.txt").read_bytes() == case.after, (case.name, result.llm_content)
        if case.outcome in LADDER:
            assert result.data is not None, (case.name, result.llm_content)
            assert result.data["rung"] == case.outcome, case.name
        else:
            assert failure_type(result) == case.outcome, case.name
    assert count - missed >= 5
    assert missed <= count * 2 // 3


@pytest.mark.requirement("TOOLS-10")
@pytest.mark.parametrize("kind", KINDS)
async def test_replace_makes_the_edit_that_was_meant_or_none(kind: str, project: Path) -> None:
    tool = Replace(Workspace(project))
    for case in cases(kind):
        (project / "a.txt").write_bytes(case.before)
        result = await call(tool, file_path="a.txt", **case.params)
        if kind in DOUBTFUL and result.error and result.error.type == MISS:
            assert (project / "a.txt").read_bytes() == case.before, case.name
            continue
        fuzzy = case.outcome == "fuzzy"
        expected = case.before if fuzzy else case.after
        assert (project / "a.txt").read_bytes() == expected, (case.name, result.llm_content)
        if fuzzy:
            assert failure_type(result) == MISS
        elif case.outcome in LADDER:
            assert result.data is not None, (case.name, result.llm_content)
            assert result.data["rung"] == case.outcome, case.name


@pytest.mark.requirement("TOOLS-11")
def test_the_corpus_has_150_cases_and_every_rung() -> None:
    outcomes = Counter(case.outcome for kind in KINDS for case in cases(kind))
    assert outcomes.total() >= 150
    assert outcomes.keys() >= LADDER
