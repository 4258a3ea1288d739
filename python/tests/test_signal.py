"""Fourier transforms, quantization, and functions of matrices."""

import numpy as np
import pytest
import sluice.compat.v1 as tf

_RNG = np.random.RandomState(0)
_X = _RNG.randn(2, 3, 4, 5).astype("f")
_M = _RNG.randn(2, 3, 4).astype("f")
_C = (_M + 1j * _RNG.randn(2, 3, 4)).astype("complex64")


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_fourier_transforms_of_real_numbers(run, rank):
    name = "rfft" + (f"{rank}d" if rank > 1 else "")
    forward, back = getattr(tf.signal, name), getattr(tf.signal, "i" + name)
    axes, p = list(range(-rank, 0)), tf.placeholder(tf.float32)
    for n in (None, 2, 3, 8):
        sizes = None if n is None else [n] * rank
        want = np.fft.rfftn(_X, sizes, axes)
        np.testing.assert_allclose(run(forward(_X, sizes)), want, atol=1e-3)
        np.testing.assert_allclose(run(forward(p, sizes), {p: _X}), want,
                                   atol=1e-3)
        want = np.fft.irfftn(_C[None], sizes, axes)
        np.testing.assert_allclose(run(back(_C[None], sizes)), want, atol=1e-5)
        q = tf.placeholder(tf.complex64)
        np.testing.assert_allclose(run(back(q, sizes), {q: _C[None]}), want,
                                   atol=1e-5)
    whole = back(forward(_X), _X.shape[-rank:])
    np.testing.assert_allclose(run(whole), _X, atol=1e-5)
    assert forward(tf.constant(_X, tf.float64)).dtype == tf.complex128
    with pytest.raises(ValueError, match="expected float32 or float64"):
        forward(tf.constant(1, shape=_X.shape))
    with pytest.raises(ValueError, match="expected complex64 or complex128"):
        back(tf.constant(_X))


def test_gradients_of_fourier_transforms_of_real_numbers(run):
    x = tf.constant(_X)
    y = tf.signal.irfft(tf.signal.rfft(x) * 2.0, [5])
    np.testing.assert_allclose(run(tf.gradients(y, x)[0]),
                               np.full_like(_X, 2), atol=1e-5)


def test_fftshift_centers_frequencies(run):
    for axes in (None, 1, [0, 2]):
        np.testing.assert_array_equal(run(tf.signal.fftshift(_M, axes)),
                                      np.fft.fftshift(_M, axes))
        np.testing.assert_array_equal(run(tf.signal.ifftshift(_M, axes)),
                                      np.fft.ifftshift(_M, axes))


def test_quantize_returns_integers_and_range(run):
    made, low, high = run(list(tf.quantization.quantize(
        [-1.0, 0.0, 1.0, 9.0], -1.0, 1.0, tf.quint8)))
    assert made.tolist() == [0, 128, 255, 255] and (low, high) == (-1, 1)
    made = tf.quantize([[1.0, 2.0], [-1.0, 4.0]], [-1.0, -2.0], [1.0, 4.0],
                       tf.qint8, mode="SCALED", axis=-1)[0]
    assert run(made).tolist() == [[127, 64], [-127, 127]]
    x = tf.constant([-3.0, 0.3, 0.9])
    for f, slopes in ((tf.quantization.quantize_and_dequantize, [1, 1, 1]),
                      (tf.quantization.quantize_and_dequantize_v2, [0, 1, 1])):
        y = f(x, -1.0, 1.0, num_bits=3, range_given=True)
        np.testing.assert_allclose(run(y), [-4 / 3, 1 / 3, 1], rtol=1e-6)
        assert run(tf.gradients(y, x)[0]).tolist() == slopes
    with pytest.raises(ValueError, match="known rank"):
        tf.quantize(tf.placeholder(tf.float32), 0.0, 1.0, tf.quint8, axis=-1)


def test_singular_values_are_real(run):
    s, u, v = tf.linalg.svd(_C)
    assert s.dtype == tf.float32 and u.dtype == tf.complex64
    want = np.linalg.svd(_C, compute_uv=False)
    np.testing.assert_allclose(run(s), want, rtol=1e-5)
    np.testing.assert_allclose(run(tf.svd(_C, compute_uv=False)), want,
                               rtol=1e-5)
    assert tf.norm(_C, 2, axis=[-2, -1]).dtype == tf.complex64
    back = u * tf.cast(s, tf.complex64)[:, None]
    np.testing.assert_allclose(run(tf.matmul(back, v, adjoint_b=True)), _C,
                               atol=1e-5)


