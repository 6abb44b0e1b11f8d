"""Arguments by which builds, tests and package tools run, write or reach more than they are asked
for."""

from alhena.policy.bash.hazards.table import Style, table

_JS_TESTS = (
    "setup-files setup-files-after-env transform resolver runner test-runner preset reporters "
    "global-setup global-teardown watch-plugins snapshot-serializers module-name-mapper "
    "test-sequencer filter prettier-path dependency-extractor haste test-results-processor "
    "module-directories module-paths projects test-environment snapshot-resolver "
    "snapshot-environment module-loader"
)
_CLUSTER = (
    "kubeconfig= s= server= token= as= as-group= as-uid= certificate-authority= "
    "insecure-skip-tls-verify client-key= client-certificate= proxy-url="
)
_MAKE = table(
    "j? l? o W O? old-file new-file what-if assume-old assume-new",
    "jobs",
    runs="f= file= makefile= E= eval= I= include-dir=",
    elsewhere="C= directory=",
    changes="e environment-overrides",
)
_NPM = table(
    "loglevel omit include",
    "silent quiet verbose workspaces loglevel if-present ignore-scripts color no-color "
    "progress no-progress json long parseable all audit no-audit fund no-fund offline "
    "prefer-offline dev prod production omit include dry-run force foreground-scripts save "
    "save-dev save-exact save-optional save-prod global yes no ci coverage recursive run depth "
    "s q d dd ddd ws iwr frozen-lockfile filter stream parallel reporter",
    style=Style.NOPT,
    elsewhere="w= workspace= prefix= C= dir= cwd= local-prefix= workspace-dir= lockfile-dir= "
    "modules-dir= virtual-store-dir= config-dir=",
    runs="script-shell= shell= git= editor= viewer= browser= node-options= node-gyp= python= "
    "onload-script= init-module= unsafe-perm config pnpmfile= global-pnpmfile=",
    settings="userconfig= globalconfig= registry= reg= proxy= https-proxy= http-proxy= cafile= "
    "ca= strict-ssl location= L=",
    writes="cache= cache-dir= logs-dir= tmp= store-dir= state-dir= global-dir= global-bin-dir= "
    "pack-destination= report-summary",
)

