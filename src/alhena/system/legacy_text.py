"""Detects the encoding of text that is not Unicode by the characters it would contain.

The seven-bit ISO-2022-JP, for Japanese mail, is detected by its escape sequences.

A multi-byte encoding is accepted when the bytes are valid in it and nearly all characters are in
everyday use; another alphabet when most letters are frequent ones, in words without other letters;
non-Western accents when they fit a language. Everything else is Western European: doubtful cases
are not guessed.

A general detection library was compared and is right less often: it needs more than the line or two
of non-ASCII text in source files, and misdetects Western text.
"""

import codecs
import re
from operator import itemgetter

_EXCERPT = 1 << 13
_ENOUGH = 0.8
_MARGIN = 0.03
_FEWEST = 2
"""Minimum characters of a multi-byte encoding that are no coincidence."""

_HIGH_WORD = re.compile(rb"[A-Za-z]*[\x80-\xff][A-Za-z\x80-\xff]*")

_COMMON: tuple[tuple[str, tuple[tuple[int, int], ...]], ...] = (
    ("gb18030", ((0xB0, 0xD7), (0xA1, 0xA3))),
    ("cp949", ((0xB0, 0xC8), (0xA1, 0xA3))),
    ("big5", ((0xA4, 0xC6), (0xA1, 0xA2))),
)
"""Encodings whose lead byte shows the frequency of a character, with the ranges of frequent
ones."""

_KANA = ("\u3040", "\u30ff")
_HALF_WIDTH = ("\uff61", "\uff9f")
_JAPANESE = (("cp932", (0x88, 0x97)), ("euc_jp", (0xB0, 0xCF)))
"""With the lead bytes of frequent kanji (JIS level 1)."""

_ALPHABETS = (
    ("cp1251", "оеаинтсрвлкмдпуяыьгзбчё"),
    ("koi8-r", "оеаинтсрвлкмдпуяыьгзбчё"),
    ("cp866", "оеаинтсрвлкмдпуяыьгзбчё"),
    ("iso8859-5", "оеаинтсрвлкмдпуяыьгзбчё"),
    ("cp1253", "αοιετσνηυρπκλμάόίέήςύθώγδ"),
    ("cp1255", "יוהלאמרתבשנםחדקעפ"),
)
"""Single-byte encodings of other alphabets, with their frequent lower-case letters."""

_SHORT_WORD = 2
_RARE = 0.4
_CAPITALS = 0.84
_VOWELS = frozenset("аеёиоуыэюяіїєαεηιουωάέήίόύώϊϋ") | frozenset(
    chr(code) for code in range(0x5D0, 0x5EB)
)
"""Longer words need one of these; Hebrew does not write vowels, so all its letters count."""
_ONLY_LAST = frozenset("ςםןץףך")
_NEVER_LAST = frozenset("βγδζθκλμπστφχ")
_NEVER_FIRST = frozenset("ьъы")
_FEW_LETTERS = 8
"""Up to this number, the letters may be a list of accented letters, as in a pattern."""

_QUOTES = b"\x82\x84\x85\x91\x92\x93\x94\x95\x96\x97\xab\xbb"
"""Quotation marks, dashes and similar characters, the same in all encodings and so without
evidence."""

_WESTERN = (
    "äöüß",
    "àâçéèêëîïôùûüœ",
    "áéíñóúü",
    "áâãàçéêíóôõú",
    "àèéìòùí",
    "åäöé",
    "æøåé",
    "ëïéèöü",
)
_ACCENTS = (
    ("cp1250", "ąćęłńóśźż"),
    ("cp1250", "áčďéěíňóřšťúůýž"),
    ("cp1250", "áäčďéíĺľňóôŕšťúýž"),
    ("cp1250", "áéíóöőúüű"),
    ("cp1254", "çğıöşüİâîû"),
)
"""Non-ASCII letters of languages inside and outside Windows-1252."""


_TO_KANJI = (b"\x1b$B", b"\x1b$@")
_ISO_2022_JP = "iso2022_jp"


def seven_bit_encoding(data: bytes, *, whole: bool) -> str | None:
    """The encoding of an ASCII text that switches to another script; else None."""
    if b"\x1b" not in data or not any(mark in data for mark in _TO_KANJI):
        return None
    try:
        codecs.getincrementaldecoder(_ISO_2022_JP)().decode(data, final=whole)
    except UnicodeDecodeError:
        return None
    return _ISO_2022_JP


