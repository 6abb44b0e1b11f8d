"""Reasons that keep a rule from allowing: code in data, changed meanings, unknown words."""

from alhena.shell.parse.analysis import analyse
from tests.shell.oracle import certain
from tests.support.each import for_each

DOUBTED = [
    *("$X x", "${X}", "$(a) b", "`a` b", "a* b", "{a,b} c", "~/a", "[ab] c", "a$X", "<(a)", '"$X"'),
    *("''", '"" a', "%1", "%a b"),
    *(
        "f() { a; }",
        "function f { a; }",
        "function f() (a)",
        "coproc a",
        "coproc X { a; }",
        "time a",
    ),
    *(
        "select x in a; do b; done",
        "for ((i=0;i<3;i++)); do a; done",
        "((a))",
        "(( a = 1 ))",
        "((a); b)",
    ),
    *(
        "echo $((1))",
        "echo $((a[$(b)]))",
        "echo $[1]",
        'echo "$((1))"',
        "echo ${a[0]}",
        "echo ${a[@]}",
    ),
    *("echo ${a@P}", "echo ${a@Q}", "echo ${!a}", "echo ${!a*}", "echo ${a:=b}", "echo ${a=b}"),
    *("echo ${a:1:2}", "echo ${a: -1}", "echo ${#a[@]}", 'echo "${a@P}"'),
    *("a[0]=1", "a[$(b)]=1 c", "a=(1 2)", "a+=(1)", "declare a=1", "declare -a a=(1)"),
    *(
        "let a=1",
        "typeset a",
        "local a",
        "export A=1",
        "export A",
        "readonly A",
        "read a",
        "unset a",
    ),
    *(
        "printf -v a b",
        "printf '%n' a",
        'printf "$x"',
        "printf -va b",
        "printf -- '%n' a",
        "printf '%5n' a",
    ),
    *("test -v a", "[ -v a ]", "[ -R a ]", "[ x -o -v a ]", "[ -f $x ]", "test $x", "[[ -v a ]]"),
    *('[ "$x" "$y" ]', 'test "$x" a', '[ "$x" b "$y" ]'),
    *("[[ a -eq 1 ]]", "[[ $a -lt 1 && b ]]", "[[ -R a ]]"),
    *(
        "mapfile a",
        "readarray a",
        "getopts a b",
        "wait -p a",
        "wait $x",
        "eval a",
        ". f",
        "source f",
    ),
    *("exec a", "exec >f", "trap a EXIT", "alias a=b", "unalias a", "enable -f a b", "hash -p a b"),
    *(
        "bind a",
        "complete a",
        "compgen -C a",
        "shopt -s extglob",
        "set -k",
        "set -f",
        "set -o posix",
    ),
    *(
        "set $x",
        "builtin a",
        "command eval a",
        "command read a",
        "builtin printf -v a",
        "jobs -x a",
    ),
    *("for PATH in a; do b; done", "for http_proxy in a; do b; done", "for X in a; do b; done"),
    *(
        "for histchars in a; do b; done",
        'echo $"a"',
        "echo $'\\xff'",
        "echo $'\\u00e9'",
        "echo $'\\cx'",
    ),
    *("echo $'\\q'", "echo `echo \\`a\\``", "echo `echo \\$x`", "echo `a # b`"),
    *("echo ?(a)", "echo @(a|b)", "echo !(a)", "case a in @(b)) c;; esac"),
    *(
        "{ a }",
        "if a; then b fi",
        "a;;b",
        "{ a; b",
        "a )",
        "fi",
        "if a; fi",
        "a && ; b",
        "a &&",
        "| a",
    ),
    *(
        "}",
        "! ! a",
        "a () b",
        "echo a(b)",
        "a 'b",
        'a "b',
        "a `b",
        "a $(b",
        "a ${b",
        "a\\",
    ),
    *("a &\\\n& b", "a $\\\n(b)", 'a "$\\\n(b)"', "A\\\n=1 b", "i\\\nf a; then b; fi", "a 2\\\n>f"),
    *("a\\\n#b", "a |\\\n| b", "$(\\\n(a))", "a <\\\n(b)"),
    *("case\\\nx in\nx) a ;;\nesac", "case x in\\\n(x) a;; esac", "for i in\\\na; do b; done"),
    *("[[\\\n-f a ]]", "[[ a\\\n]] b ]]", "[[ a <\\\n(b) ]]", "if\\\na; then b; fi", "!\\\na"),
    *("a {fd}>f", "a <&\\\n-b", "while read -r l; do a; done"),
]


@for_each("command", DOUBTED)
def test_nothing_that_may_mean_something_else_is_certain(command: str) -> None:
    analysis = analyse(command)
    assert analysis.doubts
    assert all(doubt.reason for doubt in analysis.doubts)


CERTAIN = [
    *("true", ":", "false; exit 1", "break", "continue", "[ -f a ]", "test a = b", "[ a -eq 1 ]"),
    *('[ "$x" ]', '[ -n "$x" ]', '[ "$x" = a ]', '[ -z "$x" -a "$y" != b ]', '[ ! "$x" ]'),
    *("{ a } ; }", "a \\\n#b"),
    *("[[ -f a ]]", "[[ $x == a* ]]", "[[ $x =~ ^(a|b)+$ ]]", "[[ -n $x && ( a < b || c > d ) ]]"),
    *(
        "printf '%s\\n' a",
        "printf '%d%%n' 1",
        "printf -- '%s' \"$x\"",
        "wait",
        "set -e",
        "set -euo pipefail",
    ),
    *("command -v a", "command a", "jobs", "A=1 b", "A=1", "echo ${a:-b}", "echo ${a:-$(b)}"),
    *('echo "${a%.*}" ${#a} ${a^} ${a//x/y} ${a:+b} ${a:?b}', 'for f in *.py; do a "$f"; done'),
    *("a 'eval' let", "./read a", "bin/eval b", "echo $?", "a -- %1", "echo \\$x", "echo '$(a)'"),
    *(
        "if [ -d a ]; then b; else c; fi",
        "a || { b; exit 1; }",
        "a; b;",
        "a &",
        "a &\nb",
        "(a)",
        "a|b",
    ),
    *(
        "for x in a b # c\ndo d; done".replace(" # c", ""),
        "a # b'c",
        "#!/bin/sh\na",
        "a\n\n# x\n\nb\n",
    ),
    *("git log --format='%h %s' HEAD~3..HEAD", "git show HEAD^ @{u}", "find . -name '*.py'"),
    *(
        "grep -rn 'a|b' src --include=*.py 2>/dev/null | head -20",
        "ls -la ~/x",
        "sed -n '1,5p' a.txt",
    ),
    *(
        "cat a.txt | sort | uniq -c | sort -rn | head",
        "cd src && ls && cd .. && pwd",
        "diff <(a) <(b)",
    ),
]


@for_each("command", CERTAIN)
def test_everyday_commands_are_certain(command: str) -> None:
    analysis = analyse(command)
    assert certain(analysis), analysis.doubts


def test_a_doubt_shows_what_it_is_about_and_no_more() -> None:
    (doubt,) = analyse("echo a; echo $((x))").doubts
    assert doubt.reason == "arithmetic can run code hidden in data"
    assert doubt.text == "$((x))"
    many = analyse("; ".join(f"eval {n}" for n in range(120)))
    assert len(many.doubts) == 64
    assert max(len(d.text) for d in analyse("eval " + "x" * 5000).doubts) == 200
