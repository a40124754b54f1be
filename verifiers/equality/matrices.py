"""Matrix arithmetic that answers leave open, such as a scalar before a matrix."""

from collections.abc import Callable

from verifiers.grammar.tree import Add, Div, Matrix, Mul, Neg, Node, Sym

MAX_CELLS = 400


def as_matrix(node: Node) -> Matrix | None:
    """Return a matrix node for a matrix, its multiples, sums and transposes; None for all else."""
    if isinstance(node, Matrix):
        return node if len(node.args) <= MAX_CELLS else None
    if node.kind == "tuple":
        return _of_rows(node)
    if node.kind == "neg" and (inner := as_matrix(node.args[0])):
        return _map(inner, lambda cell: Neg((cell,)))
    if node.kind == "div" and (inner := as_matrix(node.args[0])):
        return _map(inner, lambda cell: Div((cell, node.args[1])))
    if node.kind == "pow" and node.args[1] == Sym("T") and (inner := as_matrix(node.args[0])):
        rows, columns = inner.value
        return Matrix((columns, rows), tuple(c for at in range(columns) for c in inner.args[at::columns]))
    if node.kind == "mul":
        matrices = [matrix for arg in node.args if (matrix := as_matrix(arg))]
        factors = tuple(arg for arg in node.args if not as_matrix(arg))
        if len(matrices) == 1:
            return _map(matrices[0], lambda cell: Mul((*factors, cell)))
    if node.kind == "add":
        terms = [matrix for arg in node.args if (matrix := as_matrix(arg))]
        if len(terms) == len(node.args) and len({term.value for term in terms}) == 1:
            cells = zip(*(term.args for term in terms), strict=True)
            return Matrix(terms[0].value, tuple(Add(tuple(cell)) for cell in cells))
    return None


def _of_rows(node: Node) -> Matrix | None:
    """Return the matrix [[1, 2], [3, 4]]."""
    rows = node.args
    if node.value != "[]" or any(row.kind != "tuple" or row.value != "[]" for row in rows):
        return None
    if len({len(row.args) for row in rows}) != 1:
        return None
    return Matrix((len(rows), len(rows[0].args)), tuple(cell for row in rows for cell in row.args))


def _map(matrix: Matrix, change: Callable[[Node], Node]) -> Matrix:
    return matrix.with_args(tuple(change(cell) for cell in matrix.args))
