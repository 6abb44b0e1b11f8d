"""Compiles the tables of src/alhena/shell/programs/*.toml to programs.json and the rules of
src/alhena/policy/defaults/*.toml to defaults.json, which load faster; `--check` only compares.

CONTRIBUTING.md explains the keys of the tables.
"""

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from alhena.policy.load import load_text
from alhena.policy.model import PolicyRule, Tier

SOURCE = Path(__file__).parents[1] / "src/alhena"
FOLDER = SOURCE / "shell/programs"
DEFAULTS = SOURCE / "policy/defaults"

EFFECTS = (
    "writes",
    "deletes",
    "runs",
    "settings",
    "changes",
    "elsewhere",
    "lists",
    "connects",
    "plain",
)
_JUDGED = (*EFFECTS, "code", "calls", "known", "operand", "console", "always", "unknown")
_FLAG, _VALUE, _ATTACHED, _DASHED, _UNLESS_LAST, _APART, _JOINED, _PAIR = range(8)
_LONG_ENDINGS = {
    "[=]": _ATTACHED,
    "=?": _UNLESS_LAST,
    "==": _DASHED,
    "=2": _PAIR,
    "=": _VALUE,
    "*": _JOINED,
}
_SHORT_ENDINGS = {"?": _ATTACHED, ";": _APART, "::": _DASHED, ":": _VALUE, "*": _JOINED}
_ONE_DASH = ("words", "folded", "long-only")
_SINGLE = ("also", "use", "style", "operand", "check", "always")
_OTHER_KEYS = (
    "form operands operand_pattern harmless reads refuses needs commands wraps before language "
    "language_code letters long spellings groups hands at_files script files beside "
    "bundled moves own"
)
_FILE_ROLES = frozenset(
    {
        *("pattern", "texts", "lists", "shows", "names", "trees", "follows", "hidden", "tracked"),
        *("only", "without", "addresses"),
    }
)
_KEYS = {*_JUDGED, *_SINGLE, *_OTHER_KEYS.split()}
_DEFAULTS: dict[str, Any] = {
    **{key: {} for key in ("options", "refuses", "harmless", "hands", "long", "files")},
    **{key: [] for key in ("beside", "form", "needs", "joined", "letter_groups")},
    **dict.fromkeys(("reads", "judged"), False),
}
_COPIED = (
    *("style", "operands", "operand_pattern", "operand", "check", "at_files", "spellings"),
    *("groups", "console", "script", "always", "unknown", "bundled", "own"),
)


def compile_tables(tables: dict[str, Any]) -> dict[str, Any]:
    """The tables of all files as one value: programs, other names, and lists of names."""
    names = tables.pop("names")
    narrow = tables.pop("narrow")
    removes = {
        name: " ".join(value.split())
        for listed, value in tables.pop("removes").items()
        for name in listed.split(",")
    }
    shown = {name: _by_word(tables.pop(name)) for name in ("versions", "absent")}
    entries = {name: _with_used(entry, tables) for name, entry in tables.items()}
    programs = {name: _program(name, entries[name]) for name in entries if name[0] != "@"}
    aliases = {
        other: name for name, entry in tables.items() for other in entry.get("also", "").split()
    }
    clash = aliases.keys() & programs.keys()
    if clash:
        raise ValueError(f"both a program and another name: {sorted(clash)}")
    for name in [name for name in programs if " " in name]:
        first = programs.setdefault(name.partition(" ")[0], {})
        first.setdefault("subcommands", []).append(name)
        words = name.split(" ")
        above = {" ".join(words[:count]) for count in range(2, len(words))}
        if above:
            first["deeper"] = sorted({*first.get("deeper", ()), *above})
        if "wraps" in programs[name]:
            first.setdefault("runners", []).append(name)
            first["runners"].sort(key=len, reverse=True)
    lists = {"names": names, "aliases": aliases, **shown, "narrow": narrow, "removes": removes}
    return {**lists, "programs": programs}


def _by_word(table: dict[str, str]) -> dict[str, str]:
    return {word: value for words, value in table.items() for word in words.split()}


def _with_used(entry: dict[str, Any], tables: dict[str, Any]) -> dict[str, Any]:
    """The entry with what stands in those that it uses; of options, those that it names itself
    come first."""
    found = dict(entry)
    for name in entry.get("use", "").split(","):
        if name:
            other = _with_used(tables[name.strip()], tables)
            for key, value in other.items():
                if isinstance(value, str) and key not in _SINGLE:
                    found[key] = f"{found.get(key, '')} {value}".strip()
                elif isinstance(value, dict):
                    found[key] = {**value, **found.get(key, {})}
                elif key not in _SINGLE[:2]:
                    found.setdefault(key, value)
    if "reads" not in entry:  # what others only read with is merely known here
        found["known"] = f"{found.get('known', '')} {found.pop('reads', '')}".strip()
        for key in ("form", "operands", "refuses", "needs", "files"):
            found.pop(key, None)
        if not found["known"]:
            del found["known"]
    return found


