import base64
import os
import threading
from pathlib import Path

import pytest

from alhena.system.workspace import Workspace
from alhena.tools.builtin.read_many_files import ReadManyFiles
from alhena.tools.contract import ExecutionContext, Kind, ToolFailure, ToolResult
from alhena.tools.response import response_parts
from alhena.wire.content import Part
from tests.support.media import pdf, png
from tests.tools.files import call, failure_type, text_of, unprivileged

PNG = png(bytes(range(256)))
PDF = pdf()
END = "\n--- End of content ---"
NOTHING = "No files matching the criteria were found or all were skipped."


@pytest.fixture
def many(project: Path) -> ReadManyFiles:
    return ReadManyFiles(Workspace(project))


def put(top: Path, **files: str | bytes) -> None:
    for name, content in files.items():
        write(top / name.replace("__", "/").replace("_", "."), content)


def write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def names(result: ToolResult, project: Path) -> list[str]:
    """The files of a result, in order."""
    content = result.llm_content
    texts = [content] if isinstance(content, str | Part) else list(content)
    lines = "".join(text for text in texts if isinstance(text, str)).split("\n")
    start = f"--- {project}/"
    return [x.removeprefix(start).removesuffix(" ---") for x in lines if x.startswith(start)]


@pytest.mark.requirement("TOOLS-15")
async def test_texts_come_after_their_paths_and_an_end_mark(
    many: ReadManyFiles, project: Path
) -> None:
    put(project, b_py="b = 1\n", a_md="# A")
    result = await call(many, paths=["b.py", "a.md"])
    assert text_of(result) == (
        f"--- {project}/b.py ---\n\nb = 1\n\n\n--- {project}/a.md ---\n\n# A\n\n{END}"
    )
    assert result.data == {"processed": 2, "skipped": 0, "ignored": 0, "over_limit": 0}


@pytest.mark.requirement("TOOLS-15")
async def test_files_directories_and_globs_come_in_the_order_asked_for_and_once(
    many: ReadManyFiles, project: Path
) -> None:
    for name in ("z.txt", "src/b.py", "src/a.py", "src/deep/c.py", "docs/x.md", "docs/in/y.md"):
        write(project / name, "x")
    result = await call(many, paths=["z.txt", "src/**/*.py", "docs", "src/a.py"])
    assert names(result, project) == [
        "z.txt", "src/a.py", "src/b.py", "src/deep/c.py", "docs/x.md", "docs/in/y.md",
    ]  # fmt: skip
    assert names(await call(many, paths=["docs"], recursive=False), project) == ["docs/x.md"]
    more = await call(many, paths=["z.txt"], include=["docs/*.md"], exclude=["z.*"])
    assert names(more, project) == ["docs/x.md"]


async def test_include_alone_is_taken_as_the_paths(many: ReadManyFiles, project: Path) -> None:
    put(project, a_py="1", b_md="2")
    assert names(await call(many, include=["*.py"]), project) == ["a.py"]


@pytest.mark.parametrize(
    ("exclude", "left"),
    [
        (["*.min.js"], "a.js sub/b.js sub/deep/c.js"),
        (["sub"], "a.js x.min.js"),
        (["sub/"], "a.js x.min.js"),
        (["sub/**"], "a.js x.min.js"),
        (["sub/deep/*.js", "./a.js"], "sub/b.js x.min.js"),
        (["**/c.js", "{a,x.min}.js"], "sub/b.js"),
    ],
)
async def test_exclusions_go_by_name_and_by_path(
    many: ReadManyFiles, project: Path, exclude: list[str], left: str
) -> None:
    for name in ("a.js", "x.min.js", "sub/b.js", "sub/deep/c.js"):
        write(project / name, "x")
    result = await call(many, paths=["**/*.js"], exclude=exclude)
    assert sorted(names(result, project)) == left.split()


@pytest.mark.requirement("TOOLS-15")
async def test_media_come_only_when_asked_for_by_name_or_extension(
    many: ReadManyFiles, project: Path
) -> None:
    put(project, logo_png=PNG, doc_pdf=PDF, a_txt="text\n")
    swept = await call(many, paths=["**/*"])
    assert names(swept, project) == ["a.txt"]
    assert f"- {project}/logo.png: image/png; name the file or its extension" in text_of(swept)
    for paths in (["logo.png"], ["*.png"], ["**/*.{jpg,PNG}"], ["logo.*"]):
        content = (await call(many, paths=paths)).llm_content
        assert isinstance(content, tuple)
        assert content[0] == f"--- {project}/logo.png ---\n\n(image/png)\n\n"
        assert isinstance(content[1], Part)
        assert content[1].inline_data is not None
        assert base64.b64decode(content[1].inline_data.data) == PNG
        assert content[2] == END


