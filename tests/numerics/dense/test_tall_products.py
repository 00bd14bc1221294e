"""Products of blocks of rows: their values, memory of their own for results, and threads that do not disturb them."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sitewise.numerics.dense import blas
from sitewise.numerics.dense.symmetric import absolute_inverse, least_squares
from sitewise.numerics.dense.tall_products import (
    plus_product,
    row_forms,
    row_squares,
    times_transposed_upper,
    times_upper,
    weighted_gram,
)

RNG = np.random.default_rng(5)
A = RNG.normal(size=(57, 9))
U = np.triu(RNG.normal(size=(9, 9)))
Q = U + U.T
WIDE = RNG.normal(size=(300, 140))  # enough columns for two triangles of a signed product


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("rows", ["C", "F", "strided"])
def test_triangles_in_every_order_of_memory(order, rows):
    triangle = np.asarray(U, order=order)
    table = {"C": A, "F": np.asfortranarray(A), "strided": np.repeat(A, 2, axis=0)[::2]}[rows]
    np.testing.assert_allclose(times_upper(table, triangle), A @ U, rtol=1e-13)
    np.testing.assert_allclose(times_transposed_upper(table, triangle), A @ U.T, rtol=1e-13)
    np.testing.assert_allclose(row_squares(table, triangle), np.sum((A @ U) ** 2, axis=1), rtol=1e-13)


def test_only_one_triangle_is_read_and_no_argument_is_changed():
    full, before = RNG.normal(size=(9, 9)), A.copy()
    np.testing.assert_allclose(times_upper(A, full), A @ np.triu(full), rtol=1e-13)
    np.testing.assert_array_equal(A, before)
    assert times_upper(A[:0], U).shape == (0, 9)


def test_wide_tables_are_multiplied_by_blocks_of_columns():
    full = RNG.normal(size=(140, 140))
    np.testing.assert_allclose(times_upper(WIDE, full), WIDE @ np.triu(full), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(times_transposed_upper(WIDE, full), WIDE @ np.triu(full).T, rtol=1e-12, atol=1e-12)
    place = WIDE.copy()
    assert blas.times_upper_in_place(place, full) is place
    np.testing.assert_allclose(place, WIDE @ np.triu(full), rtol=1e-12, atol=1e-12)


def test_a_triangle_of_another_size_is_refused():
    with pytest.raises(ValueError, match=r"shape \(57, 9\) was multiplied by a triangle of shape \(8, 8\)"):
        blas.times_upper(A, U[:8, :8])


@pytest.mark.parametrize("table", [A, WIDE])
@pytest.mark.parametrize("signs", [(0.0, 1.0), (-1.0, 1.0)])
def test_weighted_gram(table, signs):
    w = RNG.uniform(*signs, size=len(table))
    np.testing.assert_allclose(weighted_gram(table, w), table.T @ np.diag(w) @ table, rtol=1e-11, atol=1e-11)


def test_results_do_not_share_the_memory_of_the_next_product():
    w = RNG.uniform(size=len(A))
    first = weighted_gram(A, w), row_squares(A, U), row_forms(A, Q), plus_product(A.copy(), A, U)
    copies = [one.copy() for one in first]
    for _ in range(2):
        weighted_gram(-2 * A, w), row_squares(3 * A, U), row_forms(4 * A, Q), plus_product(5 * A, A, U)
    for one, copy in zip(first, copies, strict=True):
        np.testing.assert_array_equal(one, copy)
    np.testing.assert_allclose(first[2], np.einsum("ij,jk,ik->i", A, Q, A), rtol=1e-12)
    np.testing.assert_allclose(first[3], A + A @ U, rtol=1e-13)


def test_threads_have_memory_of_their_own():
    tables = [RNG.normal(size=(400, 60)) for _ in range(8)]
    triangle = np.triu(RNG.normal(size=(60, 60)))
    wanted = [np.sum((table @ triangle) ** 2, axis=1) for table in tables]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda k: row_squares(tables[k % 8], triangle), range(200)))
    for k, one in enumerate(found):
        np.testing.assert_allclose(one, wanted[k % 8], rtol=1e-12)


def test_absolute_inverse_turns_saddles_and_limits_flat_directions():
    axes = np.linalg.qr(RNG.normal(size=(3, 3)))[0]
    matrix = axes * np.array([4.0, -0.5, 1e-9]) @ axes.T
    np.testing.assert_allclose(absolute_inverse(matrix, 0.1), axes * np.array([0.25, 2.0, 10.0]) @ axes.T, rtol=1e-7)


def test_least_squares_of_rows():
    points = RNG.normal(size=(3, 50))
    points = np.concatenate([points, [np.array([1.0, -2.0]) @ np.diff(points, axis=0)]])
    wanted = np.linalg.lstsq(np.diff(points, axis=0).T, points[-1], rcond=None)[0]
    np.testing.assert_allclose(least_squares([points[:, :20], points[:, 20:]]), wanted, atol=1e-6)
    np.testing.assert_array_equal(least_squares([np.ones((3, 50))]), 0.0)
