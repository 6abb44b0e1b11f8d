"""Arguments by which an allowed build, test or package tool reaches further than the rule says."""

import pytest

from alhena.shell.beyond import hazard
from tests.shell.parts import part
from tests.support.each import for_each

ONE_WORD = [
    *("make -C ../evil", "make -C/evil", "make --directory=/evil", "make -j 'SHELL=./evil'", "make -sC ../evil"),
    *("pytest -c x", "pytest -p evil", "pytest ../evil", "pytest ~/evil", "pytest /evil", "pytest tests/$x"),
    *("pytest @args", "pytest --junitxml=x", "pytest --basetemp=x", "pytest a/../../evil::t", "pytest -o a=b"),
    *("pytest --cov-report=html:../x", "pytest --rootdir=..", "tsc -p ../evil", "tsc --outDir x", "tsc -OUTDIR x"),
    *("tsc @x", "eslint -f ./evil.js .", "eslint --parser=./x .", "pylint --init-hook=x a", "flake8 --config=x"),
    *("mypy --config-file=x", "mypy --install-types", "jest --rootDir ../evil", "jest --root-dir=../evil"),
    *("vitest --coverage.reportsDirectory=src", "mocha -r ./evil", "rspec -r ./x", "rspec ../x", "rubocop -A"),
    *("tox -x a=b", "gcc -wrapper evil,x a.c", "gcc -fplugin=x a.c", "ctest -S x", "ninja -f x", "ninja -C ../x"),
    *("cmake -P x", "cmake -E env rm", "cmake --build b -- -f evil.mk", "cmake -DCMAKE_C_COMPILER=evil", "rustc -C linker=x a"),
    *("curl -w '%output{x}' u", "curl -w @x u", "golangci-lint run --fix", "rg -z x", "tree -Po '*' out", "tree -L1o x"),
    *("sed -I .bak p f", "awk -e 1 -e 'BEGIN{system(\"x\")}'", "mawk -W x 'BEGIN{system(\"x\")}'", "gofmt -d -w x.go"),
    *("date -I --set=x", "date -I 010100002030", "date --iso-8601 --set=x", "fd -g -x rm", "fd -g --exec rm"),
    *("uv run --directory ../evil pytest", "python -m pytest -p evil", "apt-get -o A=b update", "nox -f x"),
]  # fmt: skip
TWO_WORDS = [
    *("npm test --prefix ../evil", "npm test -C ../evil", "npm test -sC ../evil", "npm test --pref=/evil"),
    *("npm test -script-shell=./x", "npm test -scr=./x", "npm test ---script-shell=./x", "npm test --Script_Shell ./x"),
    *("npm test --cache=OUT", "npm test --logs-dir=OUT", "npm test --@x:registry=http://x", "npm test $X"),
    *("npm test --node-options=--require=./x", "pnpm test -C ../evil", "pnpm test --config.script-shell=./x"),
    *("yarn test --cwd ../evil", "cargo test --manifest-path ../evil/Cargo.toml", "cargo test -C /evil"),
    *("cargo test -- --logfile=.git/x", "cargo clippy --fix", "cargo clippy -- -C linker=x", "cargo doc --open"),
    *("go test -C ../evil", "go test -ldflags=-extld=evil", "go test -gcflags=-cpuprofile=x", "go env -w A=b"),
    *("go test ./... -args -test.coverprofile=x", "terraform plan -out=x", "make test deploy", "mvn test deploy"),
    *("mvn test -Dexec.executable=rm", "mvn test -f ../evil", "gradle test publish", "gradle test -I evil.gradle"),
    *("dotnet test -p:CustomBeforeMicrosoftCommonTargets=x", "dotnet test /p:A=b", "dotnet test ../evil"),
    *("docker build ../evil", "docker build -f ../evil .", "docker compose --project-directory ../x"),
    *("mix test ../evil.exs", "kubectl get --token=x pods", "meson test --wrapper=evil", "uv sync --directory ../x"),
    *("gh pr view --web", "bundle install --gemfile=../x", "git log --decorate-refs -- --output=x", "git diff -L --output=x"),
    *("git cherry-pick --output=x HEAD", "git rev-list --output=x HEAD", "git blame -M --output=x f"),
    *("git log -p -M --ext-diff", "git show -M --textconv", "git log --stat \"$X\""),
]  # fmt: skip
PLAIN = [
    *("make -j 4 test", "make -j4 -C src test V=1", "make --jobs 4", "pytest -p no:cacheprovider", "python -m pytest -q"),
    *("pytest --cov=src --cov-report=term-missing", "pytest -x -q tests/a.py::test_b[../x]", "pytest tests/*.py --co -q"),
    *("pytest -k 'a or b' -n auto --maxfail 1", "tsc -p tsconfig.build.json --noEmit", "tsc --noEmit --pretty"),
    *("jest --watch=false --ci --coverage", "vitest run --reporter=verbose", "eslint -f json .", "xxd -s 5 -l 10 a"),
    *("xxd -len 5 a", "date -Iseconds", "date --iso-8601=s", "shuf -n 3 a", "ninja -C build test", "mypy src --strict"),
    *("cmake -S . -B build -DCMAKE_BUILD_TYPE=Release", "cmake --build build --target x -j 4", "tree -L 2 -I x"),
    *("uv sync --frozen", "fd -g '*.py'", "curl -s -w '%{http_code}' u", "ruff check --select E src", "gcc -O2 -Wall a.c"),
    *("rspec -f doc spec", "sort -t, -k2 -n f", "terraform plan -out=/dev/null -var a=b", "prettier --check src"),
]  # fmt: skip
PLAIN_TWO = [
    *("npm test --prefix web", "npm test --silent", "npm test -s", "npm test --coverage", "npm run build -- --prefix=/"),
    *("npm test --workspace=a -- --cache --prefix ..", "npm run test:unit -- -u", "pnpm test --filter web"),
    *("go test -ldflags '-s -w -X main.v=1' ./...", "go test -run X -v -count=1 ./...", "go list -m -u all"),
    *("cargo test -p a --features b --release -- --nocapture", "cargo test --manifest-path crates/a/Cargo.toml"),
    *("git log --oneline -- a", "git log --oneline -- $X", "git log --stat HEAD", "git log -M -C -p", "git stash push -m x"),
    *("git show --pretty=fuller HEAD", "git log -n 3 --format=%h -- $X", "docker build -t a -f docker/Dockerfile ."),
    *("mvn test -DskipTests -Pci", "mvn test -pl web", "gradle test --tests Foo", "dotnet test -c Release src/x.csproj"),
    *("kubectl get pods -o json -w", "gh run list -w ci.yml", "meson test -C build", "mix test test/a.exs", "make test -j 4"),
]  # fmt: skip