@pytest.mark.requirement("TOOLS-15", "WIRE-12")
async def test_texts_are_one_output_and_media_stand_beside_it(
    many: ReadManyFiles, project: Path
) -> None:
    put(project, a_txt="one\n", b_pdf=PDF, c_txt="two\n")
    result = await call(many, paths=["a.txt", "b.pdf", "c.txt"])
    first, *beside = response_parts("read_many_files", "id", result.llm_content)
    assert first.function_response is not None
    output = first.function_response.response["output"]
    between = f"--- {project}/b.pdf ---\n\n(application/pdf)\n\n\n--- {project}/c.txt ---"
    assert output == f"--- {project}/a.txt ---\n\none\n\n\n{between}\n\ntwo\n\n\n{END}"
    assert [part.inline_data and part.inline_data.mime_type for part in beside] == [
        "application/pdf"
    ]


async def test_a_file_that_is_cut_says_so(many: ReadManyFiles, project: Path) -> None:
    put(project, long_txt="line\n" * 2_500, wide_txt="x" * 3_000)
    text = text_of(await call(many, paths=["long.txt", "wide.txt"]))
    warning = (
        "[WARNING: This file was truncated. To view the full content, use the 'read_file' tool on "
        "this specific file.]\n\n"
    )
    assert f"--- {project}/long.txt ---\n\n{warning}[Showing lines 1-2000 of 2500.]\n\nl" in text
    assert "[Showing lines 1-1 of 1; 1 of them are longer than shown.]\n\nxxx" in text
    assert "x" * 2_000 + "... [truncated]\n" in text


@pytest.mark.requirement("TOOLS-15")
async def test_default_exclusions_leave_out_what_nobody_wants_to_read(
    many: ReadManyFiles, project: Path
) -> None:
    hidden = ("node_modules/m/i.js", "dist/a.js", "sub/build/b.js", "__pycache__/c.py", ".env",
              "x.pyc", "a.zip", "GEMINI.md", ".git/HEAD", ".vscode/s.json")  # fmt: skip
    for name in (*hidden, "a.js", ".eslintrc"):
        write(project / name, "x")
    assert names(await call(many, paths=["."]), project) == [".eslintrc", "a.js"]
    everything = await call(many, paths=["**/*"], useDefaultExcludes=False)
    left = {*hidden, "a.js", ".eslintrc"} - {".git/HEAD", ".env"}
    assert set(names(everything, project)) == left


async def test_what_is_named_is_read_though_it_would_be_left_out(
    many: ReadManyFiles, project: Path
) -> None:
    put(project, _gitignore="*.log\nbuild/\n", _geminiignore="*.key\n")
    for name in ("a.log", "build/x.js", "dist/y.js", ".env", "k.key", "build/z.key"):
        write(project / name, "x")
    for paths, found in (
        (["a.log", ".env"], ["a.log", ".env"]),
        (["build"], ["build/x.js"]),
        (["build/*.js", "dist/**"], ["build/x.js", "dist/y.js"]),
        (["*.log"], []),
    ):
        assert names(await call(many, paths=paths), project) == found, paths
    closed = text_of(await call(many, paths=["k.key"]))
    assert closed == f"{NOTHING}\n\n- {project}/k.key: .geminiignore leaves it out"
    opened = {"respect_git_ignore": False, "respect_gemini_ignore": False}
    result = await call(many, paths=["*.{log,key}"], file_filtering_options=opened)
    assert names(result, project) == ["a.log"]
    result = await call(many, paths=["k.key"], file_filtering_options=opened)
    assert names(result, project) == ["k.key"]


async def test_ignored_files_are_counted(many: ReadManyFiles, project: Path) -> None:
    put(project, _gitignore="*.log\n", a_log="x", b_log="x", c_txt="c")
    result = await call(many, paths=["*"], exclude=["b.*", ".*"])
    assert text_of(result) == (
        f"--- {project}/c.txt ---\n\nc\n\n--- Not included ---\n\n"
        f"- 1 files are left out by ignore files.\n{END}"
    )


