"""The steps of a question about alhena itself: its documentation, read for the words of the
question."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from alhena.models.rehearsal import report
from alhena.models.rehearsal.outline import headings
from alhena.models.rehearsal.steps import Steps, ask
from alhena.models.rehearsal.toolbox import Call, Toolbox

_TOOL = "get_internal_docs"
_MOST_PAGES = 20
_MOST_SECTIONS = 3
_SHOWN_LINES = 25
_LINES_BEFORE = 5
_IN_HEADING = 2.0
_LITTLE_WORDS = (
    " a about all an and are as at be by can do does for from get has have how i if in is it its "
    "me my no not of on one or so tell that the their them there these they this to use used uses "
    "using want was what when where which who why will with you your alhena "
)
"""Words that say nothing of what is looked for, each between blanks."""


class Section(msgspec.Struct, frozen=True):
    """A part of a page, up to the next heading."""

    page: str
    heading: str
    body: str


def consult_docs(question: str, tools: Toolbox) -> Steps:
    """get_internal_docs for the list, then every page; the sections that share most with the
    question."""
    (listed,) = yield from ask(tools, Call(_TOOL, {}))
    if not listed.ok:
        return report.trouble(listed, "list the documentation")
    names = re.findall(r"^- (\S.*\.md)$", listed.output, re.MULTILINE)[:_MOST_PAGES]
    pages = yield from ask(tools, *(Call(_TOOL, {"path": name}) for name in names))
    found = [
        section
        for name, page in zip(names, pages, strict=True)
        if page.ok
        for section in sections(name, page.output)
    ]
    lines = [
        report.trouble(page, f"read {report.code(name)}")
        for name, page in zip(names, pages, strict=True)
        if not page.ok
    ]
    best = nearest(question, found)
    if best:
        lines.append("What the documentation says nearest to the question:")
        lines.extend(_shown(section, _wanted(question)) for section in best)
    else:
        lines.append("No section of the documentation shares a word with the question. Its pages:")
        lines.extend(
            f"- {name}: {', '.join(title.strip() for title in headings(page.output))}"
            for name, page in zip(names, pages, strict=True)
            if page.ok
        )
    return "\n\n".join(lines)


def sections(page: str, text: str) -> Iterator[Section]:
    """The sections of a Markdown page; headings inside code are none."""
    heading, body, fence = "", list[str](), ""
    for line in text.splitlines():
        opened = re.match(r" {0,3}(`{3,}|~{3,})", line)
        title = None if fence else re.match(r"#{1,6}[ \t]+(\S.*)", line)
        if opened:
            closes = fence and line.strip().startswith(fence)
            fence = "" if closes else fence or opened[1]
        if title is None:
            body.append(line)
            continue
        if heading or any(map(str.strip, body)):
            yield Section(page, heading, "\n".join(body).strip("\n"))
        heading, body = title[1].rstrip("# \t"), []
    if heading or any(map(str.strip, body)):
        yield Section(page, heading, "\n".join(body).strip("\n"))


def nearest(question: str, found: list[Section]) -> list[Section]:
    """The sections that share most with the question, best first; a word counts the more, the
    fewer sections have it. Those of less than half the best one's worth are left out."""
    wanted = _wanted(question)
    titles = [set(_words(f"{each.page} {each.heading}")) for each in found]
    bodies = [set(_words(each.body)) for each in found]
    spread = Counter(
        word for title, body in zip(titles, bodies, strict=True) for word in (title | body) & wanted
    )
    weight = {word: math.log(1 + len(found) / number) for word, number in spread.items()}

    def score(index: int) -> float:
        titled = wanted & titles[index]
        return _sum(weight, titled) * _IN_HEADING + _sum(weight, wanted & bodies[index] - titled)

    scores = [score(index) for index in range(len(found))]
    ranked = sorted(range(len(found)), key=lambda index: -scores[index])[:_MOST_SECTIONS]
    enough = max(scores, default=0.0) / 2
    return [found[index] for index in ranked if scores[index] > 0 and scores[index] >= enough]


def _sum(weight: dict[str, float], words: Iterable[str]) -> float:
    return math.fsum(weight[word] for word in words)


def _wanted(question: str) -> set[str]:
    """The words of a question that say what it is about."""
    return {word for word in _words(question) if f" {word} " not in _LITTLE_WORDS}


def _words(text: str) -> list[str]:
    """Words in lower case, without the s of a plural."""
    return [
        word.removesuffix("s") if len(word) > 3 else word
        for word in re.findall(r"[^\W_]+", text.lower())
    ]


def _shown(section: Section, wanted: set[str]) -> str:
    """The section; of a long one the lines around the first that have most of the words."""
    place = f"{section.page}, “{section.heading}”" if section.heading else section.page
    lines = section.body.splitlines()
    start = 0
    if len(lines) > _SHOWN_LINES:
        shared = [len(wanted.intersection(_words(line))) for line in lines]
        start = max(0, shared.index(max(shared)) - _LINES_BEFORE)
    shown = lines[start : start + _SHOWN_LINES]
    hidden = len(lines) - len(shown)
    rest = f"\n\n({report.count(hidden, 'line')} of this section not shown.)" if hidden else ""
    return f"From {place}:\n\n" + "\n".join(shown) + rest
