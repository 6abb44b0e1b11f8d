"""Which arguments make a program that usually only reads write, delete or run something."""

from enum import Enum

import msgspec

WRITES = "writes a file"
DELETES = "deletes files"
RUNS = "runs another program"
SETTINGS = "takes its settings from elsewhere"
CHANGES = "changes more than it shows"
ELSEWHERE = "leads out of the working directory"
CONNECTS = "connects to another host"
CODE = "holds commands"
NOT_PLAIN = "may name a file or a program"


class Style(Enum):
    """How a program spells its options."""

    LETTERS = 0  # letters together, a value attached or in the next word; names may be shortened
    APART = 1  # letters together, each value in a word of its own
    WORDS = 2  # whole words behind one dash or two
    FOLDED = 3  # whole words in any case
    CAMEL = 4  # as LETTERS, names in camel case or with dashes
    NOPT = 5  # any beginning of a name behind any number of dashes, as npm reads them
    LONG_ONLY = 6  # as WORDS, names may be shortened (getopt_long_only)


class Hazards(msgspec.Struct, frozen=True):
    """Of a program or a subcommand: option -> what it does; the options whose value is the next
    word; those that have a value only when it is attached; and options that are flags, whatever
    they look like the beginning of. Options are letters, long names without their dashes, or with
    one dash when that is how the program spells them. `joined`: whole words whose value may follow
    without anything between. `handed`: option -> the table of the program that gets its value, in
    words that commas separate. `at_files`: `@FILE` stands for the arguments in a file."""

    effects: dict[str, str]
    values: frozenset[str]
    attached: frozenset[str]
    harmless: frozenset[str]
    style: Style = Style.LETTERS
    joined: tuple[str, ...] = ()
    handed: "dict[str, Hazards]" = {}
    at_files: bool = False


_EFFECTS = {
    "writes": WRITES,
    "deletes": DELETES,
    "runs": RUNS,
    "settings": SETTINGS,
    "changes": CHANGES,
    "elsewhere": ELSEWHERE,
    "connects": CONNECTS,
    "plain": NOT_PLAIN,
    "code": CODE,
}
_FOLDING = (Style.FOLDED, Style.CAMEL, Style.NOPT)


def option_name(text: str, style: Style) -> str:
    """The name of an option as its table holds it; of letters case matters."""
    bare = text.lstrip("-")
    if len(bare) < 2 or style not in _FOLDING:
        if style in (Style.WORDS, Style.FOLDED, Style.LONG_ONLY):
            return f"-{bare}"
        return bare.replace("_", "-") if len(bare) > 1 else bare
    folded = bare.replace("-", "").replace("_", "").casefold()
    return f"-{folded}" if style is Style.FOLDED else folded


def table(
    values: str = "",
    harmless: str = "",
    style: Style = Style.LETTERS,
    *,
    handed: dict[str, Hazards] | None = None,
    at_files: bool = False,
    **effects: str,
) -> Hazards:
    """The options of a program. A question mark behind one with a value: it has to be attached. An
    equals sign behind one with an effect: it takes a value; an asterisk: also one that is joined to
    it."""
    found: dict[str, str] = {}
    handed = {option_name(name, style): table for name, table in (handed or {}).items()}
    attached = {option_name(name[:-1], style) for name in values.split() if name[-1] == "?"}
    valued = {option_name(name, style) for name in values.split() if name[-1] != "?"}
    joined = {name for name in handed if name.endswith(",")}
    for effect, names in effects.items():
        for name in names.split():
            option = option_name(name.rstrip("=*"), style)
            found[option] = _EFFECTS[effect]
            if name[-1] in "=*":
                valued.add(option)
            if name[-1] == "*":
                joined.add(option)
    return Hazards(
        found,
        frozenset(valued | set(handed) - joined),
        frozenset(attached),
        frozenset(option_name(name, style) for name in harmless.split()),
        style,
        tuple(sorted(joined, key=len, reverse=True)),
        handed,
        at_files,
    )


_GIT_DIFF = table(
    "n S G L O I l since until after before author committer grep max-count skip date encoding "
    "diff-filter diff-algorithm word-diff-regex anchored find-object ws-error-highlight "
    "inter-hunk-context src-prefix dst-prefix line-prefix output-indicator-new "
    "output-indicator-old output-indicator-context decorate-refs decorate-refs-exclude glob "
    "exclude skip-to rotate-to diff-merges stat-width U? M? C? B? X?",
    "text oneline all cached staged stat shortstat name-only name-status patch follow graph "
    "no-color no-merges first-parent reverse numstat summary check decorate",
    writes="output=",
    runs="ext-diff textconv",
)
_GIT_BLAME = table("L S M? C?", writes="output=", runs="textconv ext-diff")
_GIT_FETCH = table(
    "j o depth deepen shallow-since shallow-exclude jobs server-option refmap negotiation-tip",
    "all prune tags quiet verbose",
    runs="upload-pack= exec=",
)
_GIT_PICK = table("m X mainline strategy-option", writes="output=", runs="strategy= ext-diff")
_PAGER = table(runs="pager=")
_SED = table(
    "l line-length",
    writes="i I in-place",
    settings="f= file=",
    code="e= expression=",
)
_AWK = table(
    "F v W field-separator assign",
    runs="l= load= E= exec= i= include= D debug",
    settings="f= file=",
    code="e= source=",
    writes="o pretty-print d dump-variables p profile",
)
_MORE = table(
    "x z b y j P",
    runs="k= lesskey-file= lesskey-src= lesskey-content=",
    writes="o= O= log-file= LOG-FILE=",
)

