"""Every place of the source that starts a process shields this one's memory first."""

import ast
import re

import pytest

from tests.support.sources import SOURCE, parsed_modules

STARTERS = {
    "subprocess": {"Popen", "run", "call", "check_call", "check_output", "getoutput"},
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
    "loop": {"subprocess_exec", "subprocess_shell"},
    "os": {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "startfile",
           *(f"spawn{kind}" for kind in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe"))},
    "pty": {"fork", "spawn"},
    "multiprocessing": {"Process", "Pool"},
}  # fmt: skip
NAMES = {
    *("Popen", "create_subprocess_exec", "create_subprocess_shell", "check_output", "check_call"),
    *("ProcessPoolExecutor", "posix_spawn"),
}
SHIELD = "shield_memory"
WORDS = (
    r"\b(subprocess|pty|multiprocessing|os\.(system|popen|fork|posix_sp|startf|spawn)|{})".format(
        "|".join(map(re.escape, NAMES))
    )
)
"""Without one of these nothing is started."""


def called_name(node: ast.Call) -> str:
    return ast.unparse(node.func)


def starts(name: str) -> bool:
    owner, _, last = name.rpartition(".")
    return last in NAMES or last in STARTERS.get(owner.rpartition(".")[2], ())


def unshielded_calls(tree: ast.Module) -> list[str]:
    """The calls that start a process in a function that has not shielded the memory above them."""
    found: list[str] = []

    def visit(node: ast.AST, calls: list[ast.Call]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                judge(child)
            else:
                if isinstance(child, ast.Call):
                    calls.append(child)
                visit(child, calls)

    def judge(scope: ast.AST) -> None:
        calls: list[ast.Call] = []
        visit(scope, calls)
        shields = [call.lineno for call in calls if called_name(call) == SHIELD]
        first = min(shields, default=None)
        found.extend(
            f"line {call.lineno}: {called_name(call)}"
            for call in calls
            if starts(called_name(call)) and (first is None or call.lineno < first)
        )

    judge(tree)
    return found


@pytest.mark.requirement("TOOLS-23")
def test_every_start_of_a_process_is_behind_the_shield() -> None:
    found = {
        str(path): places
        for path, tree in parsed_modules(WORDS)
        if (places := unshielded_calls(tree))
    }
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    subprocess.run(['x'])",
        "def f():\n    Popen(['x'])\n    shield_memory()",
        "async def f():\n    await asyncio.create_subprocess_exec('x')",
        "def f():\n    shield_memory()\n    def g():\n        os.system('x')",
        "subprocess.check_output(['x'])",
        "f = lambda: os.system('x')",
    ],
)
def test_the_search_finds_what_is_not_shielded(source: str) -> None:
    assert len(unshielded_calls(ast.parse(source))) == 1


def test_the_search_sees_the_places_that_are_known() -> None:
    for name in ("child.py", "watchdog.py", "search/text_finder.py"):
        text = (SOURCE / "system" / name).read_text(encoding="utf-8")
        assert unshielded_calls(ast.parse(text.replace(f"{SHIELD}()", "pass"))), name


OWN = "command.argv"
"""From `own_programs`, whose commands take nothing from the folder that they work in."""
PLACES = {
    "agent/subagents/worktree.py": OWN,
    "batch/local.py": OWN,
    "batch/ray/engine.py": OWN,
    "extensions/installation.py": OWN,
    "session/checkpoints/git.py": OWN,
    "system/own_programs.py": OWN,
    "frontends/terminal/looks/footer.py": "*command.argv",
    "frontends/terminal/looks/clipboard.py": "(found, *program[1:])",
    # FileSearch.program, by find_program
    "frontends/terminal/completion/file_index.py": OWN,
    "frontends/terminal/entry.py": "[program, *words[1:], filename]",  # the editor, by find_program
    "frontends/cli/docs/__init__.py": "[program, *words[1:]]",  # the pager, by find_program
    "system/search/text_finder.py": "(*self._argv, '--', *names)",
    "system/tracked_files.py": OWN,
    "system/child.py": "argv",  # what a person, their settings or a model names
    "tools/edit/external_editor.py": "*argv",  # the editor, by find_program
    "system/sandbox/opening.py": "plan.argv",  # bwrap outside the workspace, or python -I
    "system/watchdog.py": "('/bin/sh', '-c', _SCRIPT, 'sh', mark)",
}
ALSO = {
    "system/child.py": "('/bin/ps', '-A', '-o', 'pid=,pgid=,stat=')",
    "system/search/text_finder.py": "(program, '--version')",
}


def test_every_program_comes_from_one_place_that_keeps_the_folder_out() -> None:
    """A new start of a process belongs into `own_programs`, or here with the reason."""
    found: dict[str, set[str]] = {}
    for path, tree in parsed_modules(WORDS):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and starts(called_name(node)):
                found.setdefault(str(path), set()).add(ast.unparse(node.args[0]))
    known = {name: {argv, *({ALSO[name]} if name in ALSO else ())} for name, argv in PLACES.items()}
    assert found == known


def test_git_and_this_python_are_named_in_one_place_only() -> None:
    allowed = {"system/own_programs.py", "system/sandbox/opening.py"}
    # These name it in a text for people, and in a script that they ask for.
    allowed |= {"distribution.py", "frontends/cli/shim/__init__.py"}
    allowed.add("__main__.py")  # the command itself again, with text as UTF-8
    found: set[str] = set()
    for path, tree in parsed_modules("[\"']git[\"']|sys.executable"):
        for node in ast.walk(tree):
            words = node.elts[:1] if isinstance(node, ast.List | ast.Tuple) else []
            git = any(isinstance(word, ast.Constant) and word.value == "git" for word in words)
            # ("git", Word…) and `("git", text)` of the policy and the prompt start nothing.
            if git and ast.unparse(node).startswith(("['git', '-", "('git', '-", "('git', *")):
                found.add(str(path))
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable":
                found.add(str(path))
    assert found <= allowed | {"system/web/readable.py"}
