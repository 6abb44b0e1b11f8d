"""The rescue rate of each step of the edit ladder over the corpus of models' faulty edits
(tests/support/edit_cases.py): `python -m scripts.edit_rungs`.

The first table has a row for each kind of edit: in its columns the cases that a step finds and no
earlier one, under "missed" those that no step finds (right where nothing should change), under
"WRONG" files that came out differently than intended. The second table adds up the edits that only
the step, or a later one, rescues. The cases are made, not recorded: compare steps and versions by
them; the shares do not say how often models make a mistake. A step under 1 % should go."""

from collections import Counter

from tests.support.edit_cases import KINDS, Case, cases

from alhena.system.encoding import decode_text, encode_text
from alhena.tools.edit.matching import MatchStep, find
from alhena.tools.edit.splicing import splice_file

RUNGS = [rung for rung in MatchStep if rung is not MatchStep.CORRECTED]


def outcome(case: Case) -> tuple[str, bool]:
    """The step that made the edit, or "missed", and True if the result was right."""
    file = decode_text(case.before)
    match = find(file, case.params["old_string"], case.params["new_string"], fuzzy=True)
    if match is None or match.edits is None:
        return "missed", case.after == case.before
    return match.rung.value, encode_text(splice_file(file, match.edits), file.codec) == case.after


def main() -> None:
    rescued: Counter[str] = Counter()
    wanted = 0
    print(f"{'edits':<28}{'cases':>6}" + "".join(f"{rung:>14}" for rung in RUNGS) + "  missed")
    for kind in KINDS:
        found = [(case, *outcome(case)) for case in cases(kind)]
        by = Counter(rung for _, rung, _ in found)
        wrong = [case.name for case, rung, right in found if rung != "missed" and not right]
        print(
            f"{kind:<28}{len(found):>6}"
            + "".join(f"{by[rung] or '':>14}" for rung in RUNGS)
            + f"{by['missed'] or '':>8}"
            + (f"  WRONG: {', '.join(wrong)}" if wrong else "")
        )
        wanted += sum(case.after != case.before for case, _, _ in found)
        rescued.update(rung for _, rung, right in found if rung != "missed" and right)
    print(f"\n{wanted} edits that should be made:")
    for rung in RUNGS:
        print(f"  {rung:<14}{rescued[rung]:>5}  {rescued[rung] / wanted:6.1%}")


if __name__ == "__main__":
    main()
