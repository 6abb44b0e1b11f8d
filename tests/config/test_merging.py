from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from alhena.config.documents import names_in
from alhena.config.layers import UNION, expand_variables, merge_values
from alhena.config.reference_keys import rename_old_keys

NAMES = st.sampled_from(
    [
        "tools",
        "exclude",
        "hooks",
        "context",
        "includeDirectories",
        "mcpServers",
        "x",
        "disabled",
        "$V",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["a", "b", "$V", "${W:-d}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=5)


@given(DOCUMENTS, DOCUMENTS)
def test_nothing_of_a_higher_layer_gets_lost(lower: dict[str, Any], higher: dict[str, Any]) -> None:
    def holds(value: Any, given: Any, key: str) -> bool:
        if isinstance(given, dict) and isinstance(value, dict) and key != "mcpServers":
            return all(
                name in value and holds(value[name], each, f"{key}.{name}".strip("."))
                for name, each in given.items()
            )
        if isinstance(given, list) and isinstance(value, list):
            return all(entry in value for entry in given)
        return value == given or (
            isinstance(value, dict) and all(value[name] == given[name] for name in given)
        )

    found = merge_values(lower, higher)
    assert holds(found, higher, "")
    assert set(found) == set(lower) | set(higher)


@given(DOCUMENTS)
def test_an_empty_layer_changes_nothing(document: dict[str, Any]) -> None:
    assert merge_values(document, {}) == document
    assert merge_values({}, document) == document


@given(st.lists(st.text(max_size=3)), st.lists(st.text(max_size=3)))
def test_a_list_of_what_is_denied_has_the_entries_of_all_layers_once(
    lower: list[str], higher: list[str]
) -> None:
    found = merge_values({"tools": {"exclude": lower}}, {"tools": {"exclude": higher}})["tools"][
        "exclude"
    ]
    assert set(found) == {*lower, *higher}
    assert len(found) == len(set(found))
    assert (
        merge_values({"tools": {"core": lower}}, {"tools": {"core": higher}})["tools"]["core"]
        == higher
    )
    chained = merge_values({"hooks": {"E": lower}}, {"hooks": {"E": higher}})["hooks"]["E"]
    assert chained == lower + higher
    assert "tools.exclude" in UNION


@given(DOCUMENTS)
def test_without_variables_in_it_a_document_stays_as_it_is(document: dict[str, Any]) -> None:
    assert expand_variables(document, {}) == {**expand_variables(document, {})}
    found = expand_variables(document, {"V": "$V", "W": "${W:-d}"})
    assert found == document


def test_the_three_forms_of_a_variable() -> None:
    environ = {"A": "1", "EMPTY": "", "LONG_NAME2": "two"}
    for text, result in [
        ("$A", "1"),
        ("x${A}y", "x1y"),
        ("$A-$LONG_NAME2", "1-two"),
        ("${NONE:-d e}", "d e"),
        ("${A:-d}", "1"),
        ("${EMPTY:-d}", "d"),
        ("$EMPTY ${EMPTY}", " "),
        (r"\$A \${A} \${NONE:-d} \$5", "$A ${A} ${NONE:-d} $5"),
        (r"\$A$A", "$A1"),
        ("${NONE:-}", ""),
        ("$NONE ${NONE}", "$NONE ${NONE}"),
        ("$5 100$ $", "$5 100$ $"),
        ("${A", "${A"),
        ("$$A", "$1"),
    ]:
        assert expand_variables(text, environ) == result, text
    assert expand_variables("$A ${A:-d} $LONG_NAME2", environ, withheld={"A"}) == "$A ${A:-d} two"
    assert names_in([r"\$A $B", {"x": "${c:-d}"}]) == {"B", "C"}


def test_keys_are_not_expanded_and_commands_of_hooks_are_left_to_their_shell() -> None:
    hook = {"command": "echo '$A'", "env": {"B": "$A"}, "name": "$A"}
    document = {"$A": "$A", "hooks": {"BeforeTool": [{"matcher": "$A", "hooks": [hook]}]},
                "mcpServers": {"s": {"command": "$A", "args": ["$A"]}}}  # fmt: skip
    found = expand_variables(document, {"A": "1"})
    assert found == {
        "$A": "1",
        "hooks": {
            "BeforeTool": [
                {
                    "matcher": "1",
                    "hooks": [{"command": "echo '$A'", "env": {"B": "1"}, "name": "1"}],
                }
            ]
        },
        "mcpServers": {"s": {"command": "1", "args": ["1"]}},
    }


def test_old_keys_are_read_as_the_new_ones() -> None:
    document = {"model": "m", "theme": "t", "coreTools": ["a"], "sandbox": True, "mine": 1}
    found, moved = rename_old_keys(document)
    assert found == {
        "mine": 1,
        "model": {"name": "m"},
        "ui": {"theme": "t"},
        "tools": {"core": ["a"], "sandbox": True},
    }
    assert moved == {
        "model.name": "model",
        "ui.theme": "theme",
        "tools.core": "coreTools",
        "tools.sandbox": "sandbox",
    }
    assert document["theme"] == "t"


def test_where_both_stand_the_new_key_counts_and_no_restriction_is_lost() -> None:
    found, _ = rename_old_keys(
        {"coreTools": ["a"], "excludeTools": ["x"], "tools": {"core": ["b"], "exclude": ["y"]}}
    )
    assert found == {"tools": {"core": ["b"], "exclude": ["y", "x"]}}
