"""find: the expression, which looks like options and is a language of its own."""

from collections.abc import Sequence

from alhena.policy.bash.model import Word
from alhena.policy.bash.readonly.words import listed, one_word, surely_operand

_LEADING = listed("-H -L -P -E -s -x -O0 -O1 -O2 -O3")
_ALONE = listed(
    "! ( ) , -a -and -d -daystart -depth -empty -executable -false -follow -help "
    "-ignore_readdir_race -ls -mount -nogroup -noignore_readdir_race -noleaf -not -nouser -nowarn "
    "-o -or -print -print0 -prune -quit -readable -true -version -warn -writable -xdev --help "
    "--version"
)
_WITH_VALUE = listed(
    "-amin -anewer -atime -cmin -cnewer -context -ctime -fstype -gid -group -ilname -iname -inum "
    "-ipath -iregex -iwholename -links -lname -maxdepth -mindepth -mmin -mtime -name -newer -path "
    "-perm -printf -regex -regextype -samefile -size -type -uid -used -user -wholename "
    "-xtype"
)
_REASONS = {
    **dict.fromkeys(("-exec", "-execdir", "-ok", "-okdir"), "runs a program"),
    **dict.fromkeys(("-fprint", "-fprint0", "-fprintf", "-fls"), "writes to a file"),
    "-delete": "deletes files",
    "-files0-from": "reads the places to search from a file",
}
_NOT_A_PLACE = ("-", "(", "!", ")", ",")


def refuse_find(words: Sequence[Word]) -> str | None:
    """Why the words after `find` may do more than search and print, as one clause, or None."""
    at = 0
    while at < len(words) and words[at].literal and words[at].text in _LEADING:
        at += 1
    while at < len(words) and _is_place(words[at]):
        at += 1
    while at < len(words):
        word = words[at]
        if not word.literal:
            return f"{word.source} could be an option; ./ before a place rules that out"
        at += 1
        if _takes_value(word.text):
            if at >= len(words):
                return f"{word.text} lacks its value"
            if not one_word(words[at]):
                return f"{words[at].source} could become several words; quote it"
            at += 1
        elif word.text not in _ALONE:
            reason = _REASONS.get(word.text, "is not a known test of find")
            return f"{word.text} {reason}"
    return None


def _is_place(word: Word) -> bool:
    return surely_operand(word) and not word.text.startswith(_NOT_A_PLACE)


def _takes_value(text: str) -> bool:
    newer = (
        len(text) == 8 and text.startswith("-newer") and text[6] in "aBcm" and text[7] in "aBcmt"
    )
    return newer or text in _WITH_VALUE
