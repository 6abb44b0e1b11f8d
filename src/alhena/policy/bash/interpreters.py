"""Interpreters, shells and subcommands that end in another command, as tables."""

from collections.abc import Iterator

import msgspec

from alhena.policy.bash.model import Part, Word
from alhena.policy.bash.options import Options, Takes, base_name, is_option, options, takes
from alhena.policy.bash.readonly.scripts import ScriptEffect, awk_effect
from alhena.policy.bash.wrappers import (
    CODE_OPTIONS,
    INTERPRETERS,
    LONG_CODE_OPTIONS,
    NPM_EXEC,
    UV_TOOL,
    Runs,
    Wrapper,
    wraps,
)

_EDITORS = frozenset({"vi", "view", "vim", "nvim", "ex", "emacs", "gdb", "lldb"})
_SHELL_MARKS = ("$(", "${", "\\", "`", "eval", '"$')
_AWKS = frozenset({"awk", "gawk", "mawk", "nawk"})


def shown_input(part: Part) -> tuple[Word, ...]:
    """The texts of the here documents and here strings that a command reads."""
    return tuple(
        redirection.target or Word(redirection.body or "")
        for redirection in part.redirections
        if redirection.operator.startswith("<<")
    )


def input_mentions(via: str, part: Part) -> Iterator[Runs]:
    """What comes in by the standard input, for programs that take it for commands."""
    for text in shown_input(part):
        yield Runs(via=via, mentions=(text,))


def interpreted(words: tuple[Word, ...], language: str, part: Part) -> Iterator[Runs]:
    """What an interpreter may run: guesses from its code, the module or script it is given."""
    name = base_name(words[0].text)
    found = _CodeSearch(words, language)
    for word in found.code:
        yield Runs(via=name, mentions=(word,), sure=False)
    if language in _AWKS:
        yield from _awk(words, found)
    elif found.module is not None:
        yield Runs(via=f"{name} -m", words=words[found.module :])
    elif language in _EDITORS:
        mentions = tuple(w for w in words[1:] if w.text.startswith("+"))
        if mentions:
            yield Runs(via=name, mentions=mentions, sure=False)
        yield from input_mentions(name, part)
    elif found.script is not None and words[found.script].text not in {"-", "/dev/stdin"}:
        if not words[found.script].literal:
            yield Runs(via=name)
        elif language in {"deno", "R"}:
            yield Runs(via=name, mentions=words[found.script :], sure=False)
        elif "." in words[found.script].text or "/" in words[found.script].text:
            yield Runs(via=name, words=words[found.script :])
    elif not found.code and not found.informs:
        yield from input_mentions(name, part)
        if not shown_input(part):
            yield Runs(via=name)


class _CodeSearch:
    """Finds the code, the module or the script in an interpreter's arguments."""

    def __init__(self, words: tuple[Word, ...], language: str) -> None:
        self.words = words
        self.code: list[Word] = []
        self.module: int | None = None
        self.script: int | None = None
        self.informs = False
        letters = CODE_OPTIONS.get(language, "")
        known = INTERPRETERS[language]
        at = 1
        while at < len(words) and self.script is None and self.module is None:
            word = words[at]
            if is_option(word) and not (word.literal and word.text == "--"):
                at += self._option(at, letters, known)
                modular = language in {"python", "pypy"} and word.text[:2] != "--"
                if modular and word.text.endswith("m") and at + 1 < len(words):
                    self.module = at + 1
            elif not is_option(word) and not (word.text.startswith("+") and language in _EDITORS):
                self.script = at
            at += 1

    def _option(self, at: int, letters: str, known: Options) -> int:
        """How many words behind the option belong to it."""
        word = self.words[at]
        text = word.text
        self.informs = self.informs or text in {"--version", "--help", "-V", "-h", "-v", "-version"}
        following = self.words[at + 1 : at + 2]
        name, sign, value = text.partition("=")
        if name in LONG_CODE_OPTIONS:
            self.code += [Word(value, word.kind, word.source)] if sign else following
            return 0 if sign else 1
        if not text.startswith("--"):
            for index, letter in enumerate(text[1:], start=2):
                if letter in letters:
                    attached = index < len(text) or not word.literal
                    self.code += [_cut(word, index)] if attached else following
                    # `perl -ne CODE`, `node -pe CODE`: letters may follow the one that says code.
                    self.code += following if attached else ()
                    return 0 if attached and not text[index:].isalpha() else 1
                if letter in known.letters:
                    return int(index == len(text))
        return int(takes(text, known) is Takes.NEXT)


def _cut(word: Word, start: int) -> Word:
    return Word(word.text[start:], word.kind, word.source, word.split)