def find_hazard(command: str, count: int) -> str | None:
    only = part(command)
    return hazard(only, tuple(word.text for word in only.words[:count]))


@for_each("command", ONE_WORD)
def test_beyond_the_program_that_a_rule_names_a_hazard_is_seen(command: str) -> None:
    assert find_hazard(command, 1) is not None


@for_each("command", TWO_WORDS)
def test_beyond_the_subcommand_that_a_rule_names_a_hazard_is_seen(command: str) -> None:
    assert find_hazard(command, 2) is not None


@for_each("command", PLAIN)
def test_ordinary_arguments_of_builds_are_none(command: str) -> None:
    assert find_hazard(command, 1) is None


@for_each("command", PLAIN_TWO)
def test_nor_are_those_of_their_subcommands(command: str) -> None:
    assert find_hazard(command, 2) is None


@pytest.mark.parametrize(
    ("count", "command", "hazardous"),
    [
        (3, "npm --prefix ../web test", False),
        (2, "npm --prefix ../web test", True),
        (3, "make -C ../lib", False),
        (2, "make test deploy", True),
        (3, "make test deploy", False),
        (3, "pytest -p evil", False),
        (2, "cargo --config x test", True),
    ],
)
def test_what_the_rule_names_with_its_value_is_meant(
    count: int, command: str, hazardous: bool
) -> None:
    assert (find_hazard(command, count) is not None) is hazardous


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("npm test -C ../x", "-C ../x leads out of the working directory, and the rule does not name it"),
        ("pytest ../x", "../x leads out of the working directory, and the rule does not name it"),
        ("make test deploy", "deploy is another target, and the rule does not name it"),
        ("git log --stat --output=x", "--output writes a file, and the rule does not name it"),
    ],
)  # fmt: skip
def test_it_is_one_sentence_that_names_the_argument(command: str, sentence: str) -> None:
    assert find_hazard(command, 1 if command.startswith("pytest") else 2) == sentence
