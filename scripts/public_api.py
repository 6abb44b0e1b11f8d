"""Describes public names as Markdown, from their source: signatures, fields, docstrings. Nothing is
imported, so that the pages are the same on every Python."""

import ast
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "alhena"
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign | ast.AnnAssign
Function = ast.FunctionDef | ast.AsyncFunctionDef
WIDTH = 88
MACHINERY = {"NamedModel", "RetryingGenerator", "ToolConfirmationRequest"}
"""Bases whose methods are for the agent, not for programs."""


def path_of(module: str) -> Path:
    """The file of a module of alhena."""
    path = SOURCE.parent.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def parsed(module: str) -> ast.Module:
    """A module's syntax tree."""
    return ast.parse(path_of(module).read_text(encoding="utf-8"))


def public_names(module: str) -> list[str]:
    """The names in `__all__`, else the classes and functions without an underscore."""
    body = parsed(module).body
    for node in body:
        if isinstance(node, ast.Assign) and _target(node) == "__all__":
            return ast.literal_eval(node.value)
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [node.name for node in body if isinstance(node, kinds) and node.name[0] != "_"]


def _target(node: ast.stmt) -> str:
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    return target.id if isinstance(target, ast.Name) else ""


def find_definition(module: str, name: str) -> tuple[str, Definition] | None:
    """The module that defines a name, and the definition; None for what is not alhena's."""
    for node in parsed(module).body:
        if getattr(node, "name", "") == name or _target(node) == name:
            return module, node  # type: ignore[return-value]
    for node in ast.walk(parsed(module)):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("alhena"):
            continue
        for alias in node.names:
            if (alias.asname or alias.name) == name and not _is_module(f"{node.module}.{name}"):
                return find_definition(str(node.module), alias.name)
    return None


def _is_module(module: str) -> bool:
    return path_of(module).is_file()


def docstring_of(module: str, node: Definition) -> str:
    """A definition's docstring; of an assignment, the text behind it."""
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return ast.get_docstring(node) or ""
    body = parsed(module).body
    at = body.index(node) + 1 if node in body else len(body)
    return _text_at(body, at)


def _text_at(body: list[ast.stmt], at: int) -> str:
    following = body[at] if at < len(body) else None
    if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
        return textwrap.dedent(f"    {following.value.value}").strip()
    return ""


def signature_of(node: Function, *, name: str = "", bound: bool = False) -> str:
    """A function's signature; parameters are lines of their own where one line is too short."""
    given = node.args
    arguments = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(arguments) - len(given.defaults)) + list(given.defaults)
    pairs = list(zip(arguments, defaults, strict=True))
    shown = [_parameter(*pair) for pair in pairs]
    if given.posonlyargs:
        shown.insert(len(given.posonlyargs), "/")
    shown = shown[1:] if bound else shown
    if given.vararg:
        shown.append("*" + _parameter(given.vararg, None))
    elif given.kwonlyargs:
        shown.append("*")
    keywords = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    shown += [_parameter(*pair) for pair in keywords]
    if given.kwarg:
        shown.append("**" + _parameter(given.kwarg, None))
    returned = f" -> {_unparsed(node.returns)}" if node.returns and not name else ""
    start = name or f"{'async ' if isinstance(node, ast.AsyncFunctionDef) else ''}{node.name}"
    line = f"{start}({', '.join(shown)}){returned}"
    if len(line) <= WIDTH:
        return line
    return f"{start}(\n" + "".join(f"    {each},\n" for each in shown) + f"){returned}"


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    kind = f": {_unparsed(argument.annotation)}" if argument.annotation else ""
    equals = " = " if kind else "="
    return argument.arg + kind + (f"{equals}{_unparsed(default)}" if default else "")


