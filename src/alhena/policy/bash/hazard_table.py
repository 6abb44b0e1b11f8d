"""Which arguments make a program that usually only reads write, delete or run something."""

import msgspec

WRITES = "writes a file"
DELETES = "deletes files"
RUNS = "runs another program"
SETTINGS = "takes its settings from elsewhere"
CHANGES = "changes more than it shows"


class Hazards(msgspec.Struct, frozen=True):
    """Of a program or a subcommand: option -> what it does; the options that take a value; and
    harmless options that look like the beginning of one of the former. Options are letters, long
    names without their dashes, or with one dash when that is how the program spells them."""

    effects: dict[str, str]
    values: frozenset[str]
    harmless: frozenset[str]


def _table(values: str, harmless: str = "", **effects: str) -> Hazards:
    """An equals sign behind an option with an effect: it takes a value."""
    meaning = {
        "writes": WRITES,
        "deletes": DELETES,
        "runs": RUNS,
        "settings": SETTINGS,
        "changes": CHANGES,
    }
    found: dict[str, str] = {}
    valued = set(values.split())
    for effect, names in effects.items():
        for name in names.split():
            found[name.removesuffix("=")] = meaning[effect]
            if name.endswith("="):
                valued.add(name.removesuffix("="))
    return Hazards(found, frozenset(valued), frozenset(harmless.split()))


_GIT_DIFF = _table(
    "n S G L U O M C format pretty since until after before author committer grep max-count skip "
    "stat diff-filter diff-algorithm word-diff-regex",
    "text",
    writes="output=",
    runs="ext-diff textconv",
)
_GIT_FETCH = _table(
    "j o depth deepen shallow-since jobs server-option refmap",
    runs="upload-pack= exec=",
)
_PAGER = _table("", runs="pager=")
_SED = _table("e f l expression file line-length", writes="i in-place", settings="f= file=")
_AWK = _table(
    "F v f field-separator assign file",
    runs="l= load= E= exec= i= include= D debug",
    settings="f= file=",
    writes="o pretty-print d dump-variables p profile",
)
_MORE = _table(
    "x z b y j P",
    runs="k= lesskey-file= lesskey-src= lesskey-content=",
    writes="o= O= log-file= LOG-FILE=",
)
_KUBECTL = _table(
    "n l o s f namespace selector output context cluster",
    "kube",
    settings="kubeconfig=",
)

