"""Programs that run what their arguments say, and the command inside them."""

import msgspec

from alhena.policy.bash.options import (
    Options,
    options,
)


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


def wraps(letters: str = "", names: str = "", operands: int = 0, optional: int = 0) -> Wrapper:
    """A table entry, the names of options in one text."""
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
    "aa-exec": wraps("pn", "profile namespace"),
    "box64": wraps(),
    "builtin": wraps(),
    "busybox": wraps(),
    "caffeinate": wraps("tw"),
    "catchsegv": wraps(),
    "ccache": wraps(),
    "cgexec": wraps("g"),
    "chpst": wraps("uUbeo/nlmdpfcrts"),
    "chroot": wraps("", "userspec groups", operands=1),
    "chronic": wraps(),
    "chrt": wraps("TPD", "sched-runtime sched-period sched-deadline", operands=1),
    "command": wraps(),
    "coproc": Wrapper(settings=True),
    "corepack": wraps(),
    "cpulimit": wraps("lepP", "limit exe pid path"),
    "cross-env": Wrapper(settings=True),
    "cross-env-shell": Wrapper(settings=True, code=True),
    "daemonize": wraps("aceolpuE"),
    "dbus-launch": wraps("", "autolaunch config-file"),
    "dbus-run-session": wraps("", "config-file dbus-daemon"),
    "distcc": wraps(),
    "doas": wraps("uCa"),
    "dumb-init": wraps("r", "rewrite"),
    "eatmydata": wraps(),
    "entr": wraps(),
    "env": Wrapper(options("uCSaP", "unset chdir argv0"), settings=True),
    "env-cmd": wraps("fre", "file rc-file environments"),
    "envchain": wraps(operands=1),
    "envdir": wraps(operands=1),
    "exec": wraps("a"),
    "fakechroot": wraps("sdeb", "lib elfloader environment"),
    "fakeroot": wraps("lfbis", "lib faked"),
    "faketime": wraps("", "", operands=1),
    "firejail": wraps(),
    "flock": wraps("wE", "timeout conflict-exit-code wait", operands=1),
    "gdbserver": wraps(operands=1),
    "gosu": wraps(operands=1),
    "gsudo": wraps("ui", "user integrity"),
    "heaptrack": wraps("oprs", "output pid record-only"),
    "i386": wraps(),
    "ifne": wraps(),
    "ionice": wraps("cnpPu", "class classdata pid pgid uid"),
    "linux32": wraps(),
    "linux64": wraps(),
    "ltrace": wraps("oepsulanxAF", "output align library indent user where config"),
    "minijail0": wraps("bcCfgkPRsSTuv"),
    "nice": wraps("n", "adjustment"),
    "nohup": wraps(),
    "nq": wraps(),
    "nsenter": wraps("tSG", "target setuid setgid"),
    "numactl": wraps("NmCp", "cpunodebind membind physcpubind preferred interleave"),
    "parallel": Wrapper(
        options(
            "jISNnLaPsEdC",
            "jobs sshlogin arg-file colsep delimiter joblog results delay retries timeout tmpdir "
            "max-args max-procs workdir wd basefile bf halt tagstring load memfree nice profile "
            "sshloginfile slf",
        ),
        code=True,
    ),
    "pkexec": wraps("", "user"),
    "please": wraps("dert", "dir reason target"),
    "prlimit": wraps("po", "pid output"),
    "proxychains": wraps("f"),
    "proxychains4": wraps("f"),
    "qemu-aarch64": wraps("EULgrsBdD"),
    "qemu-arm": wraps("EULgrsBdD"),
    "qemu-x86_64": wraps("EULgrsBdD"),
    "rlwrap": wraps("abcCDefghHiIlmMnopPqrRsStwz"),
    "run-one": wraps(),
    "run0": Wrapper(
        options("ugD", "user group chdir nice property slice unit setenv machine description"),
        settings=True,
    ),
    "runcon": wraps("utrl", "user type role range", optional=1),
    "s6-setuidgid": wraps(operands=1),
    "sccache": wraps(),
    "schroot": wraps("cunsp", "chroot user session-name directory shell option"),
    "setarch": wraps(optional=1),
    "setlock": wraps(operands=1),
    "setpriv": wraps(
        "",
        "ruid euid reuid rgid egid regid groups inh-caps ambient-caps bounding-set securebits "
        "selinux-label apparmor-profile pdeathsig ptracer landlock-access landlock-rule",
    ),
    "setsid": wraps(),
    "setuidgid": wraps(operands=1),
    "softlimit": wraps("acdfklmnopqrst"),
    "ssh-agent": wraps("aEOPt"),
    "sshpass": wraps("fdpPe"),
    "stdbuf": wraps("ioe", "input output error"),
    "strace": wraps(
        "oepsuESPaXbIOU",
        "output trace attach string-limit user env columns trace-path interruptible abbrev "
        "verbose raw read write fault inject signal status summary-sort-by detach-on",
    ),
    "su-exec": wraps(operands=1),
    "sudo": Wrapper(
        options(
            "ughpCrtTUDRa",
            "user group host prompt close-from role type command-timeout other-user chdir chroot "
            "auth-type login-class",
        ),
        settings=True,
    ),
    "systemd-inhibit": wraps("", "what who why mode"),
    "systemd-run": wraps(
        "pEHMu",
        "property setenv host machine unit slice uid gid nice working-directory description "
        "on-active on-boot on-startup on-unit-active on-unit-inactive on-calendar service-type "
        "path-property socket-property timer-property job-mode",
    ),
    "taskset": wraps(operands=1),
    "time": Wrapper(options("fo", "format output"), settings=True),
    "timeout": wraps("sk", "signal kill-after", operands=1),
    "tini": wraps("pe"),
    "torsocks": wraps("uaP", "user address port"),
    "toybox": wraps(),
    "trickle": wraps("udwtlNn"),
    "tsp": wraps("SLNDWEC"),
    "tsocks": wraps(),
    "uname26": wraps(),
    "unbuffer": wraps(),
    "unshare": wraps("SGR", "setuid setgid root wd propagation setgroups map-user map-group"),
    "valgrind": wraps(),
    "watch": Wrapper(options("nq", "interval equexit"), code=True),
    "watchexec": wraps(
        "wefisnd",
        "watch exts filter ignore signal shell debounce stop-signal workdir env delay-run",
    ),
    "wine": wraps(),
    "wine64": wraps(),
    "x86_64": wraps(),
    "xargs": wraps(
        "IEPndLsaJRS", "arg-file delimiter max-args max-procs max-chars process-slot-var"
    ),
    "xcrun": wraps("", "sdk toolchain"),
    "xvfb-run": wraps("efnpsw", "error-file auth-file server-num server-args xauth-protocol wait"),
}

