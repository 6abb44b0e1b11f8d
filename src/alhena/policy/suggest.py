"""What "always" would save for a command, and the programs it names for a person to read."""

import shlex

from alhena.policy.bash.hazards.judge import hazard
from alhena.policy.bash.model import Analysis, Effect, Part, Word
from alhena.policy.bash.options import (
    base_name,
    first_operands,
    is_option,
    split_settings,
)
from alhena.policy.bash.prefix import allows
from alhena.policy.bash.reach import names_command
from alhena.policy.programs import global_options, interpreter, listed, wrapper


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NEED_NO_RULE = _words("true false : exit break continue")

_TOO_BROAD = _words(
    "rm rmdir unlink shred dd mv cp install ln truncate tee chmod chown chgrp chattr setfacl "
    "kill killall pkill wipefs fdisk parted mount umount reboot shutdown halt poweroff init "
    "iptables nft ufw useradd userdel usermod passwd visudo crontab at batch curl wget ssh scp "
    "sftp rsync nc ncat netcat socat telnet ftp su runuser sg login script tmux screen find fd "
    "xargs parallel ed sqlite3 psql mysql mongo redis-cli gdb systemctl service launchctl "
    "osascript open xdg-open start-stop-daemon patch ping dig nslookup host nmap aws gcloud az "
    "gsutil terraform tofu ansible ansible-playbook helm eval exec cmake ip tsserver watchman "
    "emulator adb fastboot openssl gpg busctl dbus-send qdbus ld as ar"
)
"""Programs of which no beginning of a command is narrow: a rule leaves open what follows, and that
may name any file, host or account."""

_SINGLE = _words(
    "ls cat head tail wc grep egrep fgrep rg sort uniq cut tr diff cmp comm file stat du df "
    "tree pwd echo printf date which whereis whoami id uname printenv ps free uptime basename "
    "dirname realpath readlink md5sum sha1sum sha256sum xxd od hexdump strings jq yq column nl "
    "fold paste seq sleep test [ mkdir touch sed pytest py.test tox nox mypy pyright ruff black "
    "isort flake8 pylint eslint prettier tsc jest vitest mocha rspec rubocop phpunit gofmt "
    "golint shellcheck shfmt clang-format ninja ctest nl tac rev expand less more man bat ag ack"
)
"""Programs without subcommands."""

_SUBCOMMANDS = {
    "git": _words(
        "status log diff show add commit blame fetch ls-files ls-tree rev-parse rev-list describe "
        "shortlog grep merge-base cat-file pull diff-tree whatchanged range-diff version help"
    ),
    "cargo": _words("build check test clippy fmt doc bench tree metadata fetch version nextest"),
    "go": _words("build test vet fmt list doc version env mod"),
    "npm": _words("test ci ls list outdated view audit run start help"),
    "pnpm": _words("test ls list outdated audit run build lint start"),
    "yarn": _words("test list outdated audit run build lint start why info"),
    "bun": _words("test run build"),
    "pip": _words("list show freeze check"),
    "uv": _words("sync lock tree pip run version"),
    "poetry": _words("install lock show check build run version"),
    "docker": _words("ps images logs inspect build version info stats top compose"),
    "docker compose": _words("up ps logs build config images top ls version"),
    "kubectl": _words("get describe logs top version explain api-resources cluster-info"),
    "gh": _words("pr issue run repo workflow release status search"),
    "gh pr": _words("list view status diff checks"),
    "gh issue": _words("list view status"),
    "gh run": _words("list view watch"),
    "gh repo": _words("list view"),
    "gh workflow": _words("list view"),
    "gh release": _words("list view"),
    "gh search": _words("code commits issues prs repos"),
    "make": frozenset[str](),
    "brew": _words("list info search outdated doctor"),
    "apt": _words("list show search policy"),
    "apt-get": frozenset[str](),
    "bundle": _words("install check list show outdated exec"),
    "dotnet": _words("build test restore format"),
    "mvn": _words("compile test package verify validate clean"),
    "gradle": _words("build test check assemble clean tasks"),
    "composer": _words("install validate show outdated"),
    "mix": _words("compile test format deps.get"),
    "rustup": _words("show check"),
    "conda": _words("list info"),
    "perf": frozenset[str](),
    "deno": _words("test check lint fmt"),
    "golangci-lint": _words("run linters version"),
    "meson": _words("setup compile test introspect"),
    "pre-commit": _words("run"),
}
"""Multi-command programs -> subcommands that stay narrow whatever follows."""

