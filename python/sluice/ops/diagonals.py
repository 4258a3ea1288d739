"""Diagonals of matrices."""

from sluice import _core
from sluice.framework.conversion import convert_to_tensor

_op = _core.op


def matrix_diag(diagonal, name="diag", k=0, num_rows=-1, num_cols=-1,
                padding_value=0, align="RIGHT_LEFT"):
    """Makes matrices from the k-th diagonal, or diagonals k[0] to k[1].

    By default makes square matrices from their main diagonals.
    """
    if _is_main(k) and _is(num_rows, -1) and _is(num_cols, -1) and _is(
            padding_value, 0):
        return _op("MatrixDiag", "diag")(diagonal, name=name)
    diagonal = convert_to_tensor(diagonal)
    return _op("MatrixDiagV3", "diag")(
        diagonal, k, num_rows, num_cols,
        convert_to_tensor(padding_value, diagonal.dtype.base_dtype),
        align=align, name=name)


def matrix_diag_part(input, name="diag_part", k=0, padding_value=0,
                     align="RIGHT_LEFT"):
    """Returns the k-th diagonal of matrices, or diagonals k[0] to k[1]."""
    if _is_main(k):
        return _op("MatrixDiagPart", "diag_part")(input, name=name)
    input = convert_to_tensor(input)
    return _op("MatrixDiagPartV3", "diag_part")(
        input, k, convert_to_tensor(padding_value, input.dtype.base_dtype),
        align=align, name=name)


def matrix_set_diag(input, diagonal, name="set_diag", k=0,
                    align="RIGHT_LEFT"):
    """Replaces the k-th diagonal of matrices, or diagonals k[0] to k[1]."""
    if _is_main(k):
        return _op("MatrixSetDiag", "set_diag")(input, diagonal, name=name)
    return _op("MatrixSetDiagV3", "set_diag")(input, diagonal, k, align=align,
                                              name=name)


def _is(value, wanted):
    return isinstance(value, (int, float)) and value == wanted


def _is_main(k):
    return _is(k, 0)
