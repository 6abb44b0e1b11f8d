"""The steps of intents that change nothing."""

import re

from alhena.models.rehearsal import report
from alhena.models.rehearsal.intents import FindFiles, SearchText
from alhena.models.rehearsal.manifest import MANIFESTS, READMES, facts, first_of
from alhena.models.rehearsal.outline import headings, title_and_lead
from alhena.models.rehearsal.results import (
    FileText,
    Listing,
    count_found,
    file_text,
    is_binary_notice,
    listing,
    matches,
    paths,
)
from alhena.models.rehearsal.steps import Steps, ask
from alhena.models.rehearsal.toolbox import Call, Outcome, Toolbox

_ENTRY_POINTS = r"^(def main\(|async def main\(|func main\(|(pub )?fn main\(|if __name__ ==)"


def list_folder(path: str, tools: Toolbox) -> Steps:
    """list_directory."""
    (listed,) = yield from ask(tools, Call("list_directory", {"path": path}))
    if not listed.ok:
        return report.trouble(listed, f"list {report.code(path)}")
    return report.folder(path, listing(listed.output))


def describe_folder(path: str, tools: Toolbox) -> Steps:
    """list_directory and glob at once, then the README or manifest that the listing shows."""
    listed, globbed = yield from ask(
        tools,
        Call("list_directory", {"path": path}),
        Call("glob", {"pattern": "**/*", "path": path}),
    )
    if not listed.ok:
        return report.trouble(listed, f"list {report.code(path)}")
    found = listing(listed.output)
    names = tuple(name for name, _ in found.files)
    chosen = [name for name in (first_of(READMES, names), first_of(MANIFESTS, names)) if name]
    read = yield from ask(tools, *(_read(_join(path, name)) for name in chosen[:1]))
    lines = [report.folder(path, found)]
    if found.files:
        lines.append(f"Kinds of files in it: {report.kinds(names)}.")
    lines.extend(_below(globbed))
    lines.extend(_about(outcome, name) for outcome, name in zip(read, chosen, strict=False))
    return "\n\n".join(line for line in lines if line)


def explain_project(tools: Toolbox) -> Steps:
    """list_directory, glob and a search for entry points at once, then README and manifest."""
    listed, globbed, entries = yield from ask(
        tools,
        Call("list_directory", {"path": "."}),
        Call("glob", {"pattern": "**/*", "path": "."}),
        Call("search_file_content", {"pattern": _ENTRY_POINTS, "path": "."}),
    )
    found = listing(listed.output) if listed.ok else Listing("", (), ())
    names = tuple(name for name, _ in found.files)
    chosen = [name for name in (first_of(READMES, names), first_of(MANIFESTS, names)) if name]
    read = yield from ask(tools, *map(_read, chosen))
    lines = [_about(outcome, name) for outcome, name in zip(read, chosen, strict=True)]
    if listed.ok:
        lines.append(report.folder(".", found))
    else:
        lines.append(report.trouble(listed, "list this folder"))
    lines.extend(_below(globbed))
    if entries.ok and (hits := matches(entries.output)):
        lines.append(
            "Where programs start:\n"
            + report.bullets([f"{hit.file}:{hit.line}: {hit.text.strip()}" for hit in hits], 8)
        )
    return "\n\n".join(line for line in lines if line)


def find_files(wanted: FindFiles, tools: Toolbox) -> Steps:
    """glob."""
    (found,) = yield from ask(tools, Call("glob", {"pattern": wanted.pattern, "path": wanted.path}))
    if not found.ok:
        return report.trouble(found, f"look for {report.code(wanted.pattern)}")
    names = paths(found.output)
    where = "" if wanted.path == "." else f" in {report.code(wanted.path)}"
    if not names:
        return f"No file{where} matches {report.code(wanted.pattern)}."
    match = "matches" if len(names) == 1 else "match"
    return (
        f"{report.count(len(names), 'file')}{where} {match} {report.code(wanted.pattern)}:\n"
        f"{report.bullets(names)}"
    )


def search_text(wanted: SearchText, tools: Toolbox) -> Steps:
    """search_file_content for the text with its special characters escaped."""
    args = {"pattern": _escaped(wanted.text), "path": wanted.path}
    if wanted.include:
        args["include"] = wanted.include
    (found,) = yield from ask(tools, Call("search_file_content", args))
    if not found.ok:
        return report.trouble(found, f"search for {report.code(wanted.text)}")
    where = "in this folder" if wanted.path == "." else f"in {report.code(wanted.path)}"
    if wanted.include:
        where += f" ({report.code(wanted.include)})"
    return report.search(wanted.text, where, matches(found.output))


