"""Fits in several threads and processes: right numbers or one sentence, and never a process that hangs.

Every process here has a time limit, after which a test fails.
"""

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import threadpoolctl

from sitewise import GPClassifier
from sitewise.process import precision
from sitewise.process.precision import working_precision

LIMIT = 120  # seconds; each of these processes takes a few

FIT = """
import multiprocessing, os, sys, warnings
import numpy as np
from sitewise import GPClassifier, UserError

warnings.simplefilter("ignore")  # JAX's own words about forks


def fit(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 2))
    return GPClassifier().fit(X, X[:, 0] + 0.3 * rng.normal(size=30) > 0).predict_proba(X)[:, 1]


def pooled(kind, function=fit):
    with multiprocessing.get_context(kind).Pool(2) as pool:
        return pool.map_async(function, range(3)).get(60)


def same(found, expected):
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True)), (found, expected)


def refused(kind, function=fit):
    try:
        pooled(kind, function)
    except UserError as problem:
        assert "spawn" in str(problem) and "forked" in str(problem), problem
    else:
        raise AssertionError("not refused")
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs that the processes of these tests share."""
    return tmp_path_factory.mktemp("cache")


def run(folder: Path, cache: Path, code: str, limit: float = LIMIT) -> None:
    """As a script: spawned processes import it."""
    script = folder / "script.py"
    main = textwrap.indent(textwrap.dedent(code).strip(), "    ")
    script.write_text(f'{FIT}\n\nif __name__ == "__main__":\n{main}\n')
    environment = {**os.environ, "SITEWISE_CACHE": str(cache), "JAX_ENABLE_COMPILATION_CACHE": "false"}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=limit)
    assert done.returncode == 0, done.stderr


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")


@forks
def test_a_process_that_was_forked_before_jax_started_fits(tmp_path: Path, cache: Path) -> None:
    run(
        tmp_path,
        cache,
        """
        early = pooled("fork")
        expected = [fit(seed) for seed in range(3)]
        same(early, expected)
        refused("fork")
        same([fit(seed) for seed in range(3)], expected)  # the parent goes on
        """,
    )


@forks
def test_a_process_that_was_forked_after_jax_started_is_told_so_at_every_door(tmp_path: Path, cache: Path) -> None:
    run(
        tmp_path,
        cache,
        """
        import jax.numpy as jnp
        from sitewise import VI, Data, Model, evidence, kernels, likelihoods
        from sitewise.arrays import programs

        assert jnp.ones((50, 50)).sum() == 2500  # somebody else's use of JAX
        refused("fork")
        X, y = np.linspace(-1, 1, 30)[:, None], np.where(np.arange(30) % 3, 1.0, -1.0)
        model = Model.full(kernels.Matern52(), likelihoods.BernoulliProbit())
        data = Data.of(X, y)
        known = programs.jit(lambda a: a + 1)
        known(X)
        sites = VI().solve(model, data).sites
        evidence.elbo(model, data, sites)
        fitted = GPClassifier().fit(X, y)

        for door in (
            lambda: fitted.predict_proba(X),
            lambda: VI().solve(model, data).sites,
            lambda: evidence.elbo(model, data, sites),
            lambda: model.prior.kernel.matrix(X) @ known(X),
            lambda: programs.jit(lambda a: a + 2)(X),
        ):
            child = os.fork()
            if child == 0:
                try:
                    door()
                except UserError as problem:
                    os._exit(0 if "spawn" in str(problem) else 3)
                except BaseException as problem:
                    print(repr(problem), file=sys.stderr, flush=True)
                    os._exit(4)
                os._exit(5)
            assert os.waitpid(child, 0)[1] == 0
        """,
    )


@forks
def test_a_fitted_model_sent_to_a_forked_process_raises_the_error_of_its_prediction(
    tmp_path: Path, cache: Path
) -> None:
    run(
        tmp_path,
        cache,
        """
        import pickle
        from sitewise import GPRegressor

        X = np.random.default_rng(0).normal(size=(30, 2))
        averaged = GPClassifier().fit(X, X[:, 0] > 0)
        assert averaged.kernel_weights_
        for model in (averaged, GPRegressor(kernel="shrunk", integrate=False).fit(X, X[:, 0])):
            predict = getattr(model, "predict_proba", model.predict)
            expected = predict(X)
            with multiprocessing.get_context("fork").Pool(1) as pool:
                try:
                    pool.apply_async(predict, (X,)).get(30)
                except UserError as problem:
                    assert "spawn" in str(problem) and "forked" in str(problem), problem
                else:
                    raise AssertionError("not refused")
            same(getattr(pickle.loads(pickle.dumps(model)), predict.__name__)(X), expected)
        """,
    )


