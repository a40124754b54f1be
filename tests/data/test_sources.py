"""Where rows come from: files as editors and spreadsheets write them, and local copies."""

import gzip
import io
import json

import datasets
import pytest

from rlvr_cli.config.built_in import canonical
from rlvr_cli.core import jsonl
from rlvr_cli.core.errors import UserError
from rlvr_cli.data import sources
from rlvr_cli.data.fields import BadRowError
from rlvr_cli.data.sources import (
    ProblemSetSpec,
    bare_name,
    file_rows,
    find_spec,
    has_split,
    json_rows,
    source_rows,
)

BOM = b"\xef\xbb\xbf"


def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path):
    lines, table = tmp_path / "a.jsonl", tmp_path / "a.csv"
    lines.write_bytes(BOM + b'{"problem": "1+1", "answer": "2"}\n{"problem": "2+2"}\n')
    table.write_bytes(BOM + b"problem,answer\r\n1+1,2\r\n")
    first, second = file_rows(lines)
    assert first == (f"{lines}:1", 1, {"problem": "1+1", "answer": "2"})
    assert second[2] == {"problem": "2+2"}
    assert list(file_rows(table)) == [(f"{table}:2", 1, {"problem": "1+1", "answer": "2"})]


def test_a_plain_hub_id_is_read_from_the_local_copies(tmp_path):
    (tmp_path / "someone").mkdir()
    (tmp_path / "someone" / "sums_test.jsonl").write_text('{"problem": "1+1", "answer": "2"}\n')
    ((_, _, row),) = source_rows("someone/sums", "test", str(tmp_path))
    assert row == {"problem": "1+1", "answer": "2"}
    with pytest.raises(UserError, match=r"someone/sums: .* holds no someone/sums_train\.jsonl"):
        list(source_rows("someone/sums", "train", str(tmp_path)))


@pytest.fixture
def hub(monkeypatch):
    """A hub that notes what was asked for; its one row answers."""
    requested: list[tuple] = []

    def load(hub_id, subset, *, split):
        requested.append((hub_id, subset, split))
        if hub_id == "some/gone":
            raise ValueError("no such set\nand more")
        return [{"problem": "1+1"}, {"problem": "2+2"}]

    monkeypatch.setattr(datasets, "load_dataset", load)
    return requested


def test_the_hub_is_asked_for_the_sets_own_split_and_subset(hub, tmp_path):
    assert list(source_rows("some/set", "test", None)) == [
        ("some/set:1", 1, {"problem": "1+1"}),
        ("some/set:2", 2, {"problem": "2+2"}),
    ]
    spec = tmp_path / "mine.yaml"
    spec.write_text("source: some/other\nsubset: hard\nsplits: {test: held}\n")
    assert len(list(source_rows(str(spec), "test", None))) == 2
    spec.write_text("source: some/other\n")
    list(source_rows(str(spec), "train", None))
    assert hub == [
        ("some/set", None, "test"),
        ("some/other", "hard", "held"),
        ("some/other", None, "train"),
    ]


def test_a_set_that_the_hub_does_not_give_can_be_a_copy(hub, tmp_path):
    reason = (
        r"some/gone: the problem set cannot be loaded from the hub \(no such set\); save a copy"
    )
    with pytest.raises(UserError, match=rf"{reason} as DIR/some/gone\.jsonl and add"):
        list(source_rows("some/gone", "test", None))
    (tmp_path / "mine.yaml").write_text("source: some/gone\n")
    with pytest.raises(UserError, match=rf"{reason} as DIR/.*mine\.yaml_train\.jsonl and add"):
        list(source_rows(str(tmp_path / "mine.yaml"), "train", None))


def test_local_copies_are_looked_for_by_split_and_by_the_plain_name_of_one(tmp_path):
    def rows(split: str) -> list:
        return [row["n"] for _, _, row in source_rows("math500", split, str(tmp_path))]

    (tmp_path / "math500").mkdir()
    for n, name in enumerate(("math500.csv", "math500/test.csv", "math500_test.json")):
        (tmp_path / name).write_text(
            f"n\r\n{n}\r\n" if name.endswith("csv") else f'[{{"n": "{n}"}}]'
        )
    actual = []
    for name in ("math500_test.json", "math500/test.csv", "math500.csv"):
        actual += rows("test")
        (tmp_path / name).unlink()
    assert actual == ["2", "1", "0"]
    looked = r"holds no math500_test\.jsonl or math500/test\.jsonl or math500\.jsonl \(nor"
    with pytest.raises(UserError, match=looked):
        rows("test")
    with pytest.raises(UserError, match=r"math500: it has no train split; it has test$"):
        rows("train")
    (tmp_path / "gsm8k.csv").write_text("n\r\n1\r\n")  # a set of two splits
    with pytest.raises(UserError, match=r"holds no gsm8k_test\.jsonl or gsm8k/test\.jsonl \(nor"):
        source_rows("gsm8k", "test", str(tmp_path))


