"""How one layer of settings comes upon another: values of a higher layer replace those of a lower
one, objects are merged key by key, and some lists grow. The keys are the reference's."""

from typing import Any, cast

UNION = frozenset(
    {
        *("policyPaths", "adminPolicyPaths", "tools.exclude", "advanced.excludedEnvVars"),
        *("context.fileFiltering.customIgnoreFilePaths", "tools.confirmationRequired"),
    }
)
"""Lists that hold the entries of all layers, each once; `*.disabled` are such, too."""
CONCATENATED = frozenset({"context.includeDirectories"})
"""Lists that are put one behind the other; those of `hooks` are such, too."""
SHALLOW = frozenset({"mcpServers"})
"""Objects of which a higher layer's members replace those of a lower one whole."""


def merged(lower: Any, higher: Any, key: str = "") -> Any:
    """`higher` upon `lower`; `key` is the dotted key whose values they are. Neither is changed."""
    if isinstance(lower, dict) and isinstance(higher, dict):
        below, above = cast("dict[str, Any]", lower), cast("dict[str, Any]", higher)
        if key in SHALLOW:
            return {**below, **above}
        inner = f"{key}." if key else ""
        found = {
            name: merged(value, above[name], inner + name) if name in above else value
            for name, value in below.items()
        }
        return found | {name: value for name, value in above.items() if name not in below}
    if isinstance(lower, list) and isinstance(higher, list):
        entries = [*cast("list[Any]", lower), *cast("list[Any]", higher)]
        if key in CONCATENATED or key.startswith("hooks."):
            return entries
        if key in UNION or key.endswith(".disabled"):
            return union(entries)
    return cast("Any", higher)


def union(entries: list[Any]) -> list[Any]:
    """The entries, each once, in their order."""
    found: list[Any] = []
    for entry in entries:
        if entry not in found:
            found.append(entry)
    return found
