"""What package tools and daemons' clients may be asked, and which programs tell their version."""

SHARED: dict[str, str] = {}

TABLES = {
    "pip list": """guarded operands=0
        -elv --disable-pip-version-check --editable --exclude= --exclude-editable --format=
        --include-editable --local --no-index --not-required --path= --pre --user --verbose
        ? --disable-pip-version-check --no-index may ask the index for a newer pip
        ! -o --outdated -u --uptodate asks the index""",
    "pip show": "guarded -fv --disable-pip-version-check --files --verbose",
    "pip freeze": """guarded operands=0
        -l --all --disable-pip-version-check --exclude= --exclude-editable --local --path=
        --user""",
    "go version": "guarded -mv",
    "go env": """guarded whole
        -changed -json
        ! -w -u changes the settings""",
    "docker ps": """guarded operands=0
        -alqs -f: -n: --all --filter= --format= --last= --latest --no-trunc --quiet --size""",
    "docker images": """guarded operands=1
        -aq -f: --all --digests --filter= --format= --no-trunc --quiet --tree""",
    "docker logs": """guarded operands=1
        -t -n: --details --since= --tail= --timestamps --until=
        ! -f --follow never ends""",
    "docker version": "guarded operands=0 -f: --format=",
    "docker info": "guarded operands=0 -f: --format=",
    "unzip": """guarded
        -lqv
        ? -l -v may extract files""",
    "zipinfo": "guarded -12hlmstTvz",
    "gzip": """guarded
        -cdfhlqtvV123456789 --decompress --list --stdout --test --to-stdout --verbose --help
        --version
        ? -c --stdout --to-stdout -l --list -t --test replaces files""",
    "gunzip": """guarded
        -cdfhlqtvV --list --stdout --test --to-stdout --verbose --help --version
        ? -c --stdout --to-stdout -l --list -t --test replaces files""",
    "nm": """guarded
        -aABCDglnopPrsSuv -f: -t: --debug-syms --defined-only --demangle --dynamic --extern-only
        --format= --no-sort --numeric-sort --print-size --reverse-sort --size-sort
        --undefined-only --help --version
        ! --plugin runs code of a file""",
    "size": "guarded -ABGdotx --common --format= --totals --help --version",
    "readelf": """guarded
        -aAdeghlnrsStuVW -p: -x: --all --arch-specific --dynamic --file-header --headers --notes
        --program-headers --relocs --section-headers --sections --segments --string-dump= --symbols
        --syms --version-info --wide --help --version""",
    "objdump": """guarded
        -CdDfhpsrRtTwxz -j: -M: --all-headers --demangle --disassemble --disassemble-all
        --dynamic-reloc --dynamic-syms --file-headers --full-contents --headers --no-show-raw-insn
        --reloc --section= --section-headers --syms --wide --help --version""",
    "dpkg-query": """guarded -W -s -S -L -f: --show --status --search --listfiles --showformat=
        --version""",
}

ALIASES = {
    "pip3 list": "pip list",
    "pip3 show": "pip show",
    "pip3 freeze": "pip freeze",
}

VERSIONS = {
    "python python2 python3 pip pip3": "--version -V",
    """ar as autoconf automake awk bash bat bison black bzip2 c++ cc clang clang++ cmake ctags curl
    find flex g++ gawk gcc gfortran gh gpg grep gzip ld less lldb llvm-config m4 meson mypy ninja
    patch pkg-config protoc rsync ruff sed shellcheck shfmt sqlite3 systemctl tar tidy uv wget xargs
    xz zip zsh zstd""": "--version",
    "deno docker git lua make nginx node npm perl php psql ruby tsc": "--version -v",
    "java javac": "-version --version",
    "ssh tmux": "-V",
    "openssl": "version",
}
"""Programs -> the words, one of which alone makes such a program tell its version and end."""

ELSEWHERE = {
    "bundle dotnet gradle mvn pnpm pytest yarn": "runs what the folder names, whatever its options",
    "curl dig ftp host nc nslookup ping rsync scp ssh telnet wget": "uses the network",
    "env printenv": "shows or changes the environment",
    "npm npx": "writes logs, may use the network and runs what package.json names",
    "less man more": "can run programs from its pages",
    "chmod chown cp dd install ln mkdir mv rm rmdir tee touch truncate": "writes",
    "eval exec nice nohup parallel sudo time timeout watch xargs": "runs what its words say",
}
"""Programs that are often asked for, and why they are not here."""
