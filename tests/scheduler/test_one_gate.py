import ast

from tests.support.sources import parsed_modules


def test_only_the_executor_executes_an_invocation():
    sites = []
    for path, tree in parsed_modules(r"\.execute\b"):
        if path.parts[0] == "batch" or path.name == "stores.py":  # statements of SQLite
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr == "execute":
                sites.append(str(path))
    assert sites == ["scheduler/executor.py", "tools/function.py"]  # the latter: call_tool


def test_only_the_boundary_stops_any_exception_in_tools_and_scheduler():
    broad = {"Exception", "BaseException"}
    found = []
    for room in ("tools", "scheduler"):
        for path, tree in parsed_modules("except|__exit__", room):
            for node in ast.walk(tree):
                if not isinstance(node, ast.ExceptHandler | ast.FunctionDef):
                    continue
                names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                if isinstance(node, ast.ExceptHandler) and (
                    node.type is None
                    or any(n.id in broad for n in ast.walk(node.type) if isinstance(n, ast.Name))
                ):
                    found.append(f"{path.name}:{node.lineno}")
                if isinstance(node, ast.FunctionDef) and node.name == "__exit__" and names & broad:
                    found.append(path.name)
    assert found == ["threads.py"]
