"""Programs and builtins that run what their arguments say, as tables."""

import msgspec

from alhena.policy.bash.options import Options, options


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


class Wrapper(msgspec.Struct, frozen=True):
    """A command that ends in another command: its options, how many operands stand before the
    other, and how many more may. `code`: the rest is joined with blanks and is shell code.
    `settings`: `NAME=value` may stand before the other. `remote`: it runs on another machine."""

    options: Options = Options()
    operands: int = 0
    optional: int = 0
    settings: bool = False
    code: bool = False
    remote: bool = False


def _wraps(letters: str = "", names: str = "", operands: int = 0, optional: int = 0) -> Wrapper:
    return Wrapper(options(letters, names), operands, optional)


SHELLS = _words(
    "bash sh dash ash zsh ksh mksh pdksh lksh yash fish rbash rksh tcsh csh elvish nu xonsh pwsh"
)

EVALUATORS = _words("eval trap")
"""Builtins whose arguments are shell code."""

OPAQUE = _words(
    "source . alias enable hash fc bind complete compgen compopt shopt mapfile readarray"
)
"""Builtins after which a command word need not mean what it says."""

CODE_IN_DATA = _words(
    "[ [[ test let declare typeset local export readonly read unset set mapfile readarray getopts "
    "wait jobs printf"
)
"""Builtins that can evaluate code hidden in data."""

WRAPPERS = {
    "aa-exec": _wraps("pn", "profile namespace"),
    "builtin": _wraps(),
    "busybox": _wraps(),
    "caffeinate": _wraps("tw"),
    "catchsegv": _wraps(),
    "ccache": _wraps(),
    "cgexec": _wraps("g"),
    "chpst": _wraps("uUbeo/nlmdpfcrts"),
    "chroot": _wraps("", "userspec groups", operands=1),
    "chronic": _wraps(),
    "chrt": _wraps("TPD", "sched-runtime sched-period sched-deadline", operands=1),
    "command": _wraps(),
    "coproc": Wrapper(settings=True),
    "corepack": _wraps(),
    "cpulimit": _wraps("lepP", "limit exe pid path"),
    "daemonize": _wraps("aceolpuE"),
    "dbus-launch": _wraps("", "autolaunch config-file"),
    "dbus-run-session": _wraps("", "config-file dbus-daemon"),
    "distcc": _wraps(),
    "doas": _wraps("uCa"),
    "dumb-init": _wraps("r", "rewrite"),
    "eatmydata": _wraps(),
    "entr": _wraps(),
    "env": Wrapper(options("uCSaP", "unset chdir argv0"), settings=True),
    "envdir": _wraps(operands=1),
    "exec": _wraps("a"),
    "fakeroot": _wraps("lfbis", "lib faked"),
    "faketime": _wraps("", "", operands=1),
    "firejail": _wraps(),
    "flock": _wraps("wE", "timeout conflict-exit-code wait", operands=1),
    "gosu": _wraps(operands=1),
    "i386": _wraps(),
    "ifne": _wraps(),
    "ionice": _wraps("cnpPu", "class classdata pid pgid uid"),
    "linux32": _wraps(),
    "linux64": _wraps(),
    "ltrace": _wraps("oepsulanxAF", "output align library indent user where config"),
    "nice": _wraps("n", "adjustment"),
    "nohup": _wraps(),
    "nsenter": _wraps("tSG", "target setuid setgid"),
    "numactl": _wraps("NmCp", "cpunodebind membind physcpubind preferred interleave"),
    "parallel": Wrapper(
        options(
            "jISNnLaPsEdC",
            "jobs sshlogin arg-file colsep delimiter joblog results delay retries timeout tmpdir "
            "max-args max-procs workdir wd basefile bf halt tagstring load memfree nice profile "
            "sshloginfile slf",
        ),
        code=True,
    ),
    "pkexec": _wraps("", "user"),
    "prlimit": _wraps("po", "pid output"),
    "proxychains": _wraps("f"),
    "proxychains4": _wraps("f"),
    "rlwrap": _wraps("abcCDefghHiIlmMnopPqrRsStwz"),
    "runcon": _wraps("utrl", "user type role range", optional=1),
    "sccache": _wraps(),
    "setarch": _wraps(optional=1),
    "setpriv": _wraps(
        "",
        "ruid euid reuid rgid egid regid groups inh-caps ambient-caps bounding-set securebits "
        "selinux-label apparmor-profile pdeathsig ptracer landlock-access landlock-rule",
    ),
    "setsid": _wraps(),
    "setuidgid": _wraps(operands=1),
    "softlimit": _wraps("acdfklmnopqrst"),
    "stdbuf": _wraps("ioe", "input output error"),
    "strace": _wraps(
        "oepsuESPaXbIOU",
        "output trace attach string-limit user env columns trace-path interruptible abbrev "
        "verbose raw read write fault inject signal status summary-sort-by detach-on",
    ),
    "su-exec": _wraps(operands=1),
    "sudo": Wrapper(
        options(
            "ughpCrtTUDRa",
            "user group host prompt close-from role type command-timeout other-user chdir chroot "
            "auth-type login-class",
        ),
        settings=True,
    ),
    "systemd-inhibit": _wraps("", "what who why mode"),
    "systemd-run": _wraps(
        "pEHMu",
        "property setenv host machine unit slice uid gid nice working-directory description "
        "on-active on-boot on-startup on-unit-active on-unit-inactive on-calendar service-type "
        "path-property socket-property timer-property job-mode",
    ),
    "taskset": _wraps(operands=1),
    "time": Wrapper(options("fo", "format output"), settings=True),
    "timeout": _wraps("sk", "signal kill-after", operands=1),
    "tini": _wraps("pe"),
    "torsocks": _wraps("uaP", "user address port"),
    "toybox": _wraps(),
    "tsocks": _wraps(),
    "uname26": _wraps(),
    "unbuffer": _wraps(),
    "unshare": _wraps("SGR", "setuid setgid root wd propagation setgroups map-user map-group"),
    "valgrind": _wraps(),
    "watch": Wrapper(options("nq", "interval equexit"), code=True),
    "x86_64": _wraps(),
    "xargs": _wraps(
        "IEPndLsaJRS", "arg-file delimiter max-args max-procs max-chars process-slot-var"
    ),
    "xvfb-run": _wraps("efnpsw", "error-file auth-file server-num server-args xauth-protocol wait"),
}

