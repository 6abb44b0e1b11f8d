"""Detects secret environment variables, builds the environment of child processes, and redacts
secrets in settings.

A secret is detected by the words of its name (API_KEY and apiKey match, KEYBOARD and AUTHOR do
not), or by its value. Names are compared without case.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, cast

import msgspec

from alhena.config.documents import names_in, value_on
from alhena.config.settings import EnvironmentRedaction

CREDENTIALS = frozenset(
    {
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "GOOGLE_GENAI_API_KEY",
        "GOOGLE_CLOUD_ACCESS_TOKEN",
        "GEMINI_CLI_CUSTOM_HEADERS",
        "ALHENA_API_KEY",
        "ALHENA_GATEWAY_KEY",
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "OLLAMA_API_KEY",
        "ALHENA_OAUTH_CLIENT_SECRET",
    }
)
"""The agent's own model credentials; removed even if redaction is off."""

ALWAYS_KEPT = frozenset(
    {
        *("PATH", "SYSTEMROOT", "COMSPEC", "PATHEXT", "WINDIR", "TEMP", "TMP", "USERPROFILE"),
        *("SYSTEMDRIVE", "HOME", "LANG", "SHELL", "TMPDIR", "USER", "LOGNAME", "TERM"),
        *("COLORTERM", "ADDITIONAL_CONTEXT", "AVAILABLE_LABELS", "BRANCH_NAME", "DESCRIPTION"),
        *("EVENT_NAME", "GITHUB_ENV", "IS_PULL_REQUEST", "ISSUES_TO_TRIAGE", "ISSUE_BODY"),
        *("ISSUE_NUMBER", "ISSUE_TITLE", "PULL_REQUEST_NUMBER", "REPOSITORY", "TITLE"),
        *("TRIGGERING_ACTOR", "PWD", "OLDPWD", "SHLVL", "TZ", "CI", "LANGUAGE", "SSL_CERT_FILE"),
        *("SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "SSH_AUTH_SOCK"),
    }
)
"""Kept whatever their names, in strict mode too. The last four are paths, not secrets; TLS behind a
corporate proxy and git over ssh need them."""

NEVER_KEPT = frozenset(
    {
        *("CLIENT_ID", "DB_URI", "CONNECTION_STRING", "AWS_DEFAULT_REGION", "AZURE_CLIENT_ID"),
        *("AZURE_TENANT_ID", "SLACK_WEBHOOK_URL", "TWILIO_ACCOUNT_SID", "DATABASE_URL"),
        *("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_ACCOUNT", "FIREBASE_PROJECT_ID"),
    }
)

HIJACKING = frozenset(
    {
        *("NODE_OPTIONS", "NODE_PATH", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "RUBYOPT"),
        *("RUBYLIB", "PERL5OPT", "PERL5LIB", "LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH"),
        *("BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PROMPT_COMMAND", "IFS", "CDPATH"),
        *("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH"),
        *("DOTNET_STARTUP_HOOKS", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF"),
        *("GIT_EXEC_PATH", "GIT_PROXY_COMMAND", "OPENSSL_CONF", "OPENSSL_MODULES"),
        *("OPENSSL_ENGINES", "GCONV_PATH", "LOCPATH", "LUA_INIT", "PHPRC", "PHP_INI_SCAN_DIR"),
        *("R_PROFILE", "R_PROFILE_USER", "R_ENVIRON", "ERL_AFLAGS", "ERL_FLAGS", "ERL_ZFLAGS"),
        *(
            "JULIA_LOAD_PATH",
            "CORECLR_PROFILER",
            "CORECLR_PROFILER_PATH",
            "CORECLR_ENABLE_PROFILING",
        ),
        *("DOTNET_ADDITIONAL_DEPS", "TAR_OPTIONS", "RSYNC_RSH", "SVN_SSH", "HGRCPATH", "ZDOTDIR"),
        *("PS4", "INPUTRC", "VIMINIT", "EXINIT", "MAKEFILES", "SUDO_ASKPASS", "SSH_ASKPASS"),
    }
)
_HIJACKING_PREFIXES = ("DYLD_", "BASH_FUNC_")

MIN_CREDENTIAL = 6

_SECRET_WORDS = frozenset(
    {
        *("TOKEN", "TOKENS", "SECRET", "SECRETS", "KEY", "KEYS", "AUTH", "OAUTH"),
        *("AUTHORIZATION", "CREDENTIAL", "CREDENTIALS", "CRED", "CREDS", "PRIVATE"),
        *("PASSPHRASE", "PASSCODE", "PASSKEY", "COOKIE", "COOKIES", "JWT", "BEARER", "WEBHOOK"),
        *("TOTP", "OTP", "PSWD", "PASWD", "PASSWRD", "PASSW"),
    }
)
_SECRET_ENDINGS = ("TOKEN", "TOKENS", "SECRET", "SECRETS", "CREDENTIALS")
_SECRET_STEMS = ("PASSWORD", "PASSWD", "PASSPHRASE", "SESSIONID", "SESSID")
_KEY_OWNERS = ("API", "ACCESS", "AUTH", "ENCRYPTION", "MASTER", "PRIVATE", "SECRET", "SIGNING")
_LAST_WORDS = frozenset({"PASS", "PWD", "PW", "PAT"})
_PLACES = frozenset({"FILE", "PATH", "HASH"})
"""After "PASS" these words describe the kind of secret."""
_PASSWORD_ENDINGS = ("PASS", "PWD")
_NO_PASSWORDS = (
    *("OLDPWD", "COMPASS", "BYPASS", "TRESPASS", "SURPASS", "UNDERPASS", "OVERPASS", "ASKPASS"),
    *("LOWPASS", "HIGHPASS", "BANDPASS", "MULTIPASS", "SINGLEPASS"),
)
"""Words that end like a password's name. The value of ASKPASS is a program."""
_DESKTOP_SESSIONS = frozenset(
    {
        *("XDG_SESSION_ID", "TERM_SESSION_ID", "ITERM_SESSION_ID", "SECURITYSESSIONID"),
        *("GNOME_DESKTOP_SESSION_ID", "VTE_SESSION_ID", "KONSOLE_DBUS_SESSION"),
    }
)
"""Identifiers of windows and logins, which grant nothing."""
_GIT_SETTINGS = ("GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_")
_GIT_REPOSITORY = frozenset(
    {
        *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_ATTR_SOURCE", "GIT_COMMON_DIR", "GIT_CONFIG"),
        *("GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS", "GIT_DIR", "GIT_DIFF_OPTS"),
        *("GIT_GLOB_PATHSPECS", "GIT_GRAFT_FILE", "GIT_ICASE_PATHSPECS", "GIT_IMPLICIT_WORK_TREE"),
        *("GIT_INDEX_FILE", "GIT_INDEX_VERSION", "GIT_INTERNAL_SUPER_PREFIX"),
        *("GIT_LITERAL_PATHSPECS", "GIT_NAMESPACE", "GIT_NOGLOB_PATHSPECS"),
        *("GIT_NO_REPLACE_OBJECTS", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_QUARANTINE_PATH"),
        *("GIT_REFERENCE_BACKEND", "GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE", "GIT_WORK_TREE"),
    }
)
"""Variables by which git tells a hook or an alias its repository, index and way of reading paths:
those of `git rev-parse --local-env-vars`, and others that hold for one command."""
_WORD = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+"

# Each alternative begins at a boundary and matches one character class: linear time.
_VALUE_PATTERN = r"""
    -----BEGIN\ (?:[A-Za-z0-9]+\ ){0,3}(?:PRIVATE\ KEY|CERTIFICATE)
  | ://[^\s/:@]*:[^\s/@]+@
  | (?i:\bhttps?)://[^\s/@?\#]+@
  | (?i:\bauthorization:\s*(?:basic|bearer)\s+\S)
  | \b(?:gh[pousr]_|github_pat_)[A-Za-z0-9_]{36}
  | \bglpat-[A-Za-z0-9_-]{20}
  | \bnpm_[A-Za-z0-9]{36}
  | \bAIza[A-Za-z0-9_-]{35}
  | \bya29\.[A-Za-z0-9_-]{20}
  | \bGOCSPX-[A-Za-z0-9_-]{20}
  | \b(?:AKIA|ASIA)[A-Z0-9]{16}
  | (?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]+
  | \b[sr]k_(?:live|test)_[A-Za-z0-9]{24}
  | \bsk-[A-Za-z0-9_-]{20}
  | \bxox[abeprs]-[A-Za-z0-9-]{10}
  | \bhf_[A-Za-z0-9]{30}
"""


REDACTED = "[redacted]"
"""Replaces a secret in a text."""

# A key is removed whole; other secrets up to a blank or a quote. They may follow an escape
# sequence (\n), as in a string literal.
_AFTER_ESCAPE = r"(?<=\\[nrt])"
_ANYWHERE_PATTERN = _VALUE_PATTERN.replace(r"\b", rf"(?:\b|{_AFTER_ESCAPE})").replace(
    r"(?<![A-Za-z0-9_-])eyJ", rf"(?:(?<![A-Za-z0-9_-])|{_AFTER_ESCAPE})eyJ"
)
_IN_TEXT_PATTERN = rf"""
    -----BEGIN\ (?:[A-Za-z0-9]+\ ){{0,3}}PRIVATE\ KEY(?s:.*?)(?:-----END[^-]{{0,80}}-----|\Z)
  | (?:{_ANYWHERE_PATTERN}) [^\s"'<>\\]*
"""

# Prefixes of secrets. Searching for these first is thirty times faster than the full pattern.
_MARKS = (
    r"-----BEGIN|[Hh][Tt][Tt][Pp][Ss]?://|://|[Aa][Uu][Tt][Hh][Oo][Rr][Ii][Zz][Aa][Tt][Ii][Oo][Nn]:"
    r"|gh[pousr]_|github_pat_|glpat-|npm_|AIza|ya29\.|GOCSPX-|AKIA|ASIA|eyJ|[sr]k_|sk-|xox|hf_"
)


class SanitisedEnvironment(msgspec.Struct, frozen=True):
    """The environment of a child, and the names of removed variables in alphabetical order."""

    variables: dict[str, str]
    removed: tuple[str, ...]


def sanitise_environment(
    environ: Mapping[str, str], rules: EnvironmentRedaction
) -> SanitisedEnvironment:
    """Removes secrets from `environ`. A name in `rules.allowed` is kept whatever its value.

    If GITHUB_SHA is set (or SURFACE is Github) only names known to be harmless are kept.
    """
    strict = bool(environ.get("GITHUB_SHA")) or environ.get("SURFACE") == "Github"
    allowed = frozenset(name.upper() for name in rules.allowed)
    blocked = frozenset(name.upper() for name in rules.blocked)
    removed: set[str] = set()
    for name, value in environ.items():
        upper = name.upper()
        if upper in allowed:
            continue
        named = upper in blocked or upper in CREDENTIALS
        if named or ((rules.enabled or strict) and _looks_secret(name, value, strict=strict)):
            removed.add(name)
    if any(name.startswith(_GIT_SETTINGS) for name in removed):
        # git fails on a numbered setting with a missing part.
        removed.update(name for name in environ if name.startswith(_GIT_SETTINGS))
    kept = {name: value for name, value in environ.items() if name not in removed}
    return SanitisedEnvironment(kept, tuple(sorted(removed)))


def _looks_secret(name: str, value: str, *, strict: bool) -> bool:
    upper = name.upper()
    if has_secret_value(value):
        return True
    if upper in ALWAYS_KEPT or upper.startswith(("GIT_CONFIG_", "LC_")):
        return False
    if upper.startswith("GEMINI_CLI_"):
        return has_secret_name(name)
    return strict or upper in NEVER_KEPT or has_secret_name(name) or _is_certificate(name, value)


def _is_certificate(name: str, value: str) -> bool:
    """True for the content of a certificate; the path of one is kept, because programs need it."""
    words = {word.upper() for word in _words().findall(name)}
    return not words.isdisjoint({"CERT", "CERTS"}) and not value.startswith(("/", "~", "."))


def has_secret_name(name: str) -> bool:
    """True when a word of the name marks the value as secret."""
    if name.upper() in _DESKTOP_SESSIONS:
        return False
    words = [word.upper() for word in _words().findall(name)]
    if words == ["PASS"] or (len(words) > 1 and _is_password(*words[-2:])):
        return True
    return any(
        word in _SECRET_WORDS
        or (word.endswith(_PASSWORD_ENDINGS) and _is_password_ending(word))
        or word.endswith(_SECRET_ENDINGS)
        or any(stem in word for stem in _SECRET_STEMS)
        or (word.startswith(_KEY_OWNERS) and word.endswith(("KEY", "KEYS")))
        for word in words
    )


def _is_password(before: str, last: str) -> bool:
    """True when the last two words of a name mark a password or a session id."""
    if last in _LAST_WORDS:
        return True
    return (before == "PASS" and last in _PLACES) or (before == "SESSION" and last == "ID")


def _is_password_ending(word: str) -> bool:
    return word not in _PASSWORD_ENDINGS and not word.endswith(_NO_PASSWORDS)


def has_secret_value(value: str) -> bool:
    """True when a value contains a private key, a certificate, a password in a URL or a known
    token.

    In a web URL a user name alone counts too: tokens are written that way.
    """
    return len(value) > 5 and _secret_value().search(value) is not None


def credentials(environ: Mapping[str, str]) -> frozenset[str]:
    """The values of the agent's credentials, and of its own headers one by one. Values too short to
    be distinctive are left out."""
    found: set[str] = set()
    for name in CREDENTIALS:
        value = environ.get(name, "")
        found.add(value.strip())
        if name.endswith("_HEADERS"):
            found.update(header.partition(":")[2].strip() for header in value.split(","))
    return frozenset(value for value in found if len(value) >= MIN_CREDENTIAL)


def without_secrets(text: str) -> str:
    """Redacts everything that `has_secret_value` detects in `text`, and the values of names and
    options that say that they are secret."""
    from alhena.config.named_secrets import without_named_secrets

    secret = _secret_in_text()
    kept: list[str] = []
    done = 0
    for mark in _marks().finditer(text):
        if mark.start() < done:
            continue
        found = secret.match(text, mark.start())
        if found is None and mark.group().endswith("://"):
            found = secret.match(text, mark.end() - 3)
        if found is not None:
            kept += (text[done : found.start()], REDACTED)
            done = found.end()
    text = "".join((*kept, text[done:])) if kept else text
    return without_named_secrets(text, has_secret_name, REDACTED)


def is_hijacking(name: str) -> bool:
    """True when the variable makes other programs run code.

    Such a variable keeps the user's value and is never taken from a workspace or an extension.
    """
    upper = name.upper()
    return upper in HIJACKING or upper.startswith(_HIJACKING_PREFIXES)


class ProjectEnvironment(dict[str, str]):
    """An environment with the variables of a project's .env file; `own` is the one without them."""

    def __init__(self, own: Mapping[str, str], added: Mapping[str, str]) -> None:
        super().__init__(own)
        self.update(added)
        self.own = own


def own_environment(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The environment without variables from a project's .env file: for programs of the user that
    act with the user's secrets."""
    return environ.own if isinstance(environ, ProjectEnvironment) else environ


def without_repository(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The environment without git's variables for one repository, for commands that work in the
    repository of their directory."""
    if isinstance(environ, ProjectEnvironment):
        own = without_repository(environ.own)
        return ProjectEnvironment(own, _drop_repository(environ))
    return _drop_repository(environ)


def _drop_repository(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if name not in _GIT_REPOSITORY and not name.startswith(_GIT_SETTINGS)
    }


@cache
def _words() -> re.Pattern[str]:
    return re.compile(_WORD)


@cache
def _secret_value() -> re.Pattern[str]:
    return re.compile(_VALUE_PATTERN, re.VERBOSE)


@cache
def _secret_in_text() -> re.Pattern[str]:
    return re.compile(_IN_TEXT_PATTERN, re.VERBOSE)


@cache
def _marks() -> re.Pattern[str]:
    return re.compile(_MARKS)


class SecretVariables:
    """The secret variables of a directory's settings, and their references in the settings files.
    If a project overrides some, both its values and the user's count."""

    def __init__(
        self,
        redaction: EnvironmentRedaction,
        environ: Mapping[str, str],
        of_files: Iterable[Mapping[str, str]],
        written: Iterable[Mapping[str, Any]],
    ) -> None:
        """`of_files` are the variables of each .env file, `written` the settings as written."""
        names = CREDENTIALS | NEVER_KEPT | {name.upper() for name in redaction.blocked}
        own = own_environment(environ)
        every = {*environ.items(), *own.items()}.union(*(each.items() for each in of_files))
        found = [
            (name, value)
            for name, value in every
            if value and (name.upper() in names or has_secret_name(name) or has_secret_value(value))
        ]
        # Longer values first: a value may be part of another.
        self._variables = sorted(found, key=lambda pair: (-len(pair[1]), pair))
        self._written = tuple(written)

    def name_secrets(self, path: tuple[str, ...], value: Any) -> Any:
        """Replaces values of secret variables at a path of the settings by `${NAME}`, if a settings
        file refers to them there. `value` is plain."""
        meant = {name for written in self._written for name in names_in(value_on(written, path))}
        texts = {held: f"${{{name}}}" for name, held in self._variables if name.upper() in meant}
        if not texts:
            return value
        return _replace_texts(value, re.compile("|".join(map(re.escape, texts))), texts)


def _replace_texts(value: Any, pattern: re.Pattern[str], texts: dict[str, str]) -> Any:
    match value:
        case str():
            return pattern.sub(lambda found: texts[found[0]], value)
        case list() | tuple():
            return [_replace_texts(item, pattern, texts) for item in cast("list[Any]", value)]
        case dict():
            members = cast("dict[str, Any]", value)
            return {name: _replace_texts(item, pattern, texts) for name, item in members.items()}
        case _:
            return value


_NAMES = frozenset(
    {
        *("PATH", "SHELL", "EDITOR", "VISUAL", "PAGER", "MANPAGER", "BROWSER", "TERM", "TMPDIR"),
        *("TEMP", "TMP", "TEMPDIR", "USER", "LOGNAME", "PWD", "OLDPWD", "COMSPEC", "PATHEXT"),
        *("SYSTEMROOT", "WINDIR", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "HOME"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("LANG", "LC_ALL", "LC_CTYPE"),
        *("NODE_EXTRA_CA_CERTS", "NODE_TLS_REJECT_UNAUTHORIZED", "SSLKEYLOGFILE"),
        *("GCE_METADATA_HOST", "GCE_METADATA_IP", "GCE_METADATA_ROOT", "NO_GCE_CHECK"),
        *("K_SERVICE", "CLOUD_RUN_JOB", "CLOUD_SHELL", "NO_BROWSER", "SEATBELT_PROFILE"),
        *("BUILD_SANDBOX", "SURFACE", "GITHUB_SHA", "CI", "DEBIAN_FRONTEND", "NO_COLOR"),
        *("KUBECONFIG", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_DATA_PATH"),
        *("AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        *("RIPGREP_CONFIG_PATH", "OLLAMA_HOST", "GOFLAGS", "GOPROXY", "GONOSUMDB", "MYSQL_HOST"),
        *("MAKEFLAGS", "GNUMAKEFLAGS", "MAKEFILES", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS"),
        *("RUSTFLAGS", "FFLAGS", "MYSQL_HOME", "COLORFGBG", "TERM_PROGRAM", "TMUX", "DISPLAY"),
        *("VTE_VERSION", "WT_SESSION", "KITTY_WINDOW_ID", "KONSOLE_VERSION", "DOMTERM"),
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
    "OLLAMA_",
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
