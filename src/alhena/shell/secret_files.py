"""Names of files that may hold secrets: keys, credentials, files of variables.

The one list: shell commands and file tools ask before they read such a file, searches and globs
leave it out, and memory does not import it. Upper and lower case are the same.
"""

import re
from fnmatch import fnmatchcase

NAMES = frozenset(
    {
        *(".env", ".envrc", ".netrc", ".ssh", ".aws", ".gnupg", ".git-credentials", ".pgpass"),
        *(".npmrc", ".pypirc", ".kube", ".docker"),
    }
)
"""Names of files, and of directories with all that is below."""

_VARIANTS = (".env.local", ".env.production", ".env.development.local")
_BEGINNINGS = ("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519")
_ENDINGS = (".pem", ".p12", ".pfx", ".key")
_FIRST = frozenset(each for word in (*NAMES, *_BEGINNINGS) for each in (word[0], word[0].upper()))
_VARIABLES = re.compile(r"\.env[^a-z].*")
_PUBLIC = re.compile(r"\.env\b.*[._-](?:example|sample|template|dist)|cacert\.pem")


def is_secret_name(name: str) -> bool:
    """True for the name of a file or directory that may hold secrets."""
    if name[:1] not in _FIRST and name[-4:].lower() not in _ENDINGS:
        return False  # as nearly all are: searches ask about each file
    lowered = name.lower()
    return (
        lowered in NAMES
        or lowered.startswith(_BEGINNINGS)
        or lowered.endswith(_ENDINGS)
        or (lowered.startswith(".env") and _VARIABLES.fullmatch(lowered) is not None)
    ) and not _PUBLIC.fullmatch(lowered)


def may_match_secret(name: str) -> bool:
    """True for the name of a file that may hold secrets, and for a glob that matches such names."""
    name = name.lower()
    if name.strip("*") and set(name) & set("*?["):
        return any(fnmatchcase(each, name) for each in (*NAMES, *_VARIANTS))
    return is_secret_name(name)


def may_hold_secrets(path: str) -> bool:
    """True for a path with such a name in it, and for the configuration of a repository."""
    names = path.split("/")
    git = [name.lower() for name in names[-2:]] == [".git", "config"]
    return git or any(map(is_secret_name, names))


def left_out(count: int) -> str:
    """Tells the model of files that a search or a glob left out."""
    files = (
        "1 file that may hold secrets is"
        if count == 1
        else f"{count} files that may hold secrets are"
    )
    return f"{files} left out (.env, keys, credentials); a call that names one asks for approval."