def _program(name: str, entry: dict[str, Any]) -> dict[str, Any]:
    unknown = entry.keys() - _KEYS
    if unknown:
        raise ValueError(f"{name}: unknown keys {sorted(unknown)}")
    style = entry.get("style", "letters")
    options = _options(name, entry, style)
    for option, arity in _read(entry.get("beside", ""), style):
        options.setdefault(option, (arity, "", False))
    refuses = {
        option: clause
        for clause, text in entry.get("refuses", {}).items()
        for option, _ in _read(text, style)
    }
    harmless = {
        option: pattern
        for names, pattern in entry.get("harmless", {}).items()
        for option, _ in _read(names, style)
    }
    hands = {_named(text, style): other for text, other in entry.get("hands", {}).items()}
    options.update({name: (_VALUE, "", False) for name in hands if name[-1] != ","})
    beside = [option for option, _ in _read(entry.get("beside", ""), style)]
    files = {
        role: text.split() if text == "*" else [option for option, _ in _read(text, style)]
        for role, text in entry.get("files", {}).items()
    }
    unknown = files.keys() - _FILE_ROLES
    if unknown:
        raise ValueError(f"{name}: unknown keys {sorted(unknown)} in files")
    commands = f"{entry.get('calls', '')} {entry.get('commands', '')}".strip()
    joined = [option for option, (arity, _, _) in options.items() if arity == _JOINED]
    joined += [option for option in hands if option.endswith(",")]
    groups = () if style in _ONE_DASH else (o for o in options if o[1] != "-" and len(o) > 2)
    found: dict[str, Any] = {
        **{key: entry[key] for key in _COPIED if key in entry},
        "options": _grouped(options),
        "reads": "reads" in entry,
        "judged": not entry.keys().isdisjoint(_JUDGED),
        "form": entry.get("form", "").split(),
        "refuses": refuses,
        "needs": [[text.split(), clause] for clause, text in entry.get("needs", {}).items()],
        "harmless": harmless,
        "hands": hands,
        "files": files,
        "beside": beside,
        "joined": sorted(joined, key=len, reverse=True),
        "letter_groups": sorted((o for o in groups if o != "-NUM"), key=len, reverse=True),
        "letters": entry.get("letters"),
        "long": dict(pair.split("=") for pair in entry.get("long", "").split()),
        "commands": _valued(commands, effect="plain") if commands else None,
        "before": _valued(entry["before"]) if "before" in entry else None,
        "moves": _valued(entry["moves"], effect="plain") if "moves" in entry else None,
        "wraps": _wraps(entry["wraps"], options) if "wraps" in entry else None,
    }
    if "language" in entry:
        found["language"] = _valued(entry["language"], entry.get("language_code", ""))
    return {
        key: value
        for key, value in found.items()
        if value is not None and value != _DEFAULTS.get(key)
    }


def _options(name: str, entry: dict[str, Any], style: str) -> dict[str, tuple[int, str, bool]]:
    """Option -> how it takes a value, its effect, and whether a program with it only reads."""
    found: dict[str, tuple[int, str, bool]] = {}
    for key in (*EFFECTS, "code", "calls", "reads", "known"):
        effect = {"calls": "runs", "known": "", "reads": ""}.get(key, key)
        for option, arity in _read(entry.get(key, ""), style):
            known = found.setdefault(option, (arity, effect, key == "reads"))
            if key == "reads" and known[1] == "code":  # the check of the code is part of reading
                found[option] = (arity, "code", True)
            elif key == "reads" and known[1]:
                raise ValueError(f"{name}: {option} both reads and {known[1]}")
    return found


def _grouped(options: dict[str, tuple[int, str, bool]]) -> dict[str, str]:
    """`ARITY EFFECT READS` -> the options of which this holds."""
    found: dict[str, list[str]] = {}
    for option, (arity, effect, reads) in options.items():
        found.setdefault(f"{arity} {effect} {'reads' if reads else ''}", []).append(option)
    return {kind: " ".join(names) for kind, names in found.items()}


def _read(text: str, style: str) -> list[tuple[str, int]]:
    """The options that a text names, with how each takes a value."""
    found: list[tuple[str, int]] = []
    for token in text.split():
        if token[0] != "-":
            raise ValueError(f"{token} is no option")
        word = token[:2] == "--" or style in _ONE_DASH
        endings = {**_LONG_ENDINGS, **_SHORT_ENDINGS} if word else _SHORT_ENDINGS
        ending = next(
            (e for e in (*_LONG_ENDINGS, *_SHORT_ENDINGS) if e in endings and token.endswith(e)), ""
        )
        bare = token.removesuffix(ending) if len(token) > 2 else token
        arity = endings[ending] if ending and bare != token else _FLAG
        if word or arity or bare == "-NUM":
            found.append((_named(bare, style), arity))
        else:
            found += [(f"-{letter}", _FLAG) for letter in bare[1:]]
    return found