def _awk(words: tuple[Word, ...], found: _CodeSearch) -> Iterator[Runs]:
    """The program is the first operand, unless it stands in a file."""
    from_file = any(w.text.startswith(("-f", "--file", "-E")) for w in words[1:])
    if from_file or found.script is None:
        return
    program = words[found.script]
    effect = awk_effect(program.text)
    runs = effect is not ScriptEffect.NONE and any(mark in program.text for mark in _SHELL_MARKS)
    if not program.literal or (runs and effect is not ScriptEffect.WRITES):
        yield Runs(via="awk")
    if effect in {ScriptEffect.RUNS, ScriptEffect.UNKNOWN}:
        yield Runs(via="awk", mentions=(program,), sure=False)


_CONTAINER_RUN = options(
    "aceghlmpuvw",
    "add-host annotation attach blkio-weight cap-add cap-drop cgroup-parent cidfile cpus "
    "cpuset-cpus cpu-shares device dns entrypoint env env-file expose gpus group-add health-cmd "
    "hostname ip ipc label log-driver log-opt memory mount name network net pid pids-limit "
    "platform publish pull restart runtime security-opt shm-size stop-signal stop-timeout sysctl "
    "tmpfs ulimit user userns volume volumes-from volume-driver workdir",
)
_CONTAINER_EXEC = options("euw", "detach-keys env env-file index user workdir")
_REMOTE_EXEC = Wrapper(_CONTAINER_EXEC, operands=1, remote=True)
_REMOTE_RUN = Wrapper(_CONTAINER_RUN, operands=1, remote=True)
_POD_EXEC = Wrapper(options("cfn", "container filename namespace"), operands=1, remote=True)

_IMAGE_EXEC = Wrapper(options("BHSWe", "bind home env pwd overlay"), operands=1, remote=True)

RUNNERS: dict[tuple[str, ...], Wrapper] = {
    ("asdf", "exec"): wraps(),
    ("aws-vault", "exec"): wraps("dn", "duration region", operands=1),
    ("bun", "x"): wraps("p", "package"),
    ("bundle", "exec"): wraps("", "gemfile"),
    ("composer", "exec"): wraps("d", "working-dir"),
    ("conda", "run"): wraps("np", "name prefix cwd"),
    ("direnv", "exec"): wraps(operands=1),
    ("docker", "compose", "exec"): _REMOTE_EXEC,
    ("docker", "compose", "run"): _REMOTE_RUN,
    ("docker", "container", "exec"): _REMOTE_EXEC,
    ("docker", "container", "run"): _REMOTE_RUN,
    ("docker", "exec"): _REMOTE_EXEC,
    ("docker", "run"): _REMOTE_RUN,
    ("docker-compose", "exec"): _REMOTE_EXEC,
    ("docker-compose", "run"): _REMOTE_RUN,
    ("doppler", "run"): wraps("pct", "project config token"),
    ("dotenv", "run"): wraps("f", "file"),
    ("dotenvx", "run"): wraps("fe", "env-file env"),
    ("fnm", "exec"): wraps("", "using"),
    ("git", "bisect", "run"): wraps(),
    ("git", "submodule", "foreach"): Wrapper(code=True),
    ("hatch", "run"): wraps(),
    ("ip", "netns", "exec"): wraps(operands=1),
    ("kubectl", "exec"): _POD_EXEC,
    ("lxc", "exec"): Wrapper(options("", "cwd env group user"), operands=1, remote=True),
    ("mamba", "run"): wraps("np", "name prefix cwd"),
    ("micromamba", "run"): wraps("np", "name prefix cwd"),
    ("mise", "exec"): wraps("Cj", "cd jobs", optional=1),
    ("mise", "x"): wraps("Cj", "cd jobs", optional=1),
    ("nodenv", "exec"): wraps(),
    ("npm", "exec"): NPM_EXEC,
    ("npm", "x"): NPM_EXEC,
    ("oc", "exec"): _POD_EXEC,
    ("op", "run"): wraps("", "account env-file"),
    ("pdm", "run"): wraps("p", "project"),
    ("perf", "record"): wraps("eopcFmGtuC", "event output"),
    ("perf", "stat"): wraps("eoprtIxGuC", "event output"),
    ("perf", "trace"): wraps("eoptuC", "event output"),
    ("pipenv", "run"): wraps(),
    ("pipx", "run"): wraps("i", "spec pip-args python index-url fetch-missing-python"),
    ("pnpm", "dlx"): wraps("", "package"),
    ("pnpm", "exec"): wraps("C", "dir filter"),
    ("podman", "exec"): _REMOTE_EXEC,
    ("podman", "run"): _REMOTE_RUN,
    ("poetry", "run"): wraps(),
    ("pyenv", "exec"): wraps(),
    ("rbenv", "exec"): wraps(),
    ("rustup", "run"): wraps(operands=1),
    ("rye", "run"): wraps(),
    ("tox", "exec"): wraps("e"),
    ("uv", "run"): wraps(
        "pCin",
        "with with-editable with-requirements extra group no-group only-group package python "
        "env-file directory project index index-url default-index extra-index-url find-links "
        "config-file cache-dir no-extra refresh-package reinstall-package",
    ),
    ("uv", "tool", "run"): UV_TOOL,
    ("volta", "run"): wraps("", "node npm yarn"),
    ("yarn", "dlx"): wraps("p", "package"),
    ("yarn", "exec"): wraps(),
    ("apptainer", "exec"): _IMAGE_EXEC,
    ("apptainer", "run"): _IMAGE_EXEC,
    ("buildah", "run"): _REMOTE_EXEC,
    ("cabal", "exec"): wraps(),
    ("chamber", "exec"): wraps(operands=1),
    ("crictl", "exec"): _REMOTE_EXEC,
    ("dart", "run"): wraps("D", "define enable-experiment"),
    ("devbox", "run"): wraps("ce", "config env env-file"),
    ("devcontainer", "exec"): Wrapper(
        options("", "workspace-folder container-id config"), remote=True
    ),
    ("distrobox", "enter"): Wrapper(options("na", "name additional-flags"), remote=True),
    ("dune", "exec"): wraps("j", "profile root display context"),
    ("flatpak", "run"): wraps("", "command branch arch cwd env filesystem socket device share"),
    ("foreman", "run"): wraps("efd", "env procfile root"),
    ("goenv", "exec"): wraps(),
    ("hatch", "env", "run"): wraps("eifx", "env include filter"),
    ("heroku", "run"): Wrapper(options("arse", "app remote size env type exit-code"), remote=True),
    ("incus", "exec"): Wrapper(options("", "cwd env group user"), operands=1, remote=True),
    ("infisical", "run"): wraps("", "env projectId path token"),
    ("jenv", "exec"): wraps(),
    ("lerna", "exec"): wraps("", "scope ignore concurrency"),
    ("limactl", "shell"): Wrapper(options("", "workdir shell"), operands=1, remote=True),
    ("meson", "devenv"): wraps("Cw", "workdir dump"),
    ("multipass", "exec"): Wrapper(options("d", "working-directory"), operands=1, remote=True),
    ("nvm", "exec"): wraps(operands=1),
    ("oc", "rsh"): Wrapper(options("cfn", "container shell namespace"), operands=1, remote=True),
    ("opam", "exec"): wraps("", "switch root"),
    ("pixi", "exec"): wraps("scp", "spec channel platform with"),
    ("pixi", "run"): wraps("e", "environment manifest-path"),
    ("plenv", "exec"): wraps(),
    ("proto", "run"): wraps(operands=1),
    ("py-spy", "record"): wraps("orpfd", "output rate pid format duration"),
    ("railway", "run"): wraps("se", "service environment"),
    ("rr", "record"): wraps("ocvpnu", "output-trace-dir env num-cpu-ticks chaos bind-to-cpu"),
    ("samply", "record"): wraps("orpd", "output rate pid duration save-only"),
    ("singularity", "exec"): _IMAGE_EXEC,
    ("singularity", "run"): _IMAGE_EXEC,
    ("sops", "exec-env"): Wrapper(operands=1, code=True),
    ("stack", "exec"): wraps("", "package resolver stack-yaml cwd"),
    ("toolbox", "run"): Wrapper(options("cd", "container distro release"), remote=True),
    ("trace-cmd", "record"): wraps("eopfTsNC", "output"),
    ("uftrace", "record"): wraps("dDFNtP", "data depth filter"),
    ("zig", "run"): wraps("D"),
}
"""Subcommands that end in another command."""

