"""Rules saved by "always": narrow, and allowing the command asked about, or none."""

from alhena.policy.command_prefix import always_prefix, always_prefixes, prefix_text, root_commands
from alhena.shell.beyond import hazard
from alhena.shell.parse.analysis import analyse
from alhena.shell.prefix import allows, prefix_words
from alhena.shell.tables import all_programs, interpreter, listed, wrapper
from tests.shell.parts import part
from tests.support.each import for_each

SAVED = [
    ("git status -s", "git status"),
    ("git -C sub log -3", "git -C sub log"),
    ("git --no-pager diff HEAD", "git --no-pager diff"),
    ('git commit -m "$M"', "git commit"),
    ("npm run test -- -w", "npm run test"),
    ("npm test", "npm test"),
    ("npm --prefix web run build", "npm --prefix web run build"),
    ("docker compose up -d", "docker compose up"),
    ("docker compose -f x.yml logs web", "docker compose -f x.yml logs"),
    ("cargo test --all", "cargo test"),
    ("cargo +nightly test", "cargo +nightly test"),
    ("go test ./...", "go test"),
    ("go mod tidy", "go mod tidy"),
    ("make test", "make test"),
    ("make -j4 test", "make -j4 test"),
    ("pytest -q tests", "pytest"),
    ("python -m pytest -q", "python -m pytest"),
    ("python3.12 -m mypy src", "python3.12 -m mypy"),
    ("uv run pytest -q", "uv run pytest"),
    ("poetry run mypy .", "poetry run mypy"),
    ("ls -la", "ls"),
    ("grep -r $X .", "grep"),
    ("./gradlew test", "./gradlew test"),
    ("./build.sh --fast", "./build.sh --fast"),
    ("./build.sh", "./build.sh"),
    ("gh pr list", "gh pr list"),
    ("kubectl -n a get pods", "kubectl -n a get"),
    ("CI=1 npm test", "CI=1 npm test"),
    ("A='x y' npm test", "A='x y' npm test"),
    ("flyctl deploy --now", "flyctl deploy"),
    ("'my tool' x", "'my tool' x"),
    ("ls 2>/dev/null", "ls"),
    ("make lint test", "make lint test"),
    ("make -j 4 test", "make -j 4 test"),
    ("mvn -pl web clean test", "mvn -pl web clean test"),
    ("gradle test --tests Foo", "gradle test"),
    ("ninja -C build test", "ninja"),
    ("ctest -R x", "ctest"),
    ("meson compile -C build", "meson compile"),
    ("pre-commit run -a", "pre-commit run"),
    ("frob --level 3 in.txt", "frob --level 3 in.txt"),
    ("frob in.txt out.txt", "frob in.txt out.txt"),
    ("./manage.py migrate --plan", "./manage.py migrate"),
]
REFUSED = [
    *("git", "git push", "git push origin main", "git reset --hard", "git branch -D x", "git clean -f"),
    *("git -c core.pager=x status", "git $X", "git diff --output=f", "git --help"),
    *("npm", "npm install x", "npm exec x", "npm run", "npm x y", "npm publish", "npm --script-shell=x test"),
    *("npx eslint", "uvx ruff", "pipx run x", "pnpm dlx x", "yarn dlx x", "bunx x", "uv run python -c x"),
    *("uv run --with x pytest", "uv run rm x", "bundle exec sh", "uv tool run x", "docker", "docker run x"),
    *("docker exec c ls", "docker compose", "docker compose exec web ls", "docker rm x", "cargo", "cargo run"),
    *("cargo publish", "make", "make X=1", "python x.py", "python", "python -c x", "python -m http.server"),
    *("python -m pip install x", "node x.js", "perl -e x", "ruby x", "php x", "awk '{print}' f", "vim f"),
    *("bash x.sh", "bash -c ls", "sh", "zsh -c x", "fish x", "eval ls", "source x", ". x", "exec ls", "trap x EXIT"),
    *("sudo ls", "env A=1 ls", "env", "timeout 5 npm test", "nohup ls", "xargs ls", "nice ls", "time ls"),
    *("command ls", "busybox ls", "watch ls", "parallel ls ::: a", "strace ls", "find . -name x", "fd x"),
    *("rm x", "rm -rf build", "dd if=a of=b", "mkfs.ext4 x", "chmod +x f", "chown a f", "curl u", "wget u"),
    *("ssh h ls", "scp a b", "mv a b", "cp a b", "tee f", "kill 1", "systemctl status", "psql", "ping h"),
    *("ls > f", "sort -o f g", "sed -i p f", "LD_PRELOAD=x ls", "PATH=. ls", "NODE_OPTIONS=x npm test"),
    *("GIT_PAGER=x git log", "A=$X ls", "A=1", "$X ls", "l* x", "export A=1", "read x", "foo --bar $X"),
    *("kubectl delete pod x", "terraform apply", "aws s3 rm x", "gh pr merge 1", "gh api /x", "pip install x"),
    *("crontab f", "git-push x", "ip netns exec a ls", "tmux new", "/lib/ld-linux.so.2 ls", "gdb x"),
    *("cmake .", "cmake -E rm x", "cmake -P x", "cmake --build b", "gcc a.c", "gcc-12 -c a.c", "cc a.c", "clang++ a.cc"),
    *("x86_64-linux-gnu-gcc a.c", "javac A.java", "rustc a.rs", "ctest -S x", "ninja -f x", "ninja -C ../x"),
    *("mono x.exe", "mono", "erl -eval x", "iex", "ghci", "ghci-9.4 x", "mongosh", "mongosh --eval x", "ipython3 x"),
    *("java -jar x.jar", "sbcl --script x", "octave x.m", "rr record ls", "pixi run ls", "flatpak run x", "heroku run ls"),
    *("zig run x.zig", "dart run x", "rr record rm x", "frob run x", "frob exec x", "./manage.py shell", "frob"),
    *("meson devenv ls", "pre-commit try-repo x", "ip addr", "ip addr add x", "qemu-x86_64 ls", "cross-env A=1 ls"),
    *("mvn test deploy", "mvn test exec:exec", "gradle test publish", "make test X=1", "npm test --prefix ../x"),
    *("go env -w A=b", "sshpass -p x ssh h", "ssh-agent ls", "xcrun ls", "wine x.exe", "tcc -run x.c", "tsserver"),
]  # fmt: skip


