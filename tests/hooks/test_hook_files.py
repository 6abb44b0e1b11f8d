"""Project files that belong to a hook."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.hooks.model import HookEvent
from alhena.hooks.trust import MAX_FILES, PinnedFiles, fingerprint, pinned_files
from tests.hooks.kit import hook

HOOK = ".gemini/hooks/h.sh"


def pin_files(command: str, project: Path, **fields: Any) -> PinnedFiles:
    return pinned_files(hook(command, **fields), str(project))


def print_of(command: str, project: Path, **fields: Any) -> str:
    return fingerprint(HookEvent.BEFORE_TOOL, "", hook(command, **fields), str(project))


@pytest.fixture
def script(project: Path) -> Path:
    path = project / HOOK
    path.parent.mkdir(parents=True)
    path.write_text("true", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("command", "env"),
    [
        (f"bash {HOOK}", {}),
        (f"bash $PWD/{HOOK}", {}),
        (f'bash "$PWD"/{HOOK}', {}),
        (f"bash ${{GEMINI_PROJECT_DIR:-.}}/{HOOK}", {}),
        (f'"${{CLAUDE_PROJECT_DIR:-$PWD}}/{HOOK}"', {}),
        (f"bash ${{HOOK:-{HOOK}}}", {}),
        (f'"$(git rev-parse --show-toplevel)/{HOOK}"', {}),
        (f"bash `pwd`/{HOOK}", {}),
        (f"bash -c 'bash \"{HOOK}\"'", {}),
        (f'bash -c "bash \\"{HOOK}\\""', {}),
        (f'bash -c "bash -c \'bash \\"{HOOK}\\"\'"', {}),
        (f"bash -c'bash {HOOK}'", {}),
        ("cd .gemini/hooks && ./h.sh", {}),
        ("cd .gemini && cd hooks && bash h.sh", {}),
        ("(cd .gemini; cd hooks; . h.sh)", {}),
        ("pushd .gemini/hooks >/dev/null; ./h.sh", {}),
        (f"X={HOOK}; bash $X", {}),
        (f'X="{HOOK}"; bash "$X"', {}),
        ("D=.gemini N=hooks; bash $D/$N/h.sh", {}),
        ("D=.gemini; E=$D/hooks; bash ${E}/h.sh", {}),
        (f"env F={HOOK} bash -c 'bash $F'", {}),
        (f"export F={HOOK}; bash -c 'bash \"${{F}}\"'", {}),
        ("bash $D/h.sh", {"D": ".gemini/hooks"}),
        ("bash $D/h.sh", {"D": "$PWD/.gemini/hooks"}),
        ("h.sh", {"PATH": ".gemini/hooks:/usr/bin:/bin"}),
        ("true", {"BASH_ENV": HOOK}),
        ("bash .gemini/hooks/*.sh", {}),
        ("bash .gemini/*/h.sh", {}),
        ("bash .gemini/hooks/{g,h}.sh", {}),
        ("for f in a h; do bash .gemini/hooks/$f.sh; done", {}),
        ("for f in .gemini/hooks/*; do bash $f; done", {}),
        ('bash .gemini/hooks/h""\\.sh', {}),
        ("bash $'.gemini/hooks/\\x68.sh'", {}),
        (f"bash <{HOOK}", {}),
        (f"bash <(cat {HOOK})", {}),
        (f"bash 2>&1 {HOOK}", {}),
        (f"echo >/dev/null;bash {HOOK}", {}),
        (f"case $1 in a|b) bash {HOOK};; esac", {}),
        (f"case a in\n a)\n bash {HOOK};; esac", {}),
        (f"if [[ a == b ]]; then true; else {HOOK}; fi", {}),
        (f"bash \\\n  {HOOK}", {}),
        (f"bash --rcfile={HOOK}", {}),
        ("read -r name; bash $name", {}),
        ("run-parts .gemini/hooks", {}),
        ('eval "$(cat)"', {}),
        ("bash ~+/.gemini/hooks/h.sh", {}),
    ],
)
def test_a_script_is_part_of_a_hook_however_it_is_named(
    project: Path, script: Path, command: str, env: dict[str, str]
):
    assert HOOK in pin_files(command, project, env=env).names
    before = print_of(command, project, env=env)
    script.write_text("rm -rf ~", encoding="utf-8")
    assert before.startswith("sha256:")
    assert print_of(command, project, env=env) != before


def test_a_link_out_of_the_project_is_part_of_it_and_so_is_where_it_leads(
    project: Path, script: Path
):
    outside = [project.parent / name for name in ("one.sh", "two.sh")]
    for path in outside:
        path.write_text("true", encoding="utf-8")
    script.unlink()
    script.symlink_to(outside[0])
    before = print_of(f"bash {HOOK}", project)
    script.unlink()
    script.symlink_to(outside[1])
    assert print_of(f"bash {HOOK}", project) != before


@pytest.mark.parametrize(
    "command",
    [
        "ruff check src",
        "echo done >a.py",
        "cat >>a.py",
    ],
)
def test_what_a_hook_looks_at_or_writes_is_no_part_of_it(project: Path, script: Path, command: str):
    (project / "src").mkdir()
    for name in ("a.py", "b.js", "src/c.py"):
        (project / name).write_text("x", encoding="utf-8")
    assert pin_files(command, project).names == ()


def test_what_cannot_be_known_takes_the_whole_folder_in_and_says_so(project: Path, script: Path):
    (script.parent / "lib").mkdir()
    (script.parent / "lib" / "more.sh").write_text("true", encoding="utf-8")
    found = pin_files('bash "$TOOL"', project)
    assert (found.folder, found.names) == (True, (HOOK, ".gemini/hooks/lib/more.sh"))
    assert not pin_files("bash hooks/h.sh", project).folder


def test_more_than_can_be_held_on_to_is_refused_not_cut(project: Path, script: Path):
    for number in range(MAX_FILES):
        (script.parent / f"{number}.sh").write_text("true", encoding="utf-8")
    found = pin_files("run-parts .gemini/hooks", project)
    assert found.problem == f"it runs with more than {MAX_FILES} files of the project"
    assert print_of("run-parts .gemini/hooks", project) == ""


def test_files_too_large_to_read_are_refused(project: Path):
    (project / "h.sh").touch()
    os.truncate(project / "h.sh", (64 << 20) + 1)
    assert "64 MiB" in pin_files("bash h.sh", project).problem
    assert print_of("bash h.sh", project) == ""


def test_the_thirty_third_file_counts_as_the_first(project: Path):
    names = [f"a{number:02}" for number in range(40)]
    for name in names:
        (project / name).write_text("x", encoding="utf-8")
    command = f"true {' '.join(names)}"
    before = print_of(command, project)
    (project / names[-1]).write_text("y", encoding="utf-8")
    assert print_of(command, project) != before


@given(st.text(alphabet="$`'\"\\{}()[]*?~=:, /.ab\n;|&<>\0", max_size=60))
def test_any_command_can_be_read(command: str):
    found = pin_files(command, Path.cwd())
    assert isinstance(found.problem, str)
