"""git: its global options, and the subcommands and forms that only read."""

import re
from collections.abc import Callable, Sequence

from alhena.policy.bash.model import Word
from alhena.policy.bash.readonly.grammar import Given, listed, read_words
from alhena.policy.bash.readonly.tables import git_grammar

_GLOBAL_FLAGS = listed(
    "--no-pager --no-optional-locks --literal-pathspecs --glob-pathspecs --noglob-pathspecs "
    "--icase-pathspecs --no-replace-objects"
)
_GLOBAL_REASONS = {
    "-c": "sets configuration, which can name programs to run",
    "--config-env": "sets configuration, which can name programs to run",
    "--exec-path": "names the programs that git runs",
    "--git-dir": "names configuration, which can name programs to run",
    "--work-tree": "changes which files are meant",
    "-p": "starts a pager",
    "--paginate": "starts a pager",
    "--help": "starts a viewer of manuals",
}
_LISTING = ("--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
_VERSION = listed("--version -v version")
_NETWORK = listed("clone fetch ls-remote pull push remote-http send-pack")


def refuse_git(words: Sequence[Word]) -> str | None:
    """The reason why the words after `git` may do more than read, as one clause, or None."""
    at = 0
    while at < len(words) and words[at].literal and words[at].text[:1] == "-":
        text = words[at].text
        if text in _VERSION and len(words) == at + 1:
            return None
        if text == "-C":
            at += 1
            if at >= len(words) or not words[at].literal:
                return "the directory after git -C is not known"
        elif text not in _GLOBAL_FLAGS:
            name = text.partition("=")[0]
            return f"git {name} {_GLOBAL_REASONS.get(name, 'is not a known global option')}"
        at += 1
    if at >= len(words):
        return "git needs a subcommand"
    if not words[at].literal:
        return f"{words[at].source} could be any subcommand of git"
    return _refuse_subcommand(words[at].text, words[at + 1 :])


def tells_version(words: Sequence[Word]) -> bool:
    """Do these words, `git` first, only make it tell its version, whatever the directory?"""
    return len(words) == 2 and words[1].literal and words[1].text in _VERSION


def _refuse_subcommand(name: str, words: Sequence[Word]) -> str | None:
    grammar = None
    if words and words[0].literal:
        grammar = git_grammar(f"{name} {words[0].text}")
    if grammar is not None:
        name, words = f"{name} {words[0].text}", words[1:]
    else:
        grammar = git_grammar(name)
    if grammar is None:
        if name in _NETWORK:
            return f"git {name} uses the network"
        return f"git {name} is not in the list of subcommands that only read"
    given = read_words(grammar, f"git {name}", words)
    if isinstance(given, str):
        return given
    check = _FORMS.get(name)
    return _refuse_formats(given) or (check(given) if check else None)


def _refuse_formats(given: Given) -> str | None:
    for value in given.values("--format", "--pretty", "--sort"):
        if not value.literal:
            return f"{value.source} could ask for signatures, for which git runs gpg"
        if "signature" in value.text or re.search(r"%[-+ ]?G", value.text):
            return "signatures make git run gpg"
    return None


def _refuse_branch(given: Given) -> str | None:
    if not given.operands or given.has(*_LISTING):
        return None
    patterns = all(word.literal and set("*?[") & set(word.text) for word in given.operands)
    if given.has("-l") and patterns:
        return None
    return "git branch with a name makes a branch; --list lists"


def _refuse_tag(given: Given) -> str | None:
    if not given.operands or given.has("-l", *_LISTING):
        return None
    return "git tag with a name makes a tag; --list lists"


def _refuse_config(given: Given) -> str | None:
    """Reading forms: `--list`, `--get… NAME [PATTERN]`, `NAME`, and the later `list`, `get NAME`
    (to an older git a name without a dot is an error)."""
    texts = [word.text for word in given.operands]
    if given.has("-l", "--list"):
        reads = not texts
    elif given.has("--get", "--get-all", "--get-regexp", "--get-urlmatch"):
        reads = bool(texts)
    elif len(texts) == 2:
        reads = texts[0] == "get" and given.operands[0].literal and "." in texts[1]
    else:
        reads = len(texts) == 1 and ("." in texts[0] or texts[0] == "list")
    return None if reads else "git config in this form may change the configuration"


_FORMS: dict[str, Callable[[Given], str | None]] = {
    "branch": _refuse_branch,
    "tag": _refuse_tag,
    "config": _refuse_config,
}


SHARED = {
    "diff": """
        -abcDmpqRrstuwWz0123 -B? -C? -G: -I: -l: -M? -O: -S: -U: -X?
        --abbrev[=] --anchored= --base --binary --break-rewrites[=] --cc --check --color[=]
        --color-moved[=] --color-moved-ws= --color-words[=] --combined-all-paths --compact-summary
        --cumulative --diff-algorithm= --diff-filter= --dirstat[=]
        --dirstat-by-file[=] --dst-prefix= --exit-code --find-copies[=] --find-copies-harder
        --find-object= --find-renames[=] --follow --full-index --function-context --histogram
        --ignore-all-space --ignore-blank-lines --ignore-cr-at-eol --ignore-matching-lines=
        --ignore-space-at-eol --ignore-space-change --ignore-submodules[=] --indent-heuristic
        --inter-hunk-context= --irreversible-delete --ita-invisible-in-index
        --ita-visible-in-index --line-prefix= --minimal --name-only --name-status --no-abbrev
        --no-color --no-color-moved --no-diff-merges --no-ext-diff --no-indent-heuristic
        --no-patch --no-prefix --no-relative --no-rename-empty --no-renames --no-textconv
        --numstat --ours --output-indicator-context= --output-indicator-new=
        --output-indicator-old= --patch --patch-with-raw --patch-with-stat --patience
        --pickaxe-all --pickaxe-regex --quiet --raw --relative[=] --rename-empty --rotate-to=
        --shortstat --skip-to= --src-prefix= --stat[=] --stat-count= --stat-graph-width=
        --stat-name-width= --stat-width= --submodule[=] --summary --text --theirs --unified=
        --word-diff[=] --word-diff-regex= --ws-error-highlight= -s
        ! --output writes its result to a file
        ! --ext-diff --textconv runs the program that the configuration names
        ! --diff-merges --remerge-diff may write merged objects""",
    "revisions": """
        -NUM -n: --after= --all --all-match --ancestry-path[=] --author= --author-date-order
        --basic-regexp --before= --bisect --boundary --branches[=] --cherry --cherry-mark
        --cherry-pick --children --committer= --date-order --date= --dense --do-walk --exclude=
        --exclude-first-parent-only --extended-regexp --first-parent --fixed-strings
        --full-history --glob= --graph --grep= --grep-reflog= --ignore-missing --invert-grep
        --left-only --left-right --max-age= --max-count= --max-parents= --merge --merges
        --min-age= --min-parents= --no-graph --no-max-parents --no-merges --no-min-parents
        --no-walk[=] --not --parents --perl-regexp --reflog --regexp-ignore-case
        --relative-date --remotes[=] --remove-empty --reverse --right-only --show-pulls
        --simplify-by-decoration --simplify-merges --since= --since-as-filter= --single-worktree
        --skip= --sparse --tags[=] --timestamp --topo-order --until= --walk-reflogs -E -F -g -i
        -P""",
    "pretty": """
        --abbrev-commit --encoding= --expand-tabs[=] --format= --no-abbrev-commit
        --no-expand-tabs --no-notes --notes[=] --oneline --pretty[=] --show-linear-break[=]
        --show-notes[=]
        ! --show-signature runs gpg""",
    "log": """@diff @revisions @pretty
        -L: --clear-decorations --decorate[=] --decorate-refs= --decorate-refs-exclude=
        --full-diff --log-size --mailmap --no-decorate --no-mailmap --no-source --no-use-mailmap
        --source --use-mailmap""",
    "refs": """--color[=] --contains=? --format= --ignore-case -i --merged=? --no-color
        --no-contains=?
        --no-merged=? --points-at= --sort== --no-sort --omit-empty""",
    "columns": "--column[=] --no-column",
}

TABLES = {
    "status": """guarded @columns
        -bsvz -M? -u? --ahead-behind --branch --find-renames[=] --ignored[=] --ignore-submodules[=]
        --long --no-ahead-behind --no-renames --null --porcelain[=] --renames --short
        --show-stash --untracked-files[=] --verbose""",
    "diff": "guarded @diff --cached --merge-base --no-index --staged --no-merge-base",
    "log": "guarded @log",
    "show": "guarded @log",
    "whatchanged": "guarded @log",
    "reflog": "guarded operands=0 @log",
    "reflog show": "guarded @log",
    "stash list": "guarded @log",
    "stash show": "guarded @diff --include-untracked --only-untracked -u --no-include-untracked",
    "shortlog": """guarded @revisions
        -cens -w? --committer --email --format= --group= --numbered --summary""",
    "rev-list": """guarded @revisions @pretty
        --abbrev[=] --bisect-all --bisect-vars --count --cherry-mark --disk-usage[=]
        --filter= --header --in-commit-order --no-abbrev --no-commit-header --no-filter
        --no-object-names --object-names --objects --objects-edge --quiet --unpacked
        --use-bitmap-index""",
    "rev-parse": """
        -q --absolute-git-dir --abbrev-ref[=] --after= --all --before= --branches[=] --default=
        --exclude= --flags --git-common-dir --git-dir --git-path= --glob= --is-bare-repository
        --is-inside-git-dir --is-inside-work-tree --is-shallow-repository --local-env-vars
        --no-flags --no-revs --path-format= --prefix= --quiet --remotes[=] --revs-only
        --shared-index-path --short[=] --show-cdup --show-object-format[=] --show-prefix
        --show-superproject-working-tree --show-toplevel --since= --symbolic
        --symbolic-full-name --tags[=] --until= --verify""",
    "branch": """guarded @refs @columns
        -alrv --abbrev[=] --all --list --no-abbrev --remotes --show-current --verbose
        ! -d -D --delete deletes branches
        ! -m -M --move -c -C --copy makes branches
        ! -f --force -t --track --create-reflog makes or moves a branch
        ! -u --set-upstream-to --unset-upstream --edit-description changes the configuration""",
    "tag": """guarded @refs @columns
        -l -n? --list
        ! -d --delete deletes tags
        ! -v --verify runs gpg
        ! -a --annotate -s --sign -m --message -F --file -u --local-user -f --force makes a tag
        ! -e --edit runs an editor""",
    "remote": "guarded operands=0 -v --verbose",
    "remote get-url": "guarded operands=1 --all --push",
    "ls-files": """
        -cdfikmostuvz -x: -X: --abbrev[=] --cached --debug --deduplicate --deleted --directory
        --empty-directory --eol --error-unmatch --exclude= --exclude-from=
        --exclude-per-directory= --exclude-standard --format= --full-name --ignored --killed
        --modified --no-empty-directory --others --recurse-submodules --resolve-undo --sparse
        --stage --unmerged --with-tree=""",
    "ls-tree": """
        -dlrtz --abbrev[=] --format= --full-name --full-tree --long --name-only --name-status
        --object-only""",
    "cat-file": """guarded
        -epstz --allow-unknown-type --batch[=] --batch-all-objects --batch-check[=]
        --batch-command[=] --buffer --follow-symlinks --mailmap --no-mailmap --no-use-mailmap
        --unordered --use-mailmap
        ! --textconv --filters runs the program that the configuration names""",
    "blame": """guarded
        -bceflnpstw -C? -L: -M? -S: --abbrev= --color-by-age --color-lines --contents= --date=
        --first-parent --ignore-rev= --ignore-revs-file= --incremental --line-porcelain
        --minimal --no-progress --porcelain --progress --reverse --root --score-debug
        --show-email --show-name --show-number --show-stats --since=""",
    "describe": """guarded
        --abbrev[=] --all --always --candidates= --contains --debug --exact-match --exclude=
        --first-parent --long --match= --tags
        ! --dirty --broken writes the index""",
    "grep": """guarded
        -NUM -0123456789 -acEFGhHIilLnopPqrvwWz -A: -B: -C: -e:: -f: -m: --after-context=
        --all-match
        --and --basic-regexp --before-context= --break --cached --color[=] --column --context=
        --count --exclude-standard --extended-regexp --files-with-matches
        --files-without-match --fixed-strings --full-name --function-context --heading
        --ignore-case --invert-match --line-number --max-count= --max-depth= --name-only
        --no-color --no-exclude-standard --no-index --no-recursive --no-textconv --not --null
        --only-matching --or --perl-regexp --quiet --recurse-submodules --recursive
        --show-function --text --threads= --untracked --word-regexp
        ! -O --open-files-in-pager runs a pager
        ! --textconv runs the program that the configuration names""",
    "config": """guarded operands=2
        -lz -f: --all --blob= --bool --bool-or-int --default= --expiry-date --file=
        --fixed-value --get --get-all --get-regexp --get-urlmatch --global --includes --int
        --list --local --name-only --no-includes --null --path --regexp --show-names
        --show-origin --show-scope --system --type= --url= --value= --worktree
        ! -e --edit runs an editor
        ! --add --replace-all --unset --unset-all --rename-section --remove-section changes it""",
    "worktree list": "guarded -vz --expire= --porcelain --verbose",
    "submodule status": "guarded --cached --quiet --recursive",
    "name-rev": """
        --all --always --annotate-stdin --exclude= --name-only --no-undefined --refs= --tags
        --undefined""",
    "merge-base": "-a --all --fork-point --independent --is-ancestor --octopus",
    "for-each-ref": """guarded @refs --count= --exclude= --include-root-refs --perl --python
        --shell --tcl""",
    "show-ref": """
        -dhqs --abbrev[=] --branches --dereference --exists --hash[=] --head --heads --quiet --tags
        --verify""",
    "symbolic-ref": """guarded operands=1
        -q --no-recurse --quiet --recurse --short
        ! -d --delete deletes a reference""",
    "diff-tree": """guarded @diff @pretty
        -cmrtvz --always --cc --merge-base --no-commit-id --root --stdin""",
    "diff-index": "guarded @diff -m --cached --merge-base",
    "diff-files": "guarded @diff -q -0",
    "range-diff": """guarded @diff --creation-factor= --left-only --no-dual-color --no-notes
        --right-only""",
    "show-branch": """guarded
        -agr --all --color[=] --current --date-order --independent --list --merge-base
        --more= --no-color --no-name --remotes --sha1-name --sparse --topics --topo-order""",
    "cherry": "-v --abbrev[=] --verbose",
    "count-objects": "guarded operands=0 -Hv --human-readable --verbose",
    "check-ignore": "-nqvz --no-index --non-matching --quiet --stdin --verbose",
    "check-attr": "-az --all --cached --source= --stdin",
    "check-ref-format": "--allow-onelevel --no-allow-onelevel --normalize --refspec-pattern",
    "notes list": "guarded operands=1",
    "notes show": "guarded operands=1",
    "version": "--build-options",
}

ALIASES = {"annotate": "blame"}
