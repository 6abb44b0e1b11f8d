"""Files that may hold secrets: asked about when named, left out of searches and globs."""

from pathlib import Path
from typing import Any

import pytest

from alhena.policy.model import ApprovalMode, PolicyOutcome, PolicyRule
from alhena.scheduler.question import ConfirmationRequest
from alhena.shell.secret_files import is_secret_name, may_hold_secrets
from tests.agent.kit import agent, answers, turn
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, text

FILES = {
    ".env": "needle of gold",
    ".env.local": "needle of gold",
    ".env.example": "needle",
    ".ssh/config": "needle of gold",
    "keys/a.pem": "needle of gold",
    "plain.txt": "needle",
}


def put(project: Path) -> None:
    for name, content in FILES.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(content, encoding="utf-8")
    (project / "notes.txt").symlink_to(".env")
    (project / "sub").mkdir()


async def answer_and_questions(
    name: str, args: dict[str, Any], **options: Any
) -> tuple[str, list[str]]:
    """The model's answer to a call, and the paths a person was asked about."""
    asked: list[str] = []

    def approve(request: ConfirmationRequest) -> bool:
        asked.append(request.tool_name)
        return True

    generator = ScriptedGenerator(turn(call(name, args)), [text("ok")])
    if options.pop("attended", True):
        options["approve"] = approve
    async with agent(generator, **options) as running:
        await running.ask("go")
    response = answers(generator)[0]
    return response.get("output") or response["error"], asked


NAMED: list[tuple[str, dict[str, Any]]] = [
    *(
        ("read_file", {"absolute_path": path})
        for path in (
            *(".env", "./sub/../.env", "notes.txt", ".env.local", "keys/a.pem", ".ssh/config"),
            "@.env",
        )
    ),
    ("read_file", {"file_path": ".env"}),
    ("read_many_files", {"paths": ["plain.txt", ".env"]}),
    ("read_many_files", {"paths": ["notes.txt"]}),
    ("read_many_files", {"paths": [".env*"], "useDefaultExcludes": False}),
    ("read_many_files", {"paths": [".ssh"]}),
    ("read_many_files", {"include": [".env"]}),
    ("search_file_content", {"pattern": "needle", "path": ".env"}),
    ("grep", {"pattern": "needle", "path": "notes.txt"}),
    ("grep_search", {"pattern": "needle", "dir_path": "sub/../.ssh/config"}),
]


@pytest.mark.parametrize(("name", "args"), NAMED)
async def test_a_named_file_that_may_hold_secrets_is_asked_about(
    name: str, args: dict[str, Any], project: Path
):
    put(project)
    for mode in (ApprovalMode.DEFAULT, ApprovalMode.AUTO_EDIT, ApprovalMode.PLAN):
        said, asked = await answer_and_questions(name, args, approval_mode=mode)
        assert len(asked) == 1, mode
        assert "gold" in said
    said, _ = await answer_and_questions(name, args, attended=False)
    assert "gold" not in said
    assert "may hold secrets" in said
    allowed = PolicyRule(decision=PolicyOutcome.ALLOW, priority=100, tool_names=("*",))
    said, _ = await answer_and_questions(name, args, attended=False, policy=[allowed])
    assert "gold" in said


@pytest.mark.parametrize("path", ["keys/a.pem", ".env.local", "notes.txt", ".netrc"])
async def test_an_edit_of_such_a_file_asks_also_where_edits_run_unasked(path: str, project: Path):
    put(project)
    args = {"file_path": path, "content": "new"}
    _, asked = await answer_and_questions("write_file", args, approval_mode=ApprovalMode.AUTO_EDIT)
    assert asked == ["write_file"]
    args = {"file_path": "plain.txt", "content": "new"}
    _, asked = await answer_and_questions("write_file", args, approval_mode=ApprovalMode.AUTO_EDIT)
    assert asked == []


@pytest.mark.parametrize(
    ("name", "args", "count"),
    [
        ("read_many_files", {"paths": ["**/*"], "useDefaultExcludes": False}, 5),
        ("read_many_files", {"paths": [".e*"], "useDefaultExcludes": False}, 2),
        ("read_many_files", {"paths": ["*.txt"]}, 1),
        ("read_many_files", {"paths": ["[.]env"], "useDefaultExcludes": False}, 1),
        ("read_many_files", {"paths": ["plain.txt"], "include": [".env", "notes.txt"]}, 2),
        ("read_many_files", {"paths": ["."], "useDefaultExcludes": False}, 5),
        ("search_file_content", {"pattern": "needle"}, 4),
        ("search_file_content", {"pattern": "needle", "include": "{.env,*.pem,plain.txt}"}, 2),
        ("search_file_content", {"pattern": "n.*le", "no_ignore": True}, 4),
        ("search_file_content", {"pattern": "nothing like it"}, 4),
    ],
)
async def test_searches_and_globs_leave_them_out_and_say_so(
    name: str, args: dict[str, Any], count: int, project: Path
):
    put(project)
    said, asked = await answer_and_questions(name, args)
    assert asked == []
    assert "gold" not in said
    assert ".pem\n" not in said
    assert f"{count} file" in said
    assert "that may hold secrets" in said


def test_what_is_an_example_is_no_secret_in_any_spelling():
    for name in (
        ".env.example",
        ".ENV.SAMPLE",
        ".env.local.example",
        ".env-template",
        "cacert.pem",
    ):
        assert not is_secret_name(name), name
    for name in (".env", ".ENV", ".env.examples", ".env-prod", ".envrc", "id_rsa", "ID_ED25519_x",
                 "server.KEY", ".netrc", ".Kube"):  # fmt: skip
        assert is_secret_name(name), name
    for path in ("a/.git/config", "x/.ssh/known_hosts", ".docker/config.json"):
        assert may_hold_secrets(path), path
    for path in ("environment.py", ".environment", "src/env/a.py", "keys.py", ".gitconfig"):
        assert not may_hold_secrets(path), path
