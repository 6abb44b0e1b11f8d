"""Secrets that a text names: `API_KEY=…`, `"password": "…"`, `-u user:…`, `mysql -p…`."""

import re
from collections.abc import Callable
from functools import cache

_NAME = (
    r"pass(?:word|wd|phrase|code)|passw|pswd|pwd|secret|token|jwt|bearer|credentials?"
    r"|(?:api|access|auth|private|signing|encryption|master|account|license|client|consumer|session"
    r"|secret|deploy|webhook)[_-]?(?:key|secret|token)(?:[_-]?base)?"
    r"|authorization|cookie"
)
_WORDS = "pass|pswd|pwd|secret|token|jwt|bearer|credential|key|auth|cookie|session"
_QUOTED = r"""\\"(?:(?!\\").){1,4096}?\\"|\$?"(?:[^"\\]|\\.){1,4096}"|\$?'[^']{1,4096}'"""
_BARE = r"""(?:\\.|[^\s"'`,;&|<>(){}\[\]\\])+"""
_VALUE = rf"(?P<value>{_QUOTED}|{_BARE})"

# Each begins at a boundary, and its name has a bound: linear time.
_PATTERNS = rf"""
    (?<![\w.-])(?<!\$\{{)-{{0,2}}(?=[\w.-]{{0,80}}(?:{_WORDS}))
    (?P<name>[A-Za-z_][\w.-]{{0,80}}) (?P<sign>\+?=|\\?["']?[ \t]*(?::=|=>|=(?!=)|:(?![:/]))[ \t]*)
    (?P<scheme>(?:basic|bearer|token|digest|apikey)[ \t]+)?
    (?: {_VALUE} | (?P<block>[|>][+-]?[ ]*\n(?:[ \t]+[^\n]*(?:\n|\Z))+) )
"""
_LINE = r"[^\n;|&]{0,400}?(?<!\S)"
_USER = r"(?<![\w-])(?:-u|-U|--user|--proxy-user)"
_OPTIONS = (
    rf"(?<![\w-])--?[\w-]{{0,60}}(?i:{_NAME})[ \t]+(?!-){_VALUE}",
    r"(?<![\w-])[Bb]earer[ \t]+(?P<value>(?=[\w.~+/-]*[0-9A-Z_])[\w.~+/-]{8,}=*)",
    rf"\b(?:mysql|mariadb)[\w-]*\b{_LINE}-p(?!\s){_VALUE}",
    rf"\b(?:sshpass|mongo[a-z]*|7za?|(?:docker|podman)\slogin|twine)\b{_LINE}-p[ \t]*(?!-){_VALUE}",
    rf"\bredis-cli\b{_LINE}-a[ \t]*(?!-){_VALUE}",
    rf"\bldap\w+\b{_LINE}-w[ \t]*(?!-){_VALUE}",
    rf"\b(?:un)?zip\b{_LINE}-P[ \t]*(?!-){_VALUE}",
    rf"{_USER}[ \t=]*[\"']?[^\s:\"'%/]{{1,80}}[:%](?P<value>[^\s\"'/:][^\s\"']*)",
    rf"\bpass:{_VALUE}",
    rf"<[\w:.-]{{0,60}}(?i:{_NAME})>(?P<value>[^<>]{{1,4096}})</",
)
_MARKS = re.compile(rf"(?i)(?:{_WORDS})|-[puawU]")
_CODE = re.compile(
    "any|auto|bool|boolean|bytes|default|dict|empty|false|float|function|hidden|int|integer|invalid"
    "|lambda|list|missing|n/a|name|nil|no|none|not|null|number|object|optional|promise|required"
    "|str|string|text|true|type|undefined|unknown|unset|void|yes",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"\$(?:\w+|\{[^{}]*\}|\(.*)|%\w+%|<[^<>]*>|\*+|x{3,}|\.{3}|\[redacted\]")
