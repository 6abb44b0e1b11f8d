"""Arguments by which compilers, debuggers, database shells, editors and document tools run, load or
write more than they are asked for."""

from alhena.policy.bash.hazards.table import Style, table

_LD = table(
    "A F G O R Y a b e f h l L m u y z rpath rpath-link soname version-script dynamic-list defsym "
    "wrap format oformat entry library library-path undefined dynamic-linker build-id",
    "Ttext Tdata Tbss cref check-sections call_shared",
    style=Style.LONG_ONLY,
    at_files=True,
    runs="plugin= plugin-opt=",
    settings="T* script= default-script= dT= c* mri-script=",
    elsewhere="o* output=",
    writes="Map= out-implib= dependency-file=",
)
_AS = table(style=Style.LONG_ONLY, at_files=True, elsewhere="o*", writes="MD=", plain="a*")
_CPP = table(style=Style.WORDS, writes="MD= MMD= MF= MJ=", elsewhere="o*")
_GCC = table(
    "x I L l D U A include imacros isystem idirafter iquote iprefix isysroot sysroot MT MQ param "
    "framework arch target z u e",
    "Ttext Tdata Tbss",
    style=Style.WORDS,
    handed={
        **dict.fromkeys(("Wl,", "Xlinker", "for-linker"), _LD),
        **dict.fromkeys(("Wa,", "Xassembler", "for-assembler"), _AS),
        **dict.fromkeys(("Wp,", "Xpreprocessor"), _CPP),
    },
    at_files=True,
    runs="wrapper= fmodule-mapper= fplugin= fpass-plugin= iplugindir= B* prefix= specs= load= "
    "Xclang= cc1 mllvm= ld-path= ccc-gcc-name= ccc-install-dir= gcc-toolchain= resource-dir=",
    plain="fuse-ld=",
    settings="T* config=",
    elsewhere="o* output= working-directory=",
    writes="dumpdir= dumpbase= save-temps MF* MJ* write-dependencies write-user-dependencies "
    "aux-info= fdump-tree-all= fdump-rtl-all= fdump-ipa-all= fopt-info-all= "
    "fdump-final-insns= fprofile-dir= serialize-diagnostics= fmodules-cache-path= "
    "fcrash-diagnostics-dir=",
)
_BINUTILS = table(
    "f t X b m j s format radix target unicode architecture section only-section start-address "
    "stop-address",
    "print-armap print-file-name portability",
    at_files=True,
    runs="plugin=",
    elsewhere="output=",
)
_STRIP = table("K N R F I O keep-symbol strip-symbol", at_files=True, elsewhere="o= output=")
_VIM = table(
    "P T q r t",
    runs="s= S= u= U= l= servername= listen= server= remote remote-send= remote-expr= "
    "remote-silent remote-wait remote-tab remote-wait-silent remote-tab-silent",
    writes="w= W= i= V startuptime= log= gui-dialog-file=",
    code="c= cmd=",
)
_EX = table(
    "P T q r t",
    runs="S= u= U= l= servername= listen= server= remote remote-send= remote-expr=",
    writes="w= W= i= V startuptime= log=",
    code="c= cmd=",
)


def _loosely(names: str) -> str:
    """Options of mysql, which takes `--loose-NAME` for `--NAME`."""
    return " ".join((names, *(f"loose-{name}" for name in names.split() if len(name) > 2)))