def _escaped(text: str) -> str:
    """The text as a pattern that every regular expression dialect reads alike: `re.escape` would
    also escape spaces and "#", which some dialects refuse."""
    return re.sub(r"([\\.^$*+?{}\[\]|()])", r"\\\1", text)


def read_file(path: str, tools: Toolbox) -> Steps:
    """read_file, and the beginning of what it returned."""
    (read,) = yield from ask(tools, _read(path))
    return _unreadable(read, path) or report.file_lead(path, file_text(read.output))


def outline_file(path: str, tools: Toolbox) -> Steps:
    """read_file, and an outline made from the text."""
    (read,) = yield from ask(tools, _read(path))
    return _unreadable(read, path) or report.file_outline(path, file_text(read.output))


def guide(words: str, tools: Toolbox) -> Steps:
    """list_directory, for examples that work in this folder."""
    (listed,) = yield from ask(tools, Call("list_directory", {"path": "."}))
    found = listing(listed.output) if listed.ok else Listing("", (), ())
    names = [name for name, _ in found.files if not name.startswith(".")]
    file = first_of(READMES, tuple(names)) or next(iter(names), "notes.md")
    shown = next((name for name in found.folders if not name.startswith(".")), "")
    examples = [
        "explain this project",
        f"describe {shown.rstrip('/')}/" if shown else "describe this folder",
        f"find files matching *.{file.rsplit('.', 1)[-1] if '.' in file else 'md'}",
        "search for TODO",
        f"read {file}",
        f"summarise {file}",
        f'replace "old words" with "new words" in {file}',
        "create hello.txt with Hello, world",
        "run `git status`",
        "remember that I prefer short answers",
        "list this folder, then read " + file,
    ]
    asked = f"No rule covers {report.code(words[:80])}. " if words.strip() else ""
    own = [name for name in tools.names if name not in _KNOWN]
    for name in own[:5]:
        parameters = ", ".join(f"{item}=…" for item in tools.parameters(name))
        examples.append(f"call {name} with {parameters}" if parameters else f"call {name}")
    return f"{asked}What these rules can do here, in plain words:\n{report.bullets(examples)}"


_KNOWN = frozenset(
    {
        "read_file",
        "write_file",
        "replace",
        "smart_edit",
        "list_directory",
        "glob",
        "search_file_content",
        "read_many_files",
        "run_shell_command",
        "web_fetch",
        "google_web_search",
        "save_memory",
        "write_todos",
        "get_internal_docs",
        "delegate_to_agent",
        "list_background_processes",
        "read_background_output",
        "read_tool_output",
        "ask_user",
        "enter_plan_mode",
        "exit_plan_mode",
    }
)
"""Tools that every session may have: of the others, examples are given."""


def _read(path: str) -> Call:
    return Call("read_file", {"absolute_path": path})


def _join(folder: str, name: str) -> str:
    return name if folder == "." else f"{folder.rstrip('/')}/{name}"


def _unreadable(read: Outcome, path: str) -> str:
    if not read.ok:
        return report.trouble(read, f"read {report.code(path)}")
    return f"{report.code(path)} is no text: {read.output}" if is_binary_notice(read.output) else ""


def _below(globbed: Outcome) -> list[str]:
    if not globbed.ok:
        return [report.trouble(globbed, "count the files below it")]
    names = paths(globbed.output)
    if not names:
        return []
    total = max(count_found(globbed.output), len(names))
    seen = f", of which {len(names)} are looked at" if total > len(names) else ""
    lines = [f"Below it lie {report.count(total, 'file')}{seen}: {report.kinds(names)}."]
    folders = report.by_folder(names)
    return [*lines, f"By folder: {folders}."] if folders else lines


def _about(read: Outcome, name: str) -> str:
    """What a README or a manifest says, in a few lines."""
    problem = _unreadable(read, name)
    if problem:
        return problem
    found: FileText = file_text(read.output)
    if first_of(MANIFESTS, (name,)):
        told = "; ".join(f"{label}: {value}" for label, value in facts(name, found.text))
        return f"{report.code(name)} says {told}." if told else report.file_outline(name, found)
    title, lead = title_and_lead(found.text)
    opening = f"{report.code(name)} is headed “{title}”." if title else f"{report.code(name)}:"
    sections = [entry.strip() for entry in headings(found.text)[1:13]]
    rest = f"\nIts sections: {', '.join(sections)}." if sections else ""
    return f"{opening} {lead[:600]}".rstrip() + rest