_NAMED_TASK = {"npm run", "pnpm run", "yarn run", "bun run", "make", "go mod", "uv pip"}
"""What needs one more word: the task."""

_NAMED = {
    "go mod": _words("tidy download graph verify why"),
    "uv pip": _words("list show freeze check"),
}
_PROJECT_RUNNERS = {"uv run", "poetry run", "bundle exec"}
_TASKS = _words("make gradle mvn")
"""Programs that do one task after the other; a rule names all of them."""

_COMPILERS = _words(
    "gcc g++ clang clang++ cc c++ cpp gfortran rustc javac icc icx nvcc ldc dmd gdc"
)
"""Programs with plugins and wrappers, that write where they are told."""

_MODULES = _words("pytest unittest mypy ruff black flake8 pylint isort compileall")


def always_prefix(part: Part) -> tuple[str, ...] | None:
    """The words a rule would begin with that allows `part` from now on; None when any such rule
    would be too broad, or would not allow it.

    Never an interpreter, a wrapper, a shell, a package runner, or a program with subcommands alone.
    """
    if not part.words or any(r.effect is Effect.WRITE for r in part.redirections):
        return None
    settings: list[str] = []
    for assignment in part.assignments:
        if not assignment.value.literal or _steers(assignment.name):
            return None
        settings.append(f"{assignment.name}={assignment.value.text}")
    count = _length(part.words)
    if count is None or not all(word.literal for word in part.words[:count]):
        return None
    words = (*settings, *(word.text for word in part.words[:count]))
    beginning = Part(text=part.text, words=part.words[:count])
    if hazard(beginning, ()) is not None or hazard(part, words) is not None:
        return None
    if not allows(prefix_text(words), part):
        return None
    return words


def always_prefixes(analysis: Analysis) -> tuple[str, ...] | None:
    """The prefixes that "always" would save for a whole command line, each as a rule's
    `commandPrefix`; None when one of its parts has none, or what runs is in doubt."""
    if not analysis.complete or analysis.doubts:
        return None
    found: dict[str, None] = {}
    for part in analysis.parts:
        if _needs_no_rule(part):
            continue
        words = always_prefix(part)
        if words is None:
            return None
        found.setdefault(prefix_text(words))
    return tuple(found) or None


def prefix_text(words: tuple[str, ...]) -> str:
    """Words as the text of a `commandPrefix`, quoted where they have to be."""
    settings, rest = split_settings(words)
    quoted = [name + "=" + shlex.quote(value) for name, _, value in _divided(settings)]
    return " ".join([*quoted, *(shlex.quote(word) for word in rest)])


def _divided(settings: tuple[str, ...]) -> list[tuple[str, str, str]]:
    return [setting.partition("=") for setting in settings]


def root_commands(analysis: Analysis) -> tuple[str, ...]:
    """The command word of every part as it is written or read, once each, in order of appearance,
    those inside substitutions included."""
    found: dict[str, None] = {}
    for part in analysis.parts:
        if part.words:
            head = part.words[0]
            found.setdefault(head.text if head.literal else head.source or head.text)
    return tuple(found)


def _steers(variable: str) -> bool:
    """Does this variable change which program runs, or how?"""
    beginnings = (
        "LD_",
        "DYLD_",
        "PYTHON",
        "PERL",
        "RUBY",
        "NODE_OPT",
        "NODE_PATH",
        "JAVA_TOOL",
        "_",
    )
    return (
        names_command(variable)
        or variable.startswith(beginnings)
        or variable.endswith(("PATH", "FLAGS", "OPTIONS", "OPTS", "PROXY", "HOME", "CONFIG"))
        or variable in {"IFS", "CC", "CXX", "LD", "AR", "RUSTC", "CDPATH", "SHELLOPTS", "BASHOPTS"}
    )


