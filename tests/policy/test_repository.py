"""A repository counts as trusted for git while it names nothing that git would run."""

import os
import subprocess
from pathlib import Path

import pytest

from alhena.policy.surroundings import GitUse, named_program
from tests.policy.support import ALLOW, ASK, rules, shell_rule
from tests.policy.test_surroundings import decide_in_directory, git

READS = GitUse("log", frozenset())
IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A fresh clone of a repository with a submodule."""
    inner, origin = tmp_path / "inner", tmp_path / "origin"
    for folder in (inner, origin):
        git("init", "-q", str(folder), cwd=tmp_path)
        (folder / "a.txt").write_text("x\n", encoding="utf-8")
        git("add", ".", cwd=folder)
        git(*IDENTITY, "commit", "-q", "-m", "x", cwd=folder)
    git(*IDENTITY, "submodule", "add", str(inner), "lib", cwd=origin)
    git(*IDENTITY, "commit", "-q", "-m", "y", cwd=origin)
    git(*IDENTITY, "clone", "-q", "--recurse-submodules", str(origin), "clone", cwd=tmp_path)
    return tmp_path / "clone"


def test_a_fresh_clone_and_its_work_trees_and_submodules_name_nothing(clone: Path) -> None:
    git("worktree", "add", "-q", "../other", "-b", "other", cwd=clone)
    for place in (clone, clone / "lib", clone.parent / "other", clone / ".git"):
        assert named_program(str(place), GitUse("status")) is None, place
    git("config", "core.fsmonitor", "false", cwd=clone)
    git("config", "color.pager", "true", cwd=clone)
    git("config", "remote.origin.partialclonefilter", "blob:none", cwd=clone)
    git("config", "alias.st", "status -s", cwd=clone)
    assert named_program(str(clone), GitUse("status")) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("core.fsmonitor", "true"),
        ("core.fsmonitor", "./evil"),
        ("core.hooksPath", ".githooks"),
        ("core.sshCommand", "evil"),
        ("core.editor", "evil"),
        ("core.pager", "evil"),
        ("core.gitProxy", "evil"),
        ("imap.tunnel", "evil"),
        ("core.askPass", "evil"),
        ("core.alternateRefsCommand", "evil"),
        ("core.worktree", "/"),
        ("filter.lfs.process", "git-lfs filter-process"),
        ("filter.x.clean", "evil"),
        ("diff.external", "evil"),
        ("diff.pdf.textconv", "evil"),
        ("diff.pdf.command", "evil"),
        ("merge.x.driver", "evil"),
        ("credential.helper", "store"),
        ("credential.https://example.org.helper", "evil"),
        ("include.path", "../more"),
        ("includeIf.gitdir:/.path", "../more"),
        ("alias.st", "!evil"),
        ("pager.log", "evil"),
        ("gpg.program", "evil"),
        ("gpg.ssh.defaultKeyCommand", "evil"),
        ("log.showSignature", "true"),
        ("interactive.diffFilter", "evil"),
        ("difftool.x.cmd", "evil"),
        ("sequence.editor", "evil"),
        ("init.templateDir", "evil"),
        ("protocol.ext.allow", "always"),
        ("remote.origin.url", "ext::evil"),
        ("remote.origin.uploadpack", "evil"),
        ("remote.origin.vcs", "evil"),
        ("submodule.lib.update", "!evil"),
        ("trailer.x.cmd", "evil"),
        ("lfs.customtransfer.x.path", "evil"),
        ("url.ext::evil.insteadOf", "https://"),
    ],
)
def test_a_setting_that_names_a_program_is_found(tmp_path: Path, key: str, value: str) -> None:
    git("init", "-q", cwd=tmp_path)
    assert named_program(str(tmp_path), READS) is None
    git("config", key, value, cwd=tmp_path)
    found = named_program(str(tmp_path), READS)
    assert found is not None
    assert found.lower().startswith(key.lower().partition(".")[0])
    assert found.endswith(".git/config")


@pytest.mark.parametrize(
    "text",
    [
        "[core] fsmonitor = evil\n",
        "[CORE]\n\tFSMonitor=evil\n",
        '[core]\n\tfsmonitor = "evil"\n',
        "[core][core]fsmonitor = evil",
        "[filter.x]\n\tclean = evil\n",
        '\ufeff[filter "x"]\r\n\tclean = evil\r\n',
        "[user] # \\\n[core] fsmonitor = evil\n",
        "[core]\n\tfsmon\\\nitor = evil\n",
        "[core]\n\tbare = false \\\n\tfsmonitor = evil\n",
        "[core\n",
        "core\n",
        "[core]\n\tbare # evil\n",
        "[core]\n\t\x00\n",
    ],
)
def test_a_configuration_is_read_as_git_reads_it_or_counts_as_naming_one(
    tmp_path: Path, text: str
) -> None:
    git("init", "-q", cwd=tmp_path)
    (tmp_path / ".git/config").write_text(text, encoding="utf-8", newline="")
    assert named_program(str(tmp_path), READS) is not None


def test_quotes_and_comments_of_a_plain_configuration_hide_nothing(tmp_path: Path) -> None:
    git("init", "-q", cwd=tmp_path)
    config = tmp_path / ".git/config"
    config.write_text(
        '# [filter "x"]\n; clean = evil\n[user]\n\tname = "a # b" ; !c\n\temail\n'
        '[remote "a \\"b\\" # c"]\n\turl = https://example.org/x.git # ext::evil\n',
        encoding="utf-8",
    )
    assert named_program(str(tmp_path), READS) is None


def test_hooks_count_for_subcommands_that_run_them(tmp_path: Path) -> None:
    git("init", "-q", cwd=tmp_path)
    hooks = tmp_path / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    given = rules(shell_rule("allow", commandPrefix=["git log", "git commit", "git status"]))
    lines = ("git log -3", "git status -s", "git commit -m x")

    def allowed_commands() -> list[str]:
        return [
            line for line in lines if decide_in_directory(given, tmp_path, line).outcome is ALLOW
        ]

    (hooks / "pre-commit.sample").write_text("evil\n", encoding="utf-8")
    assert allowed_commands() == [*lines]
    (hooks / "pre-commit").write_text("evil\n", encoding="utf-8")
    assert allowed_commands() == ["git log -3", "git status -s"]
    asked = decide_in_directory(given, tmp_path, "git commit -m x").reason
    assert f"{hooks}/pre-commit" in asked
    assert asked.endswith("alhena trust")
    (hooks / "post-index-change").write_text("evil\n", encoding="utf-8")
    assert allowed_commands() == ["git log -3"]


def test_an_alias_counts_where_it_is_used(tmp_path: Path) -> None:
    git("init", "-q", cwd=tmp_path)
    git("config", "alias.st", "push --force", cwd=tmp_path)
    assert named_program(str(tmp_path), GitUse("status", frozenset())) is None
    assert named_program(str(tmp_path), GitUse("st", frozenset())) is not None
    assert named_program(str(tmp_path), GitUse(None, frozenset())) is not None


@pytest.mark.parametrize("version", ["2", "4"])
def test_the_repository_of_a_submodule_counts_with_the_one_around_it(
    clone: Path, version: str
) -> None:
    git("update-index", "--index-version", version, cwd=clone)
    plain = version == "2"
    assert (named_program(str(clone), READS) is None) == plain
    git("config", "core.fsmonitor", "./evil", cwd=clone / "lib")
    found = named_program(str(clone), READS)
    assert found is not None
    assert not plain or "core.fsmonitor in" in found
    ours = rules(shell_rule("allow", commandPrefix="git status"))
    assert decide_in_directory(ours, clone, "git status").outcome is ASK


def test_settings_of_a_work_tree_and_shared_ones_count(clone: Path) -> None:
    git("worktree", "add", "-q", "../other", "-b", "other", cwd=clone)
    other = clone.parent / "other"
    git("config", "extensions.worktreeConfig", "true", cwd=clone)
    git("config", "--worktree", "core.fsmonitor", "./evil", cwd=other)
    assert named_program(str(clone), READS) is None
    assert "config.worktree" in (named_program(str(other), READS) or "")
    git("config", "core.fsmonitor", "./evil", cwd=clone)
    assert "core.fsmonitor" in (named_program(str(clone), READS) or "")


def test_a_git_file_and_links_are_followed(clone: Path, tmp_path: Path) -> None:
    strange = tmp_path / "strange"
    git("init", "-q", "--bare", str(strange), cwd=tmp_path)
    git("config", "core.fsmonitor", "./evil", cwd=strange)
    for name, make in (
        ("file", lambda at: at.write_text(f"gitdir: {strange}\n", encoding="utf-8")),
        ("link", lambda at: at.symlink_to(strange)),
        ("odd", lambda at: at.write_text("evil\n", encoding="utf-8")),
        ("pipe", os.mkfifo),
        ("loop", lambda at: at.symlink_to(at)),
    ):
        folder = clone / name
        folder.mkdir()
        make(folder / ".git")
        assert named_program(str(folder), READS) is not None, name


def test_a_repository_that_git_passes_by_hides_none_above_it(tmp_path: Path) -> None:
    """git goes on upwards from a `.git` that lacks what makes it one."""
    git("init", "-q", cwd=tmp_path)
    git("config", "core.fsmonitor", "./evil", cwd=tmp_path)
    inner = tmp_path / "inner"
    (inner / ".git/objects").mkdir(parents=True)
    (inner / ".git/HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    done = subprocess.run(
        ["git", "rev-parse", "--absolute-git-dir"], cwd=inner, capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == str(tmp_path / ".git")
    assert named_program(str(inner), READS) is not None


def test_what_git_writes_itself_beside_git_changes_nothing_that_it_runs(clone: Path) -> None:
    given = rules(
        shell_rule(
            "allow",
            commandPrefix=[f"git {sub}" for sub in ("add", "commit", "status", "config", "-C")],
        )
    )
    assert (
        decide_in_directory(given, clone, "git add -A && git commit -m x && git status").outcome
        is ALLOW
    )
    for line in (
        "git config user.name x && git status",
        "git add -A && git -C lib status",
        "cd lib && git add a.txt && git status",
    ):
        decision = decide_in_directory(given, clone, line)
        assert decision.outcome is ASK, line
        assert decision.reason.endswith("alhena trust"), line