@forks
def test_a_process_that_was_forked_before_it_imported_the_library_is_told_so(tmp_path: Path, cache: Path) -> None:
    script = tmp_path / "late.py"
    script.write_text(
        """
import os, warnings
import jax.numpy as jnp
import numpy as np

warnings.simplefilter("ignore")
assert jnp.ones((50, 50)).sum() == 2500
child = os.fork()
from sitewise import GPClassifier, UserError

X = np.linspace(-1, 1, 30)[:, None]
try:
    GPClassifier().fit(X, X[:, 0] > 0)
except UserError as problem:
    os._exit(0 if child == 0 and "spawn" in str(problem) else 3)
except BaseException:
    os._exit(4)
if child == 0:
    os._exit(5)
assert os.waitpid(child, 0)[1] == 0
"""
    )
    environment = {**os.environ, "SITEWISE_CACHE": str(cache)}
    subprocess.run([sys.executable, str(script)], env=environment, check=True, timeout=LIMIT)


@pytest.mark.slow
def test_processes_that_are_started_anew_fit(tmp_path: Path, cache: Path) -> None:
    run(
        tmp_path,
        cache,
        """
        import joblib

        expected = [fit(seed) for seed in range(3)]
        same(pooled("spawn"), expected)
        if "forkserver" in multiprocessing.get_all_start_methods():
            same(pooled("forkserver"), expected)
        for backend in ("loky", "threading"):
            same(joblib.Parallel(n_jobs=2, backend=backend)(joblib.delayed(fit)(i) for i in range(3)), expected)
        """,
    )


@forks
def test_a_fork_while_other_threads_fit_does_not_hang(tmp_path: Path, cache: Path) -> None:
    run(
        tmp_path,
        cache,
        """
        import threading

        threads = [threading.Thread(target=fit, args=[seed]) for seed in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(10):  # JAX starts and compiles in these threads, somewhere in between
            child = os.fork()
            if child == 0:
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        for thread in threads:
            thread.join()
        refused("fork")
        """,
    )


# Threads


def blas_threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture
def two_blas_threads() -> Iterator[list[int]]:
    """How many threads BLAS has outside of a fit: two where it can have them."""
    precision._libraries()  # are loaded
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        outside = blas_threads()
        if set(outside) == {1}:
            pytest.skip("this BLAS has one thread")
        if hasattr(threadpoolctl, "OpenBLASController"):
            give_up = getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", lambda: None)
            give_up()  # so that others may set the number too, as where no limit is set by anybody
        yield outside


class Scope(threading.Thread):
    """A thread in a scope until it is told to leave."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.leave = threading.Event(), threading.Event()
        self.start()
        assert self.inside.wait(30)

    def run(self) -> None:
        with working_precision(), working_precision():
            self.inside.set()
            self.leave.wait(30)

    def end(self) -> None:
        self.leave.set()
        self.join(30)


def test_the_last_thread_that_leaves_restores_the_threads_of_blas(two_blas_threads: list[int]) -> None:
    one = [1] * len(two_blas_threads)
    for first, second in ((0, 1), (1, 0)):
        scopes = Scope(), Scope()
        assert blas_threads() == one
        scopes[first].end()
        assert blas_threads() == one
        with working_precision():
            scopes[second].end()
            assert blas_threads() == one
        assert blas_threads() == two_blas_threads


def test_an_error_in_a_scope_restores_the_threads_of_blas(two_blas_threads: list[int]) -> None:
    with pytest.raises(ZeroDivisionError), working_precision(), working_precision():
        raise ZeroDivisionError
    assert blas_threads() == two_blas_threads and precision._threads == 0


def test_a_number_that_somebody_else_sets_meanwhile_stays(two_blas_threads: list[int]) -> None:
    with working_precision():
        limits = threadpoolctl.threadpool_limits(2, user_api="blas")
        assert blas_threads() == two_blas_threads
    assert blas_threads() == two_blas_threads
    limits.restore_original_limits()


def test_a_library_with_threads_of_its_own_for_each_thread_is_limited_in_each(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library(threading.local):
        threads = 4

        def get_num_threads(self) -> int:
            return self.threads

        def set_num_threads(self, threads: int) -> None:
            self.threads = threads

    library = Library()
    monkeypatch.setattr(precision, "_libraries", lambda: ([], [library]))
    with working_precision():
        assert library.threads == 1
        with ThreadPoolExecutor(1) as pool:

            def inside() -> tuple[int, int]:
                before = library.threads
                with working_precision():
                    return before, library.threads

            assert pool.submit(inside).result() == (4, 1)
            assert pool.submit(lambda: library.threads).result() == 4
    assert library.threads == 4


@forks
def test_a_forked_process_has_the_threads_of_blas_that_its_parent_had_outside(two_blas_threads: list[int]) -> None:
    scope = Scope()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, repr((blas_threads(), precision._threads)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    found = os.read(read, 1000).decode()
    scope.end()
    os.close(read), os.close(write)
    assert found == repr((two_blas_threads, 0)) and blas_threads() == two_blas_threads


def test_fits_in_several_threads_are_those_of_one() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    tasks = [X[:, 0] + 0.3 * rng.normal(size=30) > 0 for _ in range(6)]

    def fit(y: np.ndarray) -> np.ndarray:
        return GPClassifier().fit(X, y).predict_proba(X)

    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(fit, tasks))
    for found, y in zip(together, tasks, strict=True):
        np.testing.assert_array_equal(found, fit(y))
