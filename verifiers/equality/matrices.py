"""Matrix arithmetic that answers leave open, such as a scalar before a matrix."""

from collections.abc import Callable

from verifiers.grammar.tree import Add, Div, Matrix, Mul, Neg, Node, Sym, num

MAX_CELLS = 400


def as_matrix(node: Node) -> Matrix | None:
    """Return a matrix node for a matrix, its multiples, sums and transposes; None for all else."""
    if isinstance(node, Matrix):
        return node if len(node.args) <= MAX_CELLS else None
    if node.kind == "tuple" and (rows := _nested_rows(node)):
        cells = tuple(cell for row in rows for cell in row.args)
        return Matrix((len(rows), len(rows[0].args)), cells)
    if node.kind == "neg" and (inner := as_matrix(node.args[0])):
        return _map(inner, lambda cell: Neg((cell,)))
    if node.kind == "div" and (inner := as_matrix(node.args[0])):
        return _map(inner, lambda cell: Div((cell, node.args[1])))
    if node.kind == "pow" and node.args[1] == Sym("T") and (inner := as_matrix(node.args[0])):
        return _transposed(inner)
    if node.kind == "mul":
        return _scaled(node)
    if node.kind == "add":
        return _added(node)
    return None


def scaled_tuple(node: Node) -> Node | None:
    """Return -(1, 2) and 3(1, 2) with the factor at each component; f(1, 2) is no product."""
    vectors = [arg for arg in node.args if arg.kind == "tuple" and arg.value in ("()", "<>")]
    factors = tuple(arg for arg in node.args if arg.kind != "tuple")
    if node.value == "applied" or len(vectors) != 1 or len(factors) != len(node.args) - 1:
        return None
    if any(factor.symbols() for factor in factors):
        return None
    sign = (num(-1),) if node.kind == "neg" else ()
    cells = tuple(Mul((*sign, *factors, cell)) for cell in vectors[0].args)
    return vectors[0].with_args(cells)


def _nested_rows(node: Node) -> tuple[Node, ...] | None:
    """Return the rows of [[1, 2], [3, 4]]."""
    rows = node.args
    square = node.value == "[]" and all(row.kind == "tuple" and row.value == "[]" for row in rows)
    return rows if square and len({len(row.args) for row in rows}) == 1 else None


def _map(matrix: Matrix, change: Callable[[Node], Node]) -> Matrix:
    return matrix.with_args(tuple(change(cell) for cell in matrix.args))


def _transposed(matrix: Matrix) -> Matrix:
    rows, columns = matrix.value
    cells = tuple(
        matrix.args[row * columns + column] for column in range(columns) for row in range(rows)
    )
    return Matrix((columns, rows), cells)


def _scaled(node: Node) -> Matrix | None:
    matrices = [matrix for arg in node.args if (matrix := as_matrix(arg))]
    if len(matrices) != 1:
        return None
    factors = tuple(arg for arg in node.args if not as_matrix(arg))
    return _map(matrices[0], lambda cell: Mul((*factors, cell)))


def _added(node: Node) -> Matrix | None:
    matrices = [as_matrix(arg) for arg in node.args]
    found = [matrix for matrix in matrices if matrix]
    if len(found) != len(node.args) or len({matrix.value for matrix in found}) != 1:
        return None
    cells = zip(*(matrix.args for matrix in found), strict=True)
    return Matrix(found[0].value, tuple(Add(tuple(cell)) for cell in cells))
