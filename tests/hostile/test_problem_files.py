"""Problem files from strangers: refused in one line that says where, or read as they stand."""

import json
import os
from pathlib import Path

import pyarrow
import pyarrow.parquet
from limits import Situation, check, table

from rlvr_cli.core.jsonl import LONGEST_LINE
from rlvr_cli.core.text import DEEPEST, LONGEST_ANSWER

SHORT = ("-n", "1", "--max-tokens", "3")
GOOD = {"problem": "What is 1 + 1?", "answer": 2}


def line(**fields: object) -> str:
    return json.dumps({**GOOD, **fields}) + "\n"


def bad_line(name: str, content: str | bytes, says: str, before: str = line()) -> Situation:
    """A second line that is refused by its number."""
    content = content.encode() if isinstance(content, str) else content
    files = {"p.jsonl": before.encode() + content}
    return Situation(name, ("eval", "p.jsonl", *SHORT), f"p.jsonl:2: .*{says}", files=files)


def refused(name: str, file: str, content: object, says: str, **more: object) -> Situation:
    command = ("eval", file, *SHORT)
    return Situation(name, command, says, files={file: content}, **more)  # type: ignore[dict-item, arg-type]


def gold(name: str, answer: object, says: str) -> Situation:
    return bad_line(f"gold: {name}", json.dumps({"problem": "q", "answer": answer}), says)


def taken(
    name: str, content: str | bytes, says: str = "pass@1", file: str = "p.jsonl"
) -> Situation:
    return Situation(name, ("eval", file, *SHORT), says, 0, files={file: content})


def parquet(columns: dict[str, list[object]] | None = None, names: list[str] | None = None):
    def write(path: Path) -> None:
        given = columns or {"problem": ["1 + 1"], "answer": ["2"]}
        arrays = list(map(pyarrow.array, given.values()))
        built = pyarrow.Table.from_arrays(arrays, names=names or list(given))
        pyarrow.parquet.write_table(built, path)

    return write


def not_utf8(path: Path) -> None:
    buffers = [None, pyarrow.py_buffer(b"\x00\x00\x00\x00\x02\x00\x00\x00"), b"\xff\xfe"]
    buffers[2] = pyarrow.py_buffer(b"\xff\xfe")
    bad = pyarrow.StringArray.from_buffers(1, buffers[1], buffers[2])
    built = pyarrow.Table.from_arrays([bad, pyarrow.array(["2"])], names=["problem", "answer"])
    pyarrow.parquet.write_table(built, path)


def endless_cells(path: Path) -> None:
    """64 KB on the disk, 4 GiB in the first 256 rows: each is the same value of 16 MB."""
    value = pyarrow.array(["q" * (16 << 20)])
    column = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 300, "int32"), value)
    built = pyarrow.table({"problem": column, "answer": ["2"] * 300})
    pyarrow.parquet.write_table(
        built, path, compression="zstd", write_statistics=False, dictionary_pagesize_limit=1 << 30
    )


