"""An outline of a file, taken from its text."""

import re

import msgspec

_DEFINITION = (
    r"(?:export\s+)?(?:default\s+)?(?:public\s+|private\s+|protected\s+|static\s+|final\s+|abstract\s+"
    r"|pub(?:\([^)]*\))?\s+|async\s+|unsafe\s+|const\s+(?=fn))*"
)
_CODE = {
    "py": r"(?:async\s+)?def\s|class\s",
    "js": r"(?:function\b|class\s|const\s+\w+\s*=\s*(?:async\s*)?\()",
    "ts": r"(?:function\b|class\s|interface\s|type\s+\w+|enum\s|const\s+\w+\s*=\s*(?:async\s*)?\()",
    "go": r"func\s|type\s+\w+\s+(?:struct|interface)",
    "rs": r"(?:fn|struct|enum|trait|impl|mod)\b",
    "java": r"(?:class|interface|enum|record)\s|[\w<>\[\], ]+\s\w+\s*\([^;]*$",
    "rb": r"(?:def|class|module)\s",
    "sh": r"(?:function\s+)?[\w-]+\s*\(\)",
    "c": r"(?:struct|enum|union|typedef)\s|[\w*]+[\s*]+\w+\s*\([^;]*$",
}
_SAME = {
    "pyi": "py", "jsx": "js", "mjs": "js", "cjs": "js", "tsx": "ts", "mts": "ts", "kt": "java",
    "cs": "java", "bash": "sh", "h": "c", "cc": "c", "cpp": "c", "hpp": "c",
}  # fmt: skip


class Outline(msgspec.Struct, frozen=True):
    """The `kind` of thing the entries are (such as "headings"), and the entries in file order."""

    kind: str
    entries: tuple[str, ...]


def outline(path: str, text: str) -> Outline:
    """Headings, definitions, sections or keys by the file's extension; without any, first lines."""
    suffix = path.rsplit(".", 1)[-1].lower() if "." in path.rsplit("/", 1)[-1] else ""
    suffix = _SAME.get(suffix, suffix)
    if suffix in ("md", "markdown"):
        found = Outline("headings", headings(text))
    elif suffix in _CODE:
        found = Outline("definitions", _definitions(_CODE[suffix], text))
    elif suffix in ("toml", "ini", "cfg"):
        found = Outline(
            "sections", tuple(re.findall(r"^[ \t]*(\[.+\])[ \t]*$", text, re.MULTILINE))
        )
    elif suffix == "json":
        found = Outline("top-level keys", _keys(text))
    elif suffix in ("yaml", "yml"):
        found = Outline("top-level keys", tuple(re.findall(r"^([\w.-]+):", text, re.MULTILINE)))
    elif path.rsplit("/", 1)[-1].lower() == "makefile":
        found = Outline("targets", tuple(re.findall(r"^([\w./%-]+)\s*:(?!=)", text, re.MULTILINE)))
    else:
        found = Outline("", ())
    if found.entries:
        return found
    first = [line.strip() for line in text.splitlines() if line.strip()]
    return Outline("first lines", tuple(first[:5]))


def headings(text: str) -> tuple[str, ...]:
    """The Markdown headings outside fenced code, indented by their level."""
    found: list[str] = []
    fence = ""
    for line in text.splitlines():
        opened = re.match(r" {0,3}(`{3,}|~{3,})", line)
        if opened and not fence:
            fence = opened[1]
        elif fence:
            if line.strip().startswith(fence):
                fence = ""
        else:
            heading = re.match(r"(#{1,6})[ \t]+(\S.*)", line)
            if heading:
                title = heading[2].rstrip().rstrip("#").rstrip()
                found.append("  " * (len(heading[1]) - 1) + title)
    return tuple(found)


def title_and_lead(text: str) -> tuple[str, str]:
    """A README's title and the first paragraph of prose in it, each "" when there is none."""
    title = ""
    lead: list[str] = []
    for line in text.splitlines():
        plain = line.strip()
        if plain.startswith("#"):
            if lead:
                break
            title = title or plain.lstrip("#").strip()
        elif not plain:
            if lead:
                break
        elif not re.match(r"[<!\[|>=`-]", plain) or lead:
            lead.append(plain)
    return title, " ".join(lead)


def _definitions(pattern: str, text: str) -> tuple[str, ...]:
    rule = re.compile(rf"(?P<indent>[ \t]*){_DEFINITION}(?:{pattern})")
    found: list[str] = []
    for line in text.splitlines():
        line = line[:200]
        match = rule.match(line)
        if match and not line.lstrip().startswith(("return", "else", "throw", "new ", "#", "//")):
            indent = "  " if match["indent"] else ""
            found.append(indent + line.strip().rstrip("{:").rstrip())
    return tuple(found)


def _keys(text: str) -> tuple[str, ...]:
    try:
        decoded = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return ()
    return tuple(decoded)
