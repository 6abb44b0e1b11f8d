import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.config.env_files import parse_env
from tests.support.each import for_each

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,8}", fullmatch=True)
LINES = st.text(
    st.characters(codec="utf-8", exclude_characters="\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"), max_size=20
)  # fmt: skip


@for_each(
    ("text", "found"),
    [
        ("", {}),
        ("A=1", {"A": "1"}),
        ("A=1\nB=2\n", {"A": "1", "B": "2"}),
        ("A=1\r\nB=2\r\n", {"A": "1", "B": "2"}),
        ("A=1\rB=2\r", {"A": "1", "B": "2"}),
        ("\ufeffA=1", {"A": "1"}),
        ("  A  =  1  ", {"A": "1"}),
        ("export A=1\nexport\tB=2", {"A": "1", "B": "2"}),
        ("export=1", {"export": "1"}),
        ("exportA=1", {"exportA": "1"}),
        ("A: 1", {"A": "1"}),
        ("A:1", {}),
        ("# A=1\n  # B=2", {}),
        ("A=1 # two", {"A": "1"}),
        ("A=1#two", {"A": "1"}),
        ("A='1 # two' # three", {"A": "1 # two"}),
        ('A="1 # two"#three', {"A": "1 # two"}),
        ("A=", {"A": ""}),
        ("A=\nB=2", {"A": "", "B": "2"}),
        ("A=''", {"A": ""}),
        ('A="a\\nb\\rc\\td"', {"A": "a\nb\rc\\td"}),
        ("A='a\\nb'", {"A": "a\\nb"}),
        ("A=`a 'b' \"c\"`", {"A": "a 'b' \"c\""}),
        ('A="line 1\nline 2"\nB=3', {"A": "line 1\nline 2", "B": "3"}),
        ("A='line 1\r\nB=2'\nC=3", {"A": "line 1\nB=2", "C": "3"}),
        ('A="say \\"x\\""', {"A": 'say \\"x\\"'}),
        ('A="C:\\dir\\"\nB="x"', {"A": "C:\\dir\\", "B": "x"}),
        ('A="open\nB=2', {"A": '"open', "B": "2"}),
        ("A='open # comment\nB=2", {"A": "'open", "B": "2"}),
        ('A="x"y', {"A": '"x"y'}),
        ("A=b=c", {"A": "b=c"}),
        ("A=$B ${C}", {"A": "$B ${C}"}),
        ("A=1\nA=2", {"A": "2"}),
        ("A B=1\n=2\nC", {}),
        ("a.b-c=1", {"a.b-c": "1"}),
        ("Ä=1\nB=ä", {"B": "ä"}),
        ('{"json": true}\n- A=1', {}),
    ],
)
def test_what_a_file_means(text: str, found: dict[str, str]) -> None:
    assert parse_env(text) == found


@given(
    st.dictionaries(
        NAMES, st.tuples(st.sampled_from("'`"), LINES, st.sampled_from(["", "export ", "  "]))
    )
)
def test_what_is_quoted_is_read_back_as_it_was(values: dict[str, tuple[str, str, str]]) -> None:
    texts = {
        name: value.replace(quote, "").rstrip("\\") for name, (quote, value, _) in values.items()
    }
    lines = [
        f"{before}{name}={quote}{texts[name]}{quote} # comment\n"
        for name, (quote, _, before) in values.items()
    ]
    assert parse_env("".join(lines)) == texts
    assert parse_env("\ufeff" + "".join(lines).replace("\n", "\r\n")) == texts


@given(NAMES, LINES)
def test_a_bare_value_goes_to_its_comment(name: str, value: str) -> None:
    if value.strip()[:1] in ("'", '"', "`"):
        value = "x" + value
    found = parse_env(f"{name}={value}\nLAST=1")
    assert found["LAST"] == "1"
    if name != "LAST":
        assert found[name] == value.partition("#")[0].strip(" \t\xa0\ufeff")


@given(st.text())
def test_any_text_gives_names_and_values_without_carriage_returns_of_lines(text: str) -> None:
    found = parse_env(text)
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+", name) for name in found)
    assert parse_env(text + "\n") == found


@given(st.text(alphabet="A=\"'`\\\n# :export", max_size=60))
def test_any_mess_of_quotes_is_read_to_its_end(text: str) -> None:
    assert (
        parse_env(f"{text}\n'\"`\nLAST_ONE=1").get("LAST_ONE") == "1"
        or text.count("\n") == 0
        or any(quote in text for quote in "\"'`")
    )


@pytest.mark.parametrize(
    "line", ['A="x\n', "A='\n", 'A="\\"\n', "A=`'\"\n", "A=\"'\nB='\"\n", "A" * 50, "export ", "\\"]
)
def test_large_files_take_no_time_that_grows_faster_than_they_do(line: str) -> None:
    """Quadratic reading of a megabyte would go on past the limit of a test."""
    parse_env(line * (1_000_000 // len(line)))