_IDENTITIES = re.compile(r"\b(?:docker|podman|rsync|user(?:add|mod)|chown|sudo)\b[^\n;|&]*\Z")
_OBJECTS = re.compile(
    "args|cfg|conf|config|context|ctx|env|environ|opts|options|os|params|process|req|request|res"
    "|response|secrets|self|settings|state|this|vars"
)
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")


def without_named_secrets(text: str, is_secret: Callable[[str], bool], replacement: str) -> str:
    """`text` with the values of names, options and headers that hold a secret replaced. `is_secret`
    tells the name of a secret variable. References (`$TOKEN`), types and code stay."""
    if _MARKS.search(text) is None:
        return text

    def redact_named(found: re.Match[str]) -> str:
        value = found["value"] if found["value"] is not None else found["block"]
        if not _names_secret(found["name"], is_secret) or not _is_value(found, value):
            return found[0]
        start = (
            found.start("scheme")
            if found["scheme"]
            else found.start("value" if found["value"] is not None else "block")
        )
        return f"{found[0][: start - found.start()]}{_replace_value(value, replacement)}"

    def redact_argument(found: re.Match[str]) -> str:
        value = found["value"]
        before = found.string[max(found.start() - 200, 0) : found.start()]
        identity = found[0][:2].casefold() in {"-u", "--"} and _IDENTITIES.search(before)
        if _is_reference(found, value) or (identity and ":" in found[0]):
            return found[0]
        lead = found[0][: found.start("value") - found.start()]
        return f"{lead}{_replace_value(value, replacement)}"

    text = _assignments().sub(redact_named, text)
    for pattern in _options():
        text = pattern.sub(redact_argument, text)
    return text


def _names_secret(name: str, is_secret: Callable[[str], bool]) -> bool:
    if not is_secret(name):
        return False
    return name.isupper() or _secret_name().search(name) is not None


def _is_value(found: re.Match[str], value: str) -> bool:
    """Is this the secret itself, not a reference to it, a type or code?"""
    bare, name = _bare(value), found["name"]
    if not bare or _is_reference(found, value) or _CODE.fullmatch(bare):
        return False
    if found["scheme"] or found["block"] or bare != value:
        return True
    if bare.isdigit() and len(bare) < 6 and "pass" not in name.casefold():
        return False
    if found.string[found.end() : found.end() + 1] in {"(", "["} or bare == name:
        return False
    if _DOTTED.fullmatch(bare) and not name.isupper():
        first, last = bare.split(".")[0], bare.rpartition(".")[2]
        if _OBJECTS.fullmatch(first) or name.casefold() in last.casefold():
            return False
    if ":" in found["sign"]:
        # In prose and in type hints a plain word follows.
        return not bare.rstrip(".!?").replace("-", "").isalpha()
    return name.isupper() or found["sign"] in {"=", "+="} or not bare.isidentifier()


def _is_reference(found: re.Match[str], value: str) -> bool:
    """Does it stand for a value that is elsewhere?"""
    following = found.string[found.end("value") : found.end("value") + 1] if found["value"] else ""
    begun = value == "$" and following in {"{", "("}
    return begun or _REFERENCE.fullmatch(_bare(value)) is not None


def _bare(value: str) -> str:
    for quote in ('\\"', '"', "'"):
        if value.lstrip("$").startswith(quote) and value.endswith(quote):
            return value.lstrip("$")[len(quote) : -len(quote)]
    return value


def _replace_value(value: str, replacement: str) -> str:
    bare = _bare(value)
    if value.endswith("\n"):
        return f"{replacement}\n"
    return value.replace(bare, replacement, 1) if bare != value else replacement


@cache
def _assignments() -> re.Pattern[str]:
    return re.compile(_PATTERNS, re.VERBOSE | re.IGNORECASE | re.DOTALL)


@cache
def _options() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.DOTALL) for pattern in _OPTIONS)


@cache
def _secret_name() -> re.Pattern[str]:
    return re.compile(rf"(?:{_NAME})\Z", re.IGNORECASE)
