"""What programs look for by themselves in the directory in which they start, or in one that they
are asked to run: as far as they are known by their names. Of one that is not known, a directory
among its words stands for whatever any of them looks for.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from alhena.config.command_words import simple_commands

_NODE = ("package.json", "index.js", "index.mjs", "index.cjs", "index.ts")
_PYTHON = ("__main__.py", "__init__.py")
_PACKAGE = (*_NODE, "pyproject.toml", "setup.py", "setup.cfg")
_COMPOSE = (
    *("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"),
    *("compose.override.yaml", "compose.override.yml"),
    *("docker-compose.override.yaml", "docker-compose.override.yml"),
)
_IMAGE = (
    *("Dockerfile", "Containerfile", "docker-bake.json", "docker-bake.hcl"),
    *("docker-bake.override.json", "docker-bake.override.hcl"),
)
ENTRY_FILES = (
    *_PACKAGE,
    *_PYTHON,
    *("deno.json", "deno.jsonc", "Makefile", "makefile", "GNUmakefile", "justfile"),
    *("Taskfile.yml", "Rakefile", "Cargo.toml", "go.mod", "pom.xml", "build.gradle"),
    *("build.gradle.kts", "CMakeLists.txt", "Dockerfile"),
    *("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"),
)
"""What programs that are not known look for in a directory that they are told of."""
_REGISTRIES = (".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "bunfig.toml")
"""Where packages come from, and what runs when they do."""
_SCRIPTS = ("package.json", "pnpm-workspace.yaml", *_REGISTRIES)
_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg")
_MAKE = ("GNUmakefile", "makefile", "Makefile", "BSDmakefile")
_TASK = tuple(
    f"{name}{middle}.{suffix}"
    for name in ("Taskfile", "taskfile")
    for middle in ("", ".dist")
    for suffix in ("yml", "yaml")
)
_RAKE = ("rakefile", "Rakefile", "rakefile.rb", "Rakefile.rb")
_GRADLE = (
    *("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"),
    *("gradle.properties", "gradle/wrapper/gradle-wrapper.properties"),
)
_MAVEN = (
    *("pom.xml", ".mvn/extensions.xml", ".mvn/maven.config", ".mvn/jvm.config"),
    ".mvn/wrapper/maven-wrapper.properties",
)
_BAZEL = ("MODULE.bazel", "WORKSPACE", "WORKSPACE.bazel", "BUILD", "BUILD.bazel", ".bazelrc")
_NIX = ("flake.nix", "default.nix", "shell.nix")
_DOTNET = (
    *("global.json", "NuGet.config", "nuget.config", "NuGet.Config", "Directory.Build.props"),
    "Directory.Build.targets",
)
_BUILD_FILES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("make", "gmake", "bmake", "remake", "mingw32-make"), _MAKE),
    "just": ("justfile", ".justfile", "Justfile"),
    **dict.fromkeys(("task", "go-task"), _TASK),
    **dict.fromkeys(("rake", "drake"), _RAKE),
    **dict.fromkeys(("bundle", "bundler"), ("Gemfile", ".bundle/config", *_RAKE)),
    **dict.fromkeys(("npm", "pnpm", "yarn", "yarnpkg"), _SCRIPTS),
    **dict.fromkeys(("npx", "pnpx", "bunx"), _REGISTRIES),
    "bun": (*_SCRIPTS, "tsconfig.json"),
    "deno": ("deno.json", "deno.jsonc", ".npmrc"),
    **dict.fromkeys(("turbo", "nx", "lerna", "wireit"), ("turbo.json", "nx.json", *_SCRIPTS)),
    "gulp": ("gulpfile.js", "gulpfile.mjs", "gulpfile.cjs", "gulpfile.ts", "package.json"),
    "grunt": ("Gruntfile.js", "Gruntfile.cjs", "Gruntfile.coffee"),
    "uv": (*_PROJECT, "uv.toml"),
    **dict.fromkeys(("poetry", "hatch", "rye", "flit"), (*_PROJECT, "poetry.toml", "hatch.toml")),
    "pdm": (*_PROJECT, "pdm.toml", ".pdm.toml"),
    "pipenv": ("Pipfile",),
    "pixi": ("pixi.toml", "pyproject.toml"),
    "tox": ("tox.ini", "tox.toml", "toxfile.py", *_PROJECT),
    "nox": ("noxfile.py",),
    **dict.fromkeys(("poe", "poethepoet"), ("pyproject.toml", "poe_tasks.toml")),
    **dict.fromkeys(
        ("invoke", "inv"), ("tasks.py", "invoke.yaml", "invoke.json", "pyproject.toml")
    ),
    **dict.fromkeys(("fab", "fabric"), ("fabfile.py", "fabric.yaml")),
    "doit": ("dodo.py", "pyproject.toml"),
    "scons": ("SConstruct", "Sconstruct", "sconstruct"),
    "fastmcp": ("fastmcp.json",),
    "cargo": ("Cargo.toml", ".cargo/config.toml", ".cargo/config", "build.rs"),
    "go": ("go.mod", "go.work", "main.go"),
    **dict.fromkeys(("gradle", "gradlew"), _GRADLE),
    **dict.fromkeys(("mvn", "mvnw", "mvnd"), _MAVEN),
    "ant": ("build.xml",),
    "sbt": ("build.sbt", "project/build.properties", "project/plugins.sbt"),
    "lein": ("project.clj",),
    **dict.fromkeys(("clj", "clojure"), ("deps.edn",)),
    **dict.fromkeys(("bazel", "bazelisk"), _BAZEL),
    **dict.fromkeys(("nix", "nix-shell", "nix-build"), _NIX),
    "dotnet": _DOTNET,
    "mix": ("mix.exs",),
    "rebar3": ("rebar.config",),
    "stack": ("stack.yaml", "package.yaml"),
    "cabal": ("cabal.project",),
    "swift": ("Package.swift",),
    "zig": ("build.zig", "build.zig.zon"),
    **dict.fromkeys(("dart", "flutter"), ("pubspec.yaml",)),
    "composer": ("composer.json",),
    "cmake": ("CMakeLists.txt", "CMakePresets.json", "CMakeUserPresets.json"),
    "ninja": ("build.ninja",),
    "meson": ("meson.build",),
    "mise": ("mise.toml", ".mise.toml", "mise.local.toml"),
    **dict.fromkeys(("foreman", "honcho", "overmind", "hivemind"), ("Procfile", ".foreman")),
    "devbox": ("devbox.json",),
    "earthly": ("Earthfile",),
    "vagrant": ("Vagrantfile",),
    **dict.fromkeys(("docker-compose", "podman-compose"), _COMPOSE),
}
"""Runners: what each looks for in its directory, or in one above."""
_PYTHONS = frozenset({"python", "pypy", "pythonw"})
_NODES = frozenset({"node", "nodejs", "tsx", "ts-node", "bun", "deno"})
_FETCHERS = frozenset({"npx", "pnpx", "bunx", "uvx", "pipx"})
_CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish"})
_WRAPPERS = frozenset(
    {
        *("env", "exec", "nohup", "nice", "ionice", "timeout", "time", "stdbuf", "setsid", "sudo"),
        *("doas", "command", "builtin", "caffeinate", "unbuffer", "cross-env", "chrt"),
    }
)
"""Programs that run what comes after them."""
_VALUED = frozenset({"-C", "--chdir", "-u", "--unset", "-n", "-k", "-s", "-g", "-c", "-p"})
_PLAIN = frozenset(
    {
        *("cd", "pushd", "popd", "export", "set", "unset", "test", "[", "[[", "echo", "printf"),
        *("true", "false", ":", "mkdir", "ls", "cat", "sleep", "touch", "pwd", "dirname"),
        *("basename", "realpath", "readlink", "git", "then", "fi", "do", "done"),
    }
)
"""What runs nothing of the directories that it is told of."""
_FETCHING = frozenset(
    {
        *("-y", "--yes", "-q", "--quiet", "--offline", "--isolated", "--no-cache", "--no-install"),
        *("--prefer-offline", "--prefer-online", "--ignore-existing", "--bun", "--verbose"),
        *("--silent", "--"),
    }
)
_RUNNING = frozenset(
    {
        *("-u", "-B", "-E", "-I", "-s", "-S", "-O", "-OO", "-v", "-b", "-bb", "-d", "-i", "-q"),
        *("--enable-source-maps", "--inspect", "--watch", "--preserve-symlinks", "--no-warnings"),
        *("--no-deprecation", "--trace-warnings", "--trace-deprecation", "--hot", "--bun", "--"),
        *("--experimental-strip-types", "--experimental-transform-types", "-A", "--allow-all"),
    }
)
"""Options that no value comes after, of what fetches programs and of what interprets them; what
comes after others may be one."""
_INLINE = frozenset({"-c", "-m", "-e", "--eval", "-p", "--print"})
"""Options of interpreters with what they run: what comes behind that is for it."""
_ELSEWHERE = frozenset({"exec", "x", "dlx"})
_FETCHING_BY = {
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), _ELSEWHERE),
    "pipx": frozenset({"run"}),
    "uv": frozenset({"tool"}),
}
"""What has programs fetch a package that run others, too."""
_MAX_INNER = 8


class Sought(NamedTuple):
    """What the programs of an entry look for: `here` in the directories in which they may start,
    and above; `directories` are words with what is looked for in the directory that each is.
    `unknown`: there is a program that nobody knows, for which its directory may decide, too. `bins`
    are names of programs that are fetched unless the package of the directory has one of that
    name."""

    here: frozenset[str]
    directories: tuple[tuple[str, tuple[str, ...]], ...]
    unknown: bool
    bins: frozenset[str]


def sought(commands: Iterable[Sequence[str]], charge: Callable[[int], None]) -> Sought:
    """What programs look for, of which these are the command lines. `charge` is told how much is
    looked at, and may raise."""
    found = _Found(charge)
    for words in commands:
        found.command(list(words), _MAX_INNER)
    told = ((word, files or ENTRY_FILES) for word, files in found.directories)
    if not found.unknown:
        told = ((word, files) for word, files in found.directories if files)
    directories = tuple(dict.fromkeys(told))
    return Sought(frozenset(found.here), directories, found.unknown, frozenset(found.bins))


def program(word: str) -> str:
    """The name by which a program is known, whatever its version and its place."""
    name = os.path.basename(word).lower()
    name = re.sub(r"\.(exe|cmd|bat)$", "", name)
    return re.sub(r"^(python|pypy|pythonw|node)[\d.]+$", r"\1", name)


class _Found:
    def __init__(self, charge: Callable[[int], None]) -> None:
        self._charge = charge
        self.here: set[str] = set()
        self.bins: set[str] = set()
        self.directories: list[tuple[str, tuple[str, ...]]] = []
        self.unknown = False

    def command(self, words: list[str], depth: int) -> None:
        """Takes note of a command; `depth` is how many more may stand in it."""
        self._charge(1 + len(words) // 4)
        before = re.compile(r"\w+=|[<>{}!]|(then|do|else|if|while)$")
        begin = next((count for count, each in enumerate(words) if not before.match(each)), None)
        if begin is None:
            return
        words = words[begin:]
        name, rest = program(words[0]), words[1:]
        modules = (each for option, each in pairwise(rest) if option == "-m")
        self.directories += ((each.replace(".", "/"), _PYTHON) for each in modules)
        if depth == 0:
            self._unknown(rest, 0)
        elif name in _SHELLS:
            self._shell(rest, depth - 1)
        elif name in _WRAPPERS:
            self.command(_wrapped(rest), depth - 1)
        elif name == "eval":
            self._lines(" ".join(rest), depth - 1)
        elif name in ("cd", "pushd"):
            self.directories += ((each, ()) for each in rest)
        elif name in _CONTAINERS:
            self._container(rest)
        elif not self._known(name, rest, depth - 1) and name not in _PLAIN:
            self._unknown(rest, depth - 1)

    def _unknown(self, rest: list[str], depth: int) -> None:
        """A program that nobody knows: what it is told may be run by it."""
        self._charge(len(rest))
        self.unknown = True
        self.directories += ((each, ENTRY_FILES) for each in rest)
        if depth <= 0:
            return
        before = ""
        for count, word in enumerate(rest):
            of_option = before.startswith("--") and before != "--"
            if _is_runner(word) and not of_option:
                self.command(rest[count:], depth)
                return
            if " " in word:
                for words in simple_commands(word):
                    if _is_runner(words[0]):
                        self.command(words, depth)
            before = word

    def _shell(self, rest: list[str], depth: int) -> None:
        for count, word in enumerate(rest):
            if re.fullmatch(r"-\w*c", word):
                self._lines(" ".join(rest[count + 1 : count + 2]), depth)
                return
            if not word.startswith(("-", "+")):
                self.command(rest[count:], depth)
                return

    def _lines(self, text: str, depth: int) -> None:
        self._charge(len(text) // 16)
        for words in simple_commands(text):
            self.command(words, depth)

    def _container(self, rest: list[str]) -> None:
        if "compose" in rest:
            self.here.update(_COMPOSE)
        if not {"compose", "build", "buildx", "builder", "bake"}.isdisjoint(rest):
            self.here.update(_IMAGE)

    def _known(self, name: str, rest: list[str], depth: int) -> bool:
        """Takes note of a program that is known; whether it is."""
        first = next((each for each in rest if not each.startswith("-")), "")
        fetching = _FETCHING_BY.get(name)
        if name in _FETCHERS or (fetching is not None and first in fetching):
            if fetching is not None and first in fetching:
                rest = rest[rest.index(first) + 1 :]
            asked = self._fetched(rest[1:] if first == "tool" else rest, depth)
            if name not in ("uv", "uvx", "pipx"):
                self.here.update(_REGISTRIES)
                self.bins.update(asked)
            return True
        if name in _PYTHONS or name in _NODES:
            self._interpreter(name, rest, depth)
        elif name not in _BUILD_FILES:
            return False
        self.here.update(_BUILD_FILES.get(name, ()))
        if name in _BUILD_FILES:
            self._inner(rest, depth)
        return True

    def _fetched(self, rest: list[str], depth: int) -> list[str]:
        """A program that is fetched, or a package in a directory: the words that may say which."""
        asked = self._asked(rest, _FETCHING, _PACKAGE)
        for each in asked:
            package = rest[each].rpartition("@")[0] or rest[each]
            if _is_runner(package):
                self.command([package, *rest[each + 1 :]], depth)
        return [rest[each] for each in asked]

    def _interpreter(self, name: str, rest: list[str], depth: int) -> None:
        """What is interpreted: a directory, or a module that is a runner."""
        if name in _PYTHONS and "-m" in rest:
            module = rest[rest.index("-m") + 1 :]
            if module and _is_runner(module[0]):
                self.command(module, depth)
        if "--run" in rest or (name == "deno" and "task" in rest):
            self.here.add("package.json")
        if name in ("bun", "deno"):
            rest = [each for each in rest if each != "run"]
        inline = next((count for count, each in enumerate(rest) if each in _INLINE), len(rest))
        self._asked(rest[:inline], _RUNNING, _PYTHON if name in _PYTHONS else _NODE)

    def _asked(self, rest: list[str], flags: frozenset[str], files: tuple[str, ...]) -> list[int]:
        """Where what a program is asked to run may stand; `files` are what it looks for there."""
        asked = list(_asked(rest, flags))
        self._charge(len(asked))
        self.directories += ((rest[each], files) for each in asked)
        options = rest[: asked[-1] if asked else None]
        self.directories += ((each.partition("=")[2], files) for each in options if "=" in each)
        return asked

    def _inner(self, rest: list[str], depth: int) -> None:
        """What a runner is asked to run: `uv run python server`."""
        for word in ("run", "exec", "--"):
            if word in rest:
                inner = rest[rest.index(word) + 1 :]
                for each in _asked(inner, _RUNNING):
                    if _is_runner(inner[each]):
                        self.command(inner[each:], depth)


def _is_runner(word: str) -> bool:
    name = program(word)
    return name in _BUILD_FILES or name in _PYTHONS or name in _NODES or name in _SHELLS


def _asked(rest: list[str], flags: frozenset[str]) -> Iterator[int]:
    """Where what a program is asked to run may stand: all words up to the first that is certainly
    no value of an option."""
    certain = True
    for count, word in enumerate(rest):
        if word.startswith("-") and word != "-":
            certain = "=" in word or word in flags
            continue
        yield count
        if certain:
            return
        certain = True


def _wrapped(rest: list[str]) -> list[str]:
    """The command that comes after the name of a wrapper and its options."""
    skipped = False
    for count, word in enumerate(rest):
        value, skipped = skipped, word in _VALUED
        if not (
            value or word.startswith("-") or "=" in word or re.fullmatch(r"[\d.]+[a-z]?", word)
        ):
            return rest[count:]
    return []