def _named(text: str, style: str) -> str:
    """An option as its table holds it; `option_name` of the package does the same."""
    bare = text.lstrip("-")
    if style in {"folded", "camel", "nopt"} and len(bare) > 1:
        folded = bare.replace("-", "").replace("_", "").casefold()
        return f"-{folded}" if style == "folded" else f"--{folded}"
    if style in _ONE_DASH or text[:2] != "--":
        return f"-{bare}"
    return f"--{bare.replace('_', '-')}"


def _valued(text: str, code: str = "", effect: str = "") -> dict[str, Any]:
    """A table of options that take a value; those with one dash keep it. The letters `code` are
    followed by code."""
    names = [_named(token.rstrip("[]=:?"), "letters") for token in text.split()]
    found = dict.fromkeys(names, (_VALUE, effect, False))
    found.update({f"-{letter}": (_VALUE, "code", False) for letter in code})
    return _option_table(found)


def _option_table(options: dict[str, tuple[int, str, bool]]) -> dict[str, Any]:
    groups = sorted((o for o in options if o[1] != "-" and len(o) > 2), key=len, reverse=True)
    table: dict[str, Any] = {"options": _grouped(dict(sorted(options.items())))}
    return {**table, "letter_groups": groups} if groups else table


def _wraps(text: str, table: dict[str, tuple[int, str, bool]]) -> dict[str, Any]:
    """A wrapper's own options, and those of its table: what takes a value stands in one place."""
    options = {
        _named(token.rstrip("[]=:?"), "letters"): (_VALUE, "", False)
        for token in text.split()
        if token[0] == "-"
    }
    for option, (arity, _, _) in table.items():
        takes_next = arity not in (_FLAG, _ATTACHED)
        if option[:2] == "--" or (takes_next and len(option) == 2):
            options.setdefault(option, (_VALUE if takes_next else _FLAG, "", False))
    found: dict[str, Any] = {"options": _option_table(options)}
    for token in text.split():
        name, _, count = token.partition("=")
        if token[0] != "-":
            found[name] = int(count) if count else True
    return found


def text_of(tables: dict[str, Any]) -> str:
    """The compiled tables as JSON, a program a line."""
    head = {key: value for key, value in tables.items() if key != "programs"}
    lines = [f"{json.dumps(key)}:{json.dumps(value)}," for key, value in head.items()]
    programs = [
        f"{json.dumps(name)}:{json.dumps(entry, separators=(',', ':'), ensure_ascii=False)}"
        for name, entry in sorted(tables["programs"].items())
    ]
    return "{" + "\n".join([*lines, '"programs":{', ",\n".join(programs), "}}"]) + "\n"


def compiled() -> dict[Path, str]:
    """The text that each compiled file has to have."""
    tables: dict[str, Any] = {}
    for path in sorted(FOLDER.glob("*.toml")):
        for name, entry in tomllib.loads(path.read_text(encoding="utf-8")).items():
            if name in tables:
                raise ValueError(f"{path.name}: {name} stands in two files")
            tables[name] = entry
    programs = text_of(compile_tables(tables))
    return {FOLDER / "programs.json": programs, DEFAULTS / "defaults.json": default_rules()}


def default_rules() -> str:
    """The default rules as they are when parsed and checked, a rule a line."""
    lines: list[str] = []
    for path in sorted(DEFAULTS.glob("*.toml")):
        text = path.read_text(encoding="utf-8")
        loaded = load_text(text, file=path.name, tier=Tier.DEFAULT)
        if loaded.problems:
            raise SystemExit(str(loaded.problems[0]))
        lines += (json.dumps(given_fields(rule)) for rule in loaded.rules)
    return "[" + ",\n".join(lines) + "]\n"


def given_fields(rule: PolicyRule) -> dict[str, Any]:
    """The fields of a rule that differ from their defaults."""
    fields = msgspec.to_builtins(rule)
    usual = msgspec.to_builtins(PolicyRule(decision=rule.decision, priority=0))
    return {
        name: value
        for name, value in fields.items()
        if name in {"decision", "priority"} or value != usual[name]
    }


def main() -> int:
    """Writes the compiled files, or compares them."""
    old = False
    for path, text in compiled().items():
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            old = True
            print(f"{path.name} is old; run scripts/compile_policy.py")
    return int(old)


if __name__ == "__main__":
    sys.exit(main())
