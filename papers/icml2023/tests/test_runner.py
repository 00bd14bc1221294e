"""Runners: kills, several runners on one store, failing tasks, dask."""

import dataclasses
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import fake_tasks
from sitewise.errors import UserError
from sitewise.learning import stages
from sitewise_icml2023 import runner, store, tasks, together, variants, vem_batches
from sitewise_icml2023.pool import Pool
from sitewise_icml2023.store import Store
from sitewise_icml2023.tasks import KEY, Task


def row(**changes):
    return {**dict(zip(KEY, ("a", "clean", 1, 0, "vi"), strict=True)), "value": 1.5, **changes}


def test_failed_tasks_are_recorded_and_tried_again(tmp_path):
    path, todo = tmp_path / "r.jsonl", fake_tasks.suite(5, Path())
    pool = Pool(fake_tasks.failing, 1)
    end = runner.run(todo, path, pool, shape=fake_tasks.shape)
    pool.close()
    assert (end.done, end.failed) == (5, 1)
    assert len(store.read(path)) == 4
    assert Store(path).rows()[todo[3].key]["error"] == "ValueError: fold 3 never works"
    pool = Pool(fake_tasks.lethal, 1)  # a task that kills its worker every time does not stop the others
    end = runner.run(fake_tasks.suite(7, Path()), path, pool, shape=fake_tasks.shape)
    pool.close()
    assert (end.done, end.failed) == (3, 1)
    assert "killed 3 times" in Store(path).rows()[todo[3].key]["error"]


def test_tasks_that_share_a_program_run_together(tmp_path):
    path, groups = tmp_path / "r.jsonl", []
    todo = [Task("a", "clean", seed, fold, method) for method in ("vi", "ep") for seed in (1, 2) for fold in (0, 1)]
    Store(path).append(row())  # fold 0 of seed 1 by vi is done

    def rows_of(group, folder):
        groups.append([task.key for task in group])
        for task in group:
            if task.method == "ep" and task.fold == 1:
                raise ValueError("no ep today")
            yield task, row(seed=task.seed, fold=task.fold, method=task.method)

    end = runner.run_together(todo, path, rows_of, group=lambda task: (task.set, task.method))
    assert sorted(map(len, groups)) == [3, 4] and len({key[4] for key in groups[0]}) == 1
    assert (end.done, end.failed, end.total) == (7, 3, 7)  # the row before the failure is kept
    assert len(store.read(path)) == 5 and Store(path).rows()[todo[-1].key]["error"] == "ValueError: no ep today"


def test_sets_of_similar_size_are_one_group():
    def group(name, method="vi"):
        return tasks.group(Task(name, "clean", 42, 0, method))

    assert group("fertility") == group("hepatitis") != group("ionosphere") == group("monks-2")
    assert group("fertility", "vi@ard") != group("hepatitis", "vi@ard")
    assert group("spect") == group("parkinsons")
    assert group("fertility", "hybrid-vem") == group("hepatitis", "hybrid-vem")
    assert group("monks-2", "hybrid-vem") != group(
        "ionosphere", "hybrid-vem"
    )  # of 481 and 281 rows: padding costs more
    assert group("fertility", "hybrid-vem@ard") == group("hepatitis", "hybrid-vem@ard")


def test_columns_of_zeros_change_no_fit(paper_data, monkeypatch):
    """As `together.run_together` adds them to train sets of different width in one program."""
    monkeypatch.setattr(stages, "can_guess", lambda _: False)  # a single fit would have another first step
    todo = [Task(name, "clean", 42, 0, "laplace", paper_data) for name in ("fertility", "trains")]
    for task, row in together.run_together(todo):
        alone = tasks.run(task)
        assert row["objective"] == pytest.approx(alone["objective"], abs=1e-9)
        assert row["test_loglik"] == pytest.approx(alone["test_loglik"], abs=1e-9)


@pytest.mark.slow
def test_kills_at_random_change_nothing(tmp_path):
    """Runner and workers; the long form is `python papers/icml2023/tests/fake_tasks.py torture FOLDER --kills 20`."""
    hit = fake_tasks.torture(tmp_path, kills=4, count=60, seed=3)
    assert min(hit.values()) >= 1
    assert fake_tasks.rows(tmp_path / "results.jsonl") == fake_tasks.expected(60)


@pytest.mark.slow
def test_two_runners_share_a_store_and_no_task_runs_twice(tmp_path):
    path, log = tmp_path / "r.jsonl", tmp_path / "log"
    both = [fake_tasks.start(path, log, 80) for _ in range(2)]
    assert [p.wait() for p in both] == [0, 0]
    assert fake_tasks.rows(path) == fake_tasks.expected(80)
    assert len(log.read_text().splitlines()) == 80


def test_workers_keep_to_a_shape():
    todo = fake_tasks.suite(40, Path())  # four shapes of ten
    queue = runner.Queue(todo, fake_tasks.shape)
    taken = {slot: [queue.take(slot).set for _ in range(10)] for slot in (0, 1)}
    assert [len(set(sets)) for sets in taken.values()] == [1, 1]
    assert taken[0] != taken[1]
    for _ in range(15):
        queue.take(0)
    assert {queue.take(1).set for _ in range(5)} and len(queue) == 0  # helps out where tasks are left