def torn(write):
    def then_cut(path: Path) -> None:
        write(path)
        os.truncate(path, path.stat().st_size // 2)

    return then_cut


def sparse(size: int):
    """A file of so many NUL, which takes no room on the disk."""

    def make(path: Path) -> None:
        path.touch()
        os.truncate(path, size)

    return make


def link_to(target: str):
    return lambda path: path.symlink_to(target)


JSONL = [
    refused("empty", "p.jsonl", "", "no problems in it"),
    refused("blank lines", "p.jsonl", "\n \n\t\n", "no problems in it"),
    refused("NUL alone", "p.jsonl", b"\0" * 4096, "p.jsonl:1: not a JSON object"),
    refused("a directory", "p.jsonl", Path.mkdir, "a directory, where problems"),
    refused("a link to itself", "p.jsonl", link_to("p.jsonl"), "symbolic links"),
    refused("a link to nowhere", "p.jsonl", link_to("gone"), "No such file"),
    refused("no right to read", "p.jsonl", link_to("/proc/1/mem"), "p.jsonl: .*(cannot|denied)"),
    refused("a zero device", "p.jsonl", link_to("/dev/zero"), "p.jsonl:1: a line of more than"),
    refused("a line without end", "p.jsonl", sparse(LONGEST_LINE + 9), "p.jsonl:1: a line of more"),
    Situation(
        "stdin without end of line",
        ("eval", "-", *SHORT),
        "stdin:2: a line of more than 64 MB",
        stdin=line().encode() + b" " * (LONGEST_LINE + 1),
    ),
    bad_line("half a line", '{"problem": "q", "ans', "not a JSON object"),
    bad_line("a list", "[1, 2]\n", "not a JSON object"),
    bad_line("a number", "7\n", "not a JSON object"),
    bad_line("null", "null\n", "not a JSON object"),
    bad_line("two objects", "{} {}\n", "not a JSON object"),
    bad_line("single quotes", "{'problem': 'q', 'answer': 1}\n", "not a JSON object"),
    bad_line("UTF-16", '{"problem": "q", "answer": 1}'.encode("utf-16"), "not UTF-8"),
    bad_line("Latin-1", '{"problem": "é", "answer": 1}'.encode("latin-1"), "not UTF-8"),
    bad_line("NUL block", b"\0" * 512 + b"\n", "not a JSON object"),
    bad_line("deep lists", '{"x": ' + "[" * 90_000 + "]" * 90_000 + "}", "not a JSON|nested"),
    bad_line("deep objects", '{"x": ' * 5000 + "1" + "}" * 5000, "not a JSON|nested"),
    bad_line("a bit too deep", line(x=json.loads("[" * 101 + "]" * 101)), f"more than {DEEPEST}"),
    bad_line("an int of 5,000 digits", '{"problem": "q", "answer": ' + "9" * 5000 + "}", "JSON"),
    bad_line("the gold twice", '{"problem": "q", "answer": 1, "answer": 2}', "answer stands twice"),
    bad_line("the problem twice", '{"problem": "q", "problem": "r", "answer": 1}', "stands twice"),
    bad_line(
        "a key twice inside", '{"problem": "q", "answer": 1, "x": {"a": 1, "a": 2}}', "a stan"
    ),
    bad_line("an escape doubles a key", '{"answer": 1, "\\u0061nswer": 2}', "answer stands twice"),
    bad_line("a long key twice", '{"K": 1, "K": 2}'.replace("K", "k" * 9000), "k… stands twice"),
    bad_line("no problem", '{"answer": 1}\n', "no field problem"),
    bad_line("no answer", '{"problem": "q"}\n', "no field answer"),
    bad_line("an empty problem", line(problem=" \n\t"), "not a text with something"),
    bad_line("a problem that is a list", line(problem=["q"]), "not a text with something"),
    bad_line("a problem that is an object", line(problem={"q": 1}), "it has problem.q"),
    bad_line("a lone surrogate", '{"problem": "\\ud800", "answer": 1}', "lone surrogate"),
    refused("an id twice", "p.jsonl", line(id="a") + line(id="a", problem="r"), "id a is that of"),
    refused("two golds", "p.jsonl", line() + line(answer=3), "two different gold answers"),
    refused(
        "100,000 bad lines", "p.jsonl", "7\n" * 100_000, "100000 bad of 100000 lines", seconds=30
    ),
    refused(
        "a problem of 10 MB", "p.jsonl", line(problem="1 " * 5_000_000), "cannot fit a context"
    ),
    taken("a byte order mark", b"\xef\xbb\xbf" + line().encode()),
    taken("carriage returns", line().replace("\n", "\r\n").encode() * 1),
    taken("no newline at the end", line().rstrip()),
    taken("escapes for a terminal", line(id="\x1b]0;owned\x07", problem="\x1b[2J q")),
    taken("a field of 5 MB", line(x="y" * 5_000_000)),
    taken("numbers that JSON has not", '{"problem": "q", "answer": 1, "x": [NaN, Infinity]}'),
    taken("as deep as it may be", line(x=json.loads("[" * 98 + "]" * 98))),
    taken("a path as id", line(id="../../../etc/passwd")),
]
LONG = 100_000
GOLDS = [
    gold(
        "spaces and newlines behind hashes", "####" + " " * LONG + "\n" * LONG + "x", "longer than"
    ),
    gold("hashes alone", "#" * LONG + "\nx", "longer than"),
    gold("newlines", "#### 1" + "\n" * LONG + "x", "longer than"),
    gold("tabs", ("####" + "\t" * 99) * 2000 + "\nx", "longer than"),
    gold("nothing behind hashes", "reasoning\n####  ", "empty"),
    gold("a text too long", "1 + " * LONGEST_ANSWER, "longer than"),
    gold("blank", " \n ", "empty"),
    gold("true", True, "neither a text nor a number"),
    gold("an object", {"a": 1}, "answer is an object, .* name the value"),
    gold("an empty list", [], "neither a text nor a number"),
    gold("a list in a list with an object", [[{}]], "neither a text nor a number"),
    bad_line("gold: NaN", '{"problem": "q", "answer": NaN}', "not a finite"),
    bad_line("gold: infinity", '{"problem": "q", "answer": 1e999}', "not a finite"),
    taken("gold: just short enough", line(answer="####" + " " * 4000 + "\n" * 4000 + "x")),
    taken("gold: powers", line(answer="9**9**9**9")),
    taken("gold: brackets", line(answer="(" * 3000)),
    taken("gold: boxes", line(answer="\\boxed{" * 1000)),
]
TABLES = [
    refused("csv: empty", "p.csv", "", "no problems in it"),
    refused("csv: a header alone", "p.csv", "problem,answer\n", "no problems in it"),
    refused(
        "csv: a column twice", "p.csv", "problem,answer,answer\nq,1,2\n", "answer stands twice"
    ),
    refused("csv: not UTF-8", "p.csv", b"problem,answer\n\xff,1\n", "not UTF-8"),
    refused(
        "csv: a field too long", "p.csv", "problem,answer\n" + "q" * 200_000 + ",1\n", "cannot fit"
    ),
    refused("csv: a zero device", "p.csv", link_to("/dev/zero"), "a line of more than"),
    refused(
        "csv: a column over two lines",
        "p.csv",
        'question,"x\ny"\nq,1\n',
        "no field answer; it has question, x y: name",
    ),
    refused("csv: no answer", "p.csv", "problem\nq\n", "no field answer"),
    refused(
        "csv: an open quote", "p.csv", 'problem,answer\n"q,1\n' + "x" * 200_000, "answer is null"
    ),
    refused("csv: more fields than columns", "p.csv", "problem,answer\nq,1,2,3\n", "4 cells for 2"),
    refused("parquet: text", "p.parquet", "not parquet", "p.parquet: cannot be read"),
    refused("parquet: empty", "p.parquet", b"", "p.parquet: cannot be read"),
    refused("parquet: torn", "p.parquet", torn(parquet()), "p.parquet: cannot be read"),
    refused("parquet: magic alone", "p.parquet", b"PAR1" * 3, "p.parquet: cannot be read"),
    refused("parquet: no text", "p.parquet", not_utf8, "p.parquet: cannot be read"),
    refused("parquet: a FIFO", "p.parquet", os.mkfifo, "not a regular file"),
    refused("parquet: a device", "p.parquet", link_to("/dev/zero"), "not a regular file"),
    refused(
        "parquet: a column twice",
        "p.parquet",
        parquet({"a": ["q"], "b": ["1"], "c": ["2"]}, ["problem", "answer", "answer"]),
        "answer stands twice",
    ),
    refused(
        "parquet: a value without end",
        "p.parquet",
        endless_cells,
        "p.parquet:1: the 256 rows from here on take more than 2 GiB",
        megabytes=8000,
    ),
    refused("parquet: no rows", "p.parquet", parquet({"problem": [], "answer": []}), "no problems"),
    refused("parquet: other columns", "p.parquet", parquet({"x": ["q"]}), "no field problem"),
    refused(
        "parquet: nulls",
        "p.parquet",
        parquet({"problem": [None, "q"], "answer": [1, 2]}),
        "problem",
    ),
    refused(
        "parquet: binary", "p.parquet", parquet({"problem": [b"\xff"], "answer": [1]}), "not a text"
    ),
]
NAMES = [
    Situation("a name too long", ("eval", "x" * 5000, *SHORT), "too long|no such problem set"),
    Situation("a name that is no set", ("eval", "aime2", *SHORT), "no such problem set"),
    Situation("an empty name", ("eval", "", *SHORT), "no such|a directory|cannot be read"),
    Situation(
        "a NUL in a name",
        ("eval", "-", "--set", 'data.source="a\\0.jsonl"', *SHORT),
        "no |null|set",
    ),
    Situation(
        "a NUL in the name of a file",
        ("train", "--set", 'data.source="a\\0.jsonl"', "--check"),
        "cannot be read",
    ),
    Situation(
        "a NUL in the name of a set",
        ("train", "--set", 'data.source="a\\0.yaml"', "--check"),
        "cannot be read",
    ),
]


@table([*JSONL, *GOLDS, *TABLES, *NAMES])
def test_situation(situation: Situation, tmp_path: Path) -> None:
    check(situation, tmp_path)
