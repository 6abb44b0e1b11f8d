"""What the programs that look at names, files and the machine may be given."""

SHARED = {"gnu": "--help --version"}

TABLES = {
    "ls": """names
        -1aAbBcCdDeEfFgGhHiklLmnNopqQrRsStTuUvxXZ@ -I: -w: --all --almost-all --author
        --block-size= --classify[=] --color[=] --context --dereference --dereference-command-line
        --dereference-command-line-symlink-to-dir --directory --dired --escape --file-type
        --format= --full-time --group-directories-first --hide= --hide-control-chars
        --human-readable --hyperlink[=] --ignore= --ignore-backups --indicator-style= --inode
        --kibibytes --literal --no-group --numeric-uid-gid --quote-name --quoting-style=
        --recursive --reverse --show-control-chars --si --size --sort= --tabsize= --time=
        --time-style= --width= --zero @gnu""",
    "basename": "names -az -s: --multiple --suffix= --zero @gnu",
    "dirname": "names -z --zero @gnu",
    "realpath": """names
        -eLmPqszE --canonicalize --canonicalize-existing --canonicalize-missing --logical
        --no-symlinks --physical --quiet --relative-base= --relative-to= --strip --zero @gnu""",
    "readlink": """names
        -efmnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline
        --quiet --silent --verbose --zero @gnu""",
    "pwd": "names -LP --logical --physical @gnu",
    "stat": """names
        -FfLlnqrstx -c: --cached= --dereference --file-system --format= --printf= --terse
        @gnu""",
    "file": """guarded
        -0bcdhikLlNnrv -e: -F: -f: -P: --apple --brief --debug --dereference --exclude=
        --exclude-quiet= --extension --files-from= --keep-going --mime --mime-encoding
        --mime-type --no-buffer --no-dereference --no-pad --parameter= --print0 --raw
        --separator= @gnu
        ! -C --compile writes a magic file
        ! -m --magic-file reads rules from a file
        ! -p --preserve-date sets access times
        ! -s --special-files reads devices
        ! -z -Z --uncompress --uncompress-noreport runs programs that decompress""",
    "du": """names
        -0abcDghHklLmnPrsSx -B: -d: -I: -t: -X: --all --apparent-size --block-size= --bytes
        --count-links --dereference --dereference-args --exclude= --exclude-from=
        --files0-from= --human-readable --inodes --max-depth= --no-dereference --null
        --one-file-system --separate-dirs --si --summarize --threshold= --time[=]
        --time-style= --total @gnu""",
    "df": """names
        -abghHiIklmnPTv -B: -t: -x: --all --block-size= --exclude-type= --human-readable --inodes
        --local --no-sync --output[=] --portability --print-type --si --total --type= @gnu""",
    "tree": """guarded names
        -aACcDdfFghiJlNnpQqrsStUuvXx -I; -L; -P; --charset= --device --dirsfirst --du --filelimit=
        --filesfirst --gitignore --help --ignore-case --info --inodes --matchdirs
        --metafirst --noreport --nolinks --prune --si --sort= --timefmt= --version
        ! -o writes its result to a file
        ! -R writes files into directories
        ! --fromfile --fromtabfile --gitfile --infofile shows what is in a file""",
    "date": """guarded operands=1
        -juR -d: -I? -r: -v: --date= --debug --iso-8601[=] --reference= --resolution
        --rfc-3339= --rfc-822 --rfc-2822 --rfc-email --uct --universal --utc @gnu
        ! -s --set sets the clock
        ! -f --file may set the clock""",
    "cal": """-13hjJmNsSwWYy -A: -B: -d: -H: -m: -n: --monday --months= --one --sunday --three
        --year""",
    "ncal": "-13bCehjJMNopSwy -A: -B: -d: -H: -m: -s:",
    "uname": """-aimnoprsv --all --hardware-platform --kernel-name --kernel-release
        --kernel-version --machine --nodename --operating-system --processor @gnu""",
    "arch": "@gnu",
    "nproc": "--all --ignore= @gnu",
    "whoami": "@gnu",
    "logname": "@gnu",
    "tty": "-s --quiet --silent @gnu",
    "users": "@gnu",
    "id": "-agGnruzZ --context --group --groups --name --real --user --zero @gnu",
    "groups": "@gnu",
    "hostname": """guarded operands=0
        -IsV --all-ip-addresses --help --short --version
        ! -a -A -d -f -i --alias --all-fqdns --domain --fqdn --ip-address --long asks name servers
        ! -F -b --file --boot sets the name of the host""",
    "uptime": "-psV --pretty --since --help --version",
    "free": """guarded operands=0
        -bghklmtvwV --bytes --committed --gibi --giga --gebi --human --kibi --kilo --lohi --mebi
        --mega --si --tebi --tera --total --wide --help --version
        ! -s -c --seconds --count repeats""",
    "ps": """guarded
        -aAcdefFHjlLMNTwVyZ -C: -g: -G: -k: -o: -O: -p: -q: -s: -t: -u: -U: --cols= --columns=
        --cumulative --deselect --forest --format= --group= --headers --lines= --no-headers
        --no-heading --pid= --ppid= --quick-pid= --rows= --sid= --sort= --tty= --user= --width=
        --version
        ! -E shows the environment of processes""",
    "pgrep": """-acfhiLlnovwxAV -d: -F: -G: -g: -P: -r: -s: -t: -u: -U: -O: --cgroup= --count
        --delimiter= --euid= --exact --full --group= --ignore-ancestors --ignore-case --inverse
        --lightweight --list-full --list-name --newest --ns= --nslist= --older= --oldest
        --parent= --pgroup= --pidfile= --runstates= --session= --terminal= --uid= --help
        --version""",
    "pidof": "guarded -sx",
    "ss": """guarded operands=0
        -0246aeHilmMnOopSstuwxZzV -A: -f: --all --cgroup --extended --family= --info --ipv4
        --ipv6 --listening --memory --no-header --numeric --oneline --options --processes
        --query= --summary --tcp --udp --unix --help --version
        ! -K --kill closes sockets
        ! -D --diag writes its result to a file
        ! -E --events never ends
        ! -r --resolve asks name servers""",
    "who": """guarded
        -abdHlmpqrstTuw --all --boot --count --dead --heading --ips --login --mesg --message
        --process --runlevel --short --time --users --writable @gnu
        ! --lookup asks name servers""",
    "lscpu": """-abBcCehJpxyV --all --bytes --caches[=] --extended[=] --hex --json --offline
        --online
        --output-all --parse[=] --physical --help --version""",
    "lsblk": """names
        -abdDfhiJlmMnOpPrsSTtVzA -e: -I: -o: -w: -x: -E: --all --bytes --fs --inverse --json
        --list --nodeps --noheadings --output= --output-all --pairs --paths --perms --raw
        --sort= --topology --tree[=] --help --version""",
    "lsof": """guarded
        -alnOPtTUVw -c: -g? -i? -p: -s? -u:
        ? -n asks name servers
        ! -r -R repeats
        ! -D writes a cache""",
    "netstat": """guarded operands=0
        -46aegilnoprstuWx --all --extend --groups --interfaces --listening --numeric --programs
        --route --statistics --tcp --udp --unix --wide --help --version
        ? -n --numeric asks name servers
        ! -c --continuous never ends""",
    "jobs": """guarded
        -lnprs
        ! -x runs a program""",
    "ulimit": "guarded operands=0 -aHSbcdefiklmnpqrstuvxPRT",
    "tput": "guarded",
    "stty": "guarded -ag --all --save @gnu",
    "getent": "guarded",
    "which": "guarded -as",
    "whereis": "-bglmsu -B: -f: -M: -S:",
    "type": "names -afpPt",
    "locale": """guarded
        -ackv --all-locales --category-name --keyword-name --verbose @gnu
        ! -m --charmaps runs gzip""",
    "getconf": """guarded
        -a
        ! -v runs the program for a specification""",
    "systemctl status": """guarded
        -alq -n: -o: -t: --all --full --lines= --output= --plain --quiet --no-legend --system
        --type= --state= --user --no-pager
        ? --no-pager may start a pager""",
    "systemctl is-active": "guarded -q --quiet --system --user --no-pager --all",
    "systemctl is-enabled": "guarded -q --quiet --system --user --full --no-pager",
    "systemctl is-failed": "guarded -q --quiet --system --user --no-pager",
    "systemctl list-units": """guarded
        -al -t: --all --failed --full --no-legend --no-pager --plain --state= --system --type=
        --user
        ? --no-pager may start a pager""",
    "systemctl list-unit-files": """guarded
        -al -t: --all --full --no-legend --no-pager --plain --state= --system --type= --user
        ? --no-pager may start a pager""",
    "systemctl list-timers": """guarded
        -al --all --full --no-legend --no-pager --plain --system --user
        ? --no-pager may start a pager""",
    "journalctl": """guarded
        -aklmNqrx -b? -F: -g: -n: -o: -p: -S: -t: -u: -U: --all --boot[=] --case-sensitive[=]
        --catalog --disk-usage --dmesg --facility= --field= --fields --grep= --identifier=
        --lines= --list-boots --merge --no-full --no-hostname --no-pager --output=
        --output-fields= --priority= --quiet --reverse --since= --system --unit= --until=
        --user --user-unit= --utc --version
        ? --no-pager may start a pager
        ! -f --follow never ends
        ! --cursor-file --rotate --flush --sync --setup-keys --update-catalog writes
        ! --vacuum-size --vacuum-time --vacuum-files removes what it reads""",
}

ALIASES = {"dir": "ls", "vdir": "ls", "gls": "ls", "gdate": "date"}
