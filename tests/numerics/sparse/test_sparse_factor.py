"""Sparse factors equal dense algebra on every kind of pattern."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from sitewise.numerics.sparse import forms
from sitewise.numerics.sparse.analysis import Analysis
from sitewise.numerics.sparse.dissection import dissect
from sitewise.numerics.sparse.factor import factorise
from sitewise.numerics.sparse.selected import inverse_on_pattern, product_on_pattern
from sitewise.numerics.sparse.vertex_cover import smallest_cover


def grid(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A lattice: its size as an identity, edges, coordinates."""
    number = np.arange(rows * columns).reshape(rows, columns)
    i = np.concatenate([number[1:].ravel(), number[:, 1:].ravel()])
    j = np.concatenate([number[:-1].ravel(), number[:, :-1].ravel()])
    return i, j, np.argwhere(number >= 0).astype(float)


def random_edges(size: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    edges = np.unique(np.sort(rng.integers(0, size, (count, 2)), axis=1), axis=0)
    edges = edges[edges[:, 0] != edges[:, 1]]
    return edges[:, 1], edges[:, 0]


def patterns() -> dict[str, tuple]:
    """Size, edges, coordinates, border, leaf size and first variables of awkward graphs."""
    none = np.empty(0, int)
    i, j, at = grid(9, 7)
    dense = np.tril_indices(11, -1)
    star = np.arange(1, 30), np.zeros(29, int)
    crossed = (np.repeat(np.arange(12), 3), 12 + np.random.default_rng(0).integers(0, 7, 36))
    crossed = tuple(np.unique(np.stack(crossed, 1), axis=0).T)
    linear = np.concatenate([i, np.full(63, 63), np.full(63, 64)]), np.concatenate([j, np.arange(63), np.arange(63)])
    return {
        "one": (1, none, none, None, None, 4),
        "no edges": (9, none, none, None, None, 2),
        "no edges, coordinates": (9, none, none, np.zeros((9, 2)), None, 2),
        "dense": (11, *dense, None, None, 2),
        "dense, one block": (11, *dense, None, None, 50),
        "star": (30, *star, None, None, 4),
        "star, hub in the border": (30, *star, None, np.array([0]), 4),
        "grid by coordinates": (63, i, j, at, None, 5),
        "grid by graph": (63, i, j, None, None, 5),
        "equal coordinates": (63, i, j, np.zeros((63, 2)), None, 5),
        "dense columns": (65, *linear, np.vstack([at, np.zeros((2, 2))]), np.array([63, 64]), 5),
        "all in the border": (6, *np.tril_indices(6, -1), None, np.arange(6), 5),
        "crossed groups": (19, *crossed, None, None, 3),
        "crossed groups, one first": (19, *crossed, None, None, 3, np.arange(12)[::-1]),
        "crossed groups, some first": (19, *crossed, None, np.array([3, 14]), 3, np.array([5, 0, 7])),
        "star, leaves first": (30, *star, None, None, 4, np.arange(1, 30)),
        "no edges, all first": (9, none, none, None, None, 2, np.arange(9)),
        "grid, a corner first": (63, i, j, None, None, 5, np.array([0, 62])),
        "disconnected": (40, *random_edges(40, 25, 1), None, None, 3),
        "random": (50, *random_edges(50, 120, 2), None, None, 6),
    }


PATTERNS = patterns()


def problem(name: str, seed: int = 0) -> tuple[Analysis, np.ndarray, np.ndarray]:
    """Analysis, values of a positive definite matrix, and the matrix."""
    size, i, j, positions, border, leaf, *first = PATTERNS[name]
    rng = np.random.default_rng(seed)
    off = rng.normal(size=len(i))
    A = np.zeros((size, size))
    A[i, j] = A[j, i] = off
    diagonal = np.abs(A).sum(axis=1) + rng.uniform(0.1, 1.0, size)
    A[np.diag_indices(size)] = diagonal
    own = np.arange(size)
    given = {"positions": positions, "border": border, "leaf": leaf, "first": first[0] if first else None}
    analysis = Analysis.of(size, np.concatenate([own, i]), np.concatenate([own, j]), **given)
    return analysis, np.concatenate([diagonal, off]), A


@pytest.mark.parametrize("name", PATTERNS)
def test_factor_equals_dense_algebra(name: str) -> None:
    analysis, values, A = problem(name)
    factor = factorise(analysis, values)
    inverse = np.linalg.inv(A)
    assert factor.ok
    np.testing.assert_allclose(factor.log_det, np.linalg.slogdet(A)[1], rtol=1e-12, atol=1e-12)
    rng = np.random.default_rng(1)
    for b in (rng.normal(size=len(A)), rng.normal(size=(len(A), 3))):
        np.testing.assert_allclose(factor.solve(b), inverse @ b, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(inverse_on_pattern(factor), inverse[analysis.i, analysis.j], rtol=1e-9, atol=1e-12)
    direction = rng.normal(size=len(values))
    M = np.zeros_like(A)
    M[analysis.i, analysis.j] = M[analysis.j, analysis.i] = direction
    want = (inverse @ M @ inverse)[analysis.i, analysis.j]
    np.testing.assert_allclose(product_on_pattern(factor, direction), want, rtol=1e-9, atol=1e-11)
    root = factor.sample(np.eye(len(A)))
    np.testing.assert_allclose(root @ root.T, inverse, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("many", [True, False])
@pytest.mark.parametrize("name", PATTERNS)
def test_quadratic_forms_equal_dense_algebra(name: str, many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors that end in the front of a block, or travel to the root; repeated, zero and missing entries."""
    monkeypatch.setattr(forms, "MIN_TREE_PASS_SHARE", 0.0 if many else np.inf)
    analysis, values, A = problem(name)
    rng = np.random.default_rng(3)
    near = rng.integers(0, len(A), 40)[:, None] + np.arange(4)
    index = np.concatenate([rng.integers(0, len(A), (40, 4)), np.minimum(near, len(A) - 1)])
    weight = rng.normal(size=index.shape) * (rng.uniform(size=index.shape) < 0.7)
    weight[0] = 0.0
    a = np.zeros((len(A), len(index)))
    np.add.at(a, (index, np.arange(len(index))[:, None]), weight)
    found = forms.quadratic_forms(factorise(analysis, values), index, weight)
    np.testing.assert_allclose(found, np.sum(a * np.linalg.solve(A, a), axis=0), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("name", ["grid by coordinates", "dense columns", "disconnected"])
def test_factor_says_that_a_matrix_is_not_positive_definite(name: str) -> None:
    analysis, values, A = problem(name)
    values[len(A) // 2] = -values[len(A) // 2]  # a diagonal entry
    factor = factorise(analysis, values)
    assert not factor.ok
    assert np.all(np.isnan(factor.solve(np.ones(len(A)))))


def test_first_variables_must_be_independent() -> None:
    with pytest.raises(ValueError, match="no entries between each other"):
        Analysis.of(3, np.array([0, 1, 2, 1]), np.array([0, 1, 2, 0]), first=np.array([0, 1]))


def test_a_constrained_field_beside_variables_that_are_eliminated_first() -> None:
    """Three levels that touch an intrinsic field of sum zero: equal to dense algebra on the subspace."""
    i, j, _ = grid(4, 5)
    P, rng = np.zeros((23, 23)), np.random.default_rng(0)
    P[:20, :20] = laplacian(20, i, j)
    a, b = np.repeat([20, 21, 22], 4), np.concatenate([rng.permutation(20)[:4] for _ in range(3)])
    load = np.zeros((12, 23))
    load[np.arange(12), a] = load[np.arange(12), b] = 1.0
    P += load.T @ load + np.diag(np.arange(23) >= 20)
    own = np.arange(23)
    rows = np.concatenate([own, i, a, np.full(20, 23), [23]])
    columns = np.concatenate([own, j, b, np.arange(20), [23]])
    analysis = Analysis.of(24, rows, columns, border=np.array([7]), multipliers=np.array([23]), leaf=4, first=own[20:])
    values = np.concatenate([np.diag(P), P[i, j], P[a, b], np.ones(20), [0.0]])
    factor = factorise(analysis, values)
    basis = np.linalg.qr(np.concatenate([np.r_[np.ones(20), np.zeros(3)][:, None], np.eye(23)], axis=1))[0][:, 1:23]
    covariance = basis @ np.linalg.inv(basis.T @ P @ basis) @ basis.T
    np.testing.assert_allclose(factor.log_det, np.linalg.slogdet(basis.T @ P @ basis)[1] + np.log(20), rtol=1e-10)
    kept = (rows < 23) & (columns < 23)
    found = inverse_on_pattern(factor)[kept]
    np.testing.assert_allclose(found, covariance[rows[kept], columns[kept]], rtol=1e-8, atol=1e-11)
    root = factor.sample(np.eye(24))[:23]
    np.testing.assert_allclose(root @ root.T, covariance, rtol=1e-8, atol=1e-11)
    direction = np.where(kept & (rows == columns), rng.normal(size=len(rows)), 0.0)
    want = covariance * direction[:23] @ covariance
    found = product_on_pattern(factor, direction)[kept]
    np.testing.assert_allclose(found, want[rows[kept], columns[kept]], rtol=1e-8, atol=1e-11)


def laplacian(size: int, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    A = np.zeros((size, size))
    A[i, j] = A[j, i] = -1.0
    A[np.diag_indices(size)] = -A.sum(axis=1)
    return A


@pytest.mark.parametrize("weight", [0.0, 1e-3, 1e6])
def test_constraints_make_an_intrinsic_field_proper(weight: float) -> None:
    """Two components of a graph, both with sums of zero, without observations and with precise ones."""
    i, j, _ = grid(4, 5)
    i, j = np.concatenate([i, i + 20]), np.concatenate([j, j + 20])
    Q = laplacian(40, i, j)
    P = Q + np.diag(np.where(np.arange(40) % 3 == 0, weight, 0.0))
    own, multipliers = np.arange(40), np.array([40, 41])
    C = np.kron(np.eye(2), np.ones((20, 1)))
    rows, columns = np.nonzero(C)
    analysis = Analysis.of(
        42,
        np.concatenate([own, i, columns + 40, multipliers]),
        np.concatenate([own, j, rows, multipliers]),
        border=np.array([0, 20]),
        multipliers=multipliers,
        leaf=4,
    )
    values = np.concatenate([np.diag(P), P[i, j], np.ones(40), np.zeros(2)])
    factor = factorise(analysis, values)
    basis = np.linalg.svd(np.eye(40) - C @ C.T / 20)[0][:, :38]  # of the subspace of sums of zero
    inner = basis.T @ P @ basis
    covariance = basis @ np.linalg.inv(inner) @ basis.T
    scale = np.max(np.diag(covariance))
    log_det = np.linalg.slogdet(inner)[1] + 2 * np.log(20)
    np.testing.assert_allclose(factor.log_det, log_det, rtol=1e-9)
    kept = (analysis.i < 40) & (analysis.j < 40)
    found = inverse_on_pattern(factor)[kept]
    np.testing.assert_allclose(found, covariance[analysis.i[kept], analysis.j[kept]], rtol=1e-7, atol=1e-9 * scale)
    b = np.random.default_rng(0).normal(size=42)
    b[40:] = 0.0
    solved = factor.solve(b)[:40]
    np.testing.assert_allclose(solved, covariance @ b[:40], rtol=1e-7, atol=1e-9 * scale)
    np.testing.assert_allclose(C.T @ solved, 0.0, atol=1e-9 * scale)
    root = factor.sample(np.eye(42))[:40]
    np.testing.assert_allclose(root @ root.T, covariance, rtol=1e-6, atol=1e-8 * scale)
    direction = np.concatenate([np.random.default_rng(1).normal(size=40), np.zeros(len(values) - 40)])
    want = (covariance * direction[:40] @ covariance)[analysis.i[kept], analysis.j[kept]]
    np.testing.assert_allclose(product_on_pattern(factor, direction)[kept], want, rtol=1e-6, atol=1e-8 * scale**2)


def test_smallest_cover_touches_all_edges_and_is_smallest() -> None:
    rng = np.random.default_rng(3)
    for _ in range(30):
        starts, ends = rng.integers(0, 6, 8), 6 + rng.integers(0, 6, 8)
        cover = set(smallest_cover(starts, ends).tolist())
        edges = list(zip(starts.tolist(), ends.tolist(), strict=True))

        def covers(chosen: set[int], edges: list[tuple[int, int]] = edges) -> bool:
            return all(a in chosen or b in chosen for a, b in edges)

        every = [
            {v for v in range(12) if number >> v & 1} for number in range(2**12) if bin(number).count("1") < len(cover)
        ]
        assert covers(cover)
        assert not any(map(covers, every))


def test_dissection_separates() -> None:
    i, j, at = grid(12, 12)
    graph = sp.csr_matrix((np.ones(2 * len(i)), (np.concatenate([i, j]), np.concatenate([j, i]))), (144, 144))
    pieces = dissect(graph, np.arange(144), at, 8)
    assert sorted(np.concatenate([piece.own for piece in pieces])) == list(range(144))

    def below(t: int) -> np.ndarray:
        return np.concatenate([pieces[t].own, *(below(kid) for kid in pieces[t].kids)])

    for piece in pieces:
        for a, b in zip(piece.kids, piece.kids[1:], strict=False):
            assert graph[below(a)][:, below(b)].nnz == 0
    analysis = Analysis.of(144, np.concatenate([np.arange(144), i]), np.concatenate([np.arange(144), j]), at, leaf=8)
    assert analysis.factor_entries < 144 * 16  # the band of the natural order has 144 · 12 and more with fill
