"""Writes docs/reference/ from the code: `python -m scripts.reference`, or `make reference`.

Effects of settings, variables and policy fields are read from their pages, which tests compare with
the code; everything else comes from the source itself. `tests/test_reference.py` fails when a page
is out of date.
"""

import ast
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from scripts.public_api import (
    SOURCE,
    describe_name,
    docstring_of,
    find_definition,
    parsed,
    public_names,
)

from alhena.frontends.shared.arguments import Parser

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
FOLDER = DOCS / "reference"
BLOCK = re.compile(r"(?:^ {4}.*\n(?:\n(?= {4}))?)+|^```python\n(?s:.*?)^```$", re.MULTILINE)
NOTE = "<!-- Written by `make reference`. Change the code, or the page it is read from. -->\n\n"
MODULES = {
    "api": ("alhena", "What programs import."),
    "api-models": ("alhena.models", "Model objects, and the types that models of your own need."),
    "api-events": (
        "alhena.events",
        "The events of a run. `msgspec.json.encode(event)` is one as JSON.",
    ),
    "api-shell": ("alhena.shell", "What a shell line would do, without running it."),
    "api-testing": ("alhena.testing", "Tests of programs without a model."),
    "api-evals": ("alhena.evals", "Evaluations of many tasks."),
    "api-native": ("alhena.native", "Model services' own forms of tool calls."),
    "api-hooks": ("alhena.hooks", "Hooks of a program."),
    "api-otel": ("alhena.otel", "OpenTelemetry for programs."),
    "api-errors": ("alhena.errors", "The root of every error."),
}


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table; `|` in cells is escaped."""
    titles = list(head)
    lines = [titles, ["---"] * len(titles)]
    lines += [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def code(value: object) -> str:
    """A text as code; "" for an empty one."""
    return f"`{value}`" if value != "" else ""


def section(page: str, title: str) -> str:
    """The text of a section of a page of docs/, its links as they are from docs/reference/."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    part = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    part = re.sub(r"\]\((\w[\w-]*\.md)", r"](../\1", part)
    return re.sub(r"\]\(#", f"](../{page}.md#", part)


def items(text: str) -> Iterator[tuple[str, str]]:
    """(name, effect) of each name before the colon of a list's items; an effect that several share
    begins with their names, without their sections."""
    for names, effect in grouped_items(text):
        short = ", ".join(code(name.rpartition(".")[2]) for name in names)
        for name in names:
            yield name, f"{short}: {effect}" if effect and len(names) > 1 else effect


def grouped_items(text: str) -> Iterator[tuple[list[str], str]]:
    """(names, effect) of each item of a list."""
    for names, effect in re.findall(
        r"^- ((?:[^:`\n]|`[^`\n]*`)+?)(?::[ \n]((?:.|\n(?=  ))+))?$", text, re.MULTILINE
    ):
        found = re.findall(r"`([^`]+)`", names.partition(" (")[0])
        if found:
            yield found, " ".join(effect.split())


# -- API ---------------------------------------------------------------------------------------


@cache
def example_pages() -> dict[str, str]:
    """The hand-written pages of subjects, each with its blocks of Python."""
    found: dict[str, str] = {}
    for path in sorted(DOCS.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        blocks = BLOCK.findall(text)
        found[path.name] = "\n".join(block for block in blocks if "alhena" in block)
    return found


def api(module: str, lead: str) -> str:
    """The page of a module."""
    parts = [f"# {module}\n\n{lead}\n"]
    if module == "alhena.errors":
        parts.append(f"```text\n{ast.get_docstring(parsed(module))}\n```\n")
    for name in public_names(module):
        parts.append(describe_name(module, name))
        pattern = re.compile(rf"\b{name}\b")
        shown = [page for page, blocks in example_pages().items() if pattern.search(blocks)][:3]
        if shown:
            links = ", ".join(f"[{page.removesuffix('.md')}](../{page})" for page in shown)
            parts.append(f"Examples: {links}\n")
    return "\n".join(parts)


# -- The command -------------------------------------------------------------------------------


def commands() -> str:
    """The command line: flags of a run, and the help of every command."""
    from alhena.frontends.cli.completion import help_of
    from alhena.frontends.cli.tools import make_parsers
    from alhena.frontends.main import COMMANDS
    from alhena.frontends.shared.arguments import run_parser

    parts = [
        "# Command line\n",
        "    alhena [options] [PROMPT …]\n    alhena COMMAND [arguments]\n",
    ]
    parts.append(f"## Flags of a run\n\n{flags_of(run_parser())}")
    for name in COMMANDS:
        parts.append(f"## alhena {name}\n")
        if name != "tools":  # that of argparse, which differs from Python to Python
            parts.append(f"```text\n{help_of(name).strip()}\n```\n")
            continue
        for word, parser in make_parsers()[1].items():
            parts.append(f"### alhena {name} {word}\n\n{flags_of(parser)}")
    return "\n".join(parts)


def flags_of(parser: Parser) -> str:
    """The flags of a command in a table."""
    rows: list[tuple[str, str, str]] = []
    for action in parser.actions:
        names = ", ".join(map(code, action.option_strings)) or code(action.metavar)
        takes = action.nargs != 0
        value = "|".join(action.choices) if action.choices else str(action.metavar or "")
        rows.append((names, value if takes else "", action.help or ""))
    return table(("flag", "value", "effect"), rows)


def exit_codes() -> str:
    """Exit codes, and the errors that have them."""
    kinds = error_classes()
    codes: dict[int, list[str]] = {}
    for exit_code, kind, _, _ in kinds:
        if kind not in codes.setdefault(exit_code, []):
            codes[exit_code].append(kind)
    rows = [(code(each), ", ".join(map(code, names))) for each, names in sorted(codes.items())]
    errors = [
        (code(kind), code(exit_code), code(name), text)
        for exit_code, kind, name, text in sorted(kinds, key=lambda each: (each[1], each[2]))
    ]
    return (
        "# Exit codes\n\n"
        "A command that did its work ends with 0. An error ends it with the code of its class; "
        "`-o json` names the kind in `error.type`. Signals end it with 128 plus their number (130: "
        "interrupted).\n\n"
        + table(("exit code", "kinds of errors"), rows)
        + "\n## Kinds of errors\n\n"
        + table(("kind", "exit code", "class", "cause"), errors)
    )


def error_classes() -> list[tuple[int, str, str, str]]:
    """(exit code, kind, class, first sentence) of every class below AlhenaError."""
    classes: dict[str, ast.ClassDef] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "Error(" in text:
            nodes = ast.parse(text).body
            classes |= {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}

    def inherited(name: str) -> dict[str, Any] | None:
        if name not in classes:
            return None
        node = classes[name]
        below = None
        for base in node.bases:
            below = below or inherited(ast.unparse(base).rpartition(".")[2])
        if below is None and name != "AlhenaError":
            return None
        found = dict(below or {})
        for each in node.body:
            if isinstance(each, ast.Assign | ast.AnnAssign) and isinstance(
                each.value, ast.Constant
            ):
                target = each.targets[0] if isinstance(each, ast.Assign) else each.target
                found[ast.unparse(target)] = each.value.value
        return found

    found: list[tuple[int, str, str, str]] = []
    for name, node in classes.items():
        values = inherited(name)
        if values is not None:
            text = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
            found.append((values["exit_code"], values["kind"], name, text))
    return found


# -- Settings and environment ------------------------------------------------------------------


def leaves(kind: type[msgspec.Struct], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(dotted key, type, default) of every setting."""
    for field in msgspec.structs.fields(kind):
        name = prefix + field.encode_name
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from leaves(field.type, f"{name}.")
            continue
        default = field.default
        if default is msgspec.NODEFAULT:
            default = (
                None if field.default_factory is msgspec.NODEFAULT else field.default_factory()
            )
        yield name, field.type, default


def json_type(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    """A JSON schema in a few words."""
    if "$ref" in schema:
        return json_type(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "enum" in schema:
        return ", ".join(code(json.dumps(each)) for each in schema["enum"])
    if "anyOf" in schema:
        kinds = [json_type(each, definitions) for each in schema["anyOf"]]
        return " or ".join(dict.fromkeys(each for each in kinds if each != "null"))
    kind = schema.get("type", "")
    if kind == "array":
        inner = json_type(schema.get("items") or {}, definitions)
        return f"list of {inner}" if inner not in ("", "any value") else "list"
    names = {"string": "text", "": "any value"}
    return names.get(kind, kind)


def type_words(kind: Any) -> str:
    """A type of the source as JSON has it."""
    (schema,), definitions = msgspec.json.schema_components([kind])
    return json_type(schema, definitions)


def settings() -> str:
    """All keys of settings.json."""
    from alhena.config.reference_keys import MOVED, TRANSLATED, WITHOUT_EFFECT, is_reference_key
    from alhena.config.settings import Settings

    telemetry_page = (DOCS / "telemetry.md").read_text(encoding="utf-8").partition("\n## ")[0]
    effects = dict(items(telemetry_page)) | {
        key: effect for key, effect in items(section("settings", "settings.json")) if effect
    }
    old: dict[str, list[str]] = {}
    for name, key in MOVED.items():
        old.setdefault(key, []).append(name)
    rows: list[tuple[str, str, str, str, str]] = []
    for key, kind, default in leaves(Settings):
        shown = "" if default is None else json.dumps(msgspec.to_builtins(default))
        theirs = ["the same"] if is_reference_key(key) else []
        theirs += [code(name) for name in old.get(key, ())]
        effect = effects.get(key) or "read; without effect"
        rows.append((code(key), type_words(kind), code(shown), effect, ", ".join(theirs)))
    others = [(code(key), "translated") for key in TRANSLATED]
    others += [(code(key), "without effect") for key in sorted(WITHOUT_EFFECT)]
    return (
        "# Settings\n\n"
        "The keys of `settings.json`: files, layers and how values are read are in "
        "[settings](../settings.md). The last column has the name of the key in Gemini CLI, and "
        "older names that are read, too; without an entry it is alhena's own.\n\n"
        + table(("key", "type", "default", "effect", "in Gemini CLI"), rows)
        + "\n## Other keys of Gemini CLI\n\n"
        + table(("key", "here"), others)
    )


def environment() -> str:
    """All environment variables."""
    rows = [
        (", ".join(map(code, names)), effect)
        for names, effect in grouped_items(section("settings", "Environment"))
    ]
    hooks = "set for [hooks](../hooks.md)"
    from alhena.hooks.running import HookSurroundings

    around = HookSurroundings(session_id="", cwd="", environ={}, project_dir="")
    ours = [(code(name), hooks) for name in around.variables]
    return (
        "# Environment variables\n\n"
        "They win over `settings.json`; flags win over them.\n\n"
        + table(("variables", "effect, in their order"), rows)
        + "\n## Set by alhena\n\n"
        + table(("variable", ""), ours)
    )


# -- Hooks and policy --------------------------------------------------------------------------


def hooks() -> str:
    """Events of hooks with their inputs, and the fields of outputs."""
    from alhena.hooks import inputs, output
    from alhena.hooks.model import HookEvent
    from alhena.hooks.running import HookSurroundings

    around = HookSurroundings(
        session_id="ID", cwd="/work", environ={}, project_dir="/work", now=lambda: "TIME"
    )
    call = inputs.before_tool("write_file", {"file_path": "a.txt", "content": "…"})
    request = {"model": "gemini-…", "messages": [{"role": "user", "content": "…"}]}
    answer = {"candidates": [{"content": {"role": "model", "parts": ["…"]}}]}
    own: dict[HookEvent, dict[str, Any]] = {
        HookEvent.BEFORE_TOOL: call,
        HookEvent.AFTER_TOOL: inputs.after_tool(call, "…", "…"),
        HookEvent.BEFORE_AGENT: inputs.before_agent("…"),
        HookEvent.AFTER_AGENT: inputs.after_agent("…", "…", stop_hook_active=False),
        HookEvent.NOTIFICATION: inputs.notification("…", {}),
        HookEvent.SESSION_START: inputs.session_start("startup"),
        HookEvent.SESSION_END: inputs.session_end("exit"),
        HookEvent.PRE_COMPRESS: inputs.pre_compress("auto"),
        HookEvent.BEFORE_MODEL: inputs.before_model(request),
        HookEvent.AFTER_MODEL: inputs.after_model(request, answer),
        HookEvent.BEFORE_TOOL_SELECTION: inputs.before_model(request),
    }
    parts = ["# Hooks\n\nHow hooks are set up is in [hooks](../hooks.md).\n", "## Input\n"]
    parts.append(_json_block({**around.base_input("EVENT")}))
    parts.append("These fields come with every event; below are those of each.\n")
    for event in HookEvent:
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", event.value).lower()
        name = "before_model" if event is HookEvent.BEFORE_TOOL_SELECTION else name
        found = find_definition("alhena.hooks.inputs", name)
        text = docstring_of(*found) if found else ""
        parts.append(f"### {event}\n\n{text}\n\n{_json_block(own[event])}")
    kinds = {
        "Output": output._Output,
        "hookSpecificOutput": output._Specific,
        "hookSpecificOutput.toolConfig": output._ToolConfig,
        "hookSpecificOutput.tailToolCallRequest": output._TailCall,
        "llm_request": inputs.LlmRequest,
        "llm_response": inputs.LlmResponse,
    }
    parts += [f"## {title}\n\n{fields_of(kind)}" for title, kind in kinds.items()]
    parts.append(
        "The last two are also in inputs. [Output](../hooks.md) says what each event heeds.\n"
    )
    return "\n".join(parts)


def _json_block(value: Any) -> str:
    return f"```json\n{json.dumps(value, indent=2, ensure_ascii=False)}\n```\n"


def fields_of(kind: type[msgspec.Struct]) -> str:
    """A table of the fields of a value as JSON."""
    rows = [
        (code(field.encode_name), type_words(field.type), "" if not field.required else "required")
        for field in msgspec.structs.fields(kind)
    ]
    return table(("field", "type", ""), rows)


def policy() -> str:
    """Fields of rules and checkers, and the programs with tables."""
    from alhena.policy import parse
    from alhena.policy.checker import CheckerType, ContextPart
    from alhena.shell.tables import Effect

    text = (DOCS / "policy.md").read_text(encoding="utf-8").partition("\n## ")[0]
    effects = dict(
        items(re.sub(r"\]\(#", "](../policy.md#", text).replace("](agents", "](../agents"))
    )
    snake = {name for name in parse._FIELDS if "_" in name}
    known = [*parse._CONDITIONS, "decision", "priority", "allowRedirection", "denyMessage"]
    other = sorted({*parse._FIELDS, *parse._NOTES} - {*known} - snake)
    rows = [(code(name), effects.get(name, "a note for people")) for name in [*known, *other]]
    programs = {
        path.stem: [name for name in tomllib.loads(path.read_text("utf-8")) if name[0] != "@"]
        for path in sorted((SOURCE / "shell" / "programs").glob("*.toml"))
        if path.stem != "names"
    }
    lists = [(code(f"{name}.toml"), ", ".join(map(code, each))) for name, each in programs.items()]
    return (
        "# Policy\n\nHow rules decide is in [policies](../policy.md).\n\n## Fields of a rule\n\n"
        + table(("field of `[[rule]]`", "meaning"), rows)
        + f"\nAlso read: {', '.join(map(code, sorted(snake)))}. A `[[safety_checker]]` has the "
        "conditions of a rule, `priority` and `[safety_checker.checker]`: `type` "
        f"({', '.join(map(code, CheckerType))}), `name`, `required_context` "
        f"({', '.join(map(code, ContextPart))}) and `config`.\n"
        "\n## Program tables\n\nThe options of these programs are known, each with its effect: "
        + "; ".join(each.value for each in Effect if each)
        + ".\n\n"
        + table(("table", "programs"), lists)
    )


# -- Telemetry, gateway, files -----------------------------------------------------------------


def telemetry() -> str:
    """Names of log records and metrics."""
    from alhena.telemetry import metrics
    from alhena.telemetry.metrics import Instrument
    from alhena.telemetry.records import DETAILS, PREFIX

    path = ROOT / "tests" / "telemetry" / "attributes.json"
    records = json.loads(path.read_text(encoding="utf-8"))
    rows: list[tuple[str, str, str]] = []
    for name, parts in records.items():
        shown = (
            "every record" if name == "every" else code(name if name == DETAILS else PREFIX + name)
        )
        cells = (", ".join(map(code, parts[each])) for each in ("required", "optional"))
        rows.append((shown, *cells))
    instruments = [each for each in vars(metrics).values() if isinstance(each, Instrument)]
    lines = [
        (code(each.name), each.kind.lower(), each.unit, each.description) for each in instruments
    ]
    return (
        "# Telemetry\n\nHow it is set up, and spans, are in [telemetry](../telemetry.md).\n\n"
        "## Log records\n\n"
        + table(("event", "attributes", "where known"), rows)
        + "\n## Metrics\n\n"
        + table(("metric", "kind", "unit", "meaning"), lines)
    )


def gateway() -> str:
    """The endpoints of `alhena serve`."""
    from types import SimpleNamespace

    from starlette.requests import Request

    from alhena.gateway import app
    from alhena.gateway.body import GatewayLimits
    from alhena.gateway.exchange import AnswerTerms

    terms: Any = SimpleNamespace(limits=GatewayLimits()) if AnswerTerms else None
    served: Any = app.gateway_app(None, app.Guard(), terms, print)  # type: ignore[arg-type]
    rows: list[tuple[str, str, str]] = []
    for route in served._app.routes:
        for method in sorted({*route.methods} - {"HEAD"}):
            scope = {"type": "http", "method": method, "path": route.path, "query_string": b""}
            request = Request(
                {**scope, "headers": [], "server": ("localhost", 80), "scheme": "http"}
            )
            dialect = app.dialect_for(request, app.ResponseStore()).name
            own = route.path in ("/", "/healthz")
            path = route.path.replace(":path", "")
            rows.append((method, code(path), "" if own else dialect))
    limits = [
        (code(name), str(getattr(terms.limits, name)))
        for name in type(terms.limits).__struct_fields__
    ]
    return (
        "# Gateway\n\nHow to serve and what is translated is in [gateway](../gateway.md).\n\n"
        "## Endpoints\n\n"
        + table(("method", "path", "dialect"), rows)
        + "\n`/v1/models` answers in the dialect of the headers (`anthropic-version`, "
        "`x-goog-api-key`). A POST to a model of Gemini's names the method after a colon: "
        "`NAME:generateContent`, `NAME:streamGenerateContent`, `NAME:countTokens`, "
        "`NAME:embedContent`, "
        "`NAME:batchEmbedContents`.\n\n## Limits\n\n" + table(("limit", "default"), limits)
    )


JOURNAL = (
    *("Record", "Header", "Contents", "Happened", "Started", "Answered", "Prompted", "Undone"),
    *("Continued", "Tagged"),
)


def files() -> str:
    """The journal of a session and the directory of a batch run."""
    from alhena.batch import queue
    from alhena.batch.results import TaskResult
    from alhena.batch.tasks import QueuedTask
    from alhena.session import records

    def about(module: str) -> str:
        return re.sub(
            r"^ {4}(\S.*)$", r"    \1", ast.get_docstring(parsed(module)) or "", flags=re.MULTILINE
        )

    lines = [
        f"# File formats\n\n## Journal of a session\n\n{about('alhena.session.records')}\n",
        f"Version {records.VERSION}.\n",
    ]
    for name in JOURNAL[1:]:
        kind = getattr(records, name)
        tag = kind.__struct_config__.tag
        found = find_definition("alhena.session.records", name)
        text = docstring_of(*found) if found else ""
        lines.append(f'### `"type": "{tag}"`\n\n{text}\n\n{fields_of(kind)}')
    lines += [
        "## Directory of a batch run\n",
        "`lock`; `workers/`; the queue; `tasks/KEY/sessions/` (KEY begins the SHA-256 of an id).\n",
        f"### `{queue.FILE}`\n\n{about('alhena.batch.queue')}\n\nVersion {queue.VERSION}.\n",
        f"```sql\n{queue._SCHEMA.strip()}\n```\n",
        f"### On a cluster\n\n{about('alhena.batch.stored_queue')}\n",
        f"### A task\n\nA line of the task file, and `spec`.\n\n{fields_of(QueuedTask)}",
        f"### A result\n\nA line of the results file, and `result`.\n\n{fields_of(TaskResult)}",
    ]
    return "\n".join(lines)


PAGES: dict[str, tuple[str, Callable[[], str]]] = {
    **{
        name: (module, lambda m=module, t=lead: api(m, t))
        for name, (module, lead) in MODULES.items()
    },
    "commands": ("Command line", commands),
    "settings": ("Settings", settings),
    "environment": ("Environment variables", environment),
    "exit-codes": ("Exit codes", exit_codes),
    "hooks": ("Hooks", hooks),
    "policy": ("Policy", policy),
    "telemetry": ("Telemetry", telemetry),
    "gateway": ("Gateway", gateway),
    "files": ("File formats", files),
}
"""The title of each page with the function that writes it."""


def index() -> str:
    """The page that lists the others."""
    links = [f"- [{title}]({name}.md)" for name, (title, _) in PAGES.items()]
    return "# Reference\n\nMade from the code.\n\n" + "\n".join(links) + "\n"


def render(name: str) -> str:
    """The text of a page."""
    text = index() if name == "index" else PAGES[name][1]()
    text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
    return NOTE + re.sub(r"\n{3,}", "\n\n", text).rstrip("\n") + "\n"


def main() -> None:
    """Writes the pages that changed, and removes those that are no more."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    names = ["index", *PAGES]
    for path in FOLDER.glob("*.md"):
        if path.stem not in names:
            path.unlink()
    for name in names:
        path, text = FOLDER / f"{name}.md", render(name)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
