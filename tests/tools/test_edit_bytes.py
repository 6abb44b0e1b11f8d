"""Bytes outside an edit stay, in every encoding, with every mark and mix of line ends."""

import codecs
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alhena.system.workspace import Workspace
from alhena.tools.builtin.edit_files import Replace, SmartEdit
from tests.tools.files import call

ENCODINGS = {
    "utf-8": b"",
    "utf-8 with a mark": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE,
    "cp1252": b"",
}
WORDS = st.sampled_from(["alpha", "beta = 1", "  gamma", "\tdelta  ", "", "caf\u00e9 \u20ac", "}"])
ROWS = st.lists(st.tuples(WORDS, st.sampled_from(["\n", "\r\n"])), max_size=7)


@pytest.mark.requirement("TOOLS-10", "TOOLS-11")
@given(
    encoding=st.sampled_from(sorted(ENCODINGS)),
    head=ROWS,
    tail=ROWS,
    ends=st.tuples(*[st.sampled_from(["\n", "\r\n"])] * 2),
    looser=st.sampled_from(["", "   ", "\t"]),
    new=st.sampled_from(["", "one", "one\ntwo", "one\ntwo\nthree"]),
    smart=st.booleans(),
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_bytes_outside_the_edit_stay(
    project: Path,
    encoding: str,
    head: list[tuple[str, str]],
    tail: list[tuple[str, str]],
    ends: tuple[str, str],
    looser: str,
    new: str,
    smart: bool,
) -> None:
    codec, mark = encoding.partition(" ")[0], ENCODINGS[encoding]
    # "€" and "é" tell cp1252 from UTF-8 wherever the edit stands.
    start = "\u20ac \u00e9" + ends[0] + "".join(word + end for word, end in head)
    middle = f"the first_line of it{ends[0]}the second_line of it"
    stop = ends[1] + "".join(word + end for word, end in tail)
    path = project / "a.txt"
    path.write_bytes(mark + (start + middle + stop).encode(codec))
    path.chmod(0o640)
    old = f"{looser}the first_line of it\n{looser}the second_line of it"
    given_new = "\n".join(looser + line for line in new.split("\n")) if new else ""
    params = {"file_path": "a.txt", "old_string": old, "new_string": given_new}
    if smart:
        result = await call(SmartEdit(Workspace(project)), instruction="Do it.", **params)
    else:
        result = await call(Replace(Workspace(project)), **params)
    assert result.error is None, result.llm_content
    after = path.read_bytes()
    before, behind = mark + start.encode(codec), stop.encode(codec)
    assert after.startswith(before)
    assert after.endswith(behind)
    inside = after[len(before) : len(after) - len(behind)].decode(codec)
    assert inside.replace("\r\n", "\n") == new
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
