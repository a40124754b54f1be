"""Where rows come from: files as editors and spreadsheets write them, and local copies."""

import pytest

from rlvr_cli.core.errors import UserError
from rlvr_cli.data.sources import file_rows, source_rows

BOM = b"\xef\xbb\xbf"


def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path):
    lines, table = tmp_path / "a.jsonl", tmp_path / "a.csv"
    lines.write_bytes(BOM + b'{"problem": "1+1", "answer": "2"}\n{"problem": "2+2"}\n')
    table.write_bytes(BOM + b"problem,answer\r\n1+1,2\r\n")
    first, second = file_rows(lines)
    assert first == (f"{lines}:1", 1, {"problem": "1+1", "answer": "2"})
    assert second[2] == {"problem": "2+2"}
    assert list(file_rows(table)) == [(f"{table}:1", 1, {"problem": "1+1", "answer": "2"})]


def test_a_plain_hub_id_is_read_from_the_local_copies(tmp_path):
    (tmp_path / "someone").mkdir()
    (tmp_path / "someone" / "sums_test.jsonl").write_text('{"problem": "1+1", "answer": "2"}\n')
    ((_, _, row),) = source_rows("someone/sums", "test", str(tmp_path))
    assert row == {"problem": "1+1", "answer": "2"}
    with pytest.raises(UserError, match=r"someone/sums: .* holds no someone/sums_train\.jsonl"):
        list(source_rows("someone/sums", "train", str(tmp_path)))
