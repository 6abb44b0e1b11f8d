"""Rules about the files a call would touch."""

from pathlib import Path
from typing import Any

import pytest

from alhena.policy.engine import decide
from alhena.policy.gather import default_policies
from alhena.policy.model import ApprovalMode, Decision, PolicyCall, PolicyContext
from alhena.policy.surroundings import Surroundings
from tests.policy.support import ALLOW, ASK, DENY, ask, rule, rules

DEFAULTS = default_policies()


def edit(path: str, cwd: Path, mode: ApprovalMode = ApprovalMode.AUTO_EDIT) -> Decision:
    call = PolicyCall(names=("write_file",), args={"file_path": path, "content": ""})
    surroundings = Surroundings(cwd)
    return decide(call, DEFAULTS.rules, PolicyContext(mode=mode, surroundings=surroundings))


def test_a_restriction_holds_for_any_file_and_an_allow_for_all() -> None:
    deny = rules(rule("deny", 100, toolName="*", paths=["secret/", "*.lock", "/top.txt"]))
    for args in (
        {"file_path": "a/b.lock"},
        {"file_path": "secret"},
        {"file_path": "SECRET/x/y"},
        {"path": "./x/../secret/a"},
        {"paths": ["ok.txt", "a/secret/b"]},
        {"source": "a.Lock", "destination": "b"},
        {"options": {"output_file": "top.txt"}},
    ):
        assert ask(deny, "write_file", args).outcome is DENY, args
    for args in ({"file_path": "a/top.txt"}, {"content": "secret/"}, {"file_path": "locks"}, {}):
        assert ask(deny, "write_file", args).outcome is ASK, args
    allow = rules(rule("allow", 100, toolName="*", paths=["src/", "!src/gen/"]))
    assert ask(allow, "write_file", {"file_path": "src/a.py"}).outcome is ALLOW
    for args in (
        {"file_path": "SRC/a.py"},
        {"file_path": "src/../x"},
        {"source": "src/a", "destination": "b"},
        {},
        {"content": "src/a"},
    ):
        assert ask(allow, "write_file", args).outcome is ASK, args


@pytest.mark.parametrize(
    "path",
    [
        ".gemini/settings.json", ".GEMINI/settings.json", ".git/hooks/pre-commit", ".git/config",
        "sub/.git/config", ".bashrc", "sub/.envrc", ".github/workflows/ci.yml", "Makefile",
        "sub/makefile", "package.json", "a/b/pyproject.toml", "Dockerfile.dev", ".env", "GEMINI.md",
        ".vscode/tasks.json", "x/../.git/config", "./.git/hooks/x", "requirements-dev.txt",
        "webpack.config.js", "vite.config.ts", "app/vite.config.mts", "jest.config.cjs",
        "babel.config.json", "eslint.config.mjs", "karma.conf.js", ".eslintrc.js", ".mocharc.cjs",
        ".babelrc", ".npmrc", ".bazelrc", "gulpfile.js", "tests/conftest.py", "pytest.ini",
        "tsconfig.json", "tsconfig.build.json", "turbo.json", "nx.json", "deno.jsonc",
        "dune-project", "lib/dune", "rust-toolchain.toml", ".config/nextest.toml",
        "buildspec.yml", "serverless.yml", "serverless.ts", "sitecustomize.py", "lib/x.pth",
        "main.tf", "app/App.csproj", "build.gradle.kts", "gradle/wrapper/gradle-wrapper.properties",
        "flake.nix", "Gemfile.lock", "lib/tasks/db.rake", "go.work", "docs/conf.config.ts",
    ],
)  # fmt: skip
def test_auto_edit_asks_for_files_that_decide_what_runs(tmp_path: Path, path: str) -> None:
    decision = edit(path, tmp_path)
    assert decision.outcome is ASK
    assert "auto-edit.toml" in decision.reason
    assert edit(str(tmp_path / path), tmp_path).outcome is ASK
    assert edit(path, tmp_path, ApprovalMode.YOLO).outcome is ALLOW


def test_auto_edit_edits_everything_else_without_asking(tmp_path: Path) -> None:
    for path in (
        "a.py",
        "src/git/config",
        "docs/building.md",
        "my.bashrc.txt",
        "src/package.py",
        "src/config.ts",
        "src/config.js",
        "data.json",
        "src/rc.py",
        "tests/test_a.py",
        "src/tasks/a.py",
        "README.rst",
        "src/webpack.ts",
        "a.d.ts",
        "src/service.go",
    ):
        assert edit(path, tmp_path).outcome is ALLOW, path


def test_a_link_counts_as_the_file_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / ".git" / "hooks").mkdir(parents=True)
    (tmp_path / "harmless").symlink_to(".git/hooks")
    (tmp_path / "notes.txt").symlink_to(".bashrc")
    assert edit("harmless/post-checkout", tmp_path).outcome is ASK
    assert edit("notes.txt", tmp_path).outcome is ASK


def test_patterns_for_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    given = rules(rule("deny", 100, toolName="*", paths=["~/bin/"]))
    context = PolicyContext(surroundings=Surroundings(tmp_path / "work"))

    def decide_write(path: str) -> Any:
        call = PolicyCall(names=("x",), args={"file_path": path})
        return decide(call, given, context).outcome

    assert decide_write("~/bin/a") is DENY
    assert decide_write("../bin/a") is DENY
    assert decide_write("bin/a") is ASK
    assert decide_write("nul\0") is ASK
