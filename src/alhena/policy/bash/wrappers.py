"""Programs that run what their arguments say, and the command inside them."""

from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec

from alhena.policy.bash.interpreters import RUNNER_PROGRAMS, RUNNERS
from alhena.policy.bash.model import Word, WordKind
from alhena.policy.bash.options import (
    Options,
    Takes,
    base_name,
    behind_subcommands,
    is_option,
    is_setting,
    options,
    takes,
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


ANYTHING = Word("", WordKind.EXPANSION, "…", split=True)
"""A word that may turn out to be any words."""

INPUT_IN_ARGUMENTS = frozenset({"xargs", "gxargs", "parallel"})
"""Wrappers that put what they read behind the words of the command."""


class Runs(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a command may run. One of: `words`, a command; `code`, words that joined with blanks
    are shell code; `mentions`, words in which a command may be written in some other way; none of
    these, when nothing can be known. `sure` is false for a guess; `via` is what runs it."""

    via: str
    words: tuple[Word, ...] = ()
    code: tuple[Word, ...] = ()
    mentions: tuple[Word, ...] = ()
    settings: tuple[Word, ...] = ()
    sure: bool = True


class Inner(msgspec.Struct, frozen=True, gc=False):
    """Where in the words of a command another one may begin (`starts`, each with whether that
    reading is sure). `certain` is false when an expansion before it may hold the command."""

    via: str
    wrapper: Wrapper
    starts: tuple[tuple[int, bool], ...]
    settings: tuple[Word, ...] = ()
    certain: bool = True

    @property
    def alone(self) -> bool:
        """Does no command follow, so that nothing else runs?"""
        return not self.starts and self.certain and self.via in WITHOUT_COMMAND


def inner_command(words: tuple[Word, ...]) -> Inner | None:
    """The command that `words` wrap; None when they are no wrapper's or runner's."""
    head = words[0]
    if not head.literal:
        return None
    name = base_name(head.text)
    if name in WRAPPERS:
        if name == "command" and len(words) > 1 and _only_describes(words[1]):
            return None
        return _Search(words, name, WRAPPERS[name], 1).inner()
    if is_loader(name):
        return _Search(words, name, LOADER, 1).inner()
    if name in RUNNER_PROGRAMS:
        texts = {word.text for word in words}
        if texts.isdisjoint(_second_words(name)):
            return None
        for path in _runner_paths(name):
            if len(path) > 1 and path[1] not in texts:
                continue
            begin = behind_subcommands(words, path[1:])
            if begin is not None:
                return _Search(words, " ".join(path), RUNNERS[path], begin).inner()
    return None


def _only_describes(word: Word) -> bool:
    return word.literal and word.text[:1] == "-" and ("v" in word.text or "V" in word.text)


@lru_cache(maxsize=64)
def _runner_paths(name: str) -> tuple[tuple[str, ...], ...]:
    paths = [path for path in RUNNERS if path[0] == name]
    return tuple(sorted(paths, key=len, reverse=True))


@lru_cache(maxsize=64)
def _second_words(name: str) -> frozenset[str]:
    return frozenset(path[1] for path in _runner_paths(name))


class _Search:
    """Walks over the options and operands of a wrapper to the command behind them."""

    def __init__(self, words: tuple[Word, ...], via: str, wrapper: Wrapper, begin: int) -> None:
        self.words, self.via, self.wrapper, self.at = words, via, wrapper, begin
        self.operands, self.optional = wrapper.operands, wrapper.optional
        self.starts: list[tuple[int, bool]] = []
        self.settings: list[Word] = []
        self.certain, self.ended, self.found = True, False, False

    def inner(self) -> Inner:
        while self.at < len(self.words) and not self.found:
            self._step(self.words[self.at])
            self.at += 1
        return Inner(self.via, self.wrapper, tuple(self.starts), tuple(self.settings), self.certain)

    def _step(self, word: Word) -> None:
        if not self.ended and word.literal and word.text == "--":
            self.ended = True
        elif not self.ended and is_option(word):
            self._option(word)
        elif self.wrapper.settings and (word.text in {"-", "!"} or is_setting(word.text)):
            self.certain = self.certain and not word.split
            self.settings.append(word)
        elif self.operands:
            self.operands -= 1
            self.certain = self.certain and not word.split
        else:
            self.starts.append((self.at, True))
            # An operand that may be missing is taken for the command as well.
            self.found = not self.optional
            self.optional = max(self.optional - 1, 0)

    def _option(self, word: Word) -> None:
        if not word.literal:
            self.certain = False
        match takes(word.text, self.wrapper.options):
            case Takes.NEXT:
                self.at += 1
                if self.at < len(self.words):
                    self.certain = self.certain and not self.words[self.at].split
            case Takes.PERHAPS:
                other = self.at + 2
                while other < len(self.words) and is_option(self.words[other]):
                    other += 1
                if other < len(self.words):
                    self.starts.append((other, False))
            case Takes.NOTHING:
                pass


def wrapped(words: tuple[Word, ...]) -> Iterator[Runs]:
    """What the wrapper at the head of `words` runs."""
    inner = inner_command(words)
    if inner is None:
        return
    via = inner.via
    if via in {"env", "genv"}:
        yield from _split_string(words, inner)
    if not inner.certain:
        yield Runs(via=via)
    if via in INPUT_IN_ARGUMENTS:
        words = (*with_unknown(words, _replaced(words)), ANYTHING)
    sure = not inner.wrapper.remote
    for start, likely in inner.starts:
        rest = words[start:]
        yield Runs(via=via, words=rest, sure=likely and sure, settings=inner.settings)
        if inner.wrapper.code or inner.wrapper.remote:
            yield Runs(via=via, code=rest, sure=likely and sure)
    if not inner.starts and via not in WITHOUT_COMMAND and _opens_a_shell(words):
        yield Runs(via=via)


def _opens_a_shell(words: tuple[Word, ...]) -> bool:
    """With options alone, does this wrapper start a shell, or read commands?"""
    name = base_name(words[0].text)
    if name in {"sudo", "doas", "pkexec"}:
        flags = "".join(w.text for w in words[1:] if w.text[:2] != "--")
        return any(letter in flags for letter in "sie") or any(
            w.text in {"--shell", "--login", "--edit"} for w in words
        )
    return name in {"chroot", "unshare", "nsenter", "setarch", "fakeroot", "parallel", "xvfb-run"}


def _split_string(words: tuple[Word, ...], inner: Inner) -> Iterator[Runs]:
    """`env -S 'command and arguments'`."""
    for index, word in enumerate(words):
        text = word.text
        if text.startswith("--split-string"):
            code = text[len("--split-string") :].removeprefix("=")
        elif text.startswith("-") and not text.startswith("--") and "S" in text:
            code = text.split("S", 1)[1]
        else:
            continue
        rest = words[index + 1 :]
        first = Word(code, word.kind, word.source, word.split)
        # `env` has rules of its own for escapes and expansions, and takes more for a blank.
        texts = [first.text, *(w.text for w in rest)]
        if any(mark in t for t in texts for mark in "\\$"):
            yield Runs(via=inner.via)
        blanks = [Word(" ".join(w.text.split()), w.kind, w.source, w.split) for w in (first, *rest)]
        yield Runs(via=inner.via, code=tuple(w for w in blanks if w.text or not w.literal))


def _replaced(words: tuple[Word, ...]) -> set[str]:
    """What stands for the input in the command of `xargs -I` or `parallel`."""
    marks = {"{}"}
    for word, following in zip(words, (*words[1:], Word("")), strict=True):
        for option in ("-I", "-J", "-i", "--replace="):
            if word.text.startswith(option):
                marks.add(word.text[len(option) :] or following.text)
    return marks - {""}


def with_unknown(words: tuple[Word, ...], marks: Iterable[str]) -> tuple[Word, ...]:
    """The words with what will be put in place of a mark as an expansion."""
    found: list[Word] = []
    for word in words:
        cuts = [word.text.index(mark) for mark in marks if mark in word.text]
        found.append(
            Word(word.text[: min(cuts)], WordKind.EXPANSION, word.source) if cuts else word
        )
    return tuple(found)
