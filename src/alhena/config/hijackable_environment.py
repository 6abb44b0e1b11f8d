"""Names of variables known to determine the program that runs, or the server a program contacts.

Such a list is never complete. So it grants nothing: it decides the order of warnings, and the
variables of a project's .env file that are refused with a warning.
"""

from alhena.config.environment import is_hijacking

_NAMES = frozenset(
    {
        *("PATH", "SHELL", "EDITOR", "VISUAL", "PAGER", "MANPAGER", "BROWSER", "TERM", "TMPDIR"),
        *("TEMP", "TMP", "TEMPDIR", "USER", "LOGNAME", "PWD", "OLDPWD", "COMSPEC", "PATHEXT"),
        *("SYSTEMROOT", "WINDIR", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "HOME"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("NODE_EXTRA_CA_CERTS", "NODE_TLS_REJECT_UNAUTHORIZED", "SSLKEYLOGFILE"),
        *("GCE_METADATA_HOST", "GCE_METADATA_IP", "GCE_METADATA_ROOT", "NO_GCE_CHECK"),
        *("K_SERVICE", "CLOUD_RUN_JOB", "CLOUD_SHELL", "NO_BROWSER", "SEATBELT_PROFILE"),
        *("BUILD_SANDBOX", "SURFACE", "GITHUB_SHA", "CI", "DEBIAN_FRONTEND", "NO_COLOR"),
        *("KUBECONFIG", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_DATA_PATH"),
        *("AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        *("RIPGREP_CONFIG_PATH", "OLLAMA_HOST", "GOFLAGS", "GOPROXY", "GONOSUMDB", "MYSQL_HOST"),
        *("MAKEFLAGS", "GNUMAKEFLAGS", "MAKEFILES", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS"),
        *("RUSTFLAGS", "FFLAGS", "MYSQL_HOME", "COLORFGBG", "TERM_PROGRAM", "TMUX", "DISPLAY"),
        *("WAYLAND_DISPLAY", "CLI_TITLE"),
        *("ZDOTDIR", "FPATH", "PS1", "PS2", "PS4", "INPUTRC", "EXINIT", "VIMINIT", "MYVIMRC"),
        *("LOCPATH", "HOSTALIASES", "RES_OPTIONS", "LOCALDOMAIN", "PHPRC", "PSQLRC", "WGETRC"),
        *("CURL_HOME", "HGRCPATH", "PGHOST", "PGHOSTADDR", "PGSSLROOTCERT", "PGSERVICEFILE"),
        *("PGSYSCONFDIR", "PGPASSFILE", "PGSERVICE", "REDISCLI_AUTH", "CONTAINER_HOST"),
        *("GOENV", "GOTOOLCHAIN", "GOSUMDB", "GOPRIVATE", "GOINSECURE", "GOBIN", "GOPATH"),
        *("GOROOT", "HF_ENDPOINT", "HF_HOME", "CMAKE_TOOLCHAIN_FILE", "NODE_REPL_EXTERNAL_MODULE"),
        *("AZURE_AUTHORITY_HOST", "GITHUB_API_URL", "GITHUB_SERVER_URL", "GITHUB_HOST"),
        *("CI_SERVER_URL", "CI_API_V4_URL", "GITLAB_API_URL", "JIRA_URL", "SENTRY_URL"),
        *("HEROKU_HOST", "HEX_MIRROR", "PUB_HOSTED_URL", "TERMINFO", "TERMINFO_DIRS"),
        *("R_ENVIRON", "RUBYSHELL", "SUDO_EDITOR", "FCEDIT", "MAIL", "MAILCAPS", "MAILPATH"),
        *("CC", "CXX", "CPP", "LD", "AR", "AS", "FC", "PKG_CONFIG", "COMPILER_PATH", "HISTFILE"),
        *("GCC_EXEC_PREFIX", "CCACHE_PREFIX", "GIO_EXTRA_MODULES", "GST_PLUGIN_SCANNER"),
        *("KRB5_CONFIG", "GNUPGHOME", "FZF_DEFAULT_COMMAND", "AZURE_EXTENSION_DIR", "IPYTHONDIR"),
        *("JUPYTER_PATH", "MPLCONFIGDIR", "PYTEST_ADDOPTS", "PUPPETEER_EXECUTABLE_PATH"),
        *("PYLINTRC", "MYPYPATH", "MAGICK_CONFIGURE_PATH", "TEXINPUTS"),
    }
)
"""Variables read by common shells, loaders and tools: files they load, servers they contact."""
_BEGINNINGS = (
    *("GEMINI_", "GOOGLE_", "CODE_ASSIST_", "ALHENA_", "OPENAI_", "ANTHROPIC_", "OAUTH_"),
    *("SANDBOX", "CLOUDSDK_", "OTEL_", "GIT_", "SSH_", "XDG_", "LD_", "DYLD_", "PYTHON"),
    *("NPM_CONFIG_", "PIP_", "UV_", "LESS", "MALLOC_", "GLIBC_", "BASH_", "CARGO_", "RUSTC"),
    *("RUSTUP_", "AWS_ENDPOINT_URL", "OPENSSL_", "GCONV_", "LUA_", "PHP_", "PERL", "RUBY"),
    *("ERL_", "JULIA_", "CORECLR_", "COR_", "DOTNET_", "COMPLUS_", "GEM_", "BUNDLE_", "YARN_"),
    *("COREPACK_", "BUN_", "PNPM_", "POETRY_", "PIPENV_", "CONDA_", "MAMBA_", "NIX_", "MAVEN_"),
    *("GRADLE_", "SBT_", "ANT_", "JAVA_", "JDK_", "_JAVA", "GH_", "GLAB_", "HG", "SVN_", "RSYNC_"),
    *("VAULT_", "DOCKER_", "KUBE", "HELM_", "TF_", "ANSIBLE_", "VIM", "EMACS", "SYSTEMD_", "GTK_"),
    *("QT_", "GDK_", "PODMAN_", "BUILDAH_", "DENO_", "ELECTRON_", "GST_PLUGIN"),
)
_ENDINGS = (
    *("_PROXY", "_PAGER", "_EDITOR", "_ASKPASS", "_RSH", "_PRELOAD", "_OPTS", "_OPTIONS"),
    *("_FLAGS", "_ARGS", "_CA_BUNDLE", "_CA_CERTS", "_REGISTRY", "_STARTUP", "_PROFILE"),
    *("_CONFIG_FILE", "_CONFIG_DIR", "_CONFIG_PATH", "_RC", "_INIT", "_LIBRARY_PATH"),
    *("_LOAD_PATH", "_PLUGINS", "_INDEX_URL"),
)


def is_choosing(name: str) -> bool:
    """True when a variable is known to determine the program that runs, or the server contacted."""
    upper = name.upper()
    return (
        upper in _NAMES
        or upper.startswith(_BEGINNINGS)
        or upper.endswith(_ENDINGS)
        or is_hijacking(name)
    )
