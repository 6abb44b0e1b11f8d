"""What to look at for a question that no rule covers, when a report is due."""

import re

from alhena.models.rehearsal.handover import HAND_OVER
from alhena.models.rehearsal.intents import (
    CallTool,
    ConsultDocs,
    ExplainProject,
    FindFiles,
    Intent,
    NotUnderstood,
    OutlineFile,
    SearchText,
)
from alhena.models.rehearsal.targets import QUOTED, glob_of, is_file_name, unquote
from alhena.models.rehearsal.toolbox import Toolbox

_MOST_TERMS = 3
_SHORTEST_WORD = 4
_TOKEN = re.compile(rf"{QUOTED}|[\w./-]*\w")
_IDENTIFIER = re.compile(r"\w+_\w+|[A-Za-z]*[a-z\d][A-Z]\w*|[A-Z]{2,}\w*")
_COMMON = (
    " about after again agent also answer another anything because been before being both called "
    "change changed code codebase come could describe does doing done each every everything "
    "exactly explain file files find folder from give happen have here into investigate know like "
    "list look made make many more most much must name need only other over part place please "
    "project question read repository report same say show should some such tell than that their "
    "them then there these they thing this those through under used uses using very want well were "
    "what when where whether which while whole will with work works would your "
)
"""Words that say nothing of what is looked for, each between blanks."""


def of_inquiry(intents: tuple[Intent, ...], prompt: str, tools: Toolbox) -> tuple[Intent, ...]:
    """The intents, with those that were not understood made into looking for what they speak of.

    Where there is documentation and no file to be read, all is looked up there.
    """
    if "get_internal_docs" in tools and "read_file" not in tools:
        return (ConsultDocs(prompt),)
    found: list[Intent] = []
    for intent in intents:
        if isinstance(intent, CallTool) and intent.name == HAND_OVER:
            continue  # that is what the work ends with anyway
        wanted = _inquiries(intent.text) if isinstance(intent, NotUnderstood) else (intent,)
        found.extend(each for each in wanted if each not in found)
    return tuple(found) or _inquiries(prompt)


def _inquiries(words: str) -> tuple[Intent, ...]:
    """The project, and the names in the words; without names, the longest of the words."""
    return (*map(_look_for, terms(words)), ExplainProject())


def _look_for(term: str) -> Intent:
    if not is_file_name(term):
        return SearchText(term)
    return OutlineFile(term) if "/" in term else FindFiles(glob_of(term))


def terms(words: str) -> tuple[str, ...]:
    """At most three things that the words name: what is quoted, file names, identifiers; without
    any, the longest words that say something. In their order."""
    tokens = dict.fromkeys(match[0] for match in _TOKEN.finditer(words))
    named = [
        unquote(token)
        for token in tokens
        if unquote(token) != token or is_file_name(token) or _IDENTIFIER.fullmatch(token)
    ]
    if named:
        return tuple(name for name in named if name.strip())[:_MOST_TERMS]
    plain = [
        token
        for token in dict.fromkeys(token.lower() for token in tokens)
        if len(token) >= _SHORTEST_WORD and f" {token} " not in _COMMON
    ]
    longest = sorted(plain, key=len, reverse=True)[:_MOST_TERMS]
    return tuple(word for word in plain if word in longest)
