"""Subcommands that end in another command, as tables."""

from alhena.policy.bash.options import options
from alhena.policy.bash.wrappers import NPM_EXEC, UV_TOOL, Wrapper, wraps

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