def _unparsed(node: ast.expr) -> str:
    """Source text of an annotation or a default, without the quotes of forward references."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            inner = ast.parse(node.value, mode="eval").body
        except SyntaxError:
            return ast.unparse(node)
        return ast.unparse(inner) if isinstance(inner, ast.BinOp | ast.Subscript) else node.value
    return ast.unparse(node)


def describe_name(module: str, name: str, level: str = "##") -> str:
    """A section on one name of a module."""
    found = find_definition(module, name)
    heading = f"{level} {name}\n"
    if found is None:
        return f"{heading}\nThe module [`{module}.{name}`](api-{name}.md).\n"
    home, node = found
    text = docstring_of(home, node)
    match node:
        case ast.ClassDef():
            return f"{heading}\n{describe_class(home, node, name)}"
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            marks = [ast.unparse(each) for each in node.decorator_list]
            lines = [f"@{mark}" for mark in marks if mark.endswith("contextmanager")]
            code = _fenced("\n".join([*lines, signature_of(_widest(home, node))]))
        case _:
            code = _fenced(f"{name} = {ast.unparse(node.value)}") if node.value else ""
    return f"{heading}\n{code}\n{text}\n"


def _widest(module: str, node: Function) -> Function:
    """The definition that the overloads of a function stand for: the last one."""
    same = [each for each in parsed(module).body if getattr(each, "name", "") == node.name]
    return same[-1]  # type: ignore[return-value]


def _fenced(code: str) -> str:
    return f"```python\n{code}\n```\n"


def _lineage(module: str, node: ast.ClassDef) -> Iterator[tuple[str, ast.ClassDef]]:
    """A class and its bases that are alhena's, nearest first."""
    yield module, node
    for base in node.bases:
        name = ast.unparse(base).partition("[")[0]
        found = find_definition(module, name) if name.isidentifier() else None
        if found and isinstance(found[1], ast.ClassDef):
            yield from _lineage(found[0], found[1])


def describe_class(module: str, node: ast.ClassDef, name: str) -> str:
    """The signature or the fields of a class, its docstring and its public methods."""
    lineage = list(_lineage(module, node))
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    start = next((each for _, each in _members(lineage) if each.name == "__init__"), None)
    if start is None:
        code = f"class {name}({bases})" if bases else f"class {name}"
    else:
        code = "class " + signature_of(start, name=name, bound=True)
    parts = [_fenced(code), ast.get_docstring(node) or ""]
    if start is not None:
        parts.append(ast.get_docstring(start) or "")
    if tag := _keyword([(module, node)], "tag"):
        parts.append(f'Encodes to JSON with `"{_keyword(lineage, "tag_field")}": "{tag}"`.')
    if start is None and (rows := list(_fields(lineage))):
        parts.append("| field | type | default |\n|---|---|---|\n" + "\n".join(rows))
    bases_shown = [each for each in lineage[1:] if each[1].name not in MACHINERY]
    for _, method in _members([*lineage[:1], *bases_shown]):
        if method.name[0] != "_":
            parts.append(_describe_method(name, method))
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _keyword(lineage: list[tuple[str, ast.ClassDef]], name: str) -> str:
    """A text among the keywords of a class, or of its nearest base that has it."""
    found = [each.value for _, node in lineage for each in node.keywords if each.arg == name]
    return str(ast.literal_eval(found[0])) if found else ""


def _members(lineage: list[tuple[str, ast.ClassDef]]) -> Iterator[tuple[str, Function]]:
    """The methods of a class, its own first; of overloads the last."""
    found: dict[str, tuple[str, Function]] = {}
    for _, each in lineage:
        own = {
            node.name: (each.name, node)
            for node in each.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        found = {**own, **found}
    yield from found.values()


def _describe_method(owner: str, node: Function) -> str:
    marks = {ast.unparse(each) for each in node.decorator_list}
    text = ast.get_docstring(node) or ""
    if marks & {"property", "cached_property"}:
        kind = f": {_unparsed(node.returns)}" if node.returns else ""
        return f"{_fenced(f'{owner}.{node.name}{kind}')}\n{text}"
    bound = "staticmethod" not in marks
    signature = signature_of(node, bound=bound)
    start, _, rest = signature.partition(node.name)
    return f"{_fenced(f'{start}{owner}.{node.name}{rest}')}\n{text}"


def _fields(lineage: list[tuple[str, ast.ClassDef]]) -> Iterator[str]:
    """A row for each public field or member, those of bases first."""
    rows: dict[str, str] = {}
    for _, each in reversed(lineage):
        for node in each.body:
            name = _target(node)
            if not name or name[0] == "_":
                continue
            kind = f"`{_unparsed(node.annotation)}`" if isinstance(node, ast.AnnAssign) else ""
            default = f"`{ast.unparse(node.value)}`" if getattr(node, "value", None) else ""
            cells = (kind.replace("|", "\\|"), default.replace("|", "\\|"))
            rows[name] = f"| `{name}` | {cells[0]} | {cells[1]} |"
    yield from rows.values()
