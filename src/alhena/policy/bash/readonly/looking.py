"""Programs that look at archives, sockets, users and the terminal, in their forms that only do
that."""

import re
from collections.abc import Sequence

from alhena.policy.bash.model import Word
from alhena.policy.bash.readonly.grammar import Given
from alhena.policy.bash.readonly.words import listed, surely_operand

_TAR_LISTS = r"-?(?=[a-zJ]*t)[tvzjJ]{1,4}f"
_TPUT = listed("bel bold cols colors dim lines longname rev rmso rmul setab setaf sgr0 smso smul")
_DATABASES = listed("group passwd protocols rpc services shells")
_PORT = r"(?:[46]?(?:tcp|udp)?)?(?::[0-9a-z,-]+)?"


def refuse_tar(words: Sequence[Word]) -> str | None:
    """`tar tf FILE`, `tar -tzvf FILE NAME…`: a name with a colon would be a host's."""
    if len(words) == 1 and words[0].literal and words[0].text == "--version":
        return None
    if not words or not words[0].literal or not re.fullmatch(_TAR_LISTS, words[0].text):
        return "tar may do more than list, unless its first word is like -tvf"
    if len(words) < 2 or not words[1].literal or ":" in words[1].text:
        return "the archive that tar lists may be another host's"
    option = next((word for word in words[1:] if not surely_operand(word)), None)
    return None if option is None else f"{option.source or option.text} could be an option"


def refuse_tput(given: Given) -> str | None:
    """tput asks the terminal's description; `init` and `reset` run what that says."""
    texts = [word.text if word.literal else "?" for word in given.operands]
    if texts and texts[0] in _TPUT and all(text.isdecimal() for text in texts[1:]):
        return None
    return "tput with this may do more than print"


def refuse_stty(given: Given) -> str | None:
    """stty shows settings; any other word changes them."""
    if all(word.literal and word.text in {"size", "speed"} for word in given.operands):
        return None
    return "stty with an operand changes the terminal"


def refuse_getent(given: Given) -> str | None:
    """getent reads the databases of this machine; those of hosts ask name servers."""
    if given.operands and given.operands[0].literal and given.operands[0].text in _DATABASES:
        return None
    return "getent may ask name servers"


def refuse_lsof(given: Given) -> str | None:
    """lsof lists sockets by port and protocol; a host's name would be looked up."""
    for word in (*given.operands, *given.values("-i")):
        if not word.literal or not re.fullmatch(_PORT, word.text.lower()):
            return f"{word.source or word.text} may be a host, a file, or an option of lsof"
    return None