READERS = {
    "ack": _PAGER,
    "ag": _PAGER,
    "apt": table(runs="o= option= c= config-file="),
    "awk": _AWK,
    "bat": table(
        "l r H m language line-range theme style",
        runs="pager= diff-args=",
        settings="config-file=",
    ),
    "batcat": _PAGER,
    "clang-format": table(style=Style.WORDS, writes="i"),
    "curl": table(
        "X H d F u A e b m x r T Y y z C E Q U P t request header data data-raw data-binary "
        "data-urlencode form user user-agent referer cookie max-time connect-timeout "
        "proxy range retry url cacert cert key",
        "remote-time",
        writes="w= write-out= o= O J D= c= output= remote-name remote-name-all "
        "remote-header-name dump-header= cookie-jar= trace= trace-ascii= stderr= "
        "libcurl= etag-save= hsts= alt-svc= output-dir=",
        settings="K= config=",
        runs="engine=",
    ),
    "date": table("d r f I? date reference file iso-8601?", "iso-8601", changes="s= set="),
    "delta": _PAGER,
    "diff": table("U C I x X F L S W label exclude", runs="l paginate"),
    "diff3": table("L label", runs="diff-program="),
    "dmesg": table(
        "l f n s level facility console-level",
        changes="C c D E n clear read-clear console-off console-on",
    ),
    "fd": table(
        "t e d E S j c type extension exclude max-depth min-depth size threads color",
        "exclude",
        runs="x= X= exec= exec-batch=",
    ),
    "file": table("m F P magic-file separator", writes="C compile"),
    "find": table(
        "name iname path ipath wholename iwholename regex iregex type size mtime mmin atime amin "
        "ctime cmin newer maxdepth mindepth user group perm links inum printf regextype samefile "
        "lname ilname fstype uid gid used xtype newermt",
        style=Style.WORDS,
        runs="exec= execdir= ok= okdir=",
        deletes="delete",
        writes="fprint= fprint0= fprintf= fls=",
    ),
    "gawk": _AWK,
    "git": table(
        "C c git-dir work-tree namespace",
        runs="c= config-env= exec-path p paginate",
        settings="git-dir=",
    ),
    "git apply": table("p C exclude include", changes="unsafe-paths", elsewhere="directory="),
    "git archive": table(
        "prefix format add-file mtime", writes="o= output=", runs="exec=", connects="remote="
    ),
    "git blame": _GIT_BLAME,
    "git bugreport": table("s", writes="o= output-directory="),
    "git annotate": _GIT_BLAME,
    "git bundle": _GIT_DIFF,
    "git cat-file": table("", "batch batch-check", runs="textconv filters"),
    "git cherry-pick": _GIT_PICK,
    "git clone": table(
        "b o j depth branch origin reference jobs",
        runs="u= upload-pack= c= config= template=",
        elsewhere="separate-git-dir=",
    ),
    "git diagnose": table("s", writes="o= output-directory="),
    "git diff": _GIT_DIFF,
    "git diff-files": _GIT_DIFF,
    "git diff-index": _GIT_DIFF,
    "git diff-tree": _GIT_DIFF,
    "git difftool": table(writes="output=", runs="x= extcmd= t= tool="),
    "git fast-export": table(writes="export-marks= output=", runs="ext-diff textconv"),
    "git fetch": _GIT_FETCH,
    "git fetch-pack": _GIT_FETCH,
    "git format-patch": table(
        "n",
        writes="output=",
        runs="ext-diff textconv",
        elsewhere="o= output-directory=",
    ),
    "git grep": table(
        "e f A B C m max-count max-depth",
        "text cached no-index",
        runs="O open-files-in-pager textconv ext-grep",
    ),
    "git init": table("b", runs="template="),
    "git instaweb": table(runs="d= httpd= b= browser= m= module-path="),
    "git log": _GIT_DIFF,
    "git ls-remote": _GIT_FETCH,
    "git merge": table(
        "m F X S? message file strategy-option",
        runs="s= strategy=",
    ),
    "git mergetool": table(runs="t= tool="),
    "git pull": table(
        "j o X depth deepen shallow-since jobs server-option refmap strategy-option",
        "all prune tags quiet verbose rebase ff-only",
        runs="upload-pack= exec= s= strategy=",
    ),
    "git push": table(
        "o push-option", "all tags dry-run", runs="receive-pack= exec=", connects="repo="
    ),
    "git range-diff": _GIT_DIFF,
    "git rebase": table("X onto strategy-option", runs="x= exec= s= strategy="),
    "git reflog": _GIT_DIFF,
    "git replay": _GIT_DIFF,
    "git rev-list": _GIT_DIFF,
    "git revert": _GIT_PICK,
    "git send-email": table(
        runs="sendmail-cmd= to-cmd= cc-cmd= header-cmd= smtp-server= compose-cmd="
    ),
    "git send-pack": table(runs="receive-pack= exec="),
    "git shortlog": _GIT_DIFF,
    "git show": _GIT_DIFF,
    "git stash": _GIT_DIFF,
    "git whatchanged": _GIT_DIFF,
    "git worktree": table("b B reason"),
    "hostname": table(changes="b F= file= boot"),
    "iconv": table("f t from-code to-code", writes="o= output="),
    "journalctl": table(
        "u n? p S U t o unit lines? priority since until output",
        "lines",
        deletes="vacuum-size vacuum-time vacuum-files",
        changes="rotate flush sync relinquish-var setup-keys update-catalog",
        writes="cursor-file=",
    ),
    "less": _MORE,
    "man": table("S s e L R m M C", runs="P= pager= H html X C= config-file="),
    "mawk": _AWK,
    "more": _MORE,
    "nawk": _AWK,
    "rg": table(
        "e f g t T A B C m M r j E d glob iglob type type-not max-count context after-context "
        "before-context replace regexp file sort sortr max-depth encoding threads colors pre-glob",
        "pretty",
        runs="pre= hostname-bin= z search-zip",
    ),
    "rsync": table(
        "f B exclude include filter",
        runs="e= rsh= rsync-path= M= remote-option= config= early-input= daemon",
        writes="log-file= write-batch= only-write-batch=",
        elsewhere="backup-dir= temp-dir= T= partial-dir=",
        deletes="delete del delete-before delete-during delete-delay delete-after delete-excluded "
        "delete-missing-args remove-source-files",
    ),
    "scp": table("P i c l", runs="o= S= D= F=", connects="J="),
    "sdiff": table("w width", writes="o= output=", runs="diff-program="),
    "sed": _SED,
    "sftp": table("P i B R", runs="o= S= D= F=", settings="b=", connects="J="),
    "shuf": table("n i head-count input-range", writes="o= output="),
    "sort": table(
        "k t S key field-separator buffer-size parallel batch-size sort",
        writes="o= output=",
        elsewhere="T= temporary-directory=",
        runs="compress-program=",
    ),
    "ss": table("f A", changes="K kill", writes="D= diag="),
    "ssh": table(
        "p l i b c m B",
        runs="o= F= I= S=",
        writes="E=",
        connects="J= W=",
        changes="L= R= D= w= A X Y",
    ),
    "sysctl": table(changes="w p write load system"),
    "tar": table(
        "b T X exclude strip-components transform",
        "checkpoint",
        connects="f= file=",
        elsewhere="C= directory= one-top-level=",
        changes="P absolute-names",
        runs="I= F= to-command= checkpoint-action= use-compress-program= rsh-command= info-script= "
        "new-volume-script= rmt-command=",
        deletes="remove-files",
        writes="index-file= g= listed-incremental=",
    ),
    "tree": table(
        "L P I H T filelimit charset timefmt sort",
        style=Style.APART,
        writes="o= R output=",
    ),
    "uniq": table("f s w skip-fields skip-chars check-chars"),
    "wget": table(
        "t T U Q tries timeout user-agent header quota",
        writes="O= o= a= P= output-document= output-file= append-output= directory-prefix= "
        "save-cookies= warc-file= hsts-file= rejected-log=",
        runs="e= execute= use-askpass=",
        settings="config=",
    ),
    "xxd": table("l s c g o n R len seek skip cols groupsize offset name", style=Style.WORDS),
    "yq": table("p o I input-format output-format indent", writes="i inplace s= split-exp="),
    "zip": table("x i", runs="T unzip-command=", deletes="m move"),
}
"""Programs that read, and the subcommands of git."""

_OTHER_NAMES = (
    "apt-get=apt bazelisk=bazel bsdtar=tar fdfind=fd gdate=date gfind=find gmake=make "
    "gradlew=gradle gsed=sed gshuf=shuf gsort=sort gtar=tar gvim=vim hub=git mariadb=mysql "
    "mvnd=mvn mvnw=mvn nvim=vim oc=kubectl pip3=pip podman=docker py.test=pytest rview=vim "
    "rvim=vim tofu=terraform vi=vim view=vim vimdiff=vim zless=less"
)
SAME = {other: name for other, _, name in (p.partition("=") for p in _OTHER_NAMES.split())}
"""Other names of programs."""
