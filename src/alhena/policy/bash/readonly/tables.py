"""Finds a program's grammar; a table is read when it is first asked for."""

from functools import lru_cache

from alhena.policy.bash.readonly.grammar import Grammar, read_grammar

_PLACES = ("/bin/", "/usr/bin/", "/usr/local/bin/")


def program_name(text: str) -> str | None:
    """The program a literal command word names: a bare name, or one in a system's directory."""
    for place in _PLACES:
        if text.startswith(place):
            text = text.removeprefix(place)
            break
    return None if "/" in text or not text else text


@lru_cache(maxsize=256)
def grammar_of(name: str) -> Grammar | None:
    """The grammar of a program, or of a program with a subcommand (`npm ls`)."""
    from alhena.policy.bash.readonly import program_tables, system_tables, text_tables

    for source in (text_tables, system_tables, program_tables):
        name = source.ALIASES.get(name, name)
        if name in source.TABLES:
            return read_grammar(source.TABLES[name], source.SHARED.__getitem__)
    return None


@lru_cache(maxsize=64)
def git_grammar(name: str) -> Grammar | None:
    """The grammar of a subcommand of git, perhaps with a second one (`stash list`)."""
    from alhena.policy.bash.readonly import git as git_tables

    text = git_tables.TABLES.get(git_tables.ALIASES.get(name, name))
    return None if text is None else read_grammar(text, git_tables.SHARED.__getitem__)


@lru_cache(maxsize=256)
def has_subcommands(name: str) -> bool:
    """Are there grammars of this program's subcommands?"""
    from alhena.policy.bash.readonly import program_tables, system_tables

    tables = (*program_tables.TABLES, *program_tables.ALIASES, *system_tables.TABLES)
    return any(known.startswith(name + " ") for known in tables)


@lru_cache(maxsize=256)
def tells_version(name: str, word: str) -> bool:
    """Does this word, alone after the program's name, only make it tell its version?"""
    from alhena.policy.bash.readonly.program_tables import VERSIONS

    return word in _listed(VERSIONS, name).split()


def why_absent(name: str) -> str:
    """One clause on a program that has no grammar."""
    from alhena.policy.bash.readonly.program_tables import ELSEWHERE

    return f"{name} {_listed(ELSEWHERE, name) or 'is not in the list of commands that only read'}"


def _listed(table: dict[str, str], name: str) -> str:
    return next((text for names, text in table.items() if name in names.split()), "")
