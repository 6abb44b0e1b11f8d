"""The programs that are known by their names, and what these look for by themselves."""

import os
import re

NODE = ("package.json", "index.js", "index.mjs", "index.cjs", "index.ts")
PYTHON = ("__main__.py", "__init__.py")
PACKAGE = (*NODE, "pyproject.toml", "setup.py", "setup.cfg")
COMPOSE = (
    *("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"),
    *("compose.override.yaml", "compose.override.yml"),
    *("docker-compose.override.yaml", "docker-compose.override.yml"),
)
IMAGE = (
    *("Dockerfile", "Containerfile", "docker-bake.json", "docker-bake.hcl"),
    *("docker-bake.override.json", "docker-bake.override.hcl"),
)
ENTRY_FILES = (
    *PACKAGE,
    *PYTHON,
    *("deno.json", "deno.jsonc", "Makefile", "makefile", "GNUmakefile", "justfile"),
    *("Taskfile.yml", "Rakefile", "Cargo.toml", "go.mod", "pom.xml", "build.gradle"),
    *("build.gradle.kts", "CMakeLists.txt", "Dockerfile"),
    *("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"),
)
"""What programs that are not known look for in a directory that they are told of."""
REGISTRIES = (".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "bunfig.toml")
"""Where packages come from, and what runs when they do."""
_SCRIPTS = ("package.json", "pnpm-workspace.yaml", *REGISTRIES)
PROJECT = ("pyproject.toml", "setup.py", "setup.cfg")
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
BUILD_FILES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("make", "gmake", "bmake", "remake", "mingw32-make"), _MAKE),
    "just": ("justfile", ".justfile", "Justfile"),
    **dict.fromkeys(("task", "go-task"), _TASK),
    **dict.fromkeys(("rake", "drake"), _RAKE),
    **dict.fromkeys(("bundle", "bundler"), ("Gemfile", ".bundle/config", *_RAKE)),
    **dict.fromkeys(("npm", "pnpm", "yarn", "yarnpkg"), _SCRIPTS),
    **dict.fromkeys(("npx", "pnpx", "bunx"), REGISTRIES),
    "bun": (*_SCRIPTS, "tsconfig.json"),
    "deno": ("deno.json", "deno.jsonc", ".npmrc"),
    **dict.fromkeys(("turbo", "nx", "lerna", "wireit"), ("turbo.json", "nx.json", *_SCRIPTS)),
    "gulp": ("gulpfile.js", "gulpfile.mjs", "gulpfile.cjs", "gulpfile.ts", "package.json"),
    "grunt": ("Gruntfile.js", "Gruntfile.cjs", "Gruntfile.coffee"),
    "uv": (*PROJECT, "uv.toml"),
    **dict.fromkeys(("poetry", "hatch", "rye", "flit"), (*PROJECT, "poetry.toml", "hatch.toml")),
    "pdm": (*PROJECT, "pdm.toml", ".pdm.toml"),
    "pipenv": ("Pipfile",),
    "pixi": ("pixi.toml", "pyproject.toml"),
    "tox": ("tox.ini", "tox.toml", "toxfile.py", *PROJECT),
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
    **dict.fromkeys(("docker-compose", "podman-compose"), COMPOSE),
    "nodemon": ("nodemon.json", "package.json"),
}
"""Runners: what each looks for in its directory, or in one above."""
PYTHONS = frozenset({"python", "pypy", "pythonw", "py"})
NODES = frozenset(
    {
        *("node", "nodejs", "tsx", "ts-node", "ts-node-esm", "ts-node-dev", "tsnd", "vite-node"),
        *("babel-node", "nodemon", "bun", "deno"),
    }
)
FETCHERS = frozenset({"npx", "pnpx", "bunx", "uvx", "pipx"})
CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish"})
WRAPPERS = frozenset(
    {
        *("env", "exec", "nohup", "nice", "ionice", "timeout", "time", "stdbuf", "setsid", "sudo"),
        *("doas", "command", "builtin", "caffeinate", "unbuffer", "cross-env", "cross-env-shell"),
        "chrt",
    }
)
"""Programs that run what comes after them."""
PLAIN = frozenset(
    {
        *("cd", "pushd", "popd", "export", "set", "unset", "test", "[", "[[", "echo", "printf"),
        *("true", "false", ":", "mkdir", "ls", "cat", "sleep", "touch", "pwd", "dirname"),
        *("basename", "realpath", "readlink", "git", "then", "fi", "do", "done"),
    }
)
"""What runs nothing of the directories that it is told of."""
_RUNS = PYTHONS | NODES | FETCHERS | CONTAINERS | SHELLS | WRAPPERS | BUILD_FILES.keys()


def program(word: str) -> str:
    """The name by which a program is known, whatever its version and its place."""
    name = os.path.basename(word).lower()
    name = re.sub(r"\.(exe|cmd|bat)$", "", name)
    return re.sub(r"^(python|pypy|pythonw|node)[\d.]+$", r"\1", name)


def runs_others(word: str) -> bool:
    """Whether a word is the name of a program that runs what it is told of, or what lies where it
    starts."""
    return program(word) in _RUNS
