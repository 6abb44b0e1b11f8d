"""Whatever stands in files of settings: they are read, or refused with the file's name."""

import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena.config.documents import value_at, with_value
from alhena.config.effective_settings import Place, open_place
from alhena.config.layers import LayerFile, LayerKind, merge_layers
from alhena.config.reference_keys import MOVED, known_keys
from alhena.config.settings import Settings
from alhena.errors import ConfigError
from tests.config.places import user, workspace, write

KEYS = sorted(
    {name for key in (*known_keys(), *MOVED, *MOVED.values()) for name in key.split(".")}
    | {"trust", "command", "env", "", "a.b", "$schema", "\u202e"}
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["default", "plan", "auto_edit", "ask", "$HOME", "${X:-y}", "*", "read_file", ""])
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip
DOCUMENTS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=5)
TEXTS = (
    st.binary(max_size=40)
    | st.text(alphabet='{}[]",:/*\\n 1atrue$"', max_size=40).map(str.encode)
    | DOCUMENTS.map(lambda value: json.dumps(value).encode())
)


def fitting(default: Any) -> st.SearchStrategy[Any]:
    """Values that a key with this default may take."""
    words = st.sampled_from(["a", "b", "A.md", "run_shell_command", "run_shell_command(ls)", "x:y"])
    match default:
        case bool():
            return st.booleans()
        case int() | float():
            return st.integers(-2, 12)
        case str():
            modes = [
                "default",
                "plan",
                "auto_edit",
                "ask",
                "always",
                "never",
                "text",
                "json",
                "tree",
            ]
            return st.sampled_from(modes) | words
        case tuple():
            return st.lists(words, max_size=3)
        case dict():
            server = st.fixed_dictionaries({"command": words}, optional={"trust": st.booleans()})
            return st.dictionaries(words, server, max_size=2)
        case _:
            return (
                st.none() | st.lists(words, max_size=3) | words | st.booleans() | st.integers(0, 9)
            )


def nested_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for key, value in pairs:
        document = with_value(document, tuple(key.split(".")), value)
    return document


PLAIN = msgspec.to_builtins(Settings())
LIKELY = st.lists(
    st.sampled_from(sorted(known_keys())).flatmap(
        lambda key: st.tuples(
            st.just(key) | st.sampled_from([old for old, new in MOVED.items() if new == key] or [key]),
            fitting(value_at(PLAIN, key)),
        )
    ),
    max_size=6,
).map(nested_object)  # fmt: skip


def open_with(mine: bytes, theirs: bytes, env: bytes = b"") -> Place | ConfigError:
    with tempfile.TemporaryDirectory() as folder:
        home, project = Path(folder, "home"), Path(folder, "project")
        user(home, "").write_bytes(mine)
        workspace(project, "").write_bytes(theirs)
        write(project / ".env", "").write_bytes(env)
        environ = {"HOME": str(home), "GEMINI_CLI_SYSTEM_SETTINGS_PATH": "/nowhere/x.json"}
        try:
            return open_place(project, environ, skip_trust=True)
        except ConfigError as error:
            caught = error
    assert str(home) in str(caught) or str(project) in str(caught)
    assert caught.remedy
    return caught


@settings(deadline=None)
@given(TEXTS, TEXTS, st.binary(max_size=60))
def test_any_bytes_are_settings_or_refused_by_name(mine: bytes, theirs: bytes, env: bytes) -> None:
    found = open_with(mine, theirs, env)
    if isinstance(found, Place):
        assert all("\0" not in value for value in found.environ.values())


ORDER = {"plan": 0, "default": 1, "auto_edit": 2}


@settings(deadline=None)
@given(LIKELY, LIKELY | DOCUMENTS)
def test_no_document_of_a_workspace_permits_more_than_the_users(
    mine: dict[str, Any], theirs: dict[str, Any]
) -> None:
    own, other = (
        LayerFile(kind=kind, path=Path("/settings.json"), data=json.dumps(value).encode())
        for kind, value in ((LayerKind.USER, mine), (LayerKind.WORKSPACE, theirs))
    )
    try:
        before, after = merge_layers((own,), {}).settings, merge_layers((other, own), {}).settings
    except ConfigError:
        return
    assert_no_laxer(before, after)


def assert_no_laxer(before: Settings, after: Settings) -> None:
    tools, more = before.tools, after.tools
    assert set(tools.exclude) <= set(more.exclude)
    assert set(tools.confirmation_required) <= set(more.confirmation_required)
    assert more.allowed == tools.allowed
    assert more.sandbox_allowed_paths == tools.sandbox_allowed_paths
    assert more.sandbox == tools.sandbox or (tools.sandbox is False and more.sandbox is True)
    assert more.sandbox_network_access in (tools.sandbox_network_access, False)
    if tools.core is not None:
        assert more.core is not None
        assert all(each in tools.core or each.partition("(")[0] in tools.core for each in more.core)
    assert set(before.mcp.excluded) <= set(after.mcp.excluded)
    assert after.mcp.allowed == before.mcp.allowed or set(after.mcp.allowed or ()) <= set(
        before.mcp.allowed or ()
    )
    assert (after.mcp.allowed is None) is (before.mcp.allowed is None)
    assert after.mcp_servers.items() >= before.mcp_servers.items()
    own = set(after.mcp_servers) - set(before.mcp_servers)
    assert not any(
        after.mcp_servers[name].get("trust")
        for name in own
        if isinstance(after.mcp_servers[name], dict)
    )
    assert ORDER[after.general.default_approval_mode] <= ORDER[before.general.default_approval_mode]
    for same in ("auth", "folder_trust"):
        assert getattr(after.security, same) == getattr(before.security, same)
    for flag in ("disable_always_allow", "disable_yolo_mode"):
        assert getattr(after.security, flag) >= getattr(before.security, flag)
    # A file inside the workspace may be named; whether it is inside is checked elsewhere.
    telemetry = msgspec.structs.replace(after.telemetry, outfile=before.telemetry.outfile)
    assert telemetry == before.telemetry
    for section in (
        "hooks",
        "hooks_config",
        "billing",
        "model_configs",
    ):
        assert getattr(after, section) == getattr(before, section)
    assert set(before.context.file_names) <= set(after.context.file_names)
    assert set(after.context.include_directories) == set(before.context.include_directories)
    assert msgspec.to_builtins(after.model.prices) == msgspec.to_builtins(before.model.prices)
    for paths in ("policy_paths", "admin_policy_paths"):
        assert set(getattr(after, paths)) == set(getattr(before, paths))
