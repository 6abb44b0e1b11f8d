"""Programs of checkers by name, and files that are not trusted as programs."""

import os
from pathlib import Path

import pytest

from alhena.policy.checker import CheckerError
from alhena.policy.gather import load_policies
from alhena.policy.model import Tier
from alhena.policy.safety_checks import CheckerRegistry
from tests.policy.safety.kit import checkers, directory, external, program, table

ME = os.getuid()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return directory(tmp_path / "home" / ".gemini")


@pytest.fixture
def admin(tmp_path: Path) -> Path:
    return directory(tmp_path / "etc")


def registry(folder: Path, admin: Path) -> CheckerRegistry:
    return CheckerRegistry(folder, admin, admin_owner=ME)


def find_checker(folder: Path, admin: Path, name: str = "mine", tier: Tier = Tier.USER) -> Path:
    (checker,) = checkers(external(name), tier=tier)
    return registry(folder, admin).program(checker)


def refusal(folder: Path, admin: Path, name: str = "mine") -> str:
    with pytest.raises(CheckerError) as refused:
        find_checker(folder, admin, name)
    return str(refused.value)


@pytest.mark.requirement("POL-10")
def test_a_name_means_a_program_of_the_user_or_else_of_the_administrator(
    folder: Path, admin: Path
) -> None:
    theirs = program(admin, "mine", "")
    assert find_checker(folder, admin) == theirs.resolve()
    mine = program(folder, "mine", "")
    assert find_checker(folder, admin) == mine.resolve()


@pytest.mark.requirement("POL-10")
def test_an_administrators_policy_never_means_a_program_of_the_user(
    folder: Path, admin: Path
) -> None:
    program(folder, "mine", "")
    with pytest.raises(CheckerError, match=f"there is no {admin}/mine"):
        find_checker(folder, admin, tier=Tier.ADMIN)
    theirs = program(admin, "mine", "")
    assert find_checker(folder, admin, tier=Tier.ADMIN) == theirs.resolve()


def test_what_is_not_there_is_named_with_the_places_it_was_looked_for(
    folder: Path, admin: Path
) -> None:
    assert refusal(folder, admin) == f"there is no {folder}/mine or {admin}/mine"


@pytest.mark.requirement("POL-10")
def test_only_an_executable_regular_file_is_a_program(folder: Path, admin: Path) -> None:
    program(folder, "plain", "").chmod(0o644)
    (folder / "folder").mkdir(mode=0o755)
    os.mkfifo(folder / "pipe", 0o755)
    (folder / "gone").symlink_to("nowhere")
    assert refusal(folder, admin, "plain").endswith("is not executable")
    assert refusal(folder, admin, "folder").endswith("is not a regular file")
    assert refusal(folder, admin, "pipe").endswith("is not a regular file")
    assert "cannot be read" in refusal(folder, admin, "gone")


@pytest.mark.requirement("POL-10")
@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777])
def test_a_program_that_others_can_change_or_exchange_is_none(
    folder: Path, admin: Path, mode: int
) -> None:
    mine = program(folder, "mine", "")
    mine.chmod(mode)
    assert refusal(folder, admin) == f"{mine} can be written by others than its owner"
    mine.chmod(0o755)
    folder.chmod(mode)
    assert refusal(folder, admin) == f"{folder} can be written by others than its owner"


def test_a_program_of_somebody_else_is_none(folder: Path, admin: Path) -> None:
    program(folder, "mine", "")
    (checker,) = checkers(external("mine"))
    strict = CheckerRegistry(folder, admin, owner=ME + 1, admin_owner=ME + 2)
    with pytest.raises(CheckerError, match=f"is owned by user {ME}"):
        strict.program(checker)


def test_a_link_counts_as_the_file_it_leads_to(folder: Path, admin: Path, tmp_path: Path) -> None:
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir(mode=0o755)
    real = program(bin_folder, "real", "")
    (folder / "mine").symlink_to(real)
    assert find_checker(folder, admin) == real.resolve()
    bin_folder.chmod(0o777)
    assert refusal(folder, admin) == f"{bin_folder} can be written by others than its owner"


@pytest.mark.requirement("POL-10")
def test_what_cannot_be_run_is_a_problem_with_its_place_and_stays_a_checker(
    folder: Path, admin: Path
) -> None:
    program(folder, "good", "")
    given = checkers(external("good"), table(), external("bad-one"))
    (problem,) = registry(folder, admin).problems(given)
    assert (problem.file, problem.line, problem.rule) == ("p.toml", 11, 3)
    assert (problem.is_error, problem.weakens) == (True, False)
    assert str(problem) == (
        f"p.toml:11: safety_checker 3, checker.name 'bad-one' cannot be run: there is no "
        f"{folder}/bad-one or {admin}/bad-one; what it is for is denied. Put an executable file "
        "of yours there that no other user can write to."
    )


@pytest.mark.requirement("POL-10")
def test_checkers_of_all_tiers_are_loaded_with_the_tier_in_their_priority(
    folder: Path, admin: Path, tmp_path: Path
) -> None:
    for place in ("user", "theirs"):
        (tmp_path / place).mkdir(mode=0o755)
        (tmp_path / place / "p.toml").write_text(table(priority="5"), encoding="utf-8")
        (tmp_path / place / "p.toml").chmod(0o644)
    loaded = load_policies(tmp_path / "user", admin_dir=tmp_path / "theirs", admin_owner=ME)
    assert loaded.errors == ()
    tiers = [(checker.rule.author, checker.rule.final_priority) for checker in loaded.checkers]
    assert tiers == [("user", pytest.approx(2.005)), ("admin", pytest.approx(3.005))]
