"""Commands that show git's settings run unasked only where none of these is a secret."""

import subprocess
from pathlib import Path

import pytest

from tests.policy.test_files_read_oracle import MARK, allowed_lines, build, printing_lines
from tests.shell.oracle import needs_bash

SECRET_KEYS = (
    *("sendemail.smtppass", "imap.pass", "x.apikey", "http.proxy", "core.sshcommand"),
    *(
        "http.https://h.extraheader",
        "credential.https://h.username",
        "url.https://MARK@h.insteadof",
    ),
    *("alias.x", "gpg.x.program", "user.token", "core.askpass", "diff.external", "branch.main.x"),
)
READING = (
    "git config --get {0}",
    "git config --get-all {0}",
    "git config {0}",
    "git config get {0}",
    "git config get --all {0}",
    "git config --local --get {0}",
    "git config --default x {0}",
    "git config --show-origin --get {0} .",
    "git config -z --get {0} .",
    "git config --get-urlmatch {0} https://h",
    "git config get --url=https://h {0}",
    "git config --get-regexp {0}",
    "git config get --regexp {0}",
    "git config -f .git/config {0}",
    "git config --file=.git/config --get {0}",
    "git config --blob=HEAD:settings --get {0}",
    "git -C . config --get {0}",
)
WHOLE = (
    *(
        "git config -l",
        "git config --list",
        "git config list",
        "git config -lz",
        "git config --lis",
    ),
    *("git config --list --name-only", "git config --get-regexp .", "git config --get-reg ."),
    *("git config get --regexp .", "git config list --local", "git config -f .git/config -l"),
    *("git config --get-urlmatch http https://h", "git config -l --show-origin", "git var -l"),
    *("git config --get-color http.proxy", "git help -c"),
)
UNASKED = (
    *("git config user.name", "git config --get User.Email", "git config --global user.name"),
    *(
        "git config get core.editor",
        "git config --get-all core.hooksPath",
        "git config init.defaultBranch",
    ),
    *("git config --get branch.main.merge", "git config diff.algorithm", "git config push.default"),
)
ADDRESSES = (
    *(
        "git remote -v",
        "git remote --verbose",
        "git remote get-url origin",
        "git remote get-url --all origin",
    ),
    *("git remote get-url --push origin", "git config --get remote.origin.url"),
    *("git config remote.origin.pushUrl", "git config branch.main.remote", "git -C sub remote -v"),
)


def configure(work: Path, **settings: str) -> None:
    for key, value in settings.items():
        subprocess.run(["git", "config", key, value], cwd=work, check=True)


@needs_bash
def test_settings_that_may_be_secrets_are_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = build(tmp_path, {"settings": f"[x]\n\tapikey = {MARK}\n"})
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    keys = [key.replace("MARK", MARK) for key in SECRET_KEYS]
    configure(work, **dict.fromkeys(keys, MARK))
    spelled = [*keys, *map(str.upper, keys)]
    lines = [form.format(key) for form in READING for key in spelled]
    assert printing_lines(work, lines[:3]) == lines[:3]
    assert allowed_lines(work, [*lines, *WHOLE]) == []
    assert allowed_lines(work, list(UNASKED)) == list(UNASKED)


@needs_bash
@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("work/.git/config", '[remote "origin"]\n\turl = https://me:MARK@h.example.org/x\n'),
        ("work/.git/config", '[remote "origin"]\n\tpushurl = https://MARK@h.example.org/x\n'),
        ("work/.git/config", '[remote "origin"]\n\turl = https://h.example.org/x?token=MARK\n'),
        ("work/.git/config", '[remote "origin"]\n\turl = ssh://me:MARK@h.example.org/x\n'),
        ("work/.git/config", '[remote "origin"]\n\turl = ht\\\ntps:/\\\n/MARK@h.example.org/x\n'),
        ("work/.git/config", '[branch "main"]\n\tremote = https://MARK@h.example.org/x\n'),
        ("work/.git/config", "[include]\n\tpath = ../more\n"),
        ("work/.git/remotes/origin", "URL: https://MARK@h.example.org/x\n"),
        (
            "home/.gitconfig",
            '[url "https://MARK@h.example.org/"]\n\tinsteadOf = https://h.example.org/\n',
        ),
        ("home/.config/git/config", '[IncludeIf "gitdir:/"] path = "~/more"\n'),
    ],
)
def test_addresses_are_shown_unasked_only_without_credentials(
    place: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = build(tmp_path, {})
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    address = (
        '[remote "origin"]\n\turl = https://h.example.org/x\n[branch "main"]\n\tremote = origin\n'
    )
    with (work / ".git/config").open("a", encoding="utf-8") as config:
        config.write(address)
    for more in (work / "more", tmp_path / "home/more"):
        more.write_text(
            '[remote "origin"]\n\tpushurl = https://MARK@h.example.org/y\n', encoding="utf-8"
        )
    assert allowed_lines(work, list(ADDRESSES)) == list(ADDRESSES)
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(text.replace("MARK", MARK))
    assert allowed_lines(work, list(ADDRESSES)) == []
    assert allowed_lines(work, ["git remote", *UNASKED[:6]]) == ["git remote", *UNASKED[:6]]


def test_settings_of_go_are_read_by_name_only(tmp_path: Path) -> None:
    unasked = ["go env GOPATH", "go env GOROOT GOMOD", "go env -json GOOS"]
    asked = ["go env", "go env -json", "go env GOPROXY", "go env GOPATH GOFLAGS", "go env -changed"]
    assert allowed_lines(tmp_path, [*unasked, *asked]) == unasked
