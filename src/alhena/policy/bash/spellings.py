"""Other spellings of options and subcommands, so that a rule finds all of them."""

from functools import lru_cache

import msgspec


class Letters(msgspec.Struct, frozen=True):
    """Of a program: the one-letter options that take a value in any of its subcommands, and the
    long names of one-letter options."""

    with_value: str
    long: dict[str, str]


def _letters(with_value: str, pairs: str) -> Letters:
    return Letters(with_value, dict(pair.split("=") for pair in pairs.split()))


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


LETTERS = {
    "chgrp": _letters("", "R=recursive h=no-dereference f=quiet v=verbose"),
    "chmod": _letters("", "R=recursive f=quiet v=verbose"),
    "chown": _letters("", "R=recursive h=no-dereference f=quiet v=verbose"),
    "cp": _letters("tS", "a=archive f=force r=recursive R=recursive t=target-directory u=update"),
    "curl": _letters(
        "AbBcCdDeEFhHKmoPQrtTuUwxXyYz",
        "d=data D=dump-header F=form H=header k=insecure K=config L=location o=output "
        "O=remote-name T=upload-file u=user X=request",
    ),
    "docker": _letters(
        "aceghlmpuvwHfn",
        "a=all f=force d=detach e=env i=interactive p=publish t=tty u=user v=volumes V=volumes",
    ),
    "git": _letters(
        "CcmFoSuULGOntbeXsj",
        "a=all A=all b=branch d=delete f=force F=file m=message n=dry-run o=output "
        "q=quiet u=set-upstream x=exec p=patch v=verbose",
    ),
    "kill": _letters("s", "s=signal l=list"),
    "kubectl": _letters("cfnlosvp", "A=all-namespaces f=filename n=namespace l=selector"),
    "ln": _letters("tS", "f=force s=symbolic n=no-dereference"),
    "mv": _letters("tS", "f=force n=no-clobber t=target-directory"),
    "npm": _letters("Cw", "f=force g=global D=save-dev S=save E=save-exact"),
    "pip": _letters("cefirtbd", "e=editable r=requirement U=upgrade y=yes i=index-url"),
    "rm": _letters("", "r=recursive R=recursive f=force d=dir i=interactive v=verbose"),
    "rmdir": _letters("", "p=parents v=verbose"),
    "rsync": _letters("BefMTz", "a=archive n=dry-run r=recursive e=rsh"),
    "shred": _letters("ns", "u=remove f=force z=zero"),
    "tar": _letters(
        "bCfFgHIKLNTVX",
        "c=create x=extract t=list r=append f=file C=directory I=use-compress-program z=gzip",
    ),
    "wget": _letters("aBeioOPtTUwQRAlDXI", "O=output-document o=output-file e=execute r=recursive"),
}

ONE_DASH = _words(
    "find gfind java javac go terraform tofu ffmpeg openssl gcc g++ clang convert magick "
    "xcodebuild adb test expr dd"
)
"""Programs whose options are whole words behind one dash."""

_SUBCOMMANDS = {
    "npm": {
        "install": "i in ins inst insta instal isnt isnta isntal isntall add",
        "uninstall": "un unlink remove rm r",
        "run": "run-script rum urn",
        "test": "t tst",
        "exec": "x",
        "config": "c",
        "update": "up upgrade udpate",
        "ci": "clean-install ic install-clean",
        "list": "ls ll la",
        "view": "v info show",
        "adduser": "add-user login",
    },
    "pnpm": {
        "install": "i",
        "remove": "rm uninstall un",
        "run": "run-script",
        "test": "t tst",
        "update": "up upgrade",
    },
    "yarn": {"remove": "rm"},
    "cargo": {"build": "b", "check": "c", "run": "r", "test": "t", "remove": "rm", "doc": "d"},
    "helm": {"uninstall": "del delete un", "list": "ls"},
    "brew": {"uninstall": "rm remove", "list": "ls"},
    "svn": {"commit": "ci", "delete": "del rm remove", "checkout": "co", "update": "up"},
    "gh": {"codespace": "cs"},
    "poetry": {"install": "i"},
    "bun": {"install": "i", "remove": "rm", "add": "a"},
    "bundle": {"install": "i", "exec": "e"},
}
ABBREVIATING = _words("npm ip hg apt-get rustup")
"""Programs that take any unambiguous beginning of a subcommand."""

_GROUPS = {
    "container": {
        "attach commit cp create diff exec export kill logs pause port rename restart rm run start "
        "stats stop top unpause update wait": "",
        "ls list": "ps",
        "remove": "rm",
    },
    "image": {
        "build history import load pull push save tag": "",
        "ls list": "images",
        "remove rm": "rmi",
    },
}
_SAME = {
    "nerdctl": "docker",
    "podman": "docker",
    "gmake": "make",
    "oc": "kubectl",
    "k": "kubectl",
    "hub": "git",
    "pip3": "pip",
    "grm": "rm",
    "gcp": "cp",
    "gmv": "mv",
    "gln": "ln",
    "gchmod": "chmod",
    "gchown": "chown",
    "gtar": "tar",
    "bsdtar": "tar",
}


def letters_of(name: str) -> Letters | None:
    """What is known of a program's one-letter options."""
    return LETTERS.get(_SAME.get(name, name))


@lru_cache(maxsize=64)
def _spellings(name: str) -> dict[str, str]:
    table = _SUBCOMMANDS.get(_SAME.get(name, name), {})
    return {other: main for main, others in table.items() for other in others.split(" ") if other}


def main_spelling(name: str, first: str, second: str | None) -> tuple[str, bool]:
    """The main spelling of a subcommand (`npm i` is `npm install`), and whether the second word
    belongs to it (`docker container rm` is `docker rm`)."""
    if _SAME.get(name, name) == "docker" and second is not None:
        for names, main in _GROUPS.get(first, {}).items():
            if second in names.split():
                return main or second, True
    return _spellings(name).get(first, first), False