WRAPPERS.update(
    {
        f"g{name}": WRAPPERS[name]
        for name in ("env", "nice", "nohup", "stdbuf", "time", "timeout", "xargs")
    }
)

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
_NPM_EXEC = _wraps("pw", "package workspace")

RUNNERS: dict[tuple[str, ...], Wrapper] = {
    ("asdf", "exec"): _wraps(),
    ("aws-vault", "exec"): _wraps("dn", "duration region", operands=1),
    ("bun", "x"): _wraps("p", "package"),
    ("bundle", "exec"): _wraps("", "gemfile"),
    ("composer", "exec"): _wraps("d", "working-dir"),
    ("conda", "run"): _wraps("np", "name prefix cwd"),
    ("direnv", "exec"): _wraps(operands=1),
    ("docker", "compose", "exec"): _REMOTE_EXEC,
    ("docker", "compose", "run"): _REMOTE_RUN,
    ("docker", "container", "exec"): _REMOTE_EXEC,
    ("docker", "container", "run"): _REMOTE_RUN,
    ("docker", "exec"): _REMOTE_EXEC,
    ("docker", "run"): _REMOTE_RUN,
    ("docker-compose", "exec"): _REMOTE_EXEC,
    ("docker-compose", "run"): _REMOTE_RUN,
    ("doppler", "run"): _wraps("pct", "project config token"),
    ("dotenv", "run"): _wraps("f", "file"),
    ("dotenvx", "run"): _wraps("fe", "env-file env"),
    ("fnm", "exec"): _wraps("", "using"),
    ("git", "bisect", "run"): _wraps(),
    ("git", "submodule", "foreach"): Wrapper(code=True),
    ("hatch", "run"): _wraps(),
    ("ip", "netns", "exec"): _wraps(operands=1),
    ("kubectl", "exec"): _POD_EXEC,
    ("lxc", "exec"): Wrapper(options("", "cwd env group user"), operands=1, remote=True),
    ("mamba", "run"): _wraps("np", "name prefix cwd"),
    ("micromamba", "run"): _wraps("np", "name prefix cwd"),
    ("mise", "exec"): _wraps("Cj", "cd jobs", optional=1),
    ("mise", "x"): _wraps("Cj", "cd jobs", optional=1),
    ("nodenv", "exec"): _wraps(),
    ("npm", "exec"): _NPM_EXEC,
    ("npm", "x"): _NPM_EXEC,
    ("oc", "exec"): _POD_EXEC,
    ("op", "run"): _wraps("", "account env-file"),
    ("pdm", "run"): _wraps("p", "project"),
    ("perf", "record"): _wraps("eopcFmGtuC", "event output"),
    ("perf", "stat"): _wraps("eoprtIxGuC", "event output"),
    ("perf", "trace"): _wraps("eoptuC", "event output"),
    ("pipenv", "run"): _wraps(),
    ("pipx", "run"): _wraps("i", "spec pip-args python index-url fetch-missing-python"),
    ("pnpm", "dlx"): _wraps("", "package"),
    ("pnpm", "exec"): _wraps("C", "dir filter"),
    ("podman", "exec"): _REMOTE_EXEC,
    ("podman", "run"): _REMOTE_RUN,
    ("poetry", "run"): _wraps(),
    ("pyenv", "exec"): _wraps(),
    ("rbenv", "exec"): _wraps(),
    ("rustup", "run"): _wraps(operands=1),
    ("rye", "run"): _wraps(),
    ("tox", "exec"): _wraps("e"),
    ("uv", "run"): _wraps(
        "pCin",
        "with with-editable with-requirements extra group no-group only-group package python "
        "env-file directory project index index-url default-index extra-index-url find-links "
        "config-file cache-dir no-extra refresh-package reinstall-package",
    ),
    ("uv", "tool", "run"): _wraps("pC", "from with with-editable with-requirements python index"),
    ("volta", "run"): _wraps("", "node npm yarn"),
    ("yarn", "dlx"): _wraps("p", "package"),
    ("yarn", "exec"): _wraps(),
}
"""Subcommands that end in another command."""

