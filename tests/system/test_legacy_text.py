"""Files of the time before Unicode, as they still lie in repositories."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.system.encoding import decode_text, detect, encode_text, is_binary
from alhena.system.legacy_text import legacy_encoding
from tests.support.each import for_each

SAMPLES = [
    ("cp1251", '# Модуль заказов\ndef total():\n    """Сумма с учётом скидки."""\n'),
    ("koi8-r", "/* точка входа в программу, автор неизвестен */\nint main() { return 0; }\n"),
    ("cp866", "rem копирование файлов на сервер\r\ncopy a b\r\n"),
    ("iso8859-5", "// проверка прав доступа пользователя\n"),
    ("cp932", "# 設定ファイルを読み込む関数です。\nx = 1\n"),
    ("euc_jp", "# 設定ファイルを読み込む関数です。\nx = 1\n"),
    ("gb18030", "// 读取配置文件并返回内容\nint x; // 初始化变量\n"),
    ("big5", "# 讀取設定檔的函式，發生錯誤則拋出例外\n"),
    ("cp949", "# 설정 파일을 읽는 함수입니다. 오류가 발생하면 예외를 던집니다.\n"),
    ("cp1253", "# Αυτό το αρχείο περιέχει τις ρυθμίσεις\n"),
    ("cp1255", "# שלום עולם, זה קובץ ההגדרות של המערכת\n"),
    ("cp1250", "# Zażółć gęślą jaźń: program główny\n"),
    ("cp1250", "# Příliš žluťoučký kůň úpěl ďábelské ódy\n"),
    ("cp1254", "# Türkçe açıklama: şifre geçersiz, yığın dışı\n"),
]
SHORT = [
    *(("cp1251", text) for text in (
        "Привет", "Нет", "// тест", "Hello мир", "дом", "Файл не найден", "объект", "щётка",
        "name=Иван", "Имя;Фамилия;Город", "Іван", "Добро пожаловать", "Сумма: 5 руб.",
    )),
    *(("cp1253", text) for text in (
        "Γεια", "Καλημέρα", "Αρχείο δεν βρέθηκε", "Γεια σου κόσμε", "Ρύθμιση", "Αθήνα",
    )),
    *(("cp1255", text) for text in ("שלום", "שגיאה", "ירושלים")),
]  # fmt: skip
LISTS = ["[àèìòù]", "[äöüß]", "áéíóú", "'ÄÖÜ'", "âêîôû"]
WESTERN = [
    "/* Größe des Puffers für Änderungen prüfen */\n",
    "# Le café est prêt à être servi, déjà vu ; « garçon »\n",
    "# El niño comió en el jardín, ¿qué pasó?\n",
    "# A função não está disponível; atenção às exceções\n",
    "# La città è già più bella, perché no?\n",
    "# Filen åpnes på nytt når den er ødelagt, være ærlig\n",
    "# Tämä tiedosto sisältää asetukset, älä käytä\n",
    "int x; // 20 °C ± 1 µs\n",
    "naïve",
]
FILLING = "".join(f"line {number} = call(value);\n" for number in range(3_000))


@for_each("filling", ["", FILLING])
@for_each(("encoding", "text"), SAMPLES)
def test_the_encoding_is_told_by_the_text(encoding: str, text: str, filling: str) -> None:
    data = (filling + text).encode(encoding)
    assert decode_text(data).raw == filling + text
    assert not is_binary(data[:8192])


@for_each(("encoding", "text"), SHORT)
def test_a_word_or_two_are_enough(encoding: str, text: str) -> None:
    assert decode_text(f"{text}\n".encode(encoding)).raw == f"{text}\n"


def test_the_japanese_of_mail_is_read_and_comes_back() -> None:
    text = "件名: 設定ファイル\nplain\nおわり\n"
    data = text.encode("iso2022_jp")
    file = decode_text(data)
    assert (file.raw, file.codec.encoding) == (text, "iso2022_jp")
    assert encode_text(file.raw, file.codec) == data
    for length in range(len(data)):
        assert detect(data[:length], whole=False).encoding in {"iso2022_jp", "utf-8"}
    assert detect((text * 90).encode("iso2022_jp")[:1001], whole=False).encoding == "iso2022_jp"


@pytest.mark.parametrize("data", [b"\x1b[31mred\x1b[0m\n", b"\x1b$B\x01\n", b"a\x1b$B0$%f\x7f\n"])
def test_other_escape_sequences_are_no_japanese(data: bytes) -> None:
    assert detect(data).encoding == "utf-8"
    assert decode_text(data).raw.encode() == data


@for_each("encoding", ["cp1252", "latin-1"])
@for_each("text", WESTERN + LISTS)
def test_western_text_stays_western(encoding: str, text: str) -> None:
    assert decode_text(text.encode(encoding)).raw == text


@for_each("encoding", ["utf-16-le", "utf-16-be"])
@for_each("text", [text for _, text in SAMPLES] + ["一つの\n" * 9 + "一二三 end\n"])
def test_utf_16_without_a_mark_is_told_in_any_script(encoding: str, text: str) -> None:
    data = text.encode(encoding)
    assert detect(data).encoding == encoding
    assert decode_text(data).raw == text
    assert not is_binary(data)


@pytest.mark.parametrize(
    "data",
    [
        b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\x3e\x00" * 40,
        bytes(range(256)) * 8,
        b"".join(n.to_bytes(2, "little") for n in range(0, 60_000, 97)),
        b"PK\x03\x04\x14\x00\x00\x00\x08\x00" + bytes(range(128, 250)),
    ],
)
def test_binary_data_is_not_taken_for_a_script(data: bytes) -> None:
    assert is_binary(data)


@for_each(("encoding", "text"), SAMPLES)
def test_the_beginning_of_a_file_tells_as_much_as_the_whole(encoding: str, text: str) -> None:
    data = (text * 400).encode(encoding)
    for length in (len(data) // 2, len(data) // 2 + 1):
        assert detect(data[:length], whole=False).encoding == detect(data).encoding


@given(
    st.sampled_from(SAMPLES).flatmap(
        lambda sample: st.tuples(
            st.just(sample[1].encode(sample[0])), st.binary(max_size=6), st.integers(0, 40)
        )
    )
)
def test_damaged_files_come_back_byte_for_byte(damaged: tuple[bytes, bytes, int]) -> None:
    text, junk, at = damaged
    data = text[:at] + junk + text[at:]
    file = decode_text(data)
    assert encode_text(file.raw, file.codec) == data


def test_mostly_utf_8_with_damage_is_still_utf_8() -> None:
    data = "Größe Änderung für Straße prüfen, Übergabe\n".encode() + b"\xff\n"
    assert (detect(data).encoding, detect(data).errors) == ("utf-8", "surrogateescape")


def test_text_that_tells_nothing_is_not_guessed() -> None:
    assert legacy_encoding(b"plain ascii") is None
    assert legacy_encoding(b"") is None
    assert legacy_encoding("# 1 ² 3\n".encode("latin-1")) is None