WRAPPERS.update(
    {
        f"g{name}": WRAPPERS[name]
        for name in ("env", "nice", "nohup", "stdbuf", "time", "timeout", "xargs")
    }
)

NPM_EXEC = wraps("pw", "package workspace")
UV_TOOL = wraps("pC", "from with with-editable with-requirements python index")

WRAPPERS.update({"bunx": wraps("p", "package"), "npx": NPM_EXEC, "pnpx": NPM_EXEC, "uvx": UV_TOOL})

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
    "view": options("TSsuU"),
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
    "view": "c",
    "vim": "c",
}
"""Interpreter -> its one-letter options that are followed by code."""

LONG_CODE_OPTIONS = _words(
    "--eval --print --execute --cmd --source --run --one-line --one-line-before -ex -iex "
    "-eval --execute-script"
)

CODE_RUNNERS = _words(
    "amm babel-node bb bpython bsh clisp clj clojure cmd coffee csc cscript csharp csi cypher- "
    "shell d8 dc dotnet-script duckdb ecl electron erl escript esno evcxr fennel fsharpi fsi gap "
    "gforth ghc ghci gjs gnuplot gp gs gst guile hy idle iex ipython irb isql janet java javaw "
    "jjs jruby jrunscript js jsc jshell jython kotlin kotlinc latex libreoffice lualatex luatex "
    "m4 matlab maxima micropython mit-scheme moar mongo mongosh mono mysqlsh nbb newlisp nim "
    "ocaml octave osqueryi pdflatex phantomjs pharo pike planck powershell pry ptpython qjs "
    "quickjs racket rakudo rdmd runghc runhaskell runhugs rust-script sage sbcl scala-cli scheme "
    "scsh soffice spark-shell spark-submit sqlcmd sqlplus stap swipl tcc tex tsh utop vala vite- "
    "node wasmer wasmtime wish wolfram wolframscript wscript xelatex xonsh ysh"
)
"""Interpreters, compilers that run what they compile, and consoles, of whose language nothing is
known here."""

FINDERS = _words("find gfind fd fdfind")

FIND_ACTIONS = _words("-exec -execdir -ok -okdir -x -X --exec --exec-batch")
"""Arguments of the finders that a command follows."""

MENTIONING = _words(
    "bwrap gdb lldb proot tmux screen nix nix-shell hyperfine dotenv crontab at batch osascript"
)
"""Programs that may take a command apart from their arguments: any word may be the start of one."""


LOADER = wraps("", "library-path preload inhibit-rpath audit argv0 glibc-hwcaps-prepend")


def is_loader(name: str) -> bool:
    """Is this the dynamic loader, which runs the program it is given?"""
    return name.startswith(("ld-linux", "ld-musl", "ld.so"))


def interpreter(name: str) -> str | None:
    """The interpreter this (base) name means, perhaps with a version (`python3.12`)."""
    if name in INTERPRETERS:
        return name
    bare = name.rstrip("0123456789.-")
    return bare if bare in INTERPRETERS else None
