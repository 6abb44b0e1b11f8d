"""Does a command surely only read? Known options of known programs, never a list of bad ones."""

from collections.abc import Callable, Sequence

from alhena.policy.bash.model import Effect, Part, Redirection, Word
from alhena.policy.bash.readonly.closed import closed_place
from alhena.policy.bash.readonly.forms import (
    refuse_bracket,
    refuse_command,
    refuse_date,
    refuse_find,
    refuse_getent,
    refuse_jq,
    refuse_lsof,
    refuse_printf,
    refuse_ps,
    refuse_rust,
    refuse_search,
    refuse_seq,
    refuse_sleep,
    refuse_stty,
    refuse_tail,
    refuse_tar,
    refuse_test,
    refuse_tput,
    without_jq_pairs,
)
from alhena.policy.bash.readonly.git import refuse_git
from alhena.policy.bash.readonly.grammar import Given, read_words
from alhena.policy.bash.readonly.scripts import refuse_awk, refuse_sed
from alhena.policy.programs import Program, main_name, program, tells_version, why_absent

_PLACES = ("/bin/", "/usr/bin/", "/usr/local/bin/")
_MAX_UNKNOWN = 256
_SAYS_ONLY = frozenset(["echo", "expr", "true", "false", ":"])


def not_read_only(part: Part) -> str | None:
    """The reason why the command may do more than read, as one clause, or None when it surely only
    reads: writes no file, runs no program that its words or the folder's files name, uses no
    network, waits for nothing that may never come, shows no environment of a process. Whether its
    words can be trusted (doubts) and which directories it reads are not asked here; what a program
    keeps for itself (git's index) does not count."""
    if not part.words:
        return "no program is named"
    if part.assignments:
        return f"{part.assignments[0].source} changes the environment"
    for redirection in part.redirections:
        refusal = _refuse_redirection(redirection)
        if refusal is not None:
            return refusal
    first = part.words[0]
    name = program_name(first.text) if first.literal else None
    if name is None:
        return f"{first.source or first.text} is not the plain name of a program"
    return _refuse_program(name, part.words[1:])


def folder_may_run(part: Part) -> str | None:
    """How the working directory's own files can make a command run a program although it only
    reads, as one clause, or None. Where a folder is not trusted, such a command is no read. For
    git that depends on whether there is a repository (`policy.places`)."""
    words = part.words
    name = program_name(words[0].text) if words and words[0].literal else None
    if name == "go":
        return "go fetches and runs the toolchain that go.mod names"
    return None


def program_name(text: str) -> str | None:
    """The program a literal command word names: a bare name, or one in a system's directory."""
    place = next((each for each in _PLACES if text.startswith(each)), "")
    text = text.removeprefix(place)
    return None if "/" in text or not text else text


def _refuse_redirection(redirection: Redirection) -> str | None:
    target = redirection.target
    if redirection.effect is Effect.WRITE:
        harm = "could open a network connection" if redirection.operator == "<" else "writes"
        return f"{redirection.source} {harm}"
    if redirection.effect is Effect.NONE or target is None:
        return None
    return closed_place(target)


def _refuse_program(name: str, words: Sequence[Word]) -> str | None:
    texts = [word.text for word in words if word.literal]
    if name in _SAYS_ONLY or (len(texts) == len(words) == 1 and tells_version(name, texts[0])):
        return None
    name = main_name(name)
    if name in _LANGUAGES:
        return _LANGUAGES[name](words)
    table = program(name)
    if texts and words[0].literal and table is not None and table.subcommands:
        key = f"{name} {texts[0]}"
        inner = program(key)
        if inner is not None and inner.reads:
            return _refuse_by_table(key, inner, words[1:])
        if not table.reads and any(map(_reads, table.subcommands)):
            return f"{key} is not in the list of commands that only read"
    if table is None or not table.reads:
        return why_absent(name)
    return _refuse_by_table(name, table, words)


def _reads(name: str) -> bool:
    table = program(name)
    return table is not None and table.reads


def _refuse_by_table(name: str, table: Program, words: Sequence[Word]) -> str | None:
    looked_at = "names" in table.form
    refusal = None if looked_at else _refuse_places(words)
    if refusal is not None:
        return refusal
    given = read_words(table, name, words)
    if isinstance(given, str):
        return given
    if looked_at:  # what an option names may be read all the same
        refusal = _refuse_places([value for _, value in given.options if value is not None])
        if refusal is not None:
            return refusal
    return CHECKS[table.check](given) if table.check else None


def _refuse_places(words: Sequence[Word]) -> str | None:
    if sum(not word.literal for word in words) > _MAX_UNKNOWN:
        return "there are very many patterns and expansions"
    return next(filter(None, map(closed_place, words)), None)


def _refuse_git(words: Sequence[Word]) -> str | None:
    return _refuse_places(words) or refuse_git(words)


def _refuse_tar(words: Sequence[Word]) -> str | None:
    return _refuse_places(words) or refuse_tar(words)


def _refuse_jq(words: Sequence[Word]) -> str | None:
    kept = without_jq_pairs(words)
    table = program("jq")
    if isinstance(kept, str) or table is None:
        return kept if isinstance(kept, str) else why_absent("jq")
    return _refuse_places(words) or _refuse_by_table("jq", table, kept)


_LANGUAGES: dict[str, Callable[[Sequence[Word]], str | None]] = {
    "[": refuse_bracket,
    "cargo": refuse_rust,
    "command": refuse_command,
    "find": refuse_find,
    "git": _refuse_git,
    "jq": _refuse_jq,
    "printf": refuse_printf,
    "rustc": refuse_rust,
    "sleep": refuse_sleep,
    "tar": _refuse_tar,
    "test": refuse_test,
}
CHECKS: dict[str, Callable[[Given], str | None]] = {
    "awk": refuse_awk,
    "date": refuse_date,
    "getent": refuse_getent,
    "jq": refuse_jq,
    "lsof": refuse_lsof,
    "ps": refuse_ps,
    "search": refuse_search,
    "sed": refuse_sed,
    "seq": refuse_seq,
    "stty": refuse_stty,
    "tail": refuse_tail,
    "tput": refuse_tput,
}
"""What a table names as its `check` -> the function."""