def test_a_procedure_makes_as_many_as_its_split_says(tmp_path, monkeypatch):
    spec = tmp_path / "mine.yaml"
    created = []

    def problems(split, size, *, seed):
        created.append((split, size, seed))
        return iter(["a", "b"])

    monkeypatch.setattr(sources.chains, "problems", problems)
    spec.write_text("source: procedural:chains\nsizes: {train: 3, test: 9}\nversion: 4\n")
    assert list(source_rows(str(spec), "train", None)) == [
        (f"{spec}:1", 1, "a"),
        (f"{spec}:2", 2, "b"),
    ]
    source_rows(str(spec), "test", None)
    assert created == [("train", 3, 1), ("test", 9, 1)]
    assert [has_split(str(spec), split) for split in ("train", "test", "more")] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "source: procedural:sums",
            "no such procedure as procedural:sums; it is procedural:chains",
        ),
        ("source: procedural:chains", "a procedural set needs sizes"),
        ("source: procedural:chains\nsizes: {}", "a procedural set needs sizes"),
        ("source: procedural:chains\nsizes: {train: 0}", "sizes.train must be 1 or more"),
        ("source: [", "line 1: not valid YAML"),
    ],
)
def test_a_custom_set_with_a_mistake_is_named(tmp_path, text, message):
    path = tmp_path / "mine.yml"
    path.write_text(text)
    with pytest.raises(UserError) as raised:
        find_spec(str(path))
    assert str(raised.value).startswith(f"{path}: {message}")


def test_what_a_source_is(tmp_path, monkeypatch):
    assert find_spec("some/set") is None
    assert find_spec("chains").source == "procedural:chains"
    assert ProblemSetSpec(source="a/b").split_names() == ["train", "test"]
    assert ProblemSetSpec(source="a/b", splits={"test": "x"}).split_names() == ["test"]
    with pytest.raises(UserError, match=r"none\.yaml: cannot be read"):
        find_spec(str(tmp_path / "none.yaml"))
    with pytest.raises(UserError, match=r"nothing: no such problem set; give one of .*chains"):
        source_rows("nothing", "test", None)
    (tmp_path / "plain").write_text('{"n": 1}\n')
    monkeypatch.chdir(tmp_path)
    assert [row for _, _, row in source_rows("plain", "test", None)] == [{"n": 1}]
    assert bare_name(str(tmp_path / "plain")) == "plain"
    assert (bare_name("a/none.csv"), bare_name("some/set")) == ("none.csv", "some/set")


@pytest.mark.parametrize(
    ("name", "means"),
    [
        ("AIME24", "aime24"),
        ("aime_2024", "aime24"),
        ("math-500", "math500"),
        ("DAPO-Math-17k", "dapo-math-17k"),
        ("MATH", "math"),
        ("aime99", "aime99"),
        ("org/AIME24", "org/AIME24"),
        ("-", "-"),
    ],
)
def test_a_sets_name_is_known_however_it_is_written(name, means):
    assert canonical(name) == means


def test_a_file_of_a_sets_name_is_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "AIME24").touch()
    assert canonical("AIME24") == "AIME24"


def test_only_sets_that_come_along_have_a_version(tmp_path):
    assert find_spec("aime24").version == 1
    assert find_spec("a.jsonl") is None


ROWS = [{"problem": f"p{n} ]é[" * (n % 7), "answer": n} for n in range(200)]


def rows_of(path):
    return [row for _, _, row in file_rows(path)]


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
def test_values_over_many_lines_are_read_whole(text):
    actual = list(json_rows("a", io.BytesIO(text.encode())))
    assert [row for _, _, row in actual] == ROWS
    assert actual[-1][:2] == ("a:200", 200)


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


def test_a_file_of_spread_out_json_has_a_largest_size(monkeypatch):
    monkeypatch.setattr(jsonl, "LARGEST_JSON", 1 << 18)
    with pytest.raises(UserError, match="a: more than 0 MB of JSON; put each object on a line"):
        list(json_rows("a", io.BytesIO(b'[{"a": "' + b"x" * (1 << 20))))


def test_a_gzipped_file_is_known_by_its_content(tmp_path):
    text = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    for name in ("a.jsonl.gz", "a.jsonl"):
        (tmp_path / name).write_bytes(gzip.compress(text[:1000]) + gzip.compress(text[1000:]))
        assert rows_of(tmp_path / name) == ROWS


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(json.dumps(ROWS).encode())[:-20], "Compressed file ended before"),
        (gzip.compress(b"{}\n")[:-8] + b"\0" * 8, "cannot be read"),
        (b"\x1f\x8b\x08" + b"\xff" * 40, "cannot be read"),
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
    monkeypatch.setattr("rlvr_cli.data.sources._SMALL_UNPACKED", 1 << 16)
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


def table_rows(tmp_path, content: bytes) -> list:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    return [str(row) if isinstance(row, BadRowError) else row["b"] for _, _, row in file_rows(path)]


def test_a_cell_is_as_long_as_a_line_may_be(tmp_path):
    long = "x" * 1_000_000
    assert table_rows(tmp_path, f"a,b\n1,{long}\n2,3\n".encode()) == [long, "3"]


def test_a_bad_row_of_a_table_is_one_row(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "LONGEST_LINE", 1000)
    wide = b"1," + b"x" * 2000
    bad = b"2,\xff\xfe"
    mixed = b"3,\xe9t\xe9"
    content = b"a,b\n" + b"\n".join([wide[:900], bad, b"4,\xc3\xa9", mixed, b"5,6,7", b"8,9"])
    assert table_rows(tmp_path, content) == [
        "x" * 898,
        "not UTF-8 text",
        "é",
        "not UTF-8 text",
        "3 cells for 2 columns: put a text that has a ',' in it in quotes",
        "9",
    ]
    quoted = b'a,b\n1,"' + b"\n".join([b"y" * 900] * 2) + b'"\n2,3\n'
    assert table_rows(tmp_path, quoted)[0].startswith("field larger than field limit")
    assert table_rows(tmp_path, quoted)[-1] == "3"
    with pytest.raises(UserError, match="the line of column names is not UTF-8"):
        table_rows(tmp_path, b"a,\xff\n1,2\n")
