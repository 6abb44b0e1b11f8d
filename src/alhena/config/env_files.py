"""Which variables of a .env file count: those of the user's own nearly all, those of a project
none that would choose where secrets go, what is trusted, or what other programs run."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from alhena.config.dotenv import parse_env
from alhena.config.environment import is_hijacking
from alhena.config.files import read_limited

PLACES = frozenset(
    {
        *("HOME", "USERPROFILE", "GEMINI_CLI_HOME", "GEMINI_CLI_SYSTEM_SETTINGS_PATH"),
        *("GEMINI_CLI_SYSTEM_DEFAULTS_PATH", "GEMINI_CLI_TRUSTED_FOLDERS_PATH"),
        *("GEMINI_CLI_TRUST_WORKSPACE", "GEMINI_RESTRICTED_MODE"),
    }
)
"""They say which files are read at all, and are taken from no file."""

PROJECT_CREDENTIALS = frozenset(
    {
        *("GEMINI_API_KEY", "GOOGLE_API_KEY", "GEMINI_MODEL", "GOOGLE_CLOUD_PROJECT"),
        *("GOOGLE_CLOUD_PROJECT_ID", "GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI"),
        "GOOGLE_GENAI_USE_GCA",
    }
)
"""Of what the agent itself reads, these a project may say: who pays for it, not who hears it."""

_NEVER = frozenset(
    {
        *("PATH", "SHELL", "EDITOR", "VISUAL", "PAGER", "MANPAGER", "BROWSER", "TERM", "TMPDIR"),
        *("TEMP", "TMP", "TEMPDIR", "USER", "LOGNAME", "PWD", "OLDPWD", "COMSPEC", "PATHEXT"),
        *("SYSTEMROOT", "WINDIR", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("NODE_EXTRA_CA_CERTS", "NODE_TLS_REJECT_UNAUTHORIZED", "SSLKEYLOGFILE"),
        *("GCE_METADATA_HOST", "GCE_METADATA_IP", "GCE_METADATA_ROOT", "NO_GCE_CHECK"),
        *("K_SERVICE", "CLOUD_RUN_JOB", "CLOUD_SHELL", "NO_BROWSER", "SEATBELT_PROFILE"),
        *("BUILD_SANDBOX", "SURFACE", "GITHUB_SHA", "CI", "DEBIAN_FRONTEND", "NO_COLOR"),
        *("KUBECONFIG", "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "AWS_CONFIG_FILE"),
        *("AWS_SHARED_CREDENTIALS_FILE", "RIPGREP_CONFIG_PATH", "OLLAMA_HOST"),
        *("GOFLAGS", "GOPROXY", "GONOSUMDB", "MAKEFLAGS", "VAULT_ADDR"),
    }
)
_TOOLS = frozenset(
    {
        *("ZDOTDIR", "FPATH", "PS1", "PS2", "PS4", "INPUTRC", "EXINIT", "VIMINIT", "MYVIMRC"),
        *("LOCPATH", "HOSTALIASES", "RES_OPTIONS", "LOCALDOMAIN", "PHPRC", "PSQLRC", "WGETRC"),
        *("CURL_HOME", "HGRCPATH", "MAKEFILES", "BUNDLE_GEMFILE", "PGSERVICEFILE", "PGSYSCONFDIR"),
        *("PGHOST", "PGHOSTADDR", "PGSSLROOTCERT", "MYSQL_HOST", "REDISCLI_AUTH", "CONTAINER_HOST"),
        *("GOENV", "GOTOOLCHAIN", "GOSUMDB", "GOPRIVATE", "GOINSECURE", "GOBIN", "GOPATH"),
        *("GOROOT", "HF_ENDPOINT", "HF_HOME", "CMAKE_TOOLCHAIN_FILE", "NODE_REPL_EXTERNAL_MODULE"),
        *("AZURE_AUTHORITY_HOST", "GITHUB_API_URL", "GITHUB_SERVER_URL", "GITHUB_HOST"),
        *("CI_SERVER_URL", "CI_API_V4_URL", "GITLAB_API_URL", "JIRA_URL", "TAR_OPTIONS"),
        *("R_ENVIRON", "RUBYSHELL", "SUDO_EDITOR", "FCEDIT", "MAIL", "MAILCAPS", "MAILPATH"),
    }
)
"""What shells, loaders and tools read that everybody has: files they take in, whom they ask."""
_NEVER_BEGINNINGS = (
    *("GEMINI_", "GOOGLE_", "CODE_ASSIST_", "ALHENA_", "OPENAI_", "ANTHROPIC_", "OAUTH_"),
    *("SANDBOX", "CLOUDSDK_", "OTEL_", "GIT_", "SSH_", "XDG_", "LD_", "DYLD_", "PYTHON"),
    *("NPM_CONFIG_", "PIP_", "UV_", "LESS", "MALLOC_", "GLIBC_", "BASH_", "CARGO_", "RUSTC"),
    *("RUSTUP_", "AWS_ENDPOINT_URL", "OPENSSL_", "GCONV_", "LUA_", "PHP_", "PERL", "RUBY"),
    *("ERL_", "JULIA_", "CORECLR_", "COR_", "DOTNET_", "COMPLUS_", "GEM_", "BUNDLE_", "YARN_"),
    *("COREPACK_", "BUN_", "PNPM_", "POETRY_", "PIPENV_", "CONDA_", "MAMBA_", "NIX_", "MAVEN_"),
    *("GRADLE_", "SBT_", "ANT_", "JAVA_", "JDK_", "_JAVA", "GH_", "GLAB_", "HG", "SVN_", "RSYNC_"),
    *("VAULT_", "DOCKER_", "KUBE", "HELM_", "TF_", "ANSIBLE_", "VIM", "EMACS", "SYSTEMD_", "GTK_"),
    *("QT_", "GDK_", "PODMAN_", "BUILDAH_", "DENO_", "ELECTRON_"),
)
_NEVER_ENDINGS = (
    *("_PROXY", "_PAGER", "_EDITOR", "_ASKPASS", "_RSH", "_PRELOAD", "_OPTS", "_OPTIONS"),
    *("_FLAGS", "_ARGS", "_CA_BUNDLE", "_CA_CERTS", "_REGISTRY", "_STARTUP", "_PROFILE"),
    *("_CONFIG_FILE", "_CONFIG_DIR", "_RC", "_INIT", "_LIBRARY_PATH", "_LOAD_PATH", "_PLUGINS"),
)


class FoundEnvFile(msgspec.Struct, frozen=True, kw_only=True):
    """A .env file and what is taken from it: variables that were not set. `local`: it is a
    project's. `names` are all that it sets, `admitted` what it may set, set already or not."""

    path: Path
    local: bool
    variables: dict[str, str]
    admitted: dict[str, str] = {}
    names: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_env_file(
    path: Path, environ: Mapping[str, str], excluded: Collection[str], *, local: bool
) -> FoundEnvFile:
    """What a .env file adds to the environment. `excluded` are names that no file outside of a
    .gemini directory sets. A file that cannot be read says nothing, which is a warning."""
    try:
        text = read_limited(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return _unreadable(path, f"it is not UTF-8 (byte {error.start})", local=local)
    except OSError as error:
        return _unreadable(path, str(error.strerror or error), local=local)
    given = parse_env(text)
    own_folder = path.parent.name == ".gemini"
    taken: dict[str, str] = {}
    admitted: dict[str, str] = {}
    refused: list[str] = []
    kept_out: list[str] = []
    for name, value in given.items():
        if not is_admitted(name, value, local=local):
            refused.append(name)
            continue
        left_out = name in excluded and not own_folder
        if not left_out:
            admitted[name] = value
        if name in environ:
            continue
        if left_out:
            kept_out.append(name)
        else:
            taken[name] = value
    warnings: tuple[str, ...] = ()
    if refused:
        whose = "a project's" if local else "any"
        warnings = (f"{path}: not taken from {whose} .env file: {', '.join(refused)}.",)
    notes = (f"{path} is read.",)
    if kept_out:
        named = ", ".join(kept_out)
        notes += (f"{path}: advanced.excludedEnvVars leaves out {named}.",)
    return FoundEnvFile(
        path=path,
        local=local,
        variables=taken,
        admitted=admitted,
        names=tuple(given),
        warnings=warnings,
        notes=notes,
    )


def is_admitted(name: str, value: str, *, local: bool) -> bool:
    """Whether a variable may come from a .env file, a project's (`local`) or the user's own."""
    upper = name.upper()
    if upper in PLACES or "\0" in value:
        return False
    if not local:
        return True
    if name in PROJECT_CREDENTIALS:
        # Of a model another service may be part of the name.
        return name != "GEMINI_MODEL" or not ({":", "/"} & set(value))
    return not (
        upper in _NEVER
        or upper in _TOOLS
        or upper.startswith(_NEVER_BEGINNINGS)
        or upper.endswith(_NEVER_ENDINGS)
        or is_hijacking(name)
    )


def is_ours(path: Path) -> bool:
    """Whether a file above the working directory is this user's or the administrator's: there may
    be directories that everybody writes to."""
    try:
        owner = path.stat().st_uid
    except OSError:
        return False
    return owner in (os.geteuid(), 0)


def _unreadable(path: Path, why: str, *, local: bool) -> FoundEnvFile:
    warning = f"{path} is not read: {why}."
    return FoundEnvFile(path=path, local=local, variables={}, warnings=(warning,))
