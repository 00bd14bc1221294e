"""Protocols differ in the row number, the rows that scale, and repairs; in nothing else."""

import numpy as np
import pytest

from sitewise_icml2023 import contrast, protocols
from sitewise_icml2023.protocols import fold, repaired, split
from sitewise_icml2023.registry import DataSet


def small(**changes):
    defaults = {"name": "small", "kind": "classification", "suite": "", "file": "", "sha256": ""}
    defaults |= {"rows": 20, "features": 2, "row_column": True}
    return DataSet(**{**defaults, **changes})


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return np.column_stack([np.arange(1, 21), rng.normal(3, 2, (20, 2)), rng.integers(0, 2, 20)])


def test_published_keeps_the_row_number_and_scales_by_all_rows(table):
    f = split(small(), table, protocols.protocol("published"), 42, 1)
    X = np.concatenate([f.X, f.X_test])
    assert X.shape == (20, 3) and f.X_test.shape == (4, 3)
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(X.std(axis=0), 1, atol=1e-5)
    assert set(f.y) == {-1.0, 1.0}


def test_clean_drops_the_row_number_and_never_looks_at_test_rows(table):
    rules = protocols.protocol("clean")
    f = split(small(), table, rules, 42, 1)
    assert f.X.shape == (16, 2)
    np.testing.assert_allclose(f.X.mean(axis=0), 0, atol=1e-12)
    order = np.random.RandomState(0).permutation(20)
    test = protocols.fold_rows(20, 42)[1][1]
    changed = table.copy()
    changed[order[test], 1:3] += 100
    np.testing.assert_array_equal(split(small(), changed, rules, 42, 1).X, f.X)
    assert np.any(split(small(), changed, protocols.protocol("published"), 42, 1).X[:, 1:] != f.X)


def test_regression_scales_its_target_unless_the_set_is_used_raw(table):
    rules = protocols.protocol("clean")
    f = split(small(kind="regression"), table, rules, 42, 0)
    assert abs(f.y.mean()) < 1e-12
    raw = split(small(kind="regression", scaled=False, shuffled=False, row_column=False), table, rules, 42, 0)
    train, test = protocols.fold_rows(20, 42)[0]
    np.testing.assert_array_equal(raw.X, table[train, :-1])
    np.testing.assert_array_equal(raw.y_test, table[test, -1])


def test_a_label_read_from_the_wrong_column_is_put_right():
    truth, other = np.array([0.0, 1, 1, 0]), np.array([1.0, 1, 0, 0])
    X = np.column_stack([np.arange(4.0), 3 * truth - 1.2])
    X_right, y_right = repaired(X, other, swap_label_with=1)
    np.testing.assert_array_equal(y_right, truth)
    np.testing.assert_array_equal(X_right, np.column_stack([np.arange(4.0), other]))
    np.testing.assert_array_equal(X[:, 1], 3 * truth - 1.2)  # what was given is left alone


def test_parts_with_different_codes_become_one_code():
    bits = np.array([[0, 1], [1, 0], [1, 1], [0, 0], [1, 1]], float)
    scaled = np.concatenate([bits[:3] * 2.5 - 0.4, bits[3:]])
    np.testing.assert_array_equal(repaired(scaled, np.zeros(5), binary_parts=(3, 2))[0], bits)


def test_the_damaged_sets(paper_data):
    """UCI's class counts: 212 abnormal in spect (265 of 267 rows are here), 307 positive in australian credit."""
    for name, positive in (("spect", 212), ("statlog-australian-credit", 307)):
        f = fold(name, "clean", 42, 0, paper_data)
        assert np.sum(f.y > 0) + np.sum(f.y_test > 0) == positive
        g = fold(name, "published", 42, 0, paper_data)
        assert np.sum(g.y > 0) + np.sum(g.y_test > 0) != positive
        assert g.X.shape[1] == f.X.shape[1] + 1
    assert np.any(fold("boston", "clean", 42, 0, paper_data).X != fold("boston", "published", 42, 0, paper_data).X)


def test_the_row_number_alone_tells_the_class(paper_data):
    """The leak of the published protocol; pima shows what it is where rows are in no order."""
    shares = {"magic": 0.999, "titanic": 0.98, "credit-approval": 0.95, "parkinsons": 0.95}
    for name, share in shares.items():
        assert contrast.row_number_accuracy(name, paper_data) > share
    assert contrast.row_number_accuracy("pima", paper_data) < contrast.majority("pima", paper_data)