TOOLS = {
    "addr2line": _BINUTILS,
    "ant": table(
        style=Style.WORDS,
        runs="f= file= buildfile= lib= logger= listener= inputhandler= main= s= find= "
        "propertyfile=",
        settings="D*",
        writes="l= logfile=",
    ),
    "ar": _BINUTILS,
    "as": _AS,
    "ava": table(
        "match timeout concurrency",
        runs="config= r= require= node-arguments=",
        writes="u update-snapshots",
    ),
    "bazel": table(
        "c j jobs compilation-mode test-filter test-output test-arg runs-per-test",
        runs="run-under= workspace-status-command= host-jvm-args= server-javabase= "
        "shell-executable= credential-helper= coverage-report-generator= python-path= python-top= "
        "extra-toolchains= extra-execution-platforms= crosstool-top= override-repository= "
        "override-module= inject-repository= package-path= java-runtime-version= "
        "tool-java-runtime-version= plugin=",
        settings="bazelrc= registry= repo-env= distdir= experimental-downloader-config= "
        "downloader-config=",
        plain="config=",
        connects="remote-executor= remote-cache= remote-downloader= remote-proxy= bes-backend=",
        elsewhere="output-base= output-user-root= install-base= disk-cache= repository-cache= "
        "sandbox-base= symlink-prefix=",
        writes="profile= memory-profile= explain= script-path= execution-log-json-file= "
        "execution-log-binary-file= execution-log-compact-file= build-event-json-file= "
        "build-event-binary-file= build-event-text-file= starlark-cpu-profile= "
        "sandbox-writable-path=",
        changes="spawn-strategy= strategy= genrule-strategy= sandbox-add-mount-pair= action-env= "
        "host-action-env= test-env= sandbox-default-allow-network",
    ),
    "biome": table("max-diagnostics", settings="config-path=", writes="write fix apply unsafe"),
    "bun": table(
        "t timeout bail test-name-pattern",
        "coverage",
        runs="r= preload= require= import= e= eval= p= print= shell= inspect inspect-wait "
        "inspect-brk",
        settings="c= config= env-file=",
        elsewhere="cwd= root= outdir=",
        writes="u update-snapshots coverage-dir= reporter-outfile= outfile=",
    ),
    "c++": _GCC,
    "c++filt": _BINUTILS,
    "cc": _GCC,
    "clang": _GCC,
    "clang++": _GCC,
    "coverage": table(
        "m include omit precision i",
        "show-missing",
        settings="rcfile=",
        writes="data-file= o=",
        elsewhere="d= directory=",
    ),
    "cpp": _GCC,
    "deno": table(
        "filter ext v8-flags seed",
        "no-config no-lock",
        changes="A allow-all allow-run allow-ffi allow-write allow-env allow-net allow-read "
        "allow-sys allow-import P permission-set=",
        runs="preload= import= require= inspect inspect-brk inspect-wait",
        settings="c= config= import-map= lock= cert= env-file=",
        writes="coverage= junit-path= write",
    ),
    "ed": table("p prompt"),
    "ex": _EX,
    "g++": _GCC,
    "gcc": _GCC,
    "gdb": table(
        "c core s symbols e exec se d directory l b tty ui interpreter i",
        "args batch batch-silent nx nh n q quiet silent readnow nw w",
        style=Style.LONG_ONLY,
        runs="x= command= ix= init-command= eix= early-init-command= P= python= D= data-directory=",
        changes="p= pid= write",
        elsewhere="cd=",
        code="ex= iex= eiex= eval-command= init-eval-command= early-init-eval-command=",
    ),
    "gfortran": _GCC,
    "install": table(
        "g o S group owner suffix",
        "strip",
        runs="strip-program=",
        changes="m= mode=",
        elsewhere="t= target-directory=",
    ),
    "json.tool": table("indent", style=Style.WORDS),
    "just": table(
        "color command-color",
        runs="f= justfile= c= command= shell= shell-arg= chooser= choose e edit",
        settings="dotenv-path= E= dotenv-filename= g global-justfile",
        elsewhere="d= working-directory=",
        changes="set=",
    ),
    "kustomize": table(
        "as-current-user",
        runs="enable-exec enable-alpha-plugins helm-command= enable-helm mount network "
        "load-restrictor=",
        elsewhere="o= output=",
        settings="e= env=",
    ),
    "ld": _LD,
    "mysql": table(
        "u D P S p? user database port socket delimiter default-character-set protocol password?",
        "password local",
        runs=_loosely("pager= plugin-dir= default-auth="),
        settings="defaults-file= defaults-extra-file= defaults-group-suffix= login-path=",
        writes=_loosely("tee="),
        connects=_loosely("h= host="),
        changes=_loosely("local-infile load-data-local-dir="),
        code=_loosely("e= execute= init-command= init-command-add="),
    ),
    "nm": _BINUTILS,
    "objcopy": _BINUTILS,
    "objdump": _BINUTILS,
    "openssl": table(
        "in inform outform CAfile CApath passin passout days subj newkey key cert certs key_file",
        style=Style.WORDS,
        runs="engine= provider= provider-path= pre= post= ssl_client_engine= keygen_engine= "
        "engine_impl loader_class=",
        settings="config=",
        connects="connect= host= proxy= url= ldap=",
        writes="out= keyout= outdir= writerand= sess_out= keylogfile= CAserial= CAcreateserial "
        "CRLfile= certsout= respout= "
        "reqout= tokenout= rspout=",
    ),
    "pandoc": table(
        "V M T H B A c variable metadata title-prefix css toc-depth shift-heading-level-by",
        "",
        runs="F= filter= L= lua-filter= pdf-engine-opt= pdf-engine-opts=",
        plain="f= from= r= read= t= to= w= write= pdf-engine=",
        settings="d= defaults= data-dir=",
        elsewhere="o= output=",
        writes="extract-media= log=",
    ),
    "playwright": table(
        "g grep workers project timeout retries j shard",
        runs="c= config= ui-host=",
        plain="reporter= browser=",
        writes="u update-snapshots output=",
    ),
    "psql": table(
        "U p F R P T username port field-separator record-separator pset table-attr",
        "list",
        settings="f= file=",
        writes="o= output= L= log-file=",
        connects="h= host= d= dbname=",
        changes="v= set= variable=",
        code="c= command=",
    ),
    "rake": table(
        "j m jobs",
        "tasks trace describe prereqs dry-run quiet silent",
        runs="f= rakefile= r= require= I= libdir= R= rakelib= rakelibdir= e= execute= E= "
        "execute-continue= p= execute-print= g system",
        elsewhere="C= directory=",
    ),
    "ranlib": _BINUTILS,
    "readelf": _BINUTILS,
    "scons": table(
        "j jobs",
        runs="f= file= makefile= sconstruct= site-dir=",
        elsewhere="C= directory= Y= repository= srcdir= I= include-dir=",
        writes="profile= cache-debug= taskmastertrace=",
    ),
    "size": _BINUTILS,
    "split": table(
        "a b C l n t bytes line-bytes lines number separator additional-suffix suffix-length",
        runs="filter=",
    ),
    "sqlite3": table(
        "separator newline nullvalue mmap maxsize heap nonce escape",
        "ascii bail batch box column csv echo header noheader help html ifexists interactive json "
        "line list markdown nofollow qbox quote readonly safe stats table tabs version",
        style=Style.WORDS,
        settings="init= vfs=",
        changes="lookaside= pagecache= unsafe-testing",
        writes="A* archive",
        code="cmd=",
    ),
    "strings": _BINUTILS,
    "strip": _STRIP,
    "stylelint": table(
        "max-warnings",
        runs="config= c= custom-formatter= custom-syntax= config-basedir=",
        plain="f= formatter=",
        writes="fix o= output-file= cache-location=",
    ),
    "swift": table(
        "c j filter skip product target num-workers",
        style=Style.WORDS,
        runs="Xswiftc= Xlinker= Xcc= Xcxx= toolset= swift-sdk= sdk= toolchain= disable-sandbox",
        elsewhere="package-path= C= chdir= scratch-path= build-path= cache-path= config-path= "
        "security-path=",
        writes="xunit-output=",
    ),
    "task": table("C output", runs="t= taskfile=", elsewhere="d= dir=", changes="g global init i"),
    "unittest": table(
        "k p pattern", "failfast", elsewhere="s= start-directory= t= top-level-directory="
    ),
    "vim": _VIM,
    "vite": table(
        "l m port logLevel mode",
        style=Style.CAMEL,
        runs="c= config= config-loader=",
        elsewhere="out-dir= assets-dir=",
        changes="host",
    ),
    "webpack": table(
        "mode target devtool",
        runs="c= config= e= extends= require= watch-options-stdin",
        elsewhere="o= output-path=",
        writes="json=",
    ),
    "xmllint": table(
        "xpath pattern schema relaxng encode maxmem",
        style=Style.WORDS,
        writes="o= output=",
        changes="shell",
        settings="path=",
    ),
}
"""Program, or the module behind `python -m`, as of `READERS`."""