@for_each(("command", "prefix"), SAVED)
def test_always_saves_a_narrow_prefix_that_allows_the_command(command: str, prefix: str) -> None:
    words = always_prefix(part(command))
    assert words is not None
    assert prefix_text(words) == prefix
    assert prefix_words(prefix) == words
    assert allows(prefix, part(command))
    assert hazard(part(command), words) is None


@for_each("command", REFUSED)
def test_always_saves_nothing_that_would_be_too_broad(command: str) -> None:
    assert always_prefix(part(command)) is None


def test_no_wrapper_shell_or_interpreter_is_ever_saved_alone() -> None:
    programs = [name for name in all_programs() if interpreter(name) or wrapper(name)]
    programs = [name for name in programs if " " not in name]
    for name in (*programs, *listed("shells"), "python3.11"):
        for arguments in ("", " x", " -x", " x y", " 5 ls", " -- ls"):
            assert always_prefix(part(name + arguments)) is None


def test_always_on_a_line_saves_every_part_of_it() -> None:
    line = "cd web && npm test 2>&1 | tail -5; git status && npm test || true"
    assert always_prefixes(analyse(line)) == ("npm test", "tail", "git status")
    assert always_prefixes(analyse("A='x y' npm test; echo 'a  b'")) == ("A='x y' npm test", "echo")
    for refused in (
        *(
            "git status; rm x",
            "git status && $X",
            "ls > f",
            "ls $((a))",
            "echo 'x",
            "cd x",
            "true",
            "",
        ),
        *("git status; cd $X", "ls $(rm x)", "true > f; ls", "A=1; ls"),
    ):
        assert always_prefixes(analyse(refused)) is None


@for_each(
    ("command", "roots"),
    [
        ("ls -la", ("ls",)),
        ("A=1 B+=2 env | sort; ls & wait", ("env", "sort", "ls", "wait")),
        ("echo 'a; rm x' \"&& b\"", ("echo",)),
        ("cat <in >out 2>&1 && (cd x; make)", ("cat", "cd", "make")),
        (">out echo hi", ("echo",)),
        ("echo $(rm x)", ("echo", "rm")),
        ('echo "`rm x`" <(wc f)', ("echo", "rm", "wc")),
        ("if true; then echo a; fi\nfor f in *; do wc $f; done", ("true", "echo", "wc")),
        ("git log\ngit diff", ("git",)),
        ("echo 'unfinished", ("echo",)),
        ("$EDITOR x", ("$EDITOR",)),
        ("\\rm x; 'ls' y; ~/bin/z", ("rm", "ls", "~/bin/z")),
        ("", ()),
    ],
)
def test_root_commands_are_the_programs_a_command_names(
    command: str, roots: tuple[str, ...]
) -> None:
    assert root_commands(analyse(command)) == roots