HAZARDS = {
    "ack": _PAGER,
    "ag": _PAGER,
    "awk": _AWK,
    "bat": _table("l r H m language line-range theme style", runs="pager= diff-args="),
    "batcat": _PAGER,
    "cargo": _table("p F Z color package features manifest-path", settings="config=", runs="Z="),
    "clang-format": _table("style", writes="i -i"),
    "curl": _table(
        "X H d F u A e b m w x r T Y y z request header data data-raw data-binary form user "
        "user-agent referer cookie max-time connect-timeout write-out proxy range retry",
        "remote-time",
        writes="o= O J D= c= output= remote-name remote-name-all remote-header-name dump-header= "
        "cookie-jar= trace= trace-ascii= stderr= libcurl= etag-save= hsts= alt-svc= output-dir=",
        settings="K= config=",
        runs="engine=",
    ),
    "date": _table("d r f I date reference file iso-8601", changes="s= set="),
    "delta": _PAGER,
    "diff": _table("U C I x X F L S W label exclude", runs="l paginate"),
    "diff3": _table("", runs="diff-program="),
    "dmesg": _table(
        "l f level facility", changes="C c D E n clear read-clear console-off console-on"
    ),
    "eslint": _table(
        "ext format f rule max-warnings ignore-pattern",
        "fix-dry-run",
        writes="fix o= output-file= cache-location= cache-file=",
        runs="c= config= rulesdir= resolve-plugins-relative-to= plugin= parser=",
    ),
    "fd": _table("t e d E g extension type exclude max-depth", runs="x= X= exec= exec-batch="),
    "file": _table("m F P magic-file separator", writes="C compile"),
    "find": _table(
        "-name -iname -path -ipath -wholename -iwholename -regex -iregex -type -size -mtime -mmin "
        "-atime -amin -ctime -cmin -newer -maxdepth -mindepth -user -group -perm -links -inum "
        "-printf -regextype -samefile -lname -ilname -fstype -uid -gid -used -xtype -newermt",
        runs="-exec= -execdir= -ok= -okdir=",
        deletes="-delete",
        writes="-fprint= -fprint0= -fprintf= -fls=",
    ),
    "gawk": _AWK,
    "gh api": _table(
        "R L q t s B H jq template repo limit state",
        changes="X= f= F= method= field= raw-field= input=",
    ),
    "git": _table(
        "C c git-dir work-tree namespace",
        runs="c= config-env= exec-path p paginate",
        settings="git-dir=",
    ),
    "git archive": _table("", writes="o= output=", runs="exec="),
    "git blame": _table("L S M C", writes="output=", runs="textconv ext-diff"),
    "git cat-file": _table("", runs="textconv filters"),
    "git clone": _table(
        "b o j depth branch origin reference jobs",
        runs="u= upload-pack= c= config= template=",
    ),
    "git config": _table("f file"),
    "git diff": _GIT_DIFF,
    "git diff-files": _GIT_DIFF,
    "git diff-index": _GIT_DIFF,
    "git diff-tree": _GIT_DIFF,
    "git difftool": _table("", runs="x= extcmd= t= tool="),
    "git fetch": _GIT_FETCH,
    "git fetch-pack": _GIT_FETCH,
    "git format-patch": _table("o", writes="output=", runs="ext-diff textconv"),
    "git grep": _table("e A B C m max-count", "text", runs="O open-files-in-pager textconv"),
    "git init": _table("b", runs="template="),
    "git log": _GIT_DIFF,
    "git ls-remote": _GIT_FETCH,
    "git pull": _GIT_FETCH,
    "git push": _table("o push-option", runs="receive-pack= exec="),
    "git range-diff": _GIT_DIFF,
    "git rebase": _table("s X onto strategy", runs="x= exec="),
    "git reflog": _GIT_DIFF,
    "git send-email": _table("", runs="sendmail-cmd= to-cmd= cc-cmd= smtp-server="),
    "git shortlog": _GIT_DIFF,
    "git show": _GIT_DIFF,
    "git stash": _GIT_DIFF,
    "git whatchanged": _GIT_DIFF,
    "go": _table(
        "-C -run -bench -count -timeout -tags -p -parallel -ldflags -gcflags",
        runs="-exec= -toolexec= -vettool= -overlay= -modfile=",
        writes="-o= -coverprofile= -cpuprofile= -memprofile= -blockprofile= -mutexprofile= "
        "-trace= -outputdir= -w",
    ),
    "gofmt": _table("r d cpuprofile", writes="w cpuprofile="),
    "helm": _KUBECTL,
    "hostname": _table("", changes="b F= file= boot"),
    "iconv": _table("f t from-code to-code", writes="o= output="),
    "journalctl": _table(
        "u n p S U t o unit lines priority since until output",
        deletes="vacuum-size vacuum-time vacuum-files",
        changes="rotate flush sync relinquish-var setup-keys update-catalog",
        writes="cursor-file=",
    ),
    "kubectl": _KUBECTL,
    "less": _MORE,
    "make": _table(
        "j l o W",
        runs="f= file= makefile= E= eval= I= include-dir=",
    ),
    "man": _table("S s e L", runs="P= pager= H html X C= config-file="),
    "mawk": _AWK,
    "more": _MORE,
    "nawk": _AWK,
    "npm": _table(
        "w workspace loglevel",
        runs="script-shell= shell= git= editor= viewer= node-options=",
        settings="userconfig= globalconfig= registry=",
    ),
    "pip": _table(
        "r c e requirement constraint editable",
        settings="i= index-url= extra-index-url= f= find-links= proxy= trusted-host=",
        runs="python=",
        writes="log= report=",
    ),
    "prettier": _table("parser", writes="w write", runs="plugin= config="),
    "rg": _table(
        "e f g t T A B C m M r j E d glob iglob type type-not max-count context after-context "
        "before-context replace regexp file sort sortr max-depth encoding threads colors pre-glob",
        "pretty",
        runs="pre= hostname-bin=",
    ),
    "rsync": _table("f B exclude include filter", runs="e= rsh= rsync-path=", writes="log-file="),
    "ruff": _table("select ignore line-length", writes="fix fix-only unsafe-fixes o= output-file="),
    "scp": _table("P i c l", runs="o= S= F="),
    "sdiff": _table("w W", writes="o= output=", runs="diff-program="),
    "sed": _SED,
    "sftp": _table("P i B b", runs="o= S= F="),
    "shuf": _table("n i e head-count", writes="o= output="),
    "sort": _table(
        "k t S T key field-separator buffer-size temporary-directory parallel",
        writes="o= output=",
        runs="compress-program=",
    ),
    "ss": _table("f A", changes="K kill", writes="D= diag="),
    "ssh": _table("p l i L R D J b c m B", runs="o= F= I=", writes="E="),
    "sysctl": _table("", changes="w p write load system"),
    "tar": _table(
        "f C b T X file directory exclude strip-components transform",
        "checkpoint",
        runs="I= F= to-command= checkpoint-action= use-compress-program= rsh-command= info-script= "
        "new-volume-script= rmt-command=",
        deletes="remove-files",
    ),
    "tree": _table("L P I filelimit charset", writes="o= R output="),
    "uniq": _table("f s w skip-fields skip-chars check-chars"),
    "wget": _table(
        "t T U Q tries timeout user-agent header quota",
        writes="O= o= a= P= output-document= output-file= append-output= directory-prefix= "
        "save-cookies= warc-file= hsts-file= rejected-log=",
        runs="e= execute= use-askpass=",
        settings="config=",
    ),
    "xxd": _table("l s c g", changes=""),
    "yq": _table("", writes="i inplace s= split-exp="),
    "zip": _table("x i", runs="T unzip-command=", deletes="m move"),
}

SAME = {
    "bsdtar": "tar",
    "egrep": "grep",
    "fdfind": "fd",
    "gdate": "date",
    "gfind": "find",
    "gmake": "make",
    "gsed": "sed",
    "gsort": "sort",
    "gtar": "tar",
    "oc": "kubectl",
    "pip3": "pip",
    "zless": "less",
}
"""Other names of programs."""