def _needs_no_rule(part: Part) -> bool:
    if not part.words or part.assignments or not part.words[0].literal:
        return False
    if any(r.effect is Effect.WRITE for r in part.redirections):
        return False
    name = part.words[0].text
    return name in _NEED_NO_RULE or (name == "cd" and all(word.literal for word in part.words))


def _length(words: tuple[Word, ...]) -> int | None:
    """The number of words a narrow prefix of this command has."""
    head = words[0]
    if not head.literal or not head.text:
        return None
    name = base_name(head.text)
    if interpreter(name) is not None:
        texts = [word.text for word in words[1:3]]
        module = name.startswith("python") and texts[:1] == ["-m"] and texts[-1] in _MODULES
        return 3 if module else None
    if _runs_others(name) or name in _TOO_BROAD or _compiles(name):
        return None
    if name.startswith(("mkfs", "git-", "qemu-")):
        return None
    if name in _SINGLE:
        return 1
    if name in _SUBCOMMANDS or name in _ALIASES:
        return _with_subcommand(words, _ALIASES.get(name, name))
    return _unknown_length(words)


_ALIASES = {"gmake": "make", "pip3": "pip", "podman": "docker", "gradlew": "gradle", "mvnw": "mvn"}


def _compiles(name: str) -> bool:
    """Is it a compiler, perhaps with a version behind or the machine before its name?"""
    return name.rstrip("0123456789.-").rsplit("-", 1)[-1] in _COMPILERS


def _runs_others(name: str) -> bool:
    bare = name.rstrip("0123456789.-")
    lists = ("shells", "code_runners", "evaluators", "opaque", "mentioning", "code_in_data")
    harmless = name in {"[", "test", "printf"}
    listed_there = any(name in listed(each) for each in lists) and not harmless
    return listed_there or bare in listed("code_runners") or wrapper(name) is not None


def _unknown_length(words: tuple[Word, ...]) -> int | None:
    """Of a program nobody here knows: with its first word when that looks like a subcommand, else
    all of its words. Of its name alone only when that is a path: a program of the project."""
    if len(words) == 1:
        return 1 if "/" in words[0].text else None
    first = words[1]
    bare = first.text.replace("-", "").replace(":", "").replace("_", "")
    if first.literal and bare.isalnum() and first.text[:1].isalpha():
        return None if first.text.partition(":")[0] in listed("running") else 2
    return len(words) if all(word.literal for word in words) else None


def _with_subcommand(words: tuple[Word, ...], name: str) -> int | None:
    path, start = name, 0
    while True:
        known = global_options(path)
        found = first_operands(words[start:], known, 1)
        if not found or not words[start + found[0]].literal:
            return None
        start += found[0]
        text = words[start].text
        allowed = _NAMED.get(path) or _SUBCOMMANDS.get(path)
        if name in _TASKS:
            return _all_tasks(words, name)
        if path in _NAMED_TASK:
            named = text in allowed if allowed else "=" not in text
            return start + 1 if named else None
        path = f"{path} {text}"
        if allowed is not None and text not in allowed:
            return None
        if path in _PROJECT_RUNNERS:
            rest = words[start + 1 :]
            inner = _length(rest) if rest and not is_option(rest[0]) else None
            return None if inner is None else start + 1 + inner
        if wrapper(path) is not None:
            return None
        if path not in _SUBCOMMANDS and path not in _NAMED_TASK:
            return start + 1


def _all_tasks(words: tuple[Word, ...], name: str) -> int | None:
    """The words up to the last target; none may be more than a target."""
    found = first_operands(words, global_options(name), len(words))
    allowed = _SUBCOMMANDS[name]
    for at in found:
        text = words[at].text
        if not words[at].literal or "=" in text or (allowed and text not in allowed):
            return None
    return found[-1] + 1
