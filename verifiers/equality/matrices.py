"""Compute the matrix arithmetic that answers leave open, such as a scalar before a matrix."""

from collections.abc import Callable

from verifiers.grammar.tree import Node, neg, sym

MAX_CELLS = 400  # as 20 x 20


def as_matrix(node: Node) -> Node | None:
    """Return a matrix node for a matrix, its multiples, sums and transposes. Return None for
    all else."""
    kind, args = node.kind, node.args
    if kind == "matrix":
        return node if len(args) <= MAX_CELLS else None
    if kind == "tuple":
        return _from_rows(node)
    if kind not in ("neg", "div", "pow", "mul", "add"):
        return None
    parts = [as_matrix(arg) for arg in args]
    matrices = [matrix for matrix in parts if matrix]
    if kind == "mul" and len(matrices) == 1:
        factors = tuple(arg for arg, part in zip(args, parts, strict=True) if not part)
        return _map(matrices[0], lambda cell: Node("mul", (*factors, cell)))
    if kind == "add" and len(matrices) == len(args) and len({m.value for m in matrices}) == 1:
        cells = zip(*(matrix.args for matrix in matrices), strict=True)
        return matrices[0].with_args(tuple(Node("add", terms) for terms in cells))
    first = parts[0]
    if first is None:
        return None
    if kind == "neg":
        return _map(first, neg)
    if kind == "div":
        return _map(first, lambda cell: Node("div", (cell, args[1])))
    if kind == "pow" and args[1] == sym("T"):
        rows, columns = first.value
        transpose = tuple(cell for at in range(columns) for cell in first.args[at::columns])
        return Node("matrix", transpose, (columns, rows))
    return None


def _from_rows(node: Node) -> Node | None:
    """Return [[1, 2], [3, 4]] as a matrix."""
    rows = node.args
    shapes = {(row.kind, row.value, len(row.args)) for row in rows}
    if node.value != "[]" or len(shapes) != 1 or rows[0].kind != "tuple" or rows[0].value != "[]":
        return None
    cells = tuple(cell for row in rows for cell in row.args)
    return Node("matrix", cells, (len(rows), len(rows[0].args)))


def _map(matrix: Node, change: Callable[[Node], Node]) -> Node:
    return matrix.with_args(tuple(map(change, matrix.args)))