def legacy_encoding(data: bytes) -> str | None:
    """Python's name of the encoding; None for Western European and doubtful text."""
    excerpt = _telling(data)
    if not excerpt:
        return None
    scores = [(_japanese(excerpt, *entry), entry[0]) for entry in _JAPANESE]
    scores += [(_by_lead_byte(excerpt, *entry), entry[0]) for entry in _COMMON]
    best, encoding = max(scores)
    if best >= _ENOUGH:
        return encoding
    words = _HIGH_WORD.findall(excerpt)
    foreign = sum(len(word) for word in words if len(word) > 1 and not _has_ascii(word))
    if foreign * 2 < sum(map(len, words)) or _is_accent_list(words):
        return _accents(words)
    # Among equals the first: the most widely used.
    scores = [(_by_letters(words, *entry), entry[0]) for entry in _ALPHABETS]
    best, encoding = max(scores, key=itemgetter(0))
    return encoding if best >= _ENOUGH else None


def _telling(data: bytes) -> bytes:
    """The non-ASCII lines, as many as suffice."""
    if data.isascii():
        return b""
    lines: list[bytes] = []
    size = 0
    for line in data.split(b"\n"):
        if not line.isascii():
            lines.append(line)
            size += len(line)
            if size > _EXCERPT:
                break
    return b"\n".join(lines)


def _decoded(excerpt: bytes, encoding: str) -> str | None:
    try:
        return codecs.getincrementaldecoder(encoding)().decode(excerpt)
    except UnicodeDecodeError:
        return None


def _japanese(excerpt: bytes, encoding: str, kanji: tuple[int, int]) -> float:
    text = _decoded(excerpt, encoding)
    if text is None:
        return 0.0
    common = total = kana = 0
    for char in text:
        if char <= "\x7f":
            continue
        total += 1
        if _KANA[0] <= char <= _KANA[1] or "\u3000" <= char <= "\u3015" or char >= "\uff00":
            common += not _HALF_WIDTH[0] <= char <= _HALF_WIDTH[1]
            kana += _KANA[0] <= char <= _KANA[1]
        elif kanji[0] <= char.encode(encoding)[0] <= kanji[1]:
            common += 1
    # Japanese sentences contain kana; without any, the text may be Chinese or Korean.
    return (common / total + (0.1 if kana * 8 >= total else -0.25)) if total else 0.0


def _by_lead_byte(excerpt: bytes, encoding: str, ranges: tuple[tuple[int, int], ...]) -> float:
    text = _decoded(excerpt, encoding)
    if text is None:
        return 0.0
    high = [char.encode(encoding) for char in text if char > "\x7f"]
    paired = sum(char[-1] >= 0xA1 for char in high)
    if len(high) < _FEWEST or paired * 4 < len(high):
        return 0.0  # as when accents precede ASCII letters
    least = 0x40 if encoding == "big5" else 0xA1
    common = sum(
        char[-1] >= least and any(low <= char[0] <= last for low, last in ranges) for char in high
    )
    spread = 0.02 if encoding == "cp949" else 0.0  # it has the fewest frequent characters
    return common / len(high) + spread


def _accents(words: list[bytes]) -> str | None:
    best = max(_share(words, "cp1252", letters) for letters in _WESTERN)
    found = None
    for encoding, letters in _ACCENTS:
        share = _share(words, encoding, letters)
        if share > best + _MARGIN and share >= _ENOUGH:
            best, found = share, encoding
    return found


def _is_accent_list(words: list[bytes]) -> bool:
    few = sum(map(len, words)) <= _FEW_LETTERS
    return few and any(_share(words, "cp1252", letters) == 1.0 for letters in _WESTERN)


def _share(words: list[bytes], encoding: str, letters: str) -> float:
    """The share of non-ASCII characters that are among these letters."""
    text = b"".join(words).translate(None, _QUOTES).decode(encoding, "replace")
    high = [char for char in text if char > "\x7f"]
    good = sum(char in letters or char.lower() in letters for char in high)
    return good / len(high) if high else 0.0


def _has_ascii(word: bytes) -> bool:
    return any(byte < 0x80 for byte in word)


def _by_letters(words: list[bytes], encoding: str, frequent: str) -> float:
    """Score of the words: lower-case letters, a leading capital, or all capitals count, frequent
    letters most. Characters impossible in words of the language count against it."""
    good = 0.0
    for word in words:
        text = word.decode(encoding, "replace")
        capitals = text.isupper()
        text = text.lower() if capitals else text[:1].lower() + text[1:]
        value = sum(_weight(char, frequent) for char in text)
        if len(text) > 1 and capitals:
            value *= _CAPITALS
        if len(text) > _SHORT_WORD and _VOWELS.isdisjoint(text):
            value /= 2
        value -= sum(char in _ONLY_LAST for char in text[:-1])
        good += value - (text[:1] in _NEVER_FIRST or (len(text) > 1 and text[-1] in _NEVER_LAST))
    total = sum(map(len, words))
    return good / total if total else 0.0


def _weight(char: str, frequent: str) -> float:
    if char in frequent:
        return 1.0
    if char.isupper():
        return -1.0
    return _RARE if char.isalpha() else 0.0
