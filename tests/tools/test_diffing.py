import subprocess
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alhena.tools.edit.splicing import unified_diff

TEXTS = st.lists(st.sampled_from(["a", "b", "c", "", "x\u2028y"]), max_size=25).map("\n".join)


@given(TEXTS, TEXTS)
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_applying_the_diff_to_the_old_text_gives_the_new(project: Path, old: str, new: str) -> None:
    diff, stat = unified_diff(old, new, "a.txt")
    if old == new:
        assert (diff, stat.ai_added_lines, stat.ai_removed_lines) == ("", 0, 0)
        return
    (project / "a.txt").write_text(old, encoding="utf-8")
    done = subprocess.run(
        ["git", "apply", "--unidiff-zero", "--whitespace=nowarn", "-p0", "-"],
        input=diff.replace("\tOriginal", "").replace("\tWritten", "").encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    applied = project / "a.txt"
    assert (applied.read_text(encoding="utf-8") if applied.exists() else "") == new
    body = [line for line in diff.split("\n")[2:] if not line.startswith("@@")]
    assert stat.ai_added_lines == sum(line.startswith("+") for line in body)
    assert stat.ai_removed_lines == sum(line.startswith("-") for line in body)


def test_a_large_diff_is_cut_and_counted_in_full() -> None:
    old = "".join(f"old line {n}\n" for n in range(50_000))
    new = "".join(f"new line {n}\n" for n in range(50_000))
    diff, stat = unified_diff(old, new, "a.txt")
    assert (stat.ai_added_lines, stat.ai_removed_lines) == (50_000, 50_000)
    assert len(diff) < 110_000
    assert diff.endswith("... [diff cut: 50000 lines added and 50000 removed in all]\n")
