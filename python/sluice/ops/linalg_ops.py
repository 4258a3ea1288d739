"""Linear algebra: solvers, decompositions, norms."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import array_ops, diagonals, math_ops, ordering

_op = _core.op

matrix_determinant = det = _op("MatrixDeterminant")
matrix_inverse = inv = _op("MatrixInverse")
matrix_solve = solve = _op("MatrixSolve")
matrix_triangular_solve = triangular_solve = _op("MatrixTriangularSolve")
matrix_exponential = expm = _op("MatrixExponential")
slogdet = _op("LogMatrixDeterminant")
cross = _op("Cross")
qr = _op("Qr")


def logdet(matrix, name=None):
    """Returns the log-determinant of positive definite matrices."""
    with graphs.name_scope(name, "logdet", [matrix]):
        root = math_ops.cholesky(matrix)
        return 2.0 * math_ops.reduce_sum(
            math_ops.log(math_ops.real(diagonals.matrix_diag_part(root))), [-1])


def adjoint(matrix, name=None):
    """Returns the conjugate transpose."""
    with graphs.name_scope(name, "adjoint", [matrix]):
        return array_ops.matrix_transpose(matrix, conjugate=True)


def eye(num_rows, num_columns=None, batch_shape=None, dtype=dtypes.float32,
        name=None):
    """Returns an identity matrix or a batch of identity matrices."""
    with graphs.name_scope(name, "eye",
                           [num_rows, num_columns, batch_shape]) as scope:
        columns = num_rows if num_columns is None else num_columns
        square = columns is num_rows
        side = num_rows if square else math_ops.minimum(num_rows, columns)
        batch = convert_to_tensor([] if batch_shape is None else batch_shape,
                                  dtypes.int32)
        ones = array_ops.ones(array_ops.concat([batch, [side]], 0), dtype)
        if square:
            return diagonals.matrix_diag(ones, scope)
        zeros = array_ops.zeros(array_ops.concat([batch, [num_rows, columns]],
                                                 0), dtype)
        return diagonals.matrix_set_diag(zeros, ones, scope)


def svd(tensor, full_matrices=False, compute_uv=True, name=None):
    """Returns (s, u, v) with tensor = u diag(s) v^H, or only s."""
    s, u, v = _op("Svd")(tensor, compute_uv=compute_uv,
                         full_matrices=full_matrices, name=name)
    s = math_ops.real(s)
    return (s, u, v) if compute_uv else s


def matvec(a, b, transpose_a=False, adjoint_a=False, a_is_sparse=False,
           b_is_sparse=False, name=None):
    """Multiplies matrices by vectors."""
    with graphs.name_scope(name, "MatVec", [a, b]):
        return array_ops.squeeze(math_ops.matmul(
            a, array_ops.expand_dims(b, -1), transpose_a=transpose_a,
            adjoint_a=adjoint_a, a_is_sparse=a_is_sparse,
            b_is_sparse=b_is_sparse), [-1])


def _svd_limit(x, s, factor):
    """Returns the threshold below which singular values count as zero."""
    import numpy as np
    sizes = array_ops.shape(x)[-2:]
    eps = np.finfo(s.dtype.as_numpy_dtype).eps
    return factor * eps * math_ops.cast(math_ops.reduce_max(sizes), s.dtype)


def matrix_rank(a, tol=None, validate_args=False, name=None):
    """Returns the number of singular values above `tol`."""
    with graphs.name_scope(name, "matrix_rank", [a]):
        x = convert_to_tensor(a)
        s = svd(x, compute_uv=False)
        if tol is None:
            tol = _svd_limit(x, s, 1.0) * math_ops.reduce_max(s, -1, True)
        return math_ops.reduce_sum(math_ops.cast(s > tol, dtypes.int32), -1)


def pinv(a, rcond=None, validate_args=False, name=None):
    """Returns the Moore-Penrose pseudo-inverse.

    Singular values below `rcond` times the largest count as zero.
    """
    with graphs.name_scope(name, "pinv", [a]):
        x = convert_to_tensor(a, name="a")
        s, u, v = svd(x)
        rcond = (_svd_limit(x, s, 10.0) if rcond is None else
                 array_ops.expand_dims(convert_to_tensor(rcond, s.dtype), -1))
        cut = rcond * math_ops.reduce_max(s, -1, True)
        # The inverse of infinity and its gradient are 0.
        s = array_ops.where_v2(s > cut, s, convert_to_tensor(
            float("inf"), s.dtype))
        s = math_ops.cast(array_ops.expand_dims(s, -2), x.dtype)
        return math_ops.matmul(v / s, u, adjoint_b=True)


def normalize(tensor, ord="euclidean", axis=None, name=None):
    """Returns (tensor / norm, norm)."""
    with graphs.name_scope(name, "normalize", [tensor]):
        x = convert_to_tensor(tensor)
        size = math_ops.cast(norm(x, ord, axis, keepdims=True), x.dtype)
        return x / size, size


def self_adjoint_eig(tensor, name=None):
    """Returns (ascending eigenvalues, eigenvectors in columns)."""
    e, v = _op("SelfAdjointEigV2")(tensor, compute_v=True, name=name)
    return e, v


def self_adjoint_eigvals(tensor, name=None):
    """Returns the eigenvalues in ascending order."""
    return _op("SelfAdjointEigV2")(tensor, compute_v=False, name=name)[0]


def cholesky_solve(chol, rhs, name=None):
    """Solves A x = rhs, where A = chol chol^H."""
    with graphs.name_scope(name, "cholesky_solve", [chol, rhs]):
        y = triangular_solve(chol, rhs, lower=True, adjoint=False)
        return triangular_solve(chol, y, lower=True, adjoint=True)


def lu_reconstruct(lower_upper, perm, validate_args=False, name=None):
    """Reconstructs matrices from their `lu` decomposition."""
    with graphs.name_scope(name, "lu_reconstruct", [lower_upper, perm]):
        both, perm = convert_to_tensor(lower_upper), convert_to_tensor(perm)
        product = math_ops.matmul(_unit_lower(both),
                                  array_ops.matrix_band_part(both, 0, -1))
        # Row i of the product is row perm[i] of the matrix.
        return _rows(product, ordering.argsort(perm))


def lu_solve(lower_upper, perm, rhs, validate_args=False, name=None):
    """Solves A x = rhs, given the `lu` decomposition of A."""
    with graphs.name_scope(name, "lu_solve", [lower_upper, perm, rhs]):
        both, perm = convert_to_tensor(lower_upper), convert_to_tensor(perm)
        rhs = convert_to_tensor(rhs, both.dtype.base_dtype)
        y = triangular_solve(_unit_lower(both), _rows(rhs, perm))
        return triangular_solve(both, y, lower=False)


def lu_matrix_inverse(lower_upper, perm, validate_args=False, name=None):
    """Returns the inverses of matrices, given their `lu` decomposition."""
    with graphs.name_scope(name, "lu_matrix_inverse", [lower_upper, perm]):
        both = convert_to_tensor(lower_upper)
        dims = array_ops.shape(both)
        return lu_solve(both, perm, eye(dims[-1], batch_shape=dims[:-2],
                                        dtype=both.dtype.base_dtype))


def _unit_lower(both):
    """Returns the lower triangle with ones on the diagonal."""
    lower = array_ops.matrix_band_part(both, -1, 0)
    return diagonals.matrix_set_diag(
        lower, array_ops.ones_like(diagonals.matrix_diag_part(both)))


def _rows(matrix, perm):
    """Permutes the rows of each matrix of a batch."""
    return array_ops.gather(matrix, perm, axis=-2,
                            batch_dims=perm.shape.ndims - 1)


def matrix_solve_ls(matrix, rhs, l2_regularizer=0.0, fast=True, name=None):
    """Returns x that minimizes |matrix x - rhs|^2 + l2_regularizer |x|^2."""
    return _op("MatrixSolveLs")(matrix, rhs, convert_to_tensor(
        l2_regularizer, dtypes.float64), fast=fast, name=name)


lstsq = matrix_solve_ls


def tridiagonal_solve(diagonals, rhs, diagonals_format="compact",
                      transpose_rhs=False, conjugate_rhs=False, name=None,
                      partial_pivoting=True):
    """Solves A x = rhs for a tridiagonal matrix A.

    Args:
      diagonals: depends on `diagonals_format`. "compact": [..., 3, n] with the
        superdiagonal first (its last element and the first element of the
        subdiagonal are ignored). "sequence": a list of the three, where the
        superdiagonal and the subdiagonal may omit these elements. "matrix": A
        itself; other elements are ignored.
      rhs: [..., n, k], or [..., n].
      transpose_rhs: whether rhs and the result are [..., k, n].
      conjugate_rhs: whether to conjugate rhs first.
    """
    made = {"compact": convert_to_tensor, "sequence": _compact_of_sequence,
            "matrix": _compact_of_matrix}.get(diagonals_format)
    if made is None:
        raise ValueError(f"Unrecognized diagonals_format: {diagonals_format}")
    with graphs.name_scope(name, "tridiagonal_solve"):
        diagonals = made(diagonals)
        rhs = convert_to_tensor(rhs, diagonals.dtype.base_dtype)
        vector = rhs.shape.ndims == diagonals.shape.ndims - 1
        if vector:
            rhs = array_ops.expand_dims(rhs, -1)
        elif transpose_rhs:
            rhs = array_ops.matrix_transpose(rhs)
        if conjugate_rhs:
            rhs = math_ops.conj(rhs)
        x = _op("TridiagonalSolve")(diagonals, rhs,
                                    partial_pivoting=partial_pivoting)
        if vector:
            return array_ops.squeeze(x, [-1])
        return array_ops.matrix_transpose(x) if transpose_rhs else x


def _padded(diagonal, n, before):
    """Pads a diagonal of n or n - 1 elements to n elements."""
    rank, size = diagonal.shape.ndims, diagonal.shape.as_list()[-1]
    if size == n:
        return diagonal
    if size != n - 1:
        raise ValueError(f"Expected a diagonal of length {n} or {n - 1}, got "
                         f"{size}.")
    ends = [1, 0] if before else [0, 1]
    return array_ops.pad(diagonal, [[0, 0]] * (rank - 1) + [ends])


def _compact_of_sequence(diagonals):
    if not isinstance(diagonals, (list, tuple)) or len(diagonals) != 3:
        raise ValueError("Expected diagonals to be a sequence of length 3.")
    upper, main, lower = map(convert_to_tensor, diagonals)
    if not main.shape.ndims or main.shape.as_list()[-1] is None:
        raise ValueError("The size of the matrix needs to be known for "
                         "diagonals_format=\"sequence\"")
    n = main.shape.as_list()[-1]
    return array_ops.stack([_padded(upper, n, False), main,
                            _padded(lower, n, True)], axis=-2)


def _compact_of_matrix(matrix):
    matrix = convert_to_tensor(matrix)
    rows, columns = matrix.shape.with_rank_at_least(2).as_list()[-2:]
    if rows is None and columns is None:
        raise ValueError("The size of the matrix needs to be known for "
                         "diagonals_format=\"matrix\"")
    if rows is not None and columns is not None and rows != columns:
        raise ValueError(f"Expected last two dimensions of diagonals to be "
                         f"same, got {rows} and {columns}")
    return _compact_of_sequence([diagonals.matrix_diag_part(part) for part in (
        matrix[..., :-1, 1:], matrix, matrix[..., 1:, :-1])])


def norm(tensor, ord="euclidean", axis=None, keepdims=None, name=None,
         keep_dims=None):
    """Returns the norm of vectors or matrices.

    Args:
      ord: "euclidean" (for matrices also "fro"), 1, 2, numpy.inf or, for
        vectors, any positive number.
      axis: one dimension for vectors, two for matrices. If None, all elements
        form one vector.
      keepdims: whether to keep the reduced dimensions with size 1.
    """
    keep = bool(keep_dims if keepdims is None else keepdims)
    matrices = isinstance(axis, (list, tuple)) and len(axis) == 2
    allowed = ["euclidean", "fro", 1, 2, float("inf")]
    if axis is not None and not isinstance(axis, int) and not (
            isinstance(axis, (list, tuple)) and len({*map(str, axis)}) == len(
                axis) in (1, 2) and all(isinstance(a, int) for a in axis)):
        raise ValueError(f"'axis' must be None, an integer, or a tuple of 2 "
                         f"unique integers, got {axis}")
    if matrices and ord not in allowed or not matrices and (
            isinstance(ord, str) and ord != "euclidean" or
            not isinstance(ord, str) and ord <= 0):
        raise ValueError(f"'ord' must be a supported "
                         f"{'matrix' if matrices else 'vector'} norm in "
                         f"{allowed}, got {ord}")
    with graphs.name_scope(name, "norm", [tensor]):
        x = convert_to_tensor(tensor)
        if ord in ("euclidean", "fro") or ord == 2 and not matrices:
            squares = math_ops.real(x * math_ops.conj(x))
            return math_ops.cast(math_ops.sqrt(math_ops.reduce_sum(
                squares, axis, keepdims=keep)), x.dtype)
        if ord == 2:
            n = x.shape.ndims
            axes = [a % n for a in axis]
            rest = [i for i in range(n) if i not in axes]
            top = math_ops.reduce_max(svd(array_ops.transpose(x, rest + axes),
                                          compute_uv=False), -1)
            for a in sorted(axes) if keep else ():
                top = array_ops.expand_dims(top, a)
            return math_ops.cast(top, x.dtype)
        sizes = math_ops.abs(x)
        if matrices:
            # 1 is the maximum column sum, inf the maximum row sum.
            first, second = axis if ord == 1 else axis[::-1]
            result = math_ops.reduce_max(math_ops.reduce_sum(
                sizes, first, keepdims=True), second, keepdims=True)
            return result if keep else array_ops.squeeze(result, list(axis))
        if ord == float("inf"):
            return math_ops.reduce_max(sizes, axis, keepdims=keep)
        if ord == 1:
            return math_ops.reduce_sum(sizes, axis, keepdims=keep)
        total = math_ops.reduce_sum(math_ops.pow(sizes, ord), axis,
                                    keepdims=keep)
        return math_ops.pow(total, 1.0 / ord)