@pytest.mark.requirement("TOOLS-15")
async def test_what_cannot_be_read_is_named_with_its_reason(
    many: ReadManyFiles, project: Path
) -> None:
    put(project, a_bin=b"\0\1\2" * 99, ok_txt="ok")
    os.mkfifo(project / "fifo")
    (project / "gone").symlink_to("nowhere")
    (project.parent / "secret").write_text("secret", encoding="utf-8")
    (project / "way-out").symlink_to("../secret")
    paths = ["ok.txt", "missing.txt", "fifo", "gone", "**/*"]
    text = text_of(await call(many, paths=paths, useDefaultExcludes=False))
    assert text.split("--- Not included ---\n\n")[1].removesuffix(f"\n{END}").split("\n") == [
        "- missing.txt: there is no such file",
        f"- {project}/fifo: a FIFO, not a regular file",
        f"- {project}/gone: a link that leads nowhere",
        f"- {project}/a.bin: a binary file that cannot be shown",
        f"- {project}/way-out: it leads outside the workspace",
    ]
    assert "secret" not in text.replace("../secret", "")


@pytest.mark.requirement("TOOLS-15")
async def test_names_of_nothing_are_a_failure_that_names_them_all(
    many: ReadManyFiles, project: Path
) -> None:
    write(project / "a.bin", b"\0\1\2" * 99)
    gone = [f"gone-{number:02}.txt" for number in range(40)]
    result = await call(many, paths=[*gone, "a.bin", "**/*.py"])
    assert failure_type(result) == "file_not_found"
    assert text_of(result) == (
        f"{NOTHING} There is no such file: {', '.join(gone)}. "
        f"Also: {project}/a.bin: a binary file that cannot be shown. Find it with glob."
    )
    assert "- `gone-00.txt` (there is no such file)" in str(result.display)
    put(project, b_py="b")
    found = await call(many, paths=["gone.txt", "*.py", "*.md"])
    assert "--- Not included ---\n\n- gone.txt: there is no such file\n" in text_of(found)
    assert (found.error, (await call(many, paths=["*.md", "a.bin"])).error) == (None, None)


async def test_a_link_to_a_directory_is_said_to_be_one_and_read_when_named(
    many: ReadManyFiles, project: Path
) -> None:
    put(project, sub__a_txt="a", b_txt="b")
    (project / "link").symlink_to("sub")
    result = await call(many, paths=["**/*"])
    assert names(result, project) == ["b.txt", "sub/a.txt"]
    assert (
        f"- {project}/link: a symbolic link to a directory; name it in `paths` to get what is below"
        " it\n" in text_of(result)
    )
    assert names(await call(many, paths=["link"]), project) == ["link/a.txt"]


async def test_the_users_ignore_rules_are_those_of_the_session(
    project: Path, tmp_path: Path
) -> None:
    write(tmp_path / "theirs/git/ignore", "*.log\n")
    put(project, _git__HEAD="x", a_log="a", b_txt="b")
    environ = {"HOME": "/", "XDG_CONFIG_HOME": str(tmp_path / "theirs")}
    for given, read in ((environ, ["b.txt"]), ({"HOME": "/"}, ["a.log", "b.txt"])):
        many = ReadManyFiles(Workspace(project), environ=given)
        assert names(await call(many, paths=["*"]), project) == read


async def test_a_link_to_a_file_that_geminiignore_closes_stays_closed(
    many: ReadManyFiles, project: Path
) -> None:
    put(project, _geminiignore="*.key\n", a_key="needle")
    (project / "open.txt").symlink_to("a.key")
    for path in ("open.txt", "*.txt"):
        assert "needle" not in text_of(await call(many, paths=[path]))


async def test_a_file_without_permission_is_skipped(many: ReadManyFiles, project: Path) -> None:
    put(project, a_txt="a", b_txt="b")
    (project / "a.txt").chmod(0)
    with unprivileged(project):
        result = await call(many, paths=["*.txt"])
    assert names(result, project) == ["b.txt"]
    assert "a.txt: Permission denied" in text_of(result)


async def test_what_does_not_fit_is_counted_and_named(project: Path) -> None:
    many = ReadManyFiles(Workspace(project), most_characters=400, most_media=400)
    put(project, a_txt="a" * 100, b_txt="b" * 500, c_txt="c", d_png=PNG, e_png=PNG)
    result = await call(many, paths=["*.txt", "*.png"])
    assert names(result, project) == ["a.txt", "c.txt", "d.png"]
    assert result.data is not None
    assert result.data["over_limit"] == 2
    assert f"- 2 files did not fit into one result: {project}/b.txt, {project}/e.png. Read" in str(
        result.llm_content
    )


async def test_what_cannot_fit_any_more_is_counted_without_being_read(project: Path) -> None:
    for number in range(100):
        write(project / f"{number:03}.txt", "x" * 300)
    write(project / "z.txt", "small")
    many = ReadManyFiles(Workspace(project), most_characters=500)
    result = await call(many, paths=["*.txt"])
    assert names(result, project) == ["000.txt"]
    assert "- 100 files did not fit into one result: " in text_of(result)
    assert f"{project}/020.txt, and 80 more. Read them with a further call." in text_of(result)


