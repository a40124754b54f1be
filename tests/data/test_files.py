"""Files as they are packed and spread over lines, and those that are broken."""

import gzip
import io
import json

import pytest

from rlvr_cli.core import jsonl
from rlvr_cli.core.errors import UserError
from rlvr_cli.data.files import file_rows, json_rows

ROWS = [{"problem": f"p{n} ]é[" * (n % 7), "answer": n} for n in range(200)]


def rows_of(path):
    return [row for _, _, row in file_rows(path)]


@pytest.mark.parametrize("piece", [16, 1000, 1 << 16])
@pytest.mark.parametrize(
    "text",
    [
        json.dumps(ROWS),
        json.dumps(ROWS, indent=2, ensure_ascii=False),
        "\ufeff\n " + json.dumps(ROWS),
        "\n".join(json.dumps(row, indent=1) for row in ROWS),
    ],
    ids=["line", "lines", "byte order mark", "objects"],
)
def test_values_over_many_lines_are_read_whole(monkeypatch, piece, text):
    monkeypatch.setattr(jsonl, "_PIECE", piece)
    found = list(json_rows("a", io.BytesIO(text.encode())))
    assert [row for _, _, row in found] == ROWS
    assert found[-1][:2] == ("a:200", 200)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"a": 1}, {"b"', "a:2: not valid JSON from here on, or the file ends too soon"),
        ('[{"a": 1}, {"b": 2}', "a:3: the array ends too soon"),
        ('[{"a": 1}, {"b": 2, "b": 3}]', "a:2: the key b stands twice"),
        ('[{"a": 1} x, {"b": 2}]', "a:2: not valid JSON"),
        ("[" * 100_000, "a:1: (not valid JSON|the array ends)"),
        (b'[{"a": "\xff"}]', "a:1: not UTF-8 text"),
    ],
)
def test_an_array_that_cannot_be_read_on_is_an_error(text, message):
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(UserError, match=message):
        list(json_rows("a", io.BytesIO(data)))


def test_a_value_without_end_is_not_kept_in_memory(monkeypatch):
    monkeypatch.setattr(jsonl, "LONGEST_LINE", 1 << 18)
    with pytest.raises(UserError, match="a:1: a value of more than"):
        list(json_rows("a", io.BytesIO(b'[{"a": "' + b"x" * (1 << 20))))


def test_a_gzipped_file_is_known_by_its_content(tmp_path):
    text = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    for name in ("a.jsonl.gz", "a.jsonl"):
        (tmp_path / name).write_bytes(gzip.compress(text[:1000]) + gzip.compress(text[1000:]))
        assert rows_of(tmp_path / name) == ROWS


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(json.dumps(ROWS).encode())[:-20], "the compressed file ends too soon"),
        (gzip.compress(b"{}\n")[:-8] + b"\0" * 8, "cannot be read"),
        (b"\x1f\x8b\x08" + b"\xff" * 40, "cannot be read|ends too soon"),
        (b"\x28\xb5\x2f\xfd" + b"0" * 40, "packed with zstd; unpack it, or pack it with gzip"),
        (b"PK\x03\x04" + b"0" * 40, "packed with zip"),
    ],
    ids=["ends too soon", "wrong checksum", "no gzip", "zstd", "zip"],
)
def test_a_packed_file_that_cannot_be_read_says_why(tmp_path, content, message):
    (tmp_path / "a.jsonl.gz").write_bytes(content)
    with pytest.raises(UserError, match=r"a\.jsonl\.gz: .*" + message):
        rows_of(tmp_path / "a.jsonl.gz")


def test_a_bomb_is_left_after_so_many_times_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr("rlvr_cli.data.files._UNPACKED", 1 << 16)
    row = b'{"problem": "p", "answer": 1}\n'
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(row * 100_000))
    with pytest.raises(UserError, match="unpacks to more than 200 times its size"):
        rows_of(tmp_path / "a.jsonl.gz")


def test_the_delimiter_of_a_table_is_the_one_of_its_header(tmp_path):
    (tmp_path / "a.csv").write_text('"a, b, c";problem;answer\n1;"p, q; r";2\n')
    assert rows_of(tmp_path / "a.csv") == [{"a, b, c": "1", "problem": "p, q; r", "answer": "2"}]


def test_a_row_of_a_table_is_named_by_its_first_line_and_never_cut(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('problem,answer\n"a\nb",1\nc,1,000\nd,"1,000"\n')
    first, cut, last = file_rows(path)
    assert first == (f"{path}:2", 1, {"problem": "a\nb", "answer": "1"})
    assert cut[:2] == (f"{path}:4", 2)
    assert str(cut[2]) == "3 cells for 2 columns: put a text that has a ',' in it in quotes"
    assert last == (f"{path}:5", 3, {"problem": "d", "answer": "1,000"})