def test_suites_are_products_and_names_are_checked_first():
    made = tasks.suite(["trains"], ["published", "clean"], [42, 1], ["vi", "ep@from-hybrid"])
    assert len(made) == 2 * 2 * 5 * 2 and made[0] == Task("trains", "published", 42, 0, "vi")
    assert tasks.shape(made[0]) == (32, 30)
    with pytest.raises(UserError, match="Unknown method"):
        tasks.suite(["trains"], ["clean"], [42], ["magic"])
    with pytest.raises(UserError, match="Unknown protocol"):
        tasks.suite(["trains"], ["dirty"], [42], ["vi"])


def test_a_dask_worker_may_die(tmp_path):
    """Scheduler and two workers as processes; one is killed in the middle of the suite."""
    pytest.importorskip("distributed", reason="dask is not installed (pip install 'sitewise-icml2023[cluster]')")
    from sitewise_icml2023.cluster import Cluster

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def launch(*arguments):
        command = [sys.executable, "-m", "dask", *arguments]
        return subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=subprocess.DEVNULL)

    scheduler = launch("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
    options = ("--nthreads", "1", "--no-nanny", "--no-dashboard")
    workers = [launch("worker", address, *options) for _ in range(2)]
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                cluster = Cluster(fake_tasks.fake, address, slots=4)
                break
            except UserError:
                assert time.monotonic() < deadline, "the scheduler did not start"
        cluster._client.wait_for_workers(2, timeout=60)
        killed = []

        def report(state):
            if state.done == 20 and not killed:
                workers[0].kill()
                killed.append(state.done)

        path = tmp_path / "r.jsonl"
        runner.run(fake_tasks.suite(60, Path()), path, cluster, shape=fake_tasks.shape, report=report)
        cluster.close()
        assert killed and workers[0].wait() != 0
        assert fake_tasks.rows(path) == fake_tasks.expected(60)
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()


def test_a_kill_between_groups_loses_no_group(tmp_path):
    """`run_together` ends in the middle, as by a kill; the next run makes what is left, and the rows are equal."""
    path, todo = tmp_path / "r.jsonl", fake_tasks.suite(40, Path())
    asked = []

    def rows_of(group, most=10_000):
        asked.append(len(group))
        if len(asked) > most:
            raise KeyboardInterrupt
        return [(task, fake_tasks.fake(task)) for task in group]

    with pytest.raises(KeyboardInterrupt):
        runner.run_together(todo, path, lambda g, folder: rows_of(g, 3), group=lambda task: (task.set,))
    half = fake_tasks.lines(path)
    assert 0 < half < 40
    asked.clear()
    runner.run_together(todo, path, lambda g, folder: rows_of(g), group=lambda task: (task.set,))
    assert sum(asked) == 40 - half and fake_tasks.rows(path) == fake_tasks.expected(40)


def test_a_method_starts_from_stored_hyperparameters(paper_data):
    """EP from the θ of Algorithm 1: the row of Algorithm 1 in the store is used, not computed again."""
    task = Task("trains", "published", 42, 0, "ep-frozen@from-hybrid-vem", paper_data)
    theta = {"kernel.lengthscale": 3.0, "kernel.variance": 0.5}
    stored = {(*task.key[:4], "hybrid-vem"): {"theta": theta}}
    (started,), (other,) = (tasks.with_stored_starts([task], rows) for rows in (stored, {}))
    assert dict(started.theta) == theta and started.key == task.key and not other.theta
    row = tasks.run(started)
    again = tasks.run(started._replace(theta=(("kernel.lengthscale", 0.3), ("kernel.variance", 9.0))))
    assert row["converged"] and abs(row["test_loglik"] - again["test_loglik"]) > 1e-3  # its sites are of the start


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "trainer", "begun"),
    [("hybrid-vem", vem_batches.Batch, 2), ("hybrid-vem@ard", vem_batches.OneByOne, 1)],
)
def test_unfinished_fits_of_algorithm_1_go_on(paper_data, tmp_path, monkeypatch, method, trainer, begun):
    """A run that is killed while fits are running: the next one continues them, to the same rows."""
    learner = variants.learner
    monkeypatch.setattr(variants, "learner", lambda *a: dataclasses.replace(learner(*a), max_rounds=20))
    monkeypatch.setattr(together, "SAVE_EVERY", 0.0)
    todo = [Task(name, "published", 42, 0, method, paper_data) for name in ("trains", "balloons")]
    whole = {task: row["theta"] for task, row in together.run_together(todo, tmp_path / "whole")}
    began = []

    def killed(batch):
        began.append(1)
        if len(began) > 3:
            raise KeyboardInterrupt
        return launch(batch)

    launch = trainer.launch
    monkeypatch.setattr(trainer, "launch", killed)
    with pytest.raises(KeyboardInterrupt):
        list(together.run_together(todo, tmp_path / "half"))
    assert list((tmp_path / "half").iterdir())
    monkeypatch.setattr(trainer, "launch", launch)
    resumed = {}
    start = trainer.__init__
    monkeypatch.setattr(trainer, "__init__", lambda *a: resumed.update(a[-1]) or start(*a))
    for task, row in together.run_together(todo, tmp_path / "half"):
        assert row["rounds"] == 20
        for name, value in whole[task].items():
            assert row["theta"][name] == pytest.approx(value, rel=1e-4)
    assert len(resumed) == begun and all(saved.rounds > 0 for saved in resumed.values())
    assert not list((tmp_path / "half").iterdir())