def test_pseudo_inverse_rank_and_other_matrix_functions(run):
    np.testing.assert_allclose(run(tf.linalg.pinv(_M)), np.linalg.pinv(_M),
                               atol=1e-5)
    np.testing.assert_allclose(run(tf.linalg.pinv(_C, 0.4)),
                               np.linalg.pinv(_C, 0.4), atol=1e-5)
    twice = np.concatenate([_M, _M], 1)
    assert run(tf.linalg.matrix_rank(twice)).tolist() == [3, 3]
    assert run(tf.linalg.matrix_rank(_M, 1e3)).tolist() == [0, 0]
    np.testing.assert_allclose(
        run(tf.linalg.matvec(_M, _M[:, 1])),
        np.einsum("bij,bj->bi", _M, _M[:, 1]), rtol=1e-5)
    unit, size = run(tf.linalg.normalize(_M, axis=-1))
    np.testing.assert_allclose(size[..., 0], np.linalg.norm(_M, axis=-1),
                               rtol=1e-6)
    np.testing.assert_allclose(unit * size, _M, rtol=1e-5)
    np.testing.assert_array_equal(run(tf.linalg.matrix_transpose(_M)),
                                  _M.swapaxes(1, 2))


def _hann(n):
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / n)


@pytest.mark.parametrize("length,step", [(5, 3), (4, 4), (3, 7), (25, 3)])
def test_frames(run, length, step):
    x = _RNG.randn(2, 20)
    p = tf.placeholder(tf.float64, [2, None])
    count = max(0, 1 + (20 - length) // step)
    want = np.array([[row[i * step:i * step + length] for i in range(count)]
                     for row in x]).reshape(2, count, length)
    for given in (x, p):
        made = tf.signal.frame(given, length, step)
        np.testing.assert_array_equal(run(made, {p: x}), want)
        made = tf.signal.frame(given, length, step, True, 9)
        made = run(made, {p: x})
        assert made.shape == (2, -(-20 // step), length)
        np.testing.assert_array_equal(made[:, :count], want)
        assert made[0, -1, -1] == 9 or (19 // step) * step + length <= 20
    along = run(tf.signal.frame(_M, 2, 1, axis=1))
    np.testing.assert_array_equal(along, np.stack([_M[:, :2], _M[:, 1:]], 1))


def test_short_time_transforms_can_be_inverted(run):
    x = _RNG.randn(3, 40).astype("f")
    made = tf.signal.stft(x, 6, 3)
    frames = np.stack([x[:, i:i + 6] for i in range(0, 35, 3)], 1)
    np.testing.assert_allclose(run(made), np.fft.rfft(frames * _hann(6), 8),
                               atol=1e-5)
    assert made.shape.as_list() == [3, 12, 5]
    for step in (2, 3):
        undone = tf.signal.inverse_stft(
            tf.signal.stft(x, 6, step), 6, step,
            window_fn=tf.signal.inverse_stft_window_fn(step))
        # The first and the last frames have no overlapping frames.
        np.testing.assert_allclose(run(undone)[:, 6:30], x[:, 6:30], atol=1e-5)
    added = run(tf.signal.overlap_and_add(np.ones([2, 3, 4]), 3))
    assert added.tolist() == [[1, 1, 1, 2, 1, 1, 2, 1, 1, 1]] * 2
    np.testing.assert_allclose(run(tf.signal.hann_window(8)), _hann(8),
                               atol=1e-6)
    np.testing.assert_allclose(
        run(tf.signal.hamming_window(7, periodic=False)), np.hamming(7),
        atol=1e-6)
    assert run(tf.signal.hann_window(1)).tolist() == [1]


@pytest.mark.parametrize("norm", [None, "ortho"])
def test_cosine_transforms(run, norm):
    x = _RNG.randn(2, 7)
    k, n = np.arange(7)[:, None], np.arange(7)
    weights = np.full([7, 1], 1 if norm is None else (2 / 7) ** 0.5 / 2)
    if norm:
        weights[0] *= 0.5 ** 0.5
    matrix = 2 * weights * np.cos(np.pi * k * (2 * n + 1) / 14)
    np.testing.assert_allclose(run(tf.signal.dct(x, norm=norm)), x @ matrix.T,
                               atol=1e-5)
    back = run(tf.signal.idct(tf.signal.dct(x, norm=norm), norm=norm))
    np.testing.assert_allclose(back, x * (1 if norm else 14), atol=1e-4)
    four = run(tf.signal.idct(tf.signal.dct(x, 4, norm=norm), 4, norm=norm))
    np.testing.assert_allclose(four, x * (1 if norm else 14), atol=1e-4)
    once = run(tf.signal.dct(tf.signal.dct(x, 1), 1))
    np.testing.assert_allclose(once, x * 12, atol=1e-4)
    cut = run(tf.signal.dct(x, n=5, norm=norm))
    np.testing.assert_allclose(
        cut, run(tf.signal.dct(x[:, :5], norm=norm)), atol=1e-5)
    longer = np.pad(x, [[0, 0], [0, 3]])
    np.testing.assert_allclose(
        run(tf.signal.dct(x, n=10, norm=norm)),
        run(tf.signal.dct(longer, norm=norm)), atol=1e-5)
    with pytest.raises(ValueError, match="norm: expected one of"):
        tf.signal.dct(x, 1, norm="ortho")


def test_decomposed_matrices_are_solved(run):
    a, b = _M[:, :, :3] + 3 * np.eye(3, dtype="f"), _M[:, :, 2:]
    for matrix, rhs in ((a, b), (a[0], b[0])):
        lu = tf.linalg.lu(matrix)
        np.testing.assert_allclose(run(tf.linalg.lu_reconstruct(*lu)), matrix,
                                   atol=1e-5)
        np.testing.assert_allclose(run(tf.linalg.lu_solve(*lu, rhs=rhs)),
                                   np.linalg.solve(matrix, rhs), atol=1e-4)
        np.testing.assert_allclose(run(tf.linalg.lu_matrix_inverse(*lu)),
                                   np.linalg.inv(matrix), atol=1e-4)


def test_tridiagonal_systems_in_any_form(run):
    upper, main, lower = [1.0, 2.0, 0.0], [4.0, 5.0, 6.0], [0.0, 3.0, 2.0]
    matrix = np.diag(main) + np.diag(upper[:2], 1) + np.diag(lower[1:], -1)
    rhs = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    want = np.linalg.solve(matrix, rhs)
    solve = tf.linalg.tridiagonal_solve
    for form, diagonals in (("compact", [upper, main, lower]),
                            ("sequence", [upper, main, lower]),
                            ("sequence", [upper[:2], main, lower[1:]]),
                            ("matrix", matrix)):
        diagonals = ([np.array(d) for d in diagonals] if form == "sequence"
                     else np.array(diagonals))
        np.testing.assert_allclose(run(solve(diagonals, rhs, form)), want)
        np.testing.assert_allclose(
            run(solve(diagonals, rhs.T, form, transpose_rhs=True)), want.T)
        np.testing.assert_allclose(run(solve(diagonals, rhs[:, 0], form)),
                                   want[:, 0])
    for form, diagonals in (("matrix", np.ones([2, 3])), ("band", matrix),
                            ("sequence", [[1.0], main, lower]),
                            ("sequence", [main])):
        with pytest.raises(ValueError):
            solve(diagonals, rhs, form)


def test_mel_scale_bands(run):
    n = tf.placeholder(tf.int32, [])
    matrix = tf.signal.linear_to_mel_weight_matrix(
        20, 129, 8000.0, 125.0, 3800.0, tf.float64)
    assert matrix.shape == [129, 20]
    mel = lambda f: 1127 * np.log1p(f / 700)  # noqa: E731
    bins = mel(np.linspace(0, 4000, 129))[:, None]
    edges = np.linspace(mel(125), mel(3800), 22)
    want = np.maximum(0, np.minimum(
        (bins - edges[:-2]) / (edges[1:-1] - edges[:-2]),
        (edges[2:] - bins) / (edges[2:] - edges[1:-1])))
    want[0] = 0
    np.testing.assert_allclose(run(matrix), want, atol=1e-12)
    told = tf.signal.linear_to_mel_weight_matrix(20, n)
    np.testing.assert_allclose(run(told, {n: 129}), want, atol=1e-4)
    for wrong in (dict(num_mel_bins=0), dict(lower_edge_hertz=-1.0),
                  dict(lower_edge_hertz=100.0, upper_edge_hertz=10.0),
                  dict(upper_edge_hertz=1000.0, sample_rate=800),
                  dict(dtype=tf.int32)):
        with pytest.raises(ValueError):
            tf.signal.linear_to_mel_weight_matrix(**wrong)


def test_cepstral_coefficients(run):
    x = _RNG.randn(2, 3, 5).astype("f")
    k = np.arange(5)
    cosines = 2 * np.cos(np.pi / 5 * (k[:, None] + 0.5) * k)
    want = x @ cosines / np.sqrt(10)
    unknown = tf.placeholder(tf.float32)
    made = tf.signal.mfccs_from_log_mel_spectrograms
    np.testing.assert_allclose(run(made(x)), want, atol=1e-5)
    np.testing.assert_allclose(run(made(unknown), {unknown: x}), want,
                               atol=1e-5)
    with pytest.raises(ValueError, match="must be positive"):
        made(np.zeros([2, 0], "f"))
