"""What the programs that read, cut and compare text may be given (GNU, and what BSD shares)."""

SHARED = {
    "gnu": "--help --version",
    "sum": """-bctwz --binary --check --ignore-missing --quiet --status --strict --tag --text --warn
        --zero @gnu""",
}

TABLES = {
    "cat": """-AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank
        --show-tabs --show-nonprinting @gnu""",
    "tac": "-br -s: --before --regex --separator= @gnu",
    "nl": """-p -b: -d: -f: -h: -i: -l: -n: -s: -v: -w: --body-numbering= --section-delimiter=
        --footer-numbering= --header-numbering= --line-increment= --join-blank-lines=
        --number-format= --no-renumber --number-separator= --starting-line-number=
        --number-width= @gnu""",
    "head": "-NUM -qvz -c: -n: --bytes= --lines= --quiet --silent --verbose --zero-terminated @gnu",
    "tail": """guarded
        -NUM -qrvz -c: -n: --bytes= --lines= --quiet --silent --verbose --zero-terminated @gnu
        ! -f -F --follow --retry --pid -s --sleep-interval may never end""",
    "wc": "-clLmw --bytes --chars --files0-from= --lines --max-line-length --words --total= @gnu",
    "grep": """-0123456789 -abcEFGhHiIlLnopqrRsTuUvVwxyzZ -A: -B: -C: -d: -D: -e: -f: -m: -NUM
        --after-context= --basic-regexp --before-context= --binary --binary-files= --byte-offset
        --color[=] --colour[=] --context[=] --count --dereference-recursive --devices=
        --directories= --exclude= --exclude-dir= --exclude-from= --extended-regexp --file=
        --files-with-matches --files-without-match --fixed-strings --group-separator= --ignore-case
        --include= --include-dir= --initial-tab --invert-match --label= --line-buffered
        --line-number --line-regexp --max-count= --no-filename --no-group-separator
        --no-ignore-case --no-messages --null --null-data --only-matching --perl-regexp -P --quiet
        --recursive --regexp= --silent --text --with-filename --word-regexp @gnu""",
    "rg": """guarded
        -A: -B: -C: -E: -e:: -f: -g: -j: -M: -m: -r: -T: -t: -d: -bcFhHIilLNnoPpqSsUuVvwx0.a
        --after-context= --auto-hybrid-regex --before-context= --binary --block-buffered
        --byte-offset --case-sensitive --color= --colors= --column --context=
        --context-separator= --count --count-matches --crlf --debug --dfa-size-limit= --encoding=
        --engine= --field-context-separator= --field-match-separator= --file= --files
        --files-with-matches --files-without-match --fixed-strings --follow --glob=
        --glob-case-insensitive --heading --help --hidden --iglob= --ignore-case --ignore-file=
        --ignore-file-case-insensitive --include-zero --invert-match --json --line-buffered
        --line-number --line-regexp --max-columns= --max-columns-preview --max-count=
        --max-depth= --max-filesize= --mmap --multiline --multiline-dotall --no-config
        --no-context-separator --no-filename --no-heading --no-hidden --no-ignore
        --no-ignore-dot --no-ignore-exclude --no-ignore-files --no-ignore-global
        --no-ignore-messages --no-ignore-parent --no-ignore-vcs --no-line-number --no-messages
        --no-mmap --no-pcre2-unicode --no-require-git --no-unicode --null --null-data
        --one-file-system --only-matching --passthru --path-separator= --pcre2 --pcre2-version
        --pretty --quiet --regex-size-limit= --regexp== --replace= --smart-case --sort= --sortr=
        --stats --text --threads= --trace --trim --type= --type-add= --type-clear= --type-list
        --type-not= --unrestricted --version --vimgrep --with-filename --word-regexp
        ! --pre --hostname-bin runs a program
        ! -z --search-zip runs programs that decompress""",
    "fd": """guarded names
        -aFgHIiLpqsu01 -c: -d: -E: -e: -j: -S: -t: --absolute-path --base-directory=
        --changed-before= --changed-within= --changed-after= --color= --exact-depth= --exclude=
        --extension= --fixed-strings --follow --full-path --glob --hidden --ignore-case
        --max-depth= --max-results= --min-depth= --newer= --no-ignore --no-ignore-vcs --older=
        --one-file-system --print0 --prune --quiet --regex --search-path= --size= --threads=
        --type= --unrestricted --case-sensitive --help --version
        ! -x -X --exec --exec-batch runs a program
        ! -l --list-details runs ls""",
    "sort": """guarded
        -bcCdfghimMnrRsuVz -k: -S: -t: --batch-size= --buffer-size= --check[=] --debug
        --dictionary-order --field-separator= --general-numeric-sort --human-numeric-sort
        --ignore-case --ignore-leading-blanks --ignore-nonprinting --key= --merge --month-sort
        --numeric-sort --parallel= --random-sort --random-source= --reverse --sort= --stable
        --unique --version-sort --zero-terminated @gnu
        ! -o --output writes its result to a file
        ! -T --temporary-directory writes to the directory it names
        ! --compress-program runs a program""",
    "uniq": """guarded leading operands=1
        -cdDiuz -f: -s: -w: --all-repeated[=] --check-chars= --count --group[=] --ignore-case
        --repeated --skip-chars= --skip-fields= --unique --zero-terminated @gnu""",
    "cut": """-nsz -b: -c: -d: -f: --bytes= --characters= --complement --delimiter= --fields=
        --only-delimited --output-delimiter= --zero-terminated @gnu""",
    "tr": "-cCdst --complement --delete --squeeze-repeats --truncate-set1 @gnu",
    "paste": "-sz -d: --delimiters= --serial --zero-terminated @gnu",
    "column": """-denRxJLt -c: -E: -H: -i: -l: -N: -n: -o: -O: -p: -r: -s: -T: -W: --fillrows --help
        --json --keep-empty-lines --output-separator= --output-width= --separator= --table
        --table-columns= --table-columns-limit= --table-header-repeat --table-hide=
        --table-name= --table-noextreme= --table-noheadings --table-order= --table-right=
        --table-truncate= --table-wrap= --tree= --tree-id= --tree-parent= --version""",
    "comm": """-123iz --check-order --nocheck-order --output-delimiter= --total --zero-terminated
        @gnu""",
    "join": """-iz -1: -2: -a: -e: -j: -o: -t: -v: --check-order --header --ignore-case
        --nocheck-order --zero-terminated @gnu""",
    "fold": "-NUM -bs -w: --bytes --spaces --width= @gnu",
    "fmt": """-NUM -cstu -g: -p: -w: --crown-margin --goal= --prefix= --split-only
        --tagged-paragraph --uniform-spacing --width= @gnu""",
    "expand": "-NUM -i -t: --initial --tabs= @gnu",
    "unexpand": "-a -t: --all --first-only --tabs= @gnu",
    "rev": "-hV --help --version",
    "seq": "-w -f: -s: --equal-width --format= --separator= @gnu",
    "shuf": """guarded
        -ez -i: -n: --echo --head-count= --input-range= --random-source= --zero-terminated @gnu
        ! -o --output writes its result to a file
        ! -r --repeat may never end""",
    "tsort": "@gnu",
    "numfmt": """-z -d: --debug --delimiter= --field= --format= --from= --from-unit= --grouping
        --header[=] --invalid= --padding= --round= --suffix= --to= --to-unit= --zero-terminated
        @gnu""",
    "look": "-adf -t: --alphanum --alternative --ignore-case --terminate=",
    "base64": """guarded operands=1
        -d -w: --decode --wrap= --ignore-garbage @gnu
        ! -o --output writes its result to a file""",
    "base32": "guarded operands=1 -d -w: --decode --wrap= --ignore-garbage @gnu",
    "iconv": """guarded
        -cls -f: -t: --from-code= --to-code= --list --silent --help --version
        ! -o --output writes its result to a file""",
    "md5sum": "@sum",
    "sha1sum": "@sum",
    "sha224sum": "@sum",
    "sha256sum": "@sum",
    "sha384sum": "@sum",
    "sha512sum": "@sum",
    "b2sum": "-l: --length= @sum",
    "shasum": "-bcqstUw0 -a: --algorithm= --UNIVERSAL --01 @sum",
    "md5": "-pqrtx -s:",
    "sum": "-rs --sysv @gnu",
    "cksum": "-a: -l: --algorithm= --debug --length= --untagged @sum",
    "od": """-abBcdDeFfhHiIlLoOsvXx -A: -j: -N: -S: -t: -w? --address-radix= --endian= --format=
        --output-duplicates --read-bytes= --skip-bytes= --strings[=] --width[=] @gnu""",
    "xxd": """guarded whole leading operands=1
        -a -b -C -d -E -e -i -p -ps -plain -u -c: -g: -l: -o: -s::
        ! -r -revert writes the bytes it reads""",
    "hexdump": """-bcCdovxL -e: -f: -n: -s: --canonical --color[=] --format= --format-file=
        --length=
        --no-squeezing --one-byte-char --one-byte-octal --skip= --two-bytes-decimal
        --two-bytes-hex --two-bytes-octal --help --version""",
    "strings": """-NUM -adfhovVw -e: -n: -s: -t: -T: -U: --all --bytes= --data --encoding=
        --include-all-whitespace --output-separator= --print-file-name --radix= --target=
        --unicode= @gnu""",
    "diff": """guarded
        -0123456789 -abBcdeEiNnpqrsTtuvwyZ -C: -D: -F: -I: -S: -U: -W: -x: -X: --brief
        --changed-group-format=
        --color[=] --context[=] --ed --exclude= --exclude-from= --expand-tabs --from-file=
        --horizon-lines= --ifdef= --ignore-all-space --ignore-blank-lines --ignore-case
        --ignore-file-name-case --ignore-matching-lines= --ignore-space-change
        --ignore-tab-expansion --ignore-trailing-space --initial-tab --label= --left-column
        --line-format= --minimal --new-file --new-group-format= --new-line-format=
        --no-dereference --no-ignore-file-name-case --normal --old-group-format=
        --old-line-format= --palette= --rcs --recursive --report-identical-files
        --show-c-function --show-function-line= --side-by-side --speed-large-files
        --starting-file= --strip-trailing-cr --suppress-blank-empty --suppress-common-lines
        --tabsize= --text --to-file= --unchanged-group-format= --unchanged-line-format=
        --unidirectional-new-file --unified[=] --width= @gnu
        ! -l --paginate runs pr""",
    "cmp": "-bls -i: -n: --bytes= --ignore-initial= --print-bytes --quiet --silent --verbose @gnu",
    "sed": """guarded
        -Enrsuz -e: --debug --expression= --null-data --posix --quiet --regexp-extended --sandbox
        --separate --silent --unbuffered --help --version
        ! -i --in-place writes to its files
        ! -f --file reads its script from a file""",
    "awk": """guarded leading
        -F:: -v:
        ! -f --file -i --include -l --load -E --exec reads code from a file
        ! -o -p -d --pretty-print --profile --dump-variables writes to a file""",
    "jq": """guarded
        -acCehjMnrRsSV --args --jsonargs --ascii-output --color-output --compact-output
        --exit-status --help --indent=
        --join-output --monochrome-output --null-input --raw-input --raw-output --raw-output0 --seq
        --slurp --sort-keys --stream --stream-errors --tab --unbuffered --version
        ! -f --from-file reads its program from a file
        ! -L --library-path reads modules from a directory""",
    "zcat": "guarded",
    "gzcat": "guarded",
    "bzcat": "guarded",
    "xzcat": "guarded",
}

ALIASES = {
    "egrep": "grep",
    "fgrep": "grep",
    "fdfind": "fd",
    "hd": "hexdump",
    "ggrep": "grep",
    "gsed": "sed",
    "gawk": "awk",
    "mawk": "awk",
}