BUILDS = {
    "black": table("l t", writes="cache-dir=", settings="config="),
    "bundle": table(elsewhere="gemfile=", writes="path= binstubs=", settings="system"),
    "cargo": table(
        "p F j package features message-format jobs test bin example bench profile target exclude",
        "color workspace all all-targets all-features release quiet verbose locked offline lib "
        "bins tests benches examples no-default-features no-run no-fail-fast doc frozen",
        settings="config=",
        runs="Z= open config-file= tool-config-file=",
        writes="fix target-dir= artifact-dir= out-dir= archive-file=",
        elsewhere="C= manifest-path= lockfile-path= root= path=",
    ),
    "cargo --": table(
        "test-threads skip format color",
        writes="logfile=",
        runs="C= Z= codegen=",
    ),
    "cmake": table(
        "target config j parallel",
        "target config parallel",
        runs="P= E= toolchain= D= C= install-prefix= open preset= workflow graphviz= "
        "trace-redirect= profiling-output=",
        elsewhere="build= install= S= B=",
    ),
    "cmake --": _MAKE,
    "composer": table(elsewhere="d= working-dir="),
    "ctest": table(
        "R E L LE j C repeat timeout output-junit",
        style=Style.WORDS,
        runs="S= SP= build-and-test D= M= T= dashboard= build-generator= test-command= "
        "extra-submit= resource-spec-file= preset=",
        writes="O= output-log= output-junit=",
        elsewhere="test-dir=",
    ),
    "docker build": table(
        "t tag build-arg label target platform progress network",
        elsewhere="f= file=",
        writes="o= output= iidfile= metadata-file=",
        settings="secret= ssh= builder= allow= build-context= cache-to= cache-from=",
    ),
    "docker compose": table(
        "p f profile scale timeout tail since until index",
        elsewhere="f= file= project-directory= env-file=",
        writes="o= output=",
    ),
    "docker run": table(
        "name w workdir u user p publish e env entrypoint l label h hostname m memory cpus "
        "platform restart",
        "rm",
        elsewhere="v= volume= mount= cidfile=",
        settings="env-file=",
        changes="privileged pid= ipc= uts= userns= cap-add= security-opt= device= network= net= "
        "volumes-from= cgroupns= gpus=",
    ),
    "dotnet": table(
        "c f v r framework configuration verbosity runtime filter",
        elsewhere="s= settings= source= configfile= o= output= results-directory= artifacts-path=",
        runs="a= test-adapter-path= logger= l= collect= environment= e= diag= d= bl binarylogger",
    ),
    "eslint": table(
        "ext rule max-warnings ignore-pattern",
        "fix-dry-run",
        writes="fix o= output-file= cache-location= cache-file=",
        runs="c= config= rulesdir= resolve-plugins-relative-to= plugin= stdin-filename= init flag=",
        plain="f= format= parser=",
    ),
    "flake8": table(
        "max-line-length select ignore exclude j",
        runs="config= append-config= enable-extensions=",
        writes="output-file= tee",
    ),
    "gh": table(
        "R L q t s B H S l a json jq template repo limit state search label assignee author",
        runs="w web",
    ),
    "gh api": table(
        "R L q t s B H jq template repo limit state",
        changes="X= f= F= method= field= raw-field= input=",
    ),
    "gh run": table("R L w s u b a json jq template workflow", runs="web"),
    "go": table(
        "run bench count timeout tags p parallel cpu shuffle covermode coverpkg list skip fuzztime",
        style=Style.WORDS,
        runs="exec= toolexec= vettool= overlay= modfile= ldflags= gcflags= asmflags= gccgoflags=",
        writes="coverprofile= cpuprofile= memprofile= blockprofile= mutexprofile= trace= "
        "outputdir= pkgdir= test.coverprofile= test.cpuprofile= test.memprofile= "
        "test.blockprofile= test.mutexprofile= test.trace= test.outputdir= test.testlogfile= "
        "test.gocoverdir= test.fuzzcachedir= artifacts",
        elsewhere="C= o=",
    ),
    "go env": table(style=Style.WORDS, changes="w u"),
    "gofmt": table("r cpuprofile", style=Style.WORDS, writes="w cpuprofile="),
    "golangci-lint": table(
        "E D enable disable timeout",
        runs="c= config=",
        writes="fix cpu-profile-path= mem-profile-path= trace-path= out-format= output.",
    ),
    "gradle": table(
        "x tests exclude-task max-workers console warning-mode",
        "tests console info debug stacktrace no-daemon daemon offline parallel quiet continue scan",
        runs="I= init-script= b= build-file= c= settings-file= include-build= gradle-user-home= g=",
        elsewhere="p= project-dir= project-cache-dir=",
        writes="F= write-locks write-verification-metadata= M= profile update-locks=",
    ),
    "helm": table(
        "n f namespace values set set-string version kube-context",
        "output",
        runs="post-renderer= post-renderer-args=",
        settings=f"{_CLUSTER} kube-token= kube-apiserver= kube-as-user= kube-as-group= "
        "kube-ca-file= registry-config= repository-config= keyring= repo=",
        writes="output-dir= cache-dir=",
        elsewhere="d= destination=",
    ),
    "isort": table("l", settings="sp= settings-path= settings-file="),
    "javac": table(
        "cp classpath source target release",
        style=Style.WORDS,
        at_files=True,
        runs="processor= processorpath= processor-path= Xplugin J*",
        elsewhere="d= s= h=",
    ),
    "jest": table(
        "t testNamePattern testPathPattern maxWorkers w",
        "coverage",
        style=Style.CAMEL,
        runs=f"c= config= {_JS_TESTS}",
        elsewhere="root-dir= roots=",
        writes="output-file= coverage-directory= cache-directory= u update-snapshot",
    ),
    "kubectl": table(
        "n l o f namespace selector output context cluster",
        "kube",
        settings=_CLUSTER,
        runs="helm-command= enable-alpha-plugins enable-exec enable-helm",
        writes="profile-output= cache-dir= output-directory=",
    ),
    "make": _MAKE,
    "meson": table(
        "suite t j num-processes",
        elsewhere="C= destdir=",
        runs="wrapper= wrap= gdb gdb-path= ninja-args= vs-args= xcode-args= setup= cross-file= "
        "native-file= D=",
        writes="logbase=",
    ),
    "mix": table("only exclude seed", runs="r= require= e= eval= no-start", elsewhere="app="),
    "mocha": table(
        "g f t s grep fgrep timeout slow retries",
        style=Style.CAMEL,
        runs="r= require= import= config= package= loader= opts= n= "
        "node-option= file= experimental-loader= watch-files= p=",
        plain="R= reporter= u= ui=",
        writes="O= reporter-option= reporter-options=",
    ),
    "mvn": table(
        "pl rf T projects resume-from threads color",
        style=Style.LONG_ONLY,
        elsewhere="f* file=",
        settings="s* settings= gs= global-settings= t* toolchains= gt= global-toolchains= ps= "
        "project-settings=",
        writes="l* log-file=",
    ),
    "mypy": table(
        "m p python-version platform exclude follow-imports",
        "strict",
        at_files=True,
        runs="config-file= python-executable= install-types custom-typeshed-dir= "
        "custom-typing-module= pdb",
        writes="cache-dir= junit-xml= html-report= linecount-report= xml-report= txt-report= "
        "xslt-html-report= xslt-txt-report= any-exprs-report= cobertura-xml-report= "
        "linecoverage-report= lineprecision-report= timing-stats= line-checking-stats=",
        settings="shadow-file=",
    ),
    "ninja": table("j k l", changes="t=", runs="f=", elsewhere="C="),
    "nox": table(
        "s e k t session sessions keywords tags",
        runs="f= noxfile= P= force-python= extra-python= p= python= default-venv-backend= "
        "force-venv-backend= db= download-python=",
        writes="envdir= report=",
    ),
    "npm": _NPM,
    "phpunit": table(
        "filter group testsuite",
        runs="c= configuration= bootstrap= include-path= d= extension= printer=",
        writes="log-junit= log-teamcity= coverage-clover= coverage-html= coverage-php= "
        "coverage-xml= coverage-text= coverage-cobertura= coverage-crap4j= cache-directory= "
        "testdox-html= testdox-text= generate-baseline= log-events-text=",
    ),
    "pip": table(
        "r c e requirement constraint editable",
        settings="i= index-url= extra-index-url= f= find-links= proxy= trusted-host= cert= "
        "client-cert=",
        runs="python=",
        writes="log= report= cache-dir=",
        elsewhere="path= t= target= prefix= root= src= d= dest=",
    ),
    "pnpm": _NPM,
    "poetry": table(elsewhere="C= directory= P= project=", writes="o= output="),
    "pre-commit": table("files hook-stage", runs="c= config="),
    "prettier": table(
        "parser l",
        "config-precedence",
        writes="w write cache-location=",
        runs="plugin= config= plugin-search-dir= find-config-path=",
    ),
    "pylint": table(
        "j d e f disable enable",
        runs="load-plugins= init-hook= rcfile= py-version=",
        writes="output=",
        plain="f= output-format=",
    ),
    "pyright": table(
        "level pythonversion pythonplatform",
        elsewhere="p= project=",
        runs="pythonpath= v= venvpath= venv-path=",
        settings="t= typeshedpath= typeshed-path=",
        writes="createstub= writebaseline",
    ),
    "pytest": table(
        "k m n r tb maxfail durations cov timeout import-mode deselect ignore "
        "ignore-glob numprocesses randomly-seed",
        "cov co pdb",
        at_files=True,
        runs="p= W= pythonwarnings= c= config-file= o= override-ini= confcutdir= pdbcls= pastebin= "
        "pyargs plugins= tx= rsyncdir= cov-config= ds= dc=",
        plain="cov-report=",
        elsewhere="rootdir=",
        writes="junitxml= junit-xml= log-file= debug report-log= html= json-report-file= "
        "basetemp= resultlog= result-log= snapshot-update profile-svg benchmark-json= "
        "benchmark-storage= benchmark-save= alluredir= inline-snapshot= force-regen regen-all",
    ),
    "rspec": table(
        "e t P example tag pattern seed",
        runs="r= require= I= O= options= default-path= drb",
        plain="f= format=",
        writes="o= out=",
    ),
    "rubocop": table(
        "only except",
        runs="r= require= c= config= plugin=",
        plain="f= format=",
        writes="o= out= a A autocorrect autocorrect-all auto-correct auto-correct-all fix-layout x "
        "auto-gen-config init cache-root= regenerate-todo",
    ),
    "ruff": table(
        "select ignore line-length target-version",
        "exclude extend-select extend-ignore",
        writes="fix fix-only unsafe-fixes o= output-file= cache-dir= add-noqa",
        settings="config=",
    ),
    "rustc": table(
        "edition",
        "edition",
        at_files=True,
        runs="C= codegen= Z= L= extern= sysroot=",
        writes="o= out-dir= emit=",
        plain="print=",
    ),
    "shfmt": table("i ln p", style=Style.WORDS, writes="w"),
    "terraform": table(
        "var target refresh parallelism lock-timeout",
        style=Style.WORDS,
        writes="out= state-out= backup= generate-config-out=",
        elsewhere="var-file= state= chdir=",
        runs="plugin-dir= from-module= backend-config=",
    ),
    "tox": table(
        "e f m",
        runs="x= override= c= conf= develop installpkg= i= index-url= P= discover= p= "
        "force-dep= pre",
        writes="workdir= result-json= temp-dir= root= devenv=",
    ),
    "tsc": table(
        "target module lib jsx moduleresolution",
        style=Style.FOLDED,
        elsewhere="p= project= b= build= root-dir=",
        writes="out-dir= out-file= out= declaration-dir= ts-build-info-file= generate-trace= "
        "generate-cpu-profile= init",
        runs="plugins=",
    ),
    "uv": table(
        "extra group package p",
        "extra",
        elsewhere="directory= project= script=",
        settings="index= index-url= i= default-index= extra-index-url= f= find-links= config-file= "
        "allow-insecure-host=",
        runs="python= p= python-preference= with= env-file=",
        writes="cache-dir= o= output-file=",
    ),
    "vitest": table(
        "t test-name-pattern project shard",
        "coverage run",
        style=Style.CAMEL,
        runs="c= config= workspace= diff= sequence.sequencer= environment= exec-argv= "
        f"pool-options. browser. browser= {_JS_TESTS}",
        elsewhere="r= root= dir=",
        plain="reporter= pool=",
        writes="output-file= output-file. coverage. u update typecheck. attachments-dir= cache.",
    ),
    "yarn": table(
        "",
        "silent verbose json",
        elsewhere="cwd= modules-folder= link-folder=",
        settings="use-yarnrc= registry= proxy= https-proxy=",
        writes="mutex= cache-folder= global-folder= preferred-cache-folder= pack-destination=",
        runs="script-shell= node-options=",
    ),
}
"""Program, or program and subcommand, as of `READERS`."""
