"""allowed-path: the files a call names lie in the workspace, and not where the agent's, git's or an
editor's own files are."""

import os
from collections.abc import Iterator
from typing import assert_never

import msgspec

from alhena.policy.checker import CheckerError, CheckInput, Environment, Verdict
from alhena.policy.model import PolicyOutcome
from alhena.policy.paths import path_arguments, text_arguments
from alhena.values import Value

NAME = "allowed-path"
SEGMENTS = {
    ".git": PolicyOutcome.DENY,
    ".gemini": PolicyOutcome.DENY,
    ".env": PolicyOutcome.DENY,
    "node_modules": PolicyOutcome.DENY,
    ".vscode": PolicyOutcome.ASK_USER,
}
"""Files and directories of such a name, in any spelling of it, and all below them: they decide what
programs do, or hold secrets."""

_SAMPLES = frozenset({".env.example", ".env.sample", ".env.template", ".env.dist"})
_SCHEME = "file:"


class AllowedPathConfig(Value, frozen=True, forbid_unknown_fields=True):
    """Arguments that hold paths though their names do not say so, and those that hold none though
    they do. Nested ones are named `a.b`."""

    included_args: tuple[str, ...] = ()
    excluded_args: tuple[str, ...] = ()


def allowed_path_config(config: dict[str, object]) -> AllowedPathConfig:
    """The configuration. Raises ValueError."""
    return msgspec.convert(config, AllowedPathConfig)


def check_paths(asked: CheckInput) -> Verdict:
    """The strictest verdict on the paths of a call; the first such, in the order of arguments.

    Looks at the file system as it is now: symbolic links count where they lead, of what does not
    exist the nearest directory above it. Raises CheckerError.
    """
    environment = asked.context.environment
    if environment is None:
        raise CheckerError("it is not told which directories are the workspace's")
    try:
        config = allowed_path_config(asked.config)
    except ValueError as error:
        raise CheckerError(f"its config cannot be used: {error}") from error
    question: Verdict | None = None
    for key, path in _paths(asked, config):
        verdict = _verdict(path, key, environment)
        match verdict.decision:
            case PolicyOutcome.DENY:
                return verdict
            case PolicyOutcome.ASK_USER:
                question = question or verdict
            case PolicyOutcome.ALLOW:
                pass
            case _:
                assert_never(verdict.decision)
    return question or Verdict(PolicyOutcome.ALLOW)


def _paths(asked: CheckInput, config: AllowedPathConfig) -> Iterator[tuple[str, str]]:
    args = asked.tool_call.args
    excluded, included = frozenset(config.excluded_args), frozenset(config.included_args)
    yield from (pair for pair in path_arguments(args) if pair[0] not in excluded)
    if included:
        yield from ((name, text) for name, _, text in text_arguments(args) if name in included)


def _verdict(path: str, key: str, environment: Environment) -> Verdict:
    said = f'Path "{path}" in argument "{key}"'
    try:
        places = list(_places(path, environment.cwd))
    except ValueError:  # a NUL, or half of a surrogate pair
        return Verdict(PolicyOutcome.DENY, f"{said} can name no file.")
    strictest = Verdict(PolicyOutcome.ALLOW)
    for written, real in places:
        inside = _below(real, environment)
        if inside is None:
            reason = f"{said} is outside of the allowed workspace directories."
            return Verdict(PolicyOutcome.DENY, reason)
        spelled = _below(written, environment) or ""
        for name in map(_folded, (*spelled.split(os.sep), *inside.split(os.sep))):
            key = ".env" if name.startswith(".env.") and name not in _SAMPLES else name
            outcome = SEGMENTS.get(key, PolicyOutcome.ALLOW)
            if outcome is PolicyOutcome.DENY:
                return Verdict(outcome, f"{said} lies in {name}, which is protected.")
            if outcome is PolicyOutcome.ASK_USER:
                strictest = Verdict(outcome, f"{said} lies in {name}, which needs approval.")
    return strictest


def _places(path: str, cwd: str) -> Iterator[tuple[str, str]]:
    """The normalised paths a tool may take this for, each with its real place: links followed
    before `..` counts, as the system does it, and after, as tools do it. Raises ValueError."""
    for meaning in _meanings(path):
        written = os.path.join(cwd, meaning)
        spelled = os.path.normpath(written)
        yield spelled, os.path.realpath(written)
        yield spelled, os.path.realpath(spelled)


def _meanings(path: str) -> Iterator[str]:
    """The path as it is, without the blanks around it, behind an "@"; each from home, as a URL."""
    bare = path.strip()
    for text in dict.fromkeys((path, bare, bare.removeprefix("@"))):
        yield text
        if text.startswith("~"):
            yield os.path.expanduser(text)
        if text[: len(_SCHEME)].lower() == _SCHEME:
            from urllib.parse import unquote

            rest = text[len(_SCHEME) :]
            yield unquote("/" + rest[2:].partition("/")[2] if rest.startswith("//") else rest)


def _below(path: str, environment: Environment) -> str | None:
    """`path` relative to a directory of the session; None outside of all."""
    for top in (environment.cwd, *environment.workspaces):
        if path == top:
            return ""
        if path.startswith(top.rstrip(os.sep) + os.sep):
            return path[len(top.rstrip(os.sep)) + 1 :]
    return None


def _folded(segment: str) -> str:
    """A name as a file system may read it that ignores case, invisible characters, and dots and
    blanks at the end."""
    if not segment.isascii():
        from unicodedata import category, normalize

        segment = "".join(c for c in normalize("NFKC", segment) if category(c) != "Cf")
    return segment.casefold().rstrip(" .")
