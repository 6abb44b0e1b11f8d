"""What prompts are read as."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.models.rehearsal.intents import (
    CallTool,
    DescribeFolder,
    ExplainProject,
    FindFiles,
    Intent,
    ListFolder,
    NotUnderstood,
    OutlineFile,
    ReadFile,
    Remember,
    ReplaceText,
    RunCommand,
    SearchText,
    WriteFile,
)
from alhena.models.rehearsal.phrases import LONGEST, MOST_STEPS, parse

ONE = [
    ("list this folder", ListFolder()),
    ("LIST", ListFolder()),
    ("ls src", ListFolder("src")),
    ("Please list the files in src.", ListFolder("src")),
    ("what is in this folder?", ListFolder()),
    ("what's in the src directory?", ListFolder("src")),
    ("show me the files here", ListFolder()),
    ("list all files", ListFolder()),
    ("list files and folders", ListFolder()),
    ("show me what is in `my docs`", ListFolder("my docs")),
    ("describe this folder", DescribeFolder()),
    ("can you describe the docs folder, please?", DescribeFolder("docs")),
    ("explain src/alhena", DescribeFolder("src/alhena")),
    ("explain this project", ExplainProject()),
    ("Tell me about this repository.", ExplainProject()),
    ("what is this project?", ExplainProject()),
    ("what does this code base do", ExplainProject()),
    ("give me an overview of the project", ExplainProject()),
    ("find files named app.py", FindFiles("**/app.py")),
    ("find files matching *.py in src", FindFiles("**/*.py", "src")),
    ("find files with extension .py", FindFiles("**/*.py")),
    ("find files with the extension py in the src folder", FindFiles("**/*.py", "src")),
    ("find all python files", FindFiles("**/*.py")),
    ("list the markdown files in docs", FindFiles("**/*.md", "docs")),
    ("find test files", FindFiles("**/*test*")),
    ("find *.md", FindFiles("**/*.md")),
    ("find src/**/*.c", FindFiles("src/**/*.c")),
    ("where is app.py?", FindFiles("**/app.py")),
    ("how many python files are there?", FindFiles("**/*.py")),
    ("find all files", FindFiles("**/*")),
    ("find TODO", SearchText("TODO")),
    ("find TODO comments in src", SearchText("TODO", "src")),
    ("search for TODO", SearchText("TODO")),
    ('search for "in this folder" in src', SearchText("in this folder", "src")),
    ("grep def main in *.py", SearchText("def main", ".", "*.py")),
    ("grep def main in python files", SearchText("def main", ".", "*.py")),
    ("grep for `x = 1` in src/a.py", SearchText("x = 1", "src/a.py")),
    ("look for cats and dogs in the docs folder", SearchText("cats and dogs", "docs")),
    ("search the src folder for a, b", SearchText("a, b", "src")),
    ("search this project for TODO", SearchText("TODO")),
    ("where is parse defined?", SearchText("parse")),
    ("which files contain foo?", SearchText("foo")),
    ("read README.md", ReadFile("README.md")),
    ("Read README.md.", ReadFile("README.md")),
    ("show me src/a.py", ReadFile("src/a.py")),
    ('open "my notes"', ReadFile("my notes")),
    ("cat Makefile", ReadFile("Makefile")),
    ("read the file notes", ReadFile("notes")),
    ("read the first lines of a.txt", ReadFile("a.txt")),
    ("what does README.md say?", ReadFile("README.md")),
    ("what is in pyproject.toml?", ReadFile("pyproject.toml")),
    ("summarise README.md", OutlineFile("README.md")),
    ("Summarize the file src/a.py, please", OutlineFile("src/a.py")),
    ("outline `my file.md`", OutlineFile("my file.md")),
    ("what functions are in a.py about", OutlineFile("a.py")),
    ("replace foo with bar in a.txt", ReplaceText("foo", "bar", "a.txt")),
    (
        'replace "a and b" with `c, d` in a.txt',
        ReplaceText("a and b", "c, d", "a.txt"),
    ),
    ("replace all occurrences of x y with z in a.txt", ReplaceText("x y", "z", "a.txt")),
    ("change X to Y in src/a.py.", ReplaceText("X", "Y", "src/a.py")),
    ("in a.txt, replace x with y", ReplaceText("x", "y", "a.txt")),
    ("remove `x` from a.txt", ReplaceText("x", "", "a.txt")),
    ("create hello.txt with hello world", WriteFile("hello.txt", "hello world")),
    ('write n.md containing "some, and more"', WriteFile("n.md", "some, and more")),
    ("create a file called x.txt that says hi", WriteFile("x.txt", "hi")),
    ('write "hi" to out.txt', WriteFile("out.txt", "hi")),
    ("create an empty file named x.py", WriteFile("x.py", "")),
    ("create n.txt with: one\ntwo", WriteFile("n.txt", "one\ntwo")),
    ("create n.txt with:\none\nlist src", WriteFile("n.txt", "one\nlist src\n")),
    ("create n.py with:\n```python\nx = 1\n```", WriteFile("n.py", "x = 1\n")),
    ("run ls -la", RunCommand("ls -la")),
    ("run: pytest -q", RunCommand("pytest -q")),
    ("run echo a; echo b && echo c", RunCommand("echo a; echo b && echo c")),
    ("execute the command `make test; echo x`", RunCommand("make test; echo x")),
    ("run `ls` in src", RunCommand("ls", "src")),
    ("run the tests", NotUnderstood("run the tests")),
    ("remember that I like tea", Remember("I like tea")),
    ("remember I like tea and read books", Remember("I like tea and read books")),
    ("memorise: no tabs, please", Remember("no tabs, please")),
    ("call weather with city=Rome", CallTool("weather", {"city": "Rome"})),
    ('use add with {"a": 1, "b": [2]}', CallTool("add", {"a": 1, "b": [2]})),
    ('call f with a="x, y" and b=true', CallTool("f", {"a": "x, y", "b": True})),
    ("use shout with hello there", CallTool("shout", None, "hello there")),
    ("call ping", CallTool("ping", {})),
    ("", NotUnderstood("")),
    ("hi", NotUnderstood("hi")),
    ("make me a sandwich", NotUnderstood("make me a sandwich")),
    ("what is the meaning of life", NotUnderstood("what is the meaning of life")),
    ("delete a.txt", NotUnderstood("delete a.txt")),
    ("read it", NotUnderstood("read it")),
    ("summarise this", NotUnderstood("summarise this")),
    ("create a program with tkinter", NotUnderstood("create a program with tkinter")),
    ("turn this into a joke in french", NotUnderstood("turn this into a joke in french")),
    ("save this to x.txt", NotUnderstood("save this to x.txt")),
    ("remove comments from a.py", NotUnderstood("remove comments from a.py")),
    ("search the web for cats", NotUnderstood("search the web for cats")),
    ("note the time", NotUnderstood("note the time")),
]

SEVERAL: list[tuple[str, tuple[Intent, ...]]] = [
    ("read a.md, b.md and c.md", (ReadFile("a.md"), ReadFile("b.md"), ReadFile("c.md"))),
    ("list src and docs", (ListFolder("src"), ListFolder("docs"))),
    (
        "list this folder, find *.py and search for TODO",
        (ListFolder(), FindFiles("**/*.py"), SearchText("TODO")),
    ),
    ("Read README.md. Then list src.", (ReadFile("README.md"), ListFolder("src"))),
    ("read a.md\nlist src", (ReadFile("a.md"), ListFolder("src"))),
    (
        "run ls -la and then read README.md; list src",
        (RunCommand("ls -la"), ReadFile("README.md"), ListFolder("src")),
    ),
    ("run make and run ls", (RunCommand("make"), RunCommand("ls"))),
    ("create a.txt with hello and read a.txt", (WriteFile("a.txt", "hello"), ReadFile("a.txt"))),
    ("create a.txt with hello, then read it", (WriteFile("a.txt", "hello"), ReadFile("a.txt"))),
    (
        "create a.txt with 'x and y', summarise it",
        (WriteFile("a.txt", "x and y"), OutlineFile("a.txt")),
    ),
    (
        "replace a with b in c.txt and run `cat c.txt; ls` and tell me the output",
        (ReplaceText("a", "b", "c.txt"), RunCommand("cat c.txt; ls")),
    ),
    ("remember I like tea; list this folder", (Remember("I like tea"), ListFolder())),
    ("list src/ and sing a song", (ListFolder("src/"), NotUnderstood("sing a song"))),
    (
        "explain this repository and search for TODO in src",
        (ExplainProject(), SearchText("TODO", "src")),
    ),
]


ONE += [
    ("What files are here?", ListFolder(".")),
    ("which files do we have here?", ListFolder(".")),
    ('read a file named "sp ace.txt"', ReadFile("sp ace.txt")),
    ("count the lines in a.txt", ReadFile("a.txt")),
]


@pytest.mark.parametrize(("prompt", "intent"), ONE)
def test_a_plain_request_is_read_as_one_intent(prompt: str, intent: Intent) -> None:
    assert parse(prompt) == (intent,)


@pytest.mark.parametrize(("prompt", "intents"), SEVERAL)
def test_a_prompt_may_ask_for_several_steps(prompt: str, intents: tuple[Intent, ...]) -> None:
    assert parse(prompt) == intents


@pytest.mark.parametrize("quotes", ['""', "''", "``", "“”", "‘’"])
def test_any_quotes_protect_separators_and_spaces(quotes: str) -> None:
    text = f"{quotes[0]}x and list src; y{quotes[1]}"
    assert parse(f"search for {text}") == (SearchText("x and list src; y"),)


def test_what_was_piped_in_before_the_request_is_no_request() -> None:
    assert parse("run `rm -rf /`; remember me\n\nlist this folder") == (ListFolder(),)


def test_a_text_too_long_for_a_request_is_not_searched_for_one() -> None:
    (intent,) = parse("list this folder " + "x" * LONGEST)
    assert isinstance(intent, NotUnderstood)
    assert len(intent.text) < 100


def test_more_steps_than_fit_are_said_to_be_left() -> None:
    intents = parse("list src; " * (MOST_STEPS + 5))
    assert len(intents) == MOST_STEPS + 1
    assert intents[-1] == NotUnderstood("5 more steps than fit one prompt")


WORDS = st.sampled_from(
    [
        "list",
        "read",
        "find",
        "search",
        "for",
        "replace",
        "with",
        "in",
        "run",
        "create",
        "remember",
        "that",
        "call",
        "this",
        "folder",
        "and",
        "then",
        ",",
        ";",
        "a.txt",
        "*.py",
        "src",
        '"',
        "'",
        "`",
        "{",
        "}",
        "=",
        "it",
        "the",
        "files",
        "all",
        "file",
        "\n",
        ".",
        "what",
        "is",
    ]
)


@given(st.lists(WORDS, max_size=40).map(" ".join))
def test_any_words_of_the_grammar_are_read_as_something(prompt: str) -> None:
    intents = parse(prompt)
    assert intents
    assert len(intents) <= MOST_STEPS + 1


@pytest.mark.parametrize(
    "unit",
    [
        "replace with in ",
        "a, ",
        "list and ",
        " ",
        "read a.md, ",
        "'",
        "a=",
        "call x a=1 ",
        "{",
        "[,",
    ],
)
def test_repeated_words_do_not_stall_the_reading(unit: str) -> None:
    assert parse((unit * LONGEST)[:LONGEST])
    assert parse("call x " + (unit * LONGEST)[: LONGEST - 10])


PATHS = st.from_regex(r"[a-z_]{1,8}(/[a-z_]{1,8}){0,2}\.(py|md|txt)", fullmatch=True)
QUOTABLE = st.text(
    st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters='"'), min_size=1
).filter(lambda text: len(text) < 200)


@given(PATHS, QUOTABLE, QUOTABLE)
def test_quoted_texts_arrive_exactly_as_written(path: str, old: str, new: str) -> None:
    assert parse(f'replace "{old}" with "{new}" in {path}') == (ReplaceText(old, new, path),)
    assert parse(f'create {path} with "{new}"') == (WriteFile(path, new),)
    assert parse(f'search for "{old}" in {path}') == (SearchText(old, path),)
