"""The steps of intents that change something."""

import re
from collections.abc import Generator

from alhena.models.rehearsal import report
from alhena.models.rehearsal.intents import CallTool, Remember, ReplaceText, RunCommand, WriteFile
from alhena.models.rehearsal.results import command_result, file_text, is_binary_notice
from alhena.models.rehearsal.steps import Steps, ask
from alhena.models.rehearsal.toolbox import Call, Outcome, Toolbox

_LONGEST_EDIT = 20_000
"""Lines of a file whose occurrences are counted by reading it."""


def replace_text(wanted: ReplaceText, tools: Toolbox) -> Steps:
    """read_file to count the occurrences, then replace with that count."""
    path = report.code(wanted.path)
    doing = f"replace {report.code(wanted.old)} in {path}"
    if "replace" not in tools:
        return report.trouble(Outcome(Call("replace", {}), missing=True), doing)
    text = yield from _whole_text(wanted.path, tools)
    if isinstance(text, Outcome):
        return report.trouble(text, doing)
    occurrences = text.count(wanted.old)
    if occurrences == 0:
        return f"{report.code(wanted.old)} does not occur in {path}{_near(text, wanted.old)}."
    if wanted.old == wanted.new:
        return f"{path} stays as it is: old and new text are the same."
    (replaced,) = yield from ask(
        tools,
        Call(
            "replace",
            {
                "file_path": wanted.path,
                "old_string": wanted.old,
                "new_string": wanted.new,
                "expected_replacements": occurrences,
            },
        ),
    )
    if not replaced.ok:
        return report.trouble(replaced, doing)
    by = f"by {report.code(wanted.new)}" if wanted.new else "by nothing"
    times = "once" if occurrences == 1 else f"{occurrences} times"
    return f"Replaced {report.code(wanted.old)} {by} {times} in {path}.{_said(replaced)}"


def _whole_text(
    path: str, tools: Toolbox
) -> Generator[tuple[Call, ...], tuple[Outcome, ...], str | Outcome]:
    """The text of a file, read on where the first reading was cut; or what went wrong."""
    (read,) = yield from ask(tools, Call("read_file", {"absolute_path": path}))
    if not read.ok:
        return read
    if is_binary_notice(read.output):
        return Outcome(read.call, error=read.output)
    found = file_text(read.output)
    text = found.text
    if found.total > _LONGEST_EDIT:
        return Outcome(read.call, error=f"the file has {found.total} lines, too many to count in")
    if found.last < found.total:
        rest = {"absolute_path": path, "offset": found.last, "limit": found.total - found.last}
        (read,) = yield from ask(tools, Call("read_file", rest))
        if not read.ok:
            return read
        text = text.removesuffix("\n") + "\n" + file_text(read.output).text
    return text


def _near(text: str, old: str) -> str:
    """Where the text stands in another case, if it does."""
    found = re.search(re.escape(old), text, re.IGNORECASE)
    if found is None:
        return ", so nothing was changed"
    line = text.count("\n", 0, found.start()) + 1
    return f", so nothing was changed; in another case it stands in line {line}"


def write_file(wanted: WriteFile, tools: Toolbox) -> Steps:
    """write_file."""
    call = Call("write_file", {"file_path": wanted.path, "content": wanted.text})
    (written,) = yield from ask(tools, call)
    path = report.code(wanted.path)
    if not written.ok:
        return report.trouble(written, f"write {path}")
    size = report.count(len(wanted.text), "character")
    return f"Wrote {size} to {path}.{_said(written)}"


def run_command(wanted: RunCommand, tools: Toolbox) -> Steps:
    """run_shell_command."""
    args = {"command": wanted.command, "description": "Run the command that was asked for"}
    if wanted.directory:
        args["directory"] = wanted.directory
    (ran,) = yield from ask(tools, Call("run_shell_command", args))
    if not ran.ok:
        return report.trouble(ran, f"run {report.code(wanted.command)}")
    return report.command(wanted.command, command_result(ran.output))


def remember(wanted: Remember, tools: Toolbox) -> Steps:
    """save_memory."""
    (saved,) = yield from ask(tools, Call("save_memory", {"fact": wanted.fact}))
    if not saved.ok:
        return report.trouble(saved, f"remember {report.code(wanted.fact)}")
    return f"Remembered: {wanted.fact.rstrip('.')}.{_said(saved)}"


def call_tool(wanted: CallTool, tools: Toolbox) -> Steps:
    """Any declared tool."""
    if wanted.name not in tools:
        known = ", ".join(map(report.code, tools.names)) or "none"
        return f"There is no tool {report.code(wanted.name)} here; declared are: {known}."
    parameters = tools.parameters(wanted.name)
    if wanted.args is None and len(parameters) != 1:
        form = ", ".join(f"{name}=…" for name in parameters) or "no parameters"
        return f"{report.code(wanted.name)} takes {form}: say it like that, or as a JSON object."
    args = wanted.args if wanted.args is not None else {parameters[0]: _typed(wanted, tools)}
    (called,) = yield from ask(tools, Call(wanted.name, args))
    if not called.ok:
        return report.trouble(called, f"use {report.code(wanted.name)}")
    return f"{report.code(wanted.name)} answered:\n{report.block(called.output)}"


def _typed(wanted: CallTool, tools: Toolbox) -> str | int | float:
    """The bare text as the type of the tool's only parameter."""
    kind = tools.parameter_type(wanted.name, tools.parameters(wanted.name)[0])
    try:
        if kind == "integer":
            return int(wanted.text)
        return float(wanted.text) if kind == "number" else wanted.text
    except ValueError:
        return wanted.text


def _said(outcome: Outcome) -> str:
    """The first line of what a tool answered, as a sentence behind another."""
    first = report.first_line(outcome.output)
    return f" The tool says: {first}" if first else ""