RUNNER_PROGRAMS = frozenset(path[0] for path in RUNNERS)
"""The programs of `RUNNERS`."""

RUNNING = frozenset(
    {"call", "console", "dlx", "do", "each", "eval", "exec", "execute", "foreach", "invoke"}
    | {"launch", "record", "repl", "run", "script", "sh", "shell", "spawn", "ssh", "trace", "with"}
)
"""Subcommands that, of any program, are likely to run what follows."""


class ShellArguments(msgspec.Struct, frozen=True):
    """How a shell is called: `code` is where `-c` stands, `operand` the code or the script."""

    code: int | None = None
    operand: int | None = None
    reads_input: bool = False
    certain: bool = True
    informs: bool = False


def shell_arguments(words: tuple[Word, ...]) -> ShellArguments:
    """The options and the first operand of a shell's call."""
    code: int | None = None
    reads_input, certain = False, True
    at = 1
    while at < len(words):
        word = words[at]
        text = word.text
        if text in {"--version", "--help"} and at == 1:
            return ShellArguments(informs=True)
        if text in {"--", "-"} and word.literal:
            at += 1
            break
        if not is_option(word) and text[:1] != "+":
            break
        certain = certain and word.literal
        if text[:2] == "--" or text.lower() == "-command":
            code = at if text.lower() in {"--command", "-command"} else code
            at += text in {"--rcfile", "--init-file", "--init-command"}
        else:
            code = at if "c" in text and text[0] == "-" else code
            reads_input = reads_input or "s" in text
            at += text.count("o") + text.count("O")
        at += 1
    operand = at if at < len(words) else None
    if operand is not None and not words[operand].literal:
        certain = certain and not words[operand].split
    return ShellArguments(code, operand, reads_input and code is None, certain)
