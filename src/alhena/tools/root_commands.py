"""The programs that a command line names, for a person to read."""

_OPERATORS = frozenset("();<>|&\n")
_INTRODUCING = frozenset({"if", "then", "else", "elif", "while", "until", "do", "!", "{", "time"})
_RESERVED = frozenset({"for", "case", "select", "function", "fi", "done", "esac", "}", "in"})


def root_commands(command: str) -> tuple[str, ...]:
    """The first word of every simple command, once each, in order of appearance.

    For a person to read: quoting and operators are followed, the insides of substitutions are not.
    """
    import shlex

    lexer = shlex.shlex(command, posix=True, punctuation_chars="();<>|&\n")
    lexer.commenters = ""
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True  # words are not only made of ASCII
    found: dict[str, None] = {}
    expected, target = True, False
    try:
        for token in lexer:
            if set(token) <= _OPERATORS:
                target = bool(set(token) & set("<>"))
                expected = expected or not target
            elif target:
                target = False
            elif expected and token not in _INTRODUCING and not _is_assignment(token):
                expected = False
                if token not in _RESERVED:
                    found.setdefault(token)
    except ValueError:  # a quotation that does not end
        found.setdefault(command.split(None, 1)[0])
    return tuple(found)


def _is_assignment(token: str) -> bool:
    name, sign, _ = token.partition("=")
    return bool(sign) and name.removesuffix("+").isidentifier()