async def test_every_root_is_looked_in(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    put(project, a_py="1")
    put(other, b_py="2", c_md="3")
    many = ReadManyFiles(Workspace(project, [other]))
    text = text_of(await call(many, paths=["*.py", "c.md", f"{other}/*.md"]))
    heads = [line for line in text.split("\n") if line.startswith("--- /")]
    assert heads == [f"--- {p} ---" for p in (project / "a.py", other / "b.py", other / "c.md")]


async def test_links_in_circles_end(many: ReadManyFiles, project: Path) -> None:
    put(project, sub__a_txt="a")
    (project / "sub/up").symlink_to("..")
    assert names(await call(many, paths=["**/*.txt"]), project) == ["sub/a.txt"]


async def test_encodings_are_read_and_said(many: ReadManyFiles, project: Path) -> None:
    put(project, a_txt="\ufeffé\r\n".encode("utf-16-le"), b_txt=b"caf\xe9 \x80\n")
    text = text_of(await call(many, paths=["*.txt"]))
    assert "a.txt ---\n\né\n\n\n" in text
    assert "[NOTE: The file is not valid UTF-8" in text
    assert "café" in text


@pytest.mark.requirement("TOOLS-15")
async def test_people_see_a_summary(many: ReadManyFiles, project: Path) -> None:
    for number in range(12):
        write(project / f"t{number:02}.txt", "x")
        write(project / f"m{number:02}.png", PNG)
    result = await call(many, paths=["*"])
    assert isinstance(result.display, str)
    assert result.display.split("\n") == [
        "### ReadManyFiles Result", "", "Read **12 file(s)**.", "", "**Processed files:**",
        *(f"- `{project}/t{number:02}.txt`" for number in range(10)), "- … and 2 more", "",
        "**Skipped 12 item(s):**",
        *(
            f"- `{project}/m{number:02}.png` (image/png; name the file or its extension in `paths` "
            "to get it)"
            for number in range(5)
        ),
        "- … and 7 more",
    ]  # fmt: skip


async def test_nothing_found_is_said(many: ReadManyFiles) -> None:
    result = await call(many, paths=["*.py"])
    assert text_of(result) == NOTHING
    assert result.error is None


@pytest.mark.requirement("TOOLS-15")
@pytest.mark.parametrize(
    ("params", "type"),
    [
        ({}, "invalid_tool_params"),
        ({"paths": []}, "invalid_tool_params"),
        ({"paths": [""]}, "invalid_tool_params"),
        ({"paths": [" "]}, "invalid_tool_params"),
        ({"paths": "a.txt"}, "invalid_tool_params"),
        ({"paths": ["a\0b"]}, "invalid_tool_params"),
        ({"paths": ["[a"]}, "invalid_tool_params"),
        ({"paths": ["a"], "exclude": ["[a"]}, "invalid_tool_params"),
        ({"paths": ["{a,b}" * 20]}, "invalid_tool_params"),
        ({"paths": ["x"] * 201}, "invalid_tool_params"),
        ({"paths": ["../outside.txt"]}, "path_not_in_workspace"),
        ({"paths": ["../*.txt"]}, "path_not_in_workspace"),
        ({"paths": ["/etc/*"]}, "path_not_in_workspace"),
        ({"paths": ["a"], "include": ["/etc/passwd"]}, "path_not_in_workspace"),
    ],
)
async def test_bad_parameters_are_a_typed_failure(
    many: ReadManyFiles, params: dict[str, object], type: str
) -> None:
    assert failure_type(await call(many, **params)) == type


async def test_a_cancelled_read_stops_between_files(many: ReadManyFiles, project: Path) -> None:
    put(project, a_txt="a")
    built = many.build({"paths": ["a.txt"]})
    assert not isinstance(built, ToolFailure)
    cancelled = threading.Event()
    cancelled.set()
    result = await built.execute(ExecutionContext(project, cancellation=cancelled))
    assert text_of(result) == NOTHING


def test_a_call_is_described_and_located(many: ReadManyFiles, project: Path) -> None:
    built = many.build({"paths": ["a.txt", "src/**/*.py"], "include": ["*.md"]})
    assert not isinstance(built, ToolFailure)
    assert built.describe() == "a.txt, src/**/*.py, *.md"
    places = [place.path for place in built.locations()]
    assert places == [f"{project}/a.txt", f"{project}/src", str(project)]
    assert (many.name, many.kind, many.is_output_markdown) == ("read_many_files", Kind.READ, True)
    assert "--- path ---" in many.description
