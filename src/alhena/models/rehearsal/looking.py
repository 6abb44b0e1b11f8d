"""The rules for requests that change nothing: list, describe, explain, find, search, read."""

import re

from alhena.models.rehearsal.intents import (
    DescribeFolder,
    ExplainProject,
    FindFiles,
    Intent,
    ListFolder,
    OutlineFile,
    ReadFile,
    SearchText,
)
from alhena.models.rehearsal.rule import Meaning, Rule
from alhena.models.rehearsal.targets import (
    PLACE,
    PRONOUN,
    QUOTED,
    TARGET,
    folder_of,
    glob_of,
    is_file_name,
    kind_glob,
    path_of,
    place_of,
    quoted,
    unquote,
)

_IN = rf"(?:,?\s+(?:in|inside|within|under|below|across|throughout)\s+(?P<place>{PLACE}))?"
_PLACES = rf"{PLACE}(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+){PLACE})*"
_LIST_VERB = r"(?:list|ls|show|display|print|see|view|give)(?:\s+me)?"
_SUM_VERB = (
    r"(?:describe|summari[sz]e|sum\s+up|outline|explain|explore|analy[sz]e|review|introduce"
    r"|tell\s+me(?:\s+more)?\s+about|walk\s+me\s+through"
    r"|(?:give|show)\s+(?:me\s+)?(?:an?|the)\s+(?:\w+\s+)?(?:outline|summary|overview|tour|idea)\s+of)"
)
_PROJECT = (
    r"(?:this|the|our|my)\s+(?:\w+\s+)?(?:project|repo|repository|code\s?base|code|package|app"
    r"|application|library|program|software)"
)
_FILE_LIST = rf"(?:{TARGET}(?:\s*,\s*(?:and\s+)?|\s+and\s+))*{TARGET}"
_READ_VERB = r"(?:read|show|open|cat|print|display|view|look\s+at|see|type)(?:\s+me)?"
_THE_FILE = (
    r"(?:the\s+)?(?:(?:contents?|first\s+(?:few\s+)?lines|beginning|start|top|head)\s+of\s+)?(?:the\s+)?"
    r"(?:files?\s+)?"
)


def _files(phrase: str, last: str, *, sure: bool) -> tuple[str, ...]:
    """The files a list of names means; () unless each looks like one (or one is `sure`)."""
    if re.fullmatch(PRONOUN, phrase.strip(), re.IGNORECASE):
        return (last,) if last else ()
    tokens = [token for token in re.findall(TARGET, phrase) if token.lower() != "and"]
    paths = tuple(path_of(token) for token in tokens)
    if len(paths) == 1 and paths[0] and (sure or quoted(tokens[0])) and not paths[0].endswith("/"):
        return paths
    return paths if paths and all(map(is_file_name, paths)) else ()


def _read(*, sure: bool) -> Meaning:
    def meaning(match: re.Match[str], last: str) -> tuple[Intent, ...] | None:
        phrase = match["files"]
        if not re.fullmatch(PRONOUN, phrase, re.IGNORECASE) and folder_of(phrase) == ".":
            return (ListFolder("."),)
        found = _files(phrase, last, sure=sure)
        return tuple(ReadFile(path) for path in found) or None

    return meaning


def _outline(match: re.Match[str], last: str) -> tuple[Intent, ...] | None:
    return tuple(OutlineFile(path) for path in _files(match["files"], last, sure=False)) or None


