import threading
import time

import jax
import numpy as np
import pytest
import threadpoolctl

from sitewise import EP, Data, Model, evidence, kernels, likelihoods, value_and_grad
from sitewise.process.precision import allowed_threads, working_precision
from sitewise.process.threads import all_of, in_order

RNG = np.random.default_rng(0)


def test_results_come_in_order_and_from_as_many_threads_as_blas_was_allowed():
    barrier = threading.Barrier(2, timeout=30)

    def meet(k):
        barrier.wait()  # which one thread alone would never pass
        return k

    with threadpoolctl.threadpool_limits(2, user_api="blas"), working_precision():
        assert allowed_threads() == 2
        assert list(in_order(meet, range(20))) == list(range(20))


def test_one_thread_stays_one():
    with threadpoolctl.threadpool_limits(1, user_api="blas"), working_precision():
        here = set(in_order(lambda _: threading.get_ident(), range(5)))
    assert allowed_threads() == 1 and here == {threading.get_ident()}


def test_an_error_of_a_block_is_raised():
    with threadpoolctl.threadpool_limits(2, user_api="blas"), working_precision():
        try:
            list(in_order(lambda k: 1 / k, [1, 0, 2]))
        except ZeroDivisionError:
            return
    raise AssertionError("no error")


def test_after_an_error_nothing_is_begun():
    done = []

    def fail_first(k):
        if k == 0:
            raise ZeroDivisionError
        done.append(k)

    with threadpoolctl.threadpool_limits(2, user_api="blas"), working_precision():
        with pytest.raises(ZeroDivisionError):
            list(in_order(fail_first, range(100)))
        at_once = len(done)
    assert at_once < 10
    time.sleep(0.1)
    assert len(done) == at_once


def test_functions_of_all_items_run_together_and_tell_in_the_thread_of_the_caller():
    barrier, told = threading.Barrier(2, timeout=30), []

    def meet(item, tell):
        barrier.wait()
        tell("half", 0.5)
        return 10 * item, threading.get_ident()

    def report(k, *facts):
        told.append((k, facts, threading.get_ident()))

    with threadpoolctl.threadpool_limits(2, user_api="blas"), working_precision():
        found = all_of(meet, (1, 2), report, 8)
        assert [value for value, _ in found] == [10, 20] and len({ident for _, ident in found}) == 2
        assert sorted(told) == [(k, ("half", 0.5), threading.get_ident()) for k in (0, 1)]
        told.clear()
        here = all_of(lambda item, tell: tell(item) or threading.get_ident(), (1, 2), report, 1)
    assert set(here) == {threading.get_ident()} and [(k, facts) for k, facts, _ in told] == [(0, (1,)), (1, (2,))]


@pytest.mark.parametrize("fails", ["function", "report"])
def test_after_an_error_the_other_functions_end_where_they_tell(fails):
    began = threading.Event()

    def work(item, tell):
        if item == "fail":
            began.wait(30)
            if fails == "function":
                raise ZeroDivisionError
            tell("now")
            return
        while True:  # ends by `tell` alone
            tell()
            began.set()
            time.sleep(0.001)

    def report(k, *facts):
        if facts:
            raise ZeroDivisionError

    with threadpoolctl.threadpool_limits(2, user_api="blas"), working_precision(), pytest.raises(ZeroDivisionError):
        all_of(work, ("fail", "endless"), report, 2)


def test_the_default_device_is_that_of_the_caller():
    with threadpoolctl.threadpool_limits(2, user_api="blas"), working_precision():
        with jax.default_device("cpu"):
            inside = list(in_order(lambda _: jax.config.values["jax_default_device"], range(4)))
        assert inside == ["cpu"] * 4


def test_sparse_evidence_is_the_same_to_the_last_digit():
    X = RNG.normal(size=(3000, 2))
    data = Data.of(X, np.sign(X[:, 0] + 0.5 * RNG.normal(size=3000)))
    model = Model.sparse(kernels.Matern52(1.5, 4.0), likelihoods.BernoulliProbit(), X[:150])
    found = []
    for threads in (1, 2, 3):
        with threadpoolctl.threadpool_limits(threads, user_api="blas"):
            value, slopes = value_and_grad(EP(), evidence.ep, "fixed")(model, data)
        found.append((float(value), float(slopes.prior.kernel.lengthscale), float(slopes.prior.kernel.variance)))
    assert found[0] == found[1] == found[2]