WRAPPERS.update(
    {
        "bunx": _wraps("p", "package"),
        "npx": _NPM_EXEC,
        "pnpx": _NPM_EXEC,
        "uvx": RUNNERS["uv", "tool", "run"],
    }
)

PACKAGE_RUNNERS = _words("bunx npx pnpx uvx")

RUNNER_PROGRAMS = frozenset(path[0] for path in RUNNERS)
"""The programs of `RUNNERS`."""

WITHOUT_COMMAND = _words("command env genv nice gnice ionice xargs gxargs")
"""Wrappers that are harmless when no command follows."""

INTERPRETERS = {
    "awk": options("FvE", "assign field-separator exec"),
    "bun": options("", ""),
    "deno": options("", ""),
    "elixir": options("", ""),
    "emacs": options("lfu", "load funcall user"),
    "ex": options("TSsuU"),
    "expect": options("f"),
    "gawk": options("FvEli", "assign field-separator exec load include"),
    "gdb": options("xdspcb", "-command -ex"),
    "groovy": options("", ""),
    "guile": options("Ls", ""),
    "julia": options("JtpH", "project"),
    "lldb": options("sSfapnw"),
    "lua": options("l"),
    "luajit": options("lj"),
    "mawk": options("FvW"),
    "nawk": options("Fv"),
    "node": options("rC", "require import loader experimental-loader conditions"),
    "nodejs": options("rC", "require import loader experimental-loader conditions"),
    "nvim": options("TSsuU", ""),
    "osascript": options("ls"),
    "perl": options("IMm"),
    "php": options("cdtBRFEz", "define"),
    "pypy": options("WX", "check-hash-based-pycs"),
    "python": options("WX", "check-hash-based-pycs"),
    "raku": options("IM"),
    "ruby": options("ICEFKTr", "require"),
    "R": options("f", "file"),
    "Rscript": options("", ""),
    "scala": options("", ""),
    "tclsh": options("", ""),
    "ts-node": options("PO", "project"),
    "tsx": options("", ""),
    "vi": options("TSsuU"),
    "vim": options("TSsuU"),
}
"""Interpreter -> its options that take a value and hold no code."""

CODE_OPTIONS = {
    "bun": "e",
    "deno": "",
    "elixir": "e",
    "emacs": "",
    "ex": "c",
    "expect": "c",
    "gawk": "e",
    "gdb": "",
    "groovy": "e",
    "guile": "c",
    "julia": "eE",
    "lldb": "oO",
    "lua": "e",
    "luajit": "e",
    "node": "ep",
    "nodejs": "ep",
    "nvim": "c",
    "osascript": "e",
    "perl": "eE",
    "php": "r",
    "pypy": "c",
    "python": "c",
    "R": "e",
    "raku": "e",
    "Rscript": "e",
    "ruby": "e",
    "scala": "e",
    "ts-node": "ep",
    "tsx": "ep",
    "vi": "c",
    "vim": "c",
}
"""Interpreter -> its one-letter options that are followed by code."""

LONG_CODE_OPTIONS = _words(
    "--eval --print --execute --cmd --source --run --one-line --one-line-before -ex -iex "
    "-eval --execute-script"
)

FINDERS = _words("find gfind fd fdfind")

FIND_ACTIONS = _words("-exec -execdir -ok -okdir -x -X --exec --exec-batch")
"""Arguments of the finders that a command follows."""

MENTIONING = _words(
    "bwrap gdb lldb proot tmux screen nix nix-shell hyperfine dotenv crontab at batch osascript"
)
"""Programs that may take a command apart from their arguments: any word may be the start of one."""


LOADER = _wraps("", "library-path preload inhibit-rpath audit argv0 glibc-hwcaps-prepend")


def is_loader(name: str) -> bool:
    """Is this the dynamic loader, which runs the program it is given?"""
    return name.startswith(("ld-linux", "ld-musl", "ld.so"))


def interpreter(name: str) -> str | None:
    """The interpreter this (base) name means, perhaps with a version (`python3.12`)."""
    if name in INTERPRETERS:
        return name
    bare = name.rstrip("0123456789.-")
    return bare if bare in INTERPRETERS else None