def _folders(phrase: str) -> tuple[str, ...]:
    """The folders a phrase names, () unless each part of it names one."""
    folders = [folder_of(part) for part in re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", phrase)]
    return tuple(filter(None, folders)) if None not in folders else ()


def _list(match: re.Match[str], _last: str) -> tuple[Intent, ...] | None:
    return tuple(map(ListFolder, _folders(match["folder"] or ""))) or None


def _describe(match: re.Match[str], _last: str) -> tuple[Intent, ...] | None:
    return tuple(map(DescribeFolder, _folders(match["folder"]))) or None


def _project(_match: re.Match[str], _last: str) -> tuple[Intent, ...]:
    return (ExplainProject(),)


def _search(match: re.Match[str], _last: str) -> tuple[Intent, ...] | None:
    text = unquote(match["text"])
    if not text:
        return None
    if re.match(
        r"\S+(?:\s+(?:for|in|on|through))*\s+(?:the\s+)?(?:web|internet)\b", match[0], re.IGNORECASE
    ):
        return None
    path, include = place_of(match["place"])
    return (SearchText(text, path, include),)


def _find_named(match: re.Match[str], _last: str) -> tuple[Intent, ...] | None:
    return (FindFiles(glob_of(match["what"]), place_of(match["place"])[0]),)


def _find_extension(match: re.Match[str], _last: str) -> tuple[Intent, ...] | None:
    return (FindFiles(glob_of(match["what"], extension=True), place_of(match["place"])[0]),)


def _find_kind(match: re.Match[str], _last: str) -> tuple[Intent, ...] | None:
    word = match["what"]
    pattern = "**/*" if word is None else kind_glob(word)
    return (FindFiles(pattern, place_of(match["place"])[0]),)


def _find_target(match: re.Match[str], last: str) -> tuple[Intent, ...] | None:
    """ "find app.py" means files; "find TODO" means text."""
    what = match["what"]
    path = path_of(what)
    if not path:
        return None
    if is_file_name(path) or any(sign in path for sign in "*?["):
        return _find_named(match, last)
    place, include = place_of(match["place"])
    return (SearchText(path, place, include),)


_ALL = r"(?:(?:all|every|each|any|the|of)\s+)*"

RULES: tuple[Rule, ...] = (
    # --- the project as a whole
    Rule(
        rf"{_SUM_VERB}\s+{_PROJECT}(?:\s+(?:to\s+me|is\s+about|does|works|structure|layout|here))*",
        _project,
    ),
    Rule(
        rf"what(?:\s+is|'s|\s+does|\s+kind\s+of\s+project\s+is)\s+(?:{_PROJECT}|this)"
        r"(?:\s+(?:about|do|for|all|here|is|does))*",
        _project,
    ),
    Rule(rf"how\s+(?:does|is)\s+{_PROJECT}\s+(?:work|built|structured|organi[sz]ed)", _project),
    # --- files by name
    Rule(
        rf"(?:find|locate|glob|search\s+for|look\s+for|{_LIST_VERB}|where\s+are|get|count)\s+{_ALL}files?"
        r"\s+(?:with|having|of|ending|that\s+end)\s+(?:the\s+)?"
        rf"(?:extension|suffix|ending|type|in|with)\s+(?P<what>{TARGET}){_IN}",
        _find_extension,
    ),
    Rule(
        rf"(?:find|locate|glob|search\s+for|look\s+for|{_LIST_VERB}|where\s+(?:is|are)|get|count)"
        rf"\s+{_ALL}(?:an?\s+)?files?\s+(?:(?:that\s+(?:are|is)\s+)?(?:named|called)|matching|like"
        rf"|that\s+match(?:es)?|whose\s+names?\s+(?:is|are|match(?:es)?))\s+(?P<what>{TARGET}){_IN}",
        _find_named,
    ),
    Rule(
        rf"(?:(?:find|locate|glob|where\s+are|get|count)\s+{_ALL}|{_LIST_VERB}\s+{_ALL}"
        rf"|(?:how\s+many|which|what)\s+)(?P<what>(?!(?:all|any|every|the|of|my|our|me|this|these)\b){TARGET})\s+files"
        rf"(?:\s+(?:are\s+there|exist|are|there|do\s+we\s+have))?{_IN}",
        _find_kind,
    ),
    Rule(
        rf"(?:find|locate|get|count|how\s+many)\s+{_ALL}(?P<what>(?!))?files"
        rf"(?:\s+are\s+there|\s+are)?{_IN}",
        _find_kind,
    ),
    # --- text in files
    Rule(
        rf"(?:search|look|grep|scan|check)\s+(?:in\s+|through\s+|inside\s+)?(?P<place>{PLACE})\s+for"
        rf"\s+(?:the\s+(?:text|word|string|phrase)\s+)?(?P<text>{QUOTED}|.+?)",
        _search,
    ),
    Rule(
        r"(?:search\s+for|search|look\s+for|look\s+up|grep\s+for|grep|scan\s+for)\s+"
        r"(?:the\s+(?:text|word|string|phrase)\s+)?"
        rf"(?P<text>{QUOTED}|.+?){_IN}",
        _search,
    ),
    Rule(
        r"find\s+(?:all\s+|every\s+|the\s+|any\s+)*(?:occurrences?|mentions?|uses?|usages?|lines?|places?"
        r"|text|word|string|phrase)\s+(?:of\s+|with\s+|that\s+(?:contain|mention|use)s?\s+)?"
        rf"(?P<text>{QUOTED}|.+?){_IN}",
        _search,
    ),
    Rule(
        r"(?:find\s+|list\s+|show\s+(?:me\s+)?)?(?:all\s+)?(?:which\s+|what\s+|the\s+)?files?\s+(?:that\s+)?"
        rf"(?:contain|mention|use|have|import)(?:s|ing)?\s+(?P<text>{QUOTED}|.+?){_IN}",
        _search,
    ),
    Rule(
        rf"where\s+(?:is|are|does|do)\s+(?P<text>{QUOTED}|.+?)\s+(?:used|defined|mentioned|called|set"
        rf"|appear|occur|come\s+up|imported){_IN}",
        _search,
    ),
    Rule(
        rf"(?:find|locate|glob|where\s+is)\s+{_ALL}(?P<what>{TARGET})(?:\s+comments?)?{_IN}",
        _find_target,
    ),
    # --- one file
    Rule(
        rf"{_SUM_VERB}\s+{_THE_FILE}(?P<files>{_FILE_LIST}|{PRONOUN})(?:\s+file)?"
        r"(?:\s+by\s+its\s+(?:outline|headings))?",
        _outline,
    ),
    Rule(
        rf"what\s+(?:is|functions\s+are|classes\s+are|sections\s+are)\s+(?:defined\s+)?(?:in\s+)?{_THE_FILE}"
        rf"(?P<files>{TARGET})\s+about",
        _outline,
    ),
    Rule(
        r"(?:what|which|list|show)\s+(?:me\s+)?(?:the\s+|all\s+)*"
        r"(?:functions|classes|methods|definitions|sections|headings|keys)\s+(?:are\s+)?"
        rf"(?:defined\s+)?(?:in|of)\s+{_THE_FILE}(?P<files>{TARGET})",
        _outline,
    ),
    Rule(
        rf"what(?:'s|\s+is|\s+does)\s+(?:written\s+)?(?:in\s+|inside\s+)?{_THE_FILE}"
        rf"(?P<files>{TARGET}|{PRONOUN})(?:\s+(?:say|contain|hold|look\s+like))?",
        _read(sure=False),
    ),
    Rule(
        r"how\s+(?:long\s+is|many\s+lines\s+(?:are\s+(?:there\s+)?in|does|has|in))\s+"
        rf"{_THE_FILE}(?P<files>{TARGET}|{PRONOUN})(?:\s+have)?",
        _read(sure=False),
    ),
    Rule(
        rf"count\s+(?:the\s+|all\s+)*lines\s+(?:of|in)\s+{_THE_FILE}(?P<files>{TARGET}|{PRONOUN})",
        _read(sure=False),
    ),
    Rule(
        rf"{_READ_VERB}\s+(?:an?\s+|the\s+)?file\s+(?:that\s+is\s+)?(?:named|called)\s+(?P<files>{TARGET})",
        _read(sure=True),
    ),
    Rule(
        rf"{_READ_VERB}\s+{_THE_FILE}(?P<files>{_FILE_LIST}|{PRONOUN})(?:\s+file)?",
        _read(sure=False),
    ),
    Rule(rf"(?:read|open|cat)\s+{_THE_FILE}(?P<files>{TARGET})(?:\s+file)?", _read(sure=True)),
    # --- a folder
    Rule(
        rf"{_LIST_VERB}(?:\s+(?:(?:all|the|a\s+list|of|files?|folders?|directories|subfolders|and|contents?"
        r"|entries|everything|what\s+is|what's)\b,?\s*)*)?"
        rf"(?:\s*\b(?:of|in|inside|under|from)\s+)?(?P<folder>(?<=\s){_PLACES})?",
        _list,
    ),
    Rule(
        r"(?:what|which)\s+(?:files|folders|files\s+and\s+folders)\s+(?:are\s+|do\s+(?:we|you|i)\s+(?:have|see)\s*)"
        r"(?:there\s*)?(?:here|around)?(?P<folder>(?<=here)|(?<=there)|(?<=around)|$)",
        _list,
    ),
    Rule(
        r"what(?:'s|\s+is|\s+are(?:\s+the\s+(?:files|folders|contents))?|\s+do\s+we\s+have|\s+files\s+are(?:\s+there)?|\s+can\s+you\s+see)"
        rf"\s+(?:there\s+)?(?:in|inside|under|of)\s+(?P<folder>{_PLACES})",
        _list,
    ),
    Rule(
        rf"(?:{_SUM_VERB}|look\s+(?:at|around\s+in|around))\s+"
        rf"(?:the\s+)?(?:(?:contents?|structure|files)\s+(?:of|in)\s+)?(?P<folder>{_PLACES})",
        _describe,
    ),
    Rule(r"(?:look|have\s+a\s+look)\s+around(?P<folder>)", _describe),
)
