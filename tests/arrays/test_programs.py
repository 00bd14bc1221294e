"""Compiled programs are found again, by this process and by others, and only where they are the right ones."""

import functools
import io
import logging
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

from sitewise import kernels, likelihoods
from sitewise.arrays import program_names, program_store, programs
from sitewise.inference import loop
from sitewise.process import progress as waiting
from sitewise.process.progress import Bar, _Terminal
from sitewise.types import module

A = np.linspace(0.5, 1.5, 12).reshape(3, 4)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of programs, in a cache of this test; nothing in memory, and JAX's own cache is off."""
    monkeypatch.setenv("SITEWISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(program_store.OFF, raising=False)
    programs._memory.renew()
    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()
    yield tmp_path / "cache" / "programs"
    jax.config.update("jax_enable_compilation_cache", True)
    compilation_cache.reset_cache()


class Compilations:
    """Counts the programs that XLA compiles."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, event: str, *_: Any, **__: Any) -> None:
        self.count += event.endswith("backend_compile_duration")


@pytest.fixture
def compilations() -> Iterator[Compilations]:
    listener = Compilations()
    jax.monitoring.register_event_duration_secs_listener(listener)
    yield listener
    jax.monitoring.unregister_event_duration_listener(listener)


def names(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()} if place.exists() else set()


def equal(found: Any, expected: Any) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype) and a.weak_type == b.weak_type and a.committed == b.committed
        np.testing.assert_array_equal(a, b)


# jit


def busy(power: int, table: dict[str, Any], scale: Any = 2.0, *, shift: Any = 0) -> dict[str, Any]:
    total = scale * jnp.sum(table["a"] ** power) + shift
    return {"a": jnp.linalg.cholesky(table["a"] @ table["a"].T + jnp.eye(3)) * total, "rest": (total, None, 3)}


@pytest.mark.parametrize("x64", [True, False])
def test_it_computes_what_jax_does(x64: bool) -> None:
    ours, theirs = programs.jit(busy, static_argnums=0), jax.jit(busy, static_argnums=0)
    for _ in range(2):  # the second time from the store
        programs._memory.renew()
        with jax.enable_x64(x64):
            for args, kwargs in (
                ((2, {"a": A}), {}),
                ((3, {"a": A}), {}),
                ((2, {"a": jnp.asarray(A)}, 1), {}),
                ((2, {"a": A.astype(np.float32)}, np.float32(0.3)), {"shift": True}),
                ((2, {"a": A}), {"scale": jnp.asarray(1.0), "shift": jnp.float32(3)}),
                ((2, {"a": jax.device_put(A, jax.devices()[0])}), {}),  # which its owner has placed
            ):
                equal(ours(*args, **kwargs), theirs(*args, **kwargs))
            equal(ours(power=2, table={"a": A}), theirs(power=2, table={"a": A}))


def test_random_keys_are_arguments_too() -> None:
    def draw(key: jax.Array, count: int) -> jax.Array:
        return jax.random.normal(key, (count,))

    for _ in range(2):
        programs._memory.renew()
        ours = programs.jit(draw, static_argnums=1)
        equal(ours(jax.random.key(3), 4), draw(jax.random.key(3), 4))
        equal(ours(jax.random.PRNGKey(3), 4), draw(jax.random.PRNGKey(3), 4))


def test_a_program_is_traced_once_and_compiled_once_for_all_processes(compilations: Compilations) -> None:
    traced = []

    def f(power: int, a: jax.Array) -> jax.Array:
        traced.append((power, a.shape, a.dtype, a.weak_type))
        return jnp.sum(jnp.exp(a) ** power)

    ours = programs.jit(f, static_argnums=0)
    first = ours(2, A)
    for same in (A + 0, jnp.asarray(A), jnp.asarray(A) + 0):
        np.testing.assert_array_equal(ours(2, same), first)
    assert len(traced) == 1
    count = compilations.count
    for other in ((3, A), (2, A[:2]), (2, A.astype(np.float32)), (True, A), (2.0, A), (2, 1.5), (2, jnp.asarray(1.5))):
        ours(*other)
    with jax.enable_x64(False):
        ours(2, A)
    with jax.default_matmul_precision("highest"):
        ours(2, A)
    assert len(traced) == 10 and compilations.count > count
    count = compilations.count
    programs._memory.renew()
    np.testing.assert_array_equal(ours(2, A), first)
    assert len(traced) == 11 and compilations.count == count


def test_an_argument_that_is_not_used_may_have_any_shape() -> None:
    """The text of a program does not show it, but the program refuses another shape than its own."""
    first = programs.jit(lambda a, _: 2 * a)
    for shape in ((2,), (5,), (3, 1)):
        np.testing.assert_array_equal(first(np.ones(3), np.ones(shape)), [2.0, 2.0, 2.0])


def test_under_a_trace_it_is_jax() -> None:
    def f(a: jax.Array, scale: float = 2.0) -> jax.Array:
        return scale * jnp.sum(a**3, axis=-1)

    ours, theirs = programs.jit(f), jax.jit(f)
    for transform in (
        lambda g: jax.grad(lambda a: g(a).sum()),
        lambda g: jax.vmap(g),
        lambda g: jax.jit(lambda a: g(a) + g(A, 3.0)),  # also with constants alone
        lambda g: jax.jacfwd(jax.jit(g)),
    ):
        equal(transform(ours)(A), transform(theirs)(A))
    assert str(jax.make_jaxpr(ours)(A)) == str(jax.make_jaxpr(theirs)(A))


def test_settings_for_debugging_are_those_of_jax() -> None:
    seen = []

    def f(a: jax.Array) -> jax.Array:
        seen.append(type(a))
        return jnp.log(a)

    ours = programs.jit(f)
    ours(A)
    with jax.disable_jit():
        ours(A)
    assert len(seen) == 2 and not issubclass(seen[1], jax.core.Tracer)
    assert np.isnan(ours(-A)).all()
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        ours(-A)


def test_jax_says_what_is_wrong_with_arguments() -> None:
    ours = programs.jit(lambda setting, a: a, static_argnums=0)
    with pytest.raises(ValueError, match="hashable"):
        ours([1], A)
    for wrong in ("text", np.array(["text"]), np.array([None])):
        with pytest.raises(TypeError):
            ours(1, wrong)


def test_errors_and_names_are_the_functions_own() -> None:
    @programs.jit
    def special(a: jax.Array) -> jax.Array:
        """What it does."""
        if a.shape[0] > 2:
            raise RuntimeError("too many")
        return a

    assert special.__name__ == "special" and special.__doc__ == "What it does."
    for _ in range(2):  # a failed attempt is not remembered
        with pytest.raises(RuntimeError, match="too many"):
            special(A)
    equal(special(A[:2]), jnp.asarray(A[:2]))


def calls_back(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[Any], Any]:
    return programs.jit(lambda a: jax.pure_callback(function, jax.ShapeDtypeStruct((3, 4), float), a))


def test_a_program_that_calls_back_is_not_stored(place: Path) -> None:
    for _ in range(2):
        np.testing.assert_array_equal(calls_back(np.sin)(A), np.sin(A))
        np.testing.assert_array_equal(calls_back(np.cos)(A), np.cos(A))
        programs._memory.renew()
    assert names(place) == set()


# Memory


def test_memory_is_bounded_and_can_be_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "MAX_PROGRAMS", 3)
    traced = []

    @programs.jit
    def f(a: jax.Array) -> jax.Array:
        traced.append(a.shape)
        return a + 1

    for size in (1, 2, 3, 1, 4, 1, 2):
        f(np.zeros(size))
    assert traced == [(1,), (2,), (3,), (4,), (2,)]
    assert programs._memory.cache_info() == len(programs._memory.cache_keys()) == 3
    jax.clear_caches()
    assert programs._memory.cache_info() == 0
    np.testing.assert_array_equal(f(np.zeros(2)), np.ones(2))


def test_threads_wait_for_the_one_that_compiles() -> None:
    traced, together = [], threading.Barrier(8)

    @programs.jit
    def f(a: jax.Array) -> jax.Array:
        traced.append(threading.get_ident())
        time.sleep(0.1)
        return a + 1

    def ask(_: int) -> np.ndarray:
        together.wait(30)
        with jax.enable_x64(True):
            return np.asarray(f(A))

    with ThreadPoolExecutor(8) as pool:
        assert all(np.array_equal(found, A + 1) for found in pool.map(ask, range(8)))
    assert len(traced) == 1


def test_after_a_failure_the_next_thread_tries() -> None:
    attempts, together = [], threading.Barrier(2)

    @programs.jit
    def f(a: jax.Array) -> jax.Array:
        attempts.append(1)
        time.sleep(0.1)
        if len(attempts) == 1:
            raise KeyboardInterrupt
        return a + 1

    def ask(_: int) -> bool:
        together.wait(30)
        try:
            return bool(np.array_equal(f(A), A + 1))
        except KeyboardInterrupt:
            return False

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(ask, range(2))) == [False, True]


# The store


def exponential(a: jax.Array) -> tuple[jax.Array, ...]:
    return jnp.linalg.cholesky(a @ a.T + jnp.eye(3)), jnp.exp(a)


def ask(function: Callable[..., Any] = exponential, parts: Any = ("exponential",)) -> programs.Program:
    return programs.get((function, parts), lambda: programs.Pending(function, ((3, 4),), lambda: "note"), lambda: parts)


def refuses(a: jax.Array) -> tuple[jax.Array, ...]:
    raise AssertionError("there is no need to trace this")


def test_parts_of_the_library_are_found_without_tracing(place: Path) -> None:
    expected = [np.asarray(out) for out in exponential(A)]
    for function in (exponential, refuses, refuses):
        programs._memory.renew()
        program = ask(function)
        assert program.note == "note" and len(names(place)) == 1
        for _ in range(2):
            for out, value in zip(program.call(A), expected, strict=True):
                np.testing.assert_allclose(out, value, rtol=1e-14)


IN_ANOTHER_PROCESS = """
import sys
import jax, numpy as np
sys.path.insert(0, {tests!r})
from runtime_programs import ask, refuses, A
with jax.enable_x64(True):
    print(float(sum(np.sum(out) for out in ask(refuses).call(A))))
"""


def in_another_process(code: str, **more: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false", **more},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_another_process_runs_what_was_stored_with_lapack(tmp_path: Path, place: Path) -> None:
    # In a process that has not used LAPACK yet, calling its functions was a crash.
    expected = float(sum(np.sum(out) for out in ask().call(A)))
    (tmp_path / "runtime_programs.py").write_text(Path(__file__).read_text())
    for devices in (1, 3):  # with several devices the program is stored once more
        flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
        found = [
            in_another_process(
                IN_ANOTHER_PROCESS.format(tests=str(tmp_path)).replace("refuses", which), XLA_FLAGS=flags
            )
            for which in ("exponential", "refuses")
        ]
        np.testing.assert_allclose([float(text) for text in found], expected, rtol=1e-14)


def damages(body: bytes) -> Iterator[bytes]:
    """Contents with a right digest that are not a program."""
    payload, in_tree, out_tree, note, lapack = pickle.loads(body)
    yield b""
    yield body[: len(body) // 2]
    yield pickle.dumps(None)
    yield pickle.dumps((1, 2, 3))
    yield pickle.dumps((payload[: len(payload) // 2], in_tree, out_tree, note, lapack))
    yield pickle.dumps((payload, jax.tree.structure(((1, 2), {})), out_tree, note, lapack))
    yield b"csitewise.no_such_module\nname\n."


def test_what_is_stored_but_no_program_is_compiled_again(place: Path) -> None:
    expected = [np.asarray(out) for out in ask().call(A)]
    (name,) = names(place)
    body = program_store.read(name)
    assert body is not None
    for broken in damages(body):
        programs._memory.renew()
        program_store.write(name, broken)
        for out, value in zip(ask().call(A), expected, strict=True):
            np.testing.assert_array_equal(out, value)
        assert program_store.read(name) != broken


def test_files_that_are_damaged_are_compiled_again(place: Path) -> None:
    expected = [np.asarray(out) for out in ask().call(A)]
    (name,) = names(place)
    whole = (place / name).read_bytes()
    rng = np.random.default_rng(0)
    for at in rng.integers(0, len(whole), 6):
        for broken in (whole[:at], whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :]):
            programs._memory.renew()
            (place / name).write_bytes(broken)
            for out, value in zip(ask().call(A), expected, strict=True):
                np.testing.assert_array_equal(out, value)
            programs._memory.renew()
            ask(refuses)  # it has been stored again


def test_programs_of_other_devices_are_not_stored(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(lambda a: exponential(a)).call(A)
    (name,) = names(place)
    assert programs._load(name, 1) is not None
    monkeypatch.setattr(programs, "STORED_PLATFORM", "another platform")
    assert programs._load(name, 1) is None
    (place / name).unlink()
    np.testing.assert_allclose(ask(lambda a: exponential(a)).call(A)[1], np.exp(A), rtol=1e-14)
    assert names(place) == set()


def test_nothing_is_stored_where_that_is_turned_off(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(program_store.OFF, "off")
    ask().call(A)
    assert names(place) == set()


def test_without_serialisation_every_process_compiles(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [np.asarray(out) for out in ask().call(A)]
    assert len(names(place)) == 1
    monkeypatch.setattr(programs, "_serializer", lambda: None)
    programs._memory.renew()
    for out, value in zip(ask(lambda a: exponential(a)).call(A), expected, strict=True):
        np.testing.assert_array_equal(out, value)
    np.testing.assert_array_equal(programs.jit(jnp.sin)(A), jnp.sin(A))
    assert len(names(place)) == 1  # nothing new


WITHOUT_SERIALISATION = """
import sys
sys.modules["jax.experimental.serialize_executable"] = None  # importing it raises ImportError
import numpy as np
from sitewise import EP, Data, Model, kernels, likelihoods
from sitewise.arrays import programs
assert programs._serializer() is None
X = np.linspace(-1, 1, 8)[:, None]
data = Data.of(X, np.where(X[:, 0] > 0, 1.0, -1.0))
print(EP().solve(Model.full(kernels.RBF(), likelihoods.BernoulliProbit()), data).outcome.name)
"""


def test_the_library_works_with_a_jax_that_cannot_serialise(place: Path) -> None:
    assert in_another_process(WITHOUT_SERIALISATION) == "CONVERGED"
    assert names(place) == set()


def test_a_stored_program_that_fails_is_compiled_again() -> None:
    def fails(*_: Any) -> Any:
        raise jax.errors.JaxRuntimeError("NOT_FOUND: Function not found")

    made = []

    def again() -> Any:
        made.append(1)
        return lambda a: [a + 1]

    call = programs._Call(fails, again)
    np.testing.assert_array_equal([call(A)[0], call(A)[0]], [A + 1, A + 1])
    assert len(made) == 1
    call = programs._Call(fails)
    with pytest.raises(jax.errors.JaxRuntimeError):  # nor is an error of the program itself hidden
        call(A)


def test_what_jax_found_in_its_own_cache_is_not_stored_again(tmp_path: Path, place: Path) -> None:
    before = jax.config.jax_compilation_cache_dir, jax.config.jax_persistent_cache_min_compile_time_secs
    jax.config.update("jax_enable_compilation_cache", True)
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "jax"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    compilation_cache.reset_cache()
    try:
        # Each time another function object: JAX also remembers what it has compiled for this one.
        expected = np.asarray(ask(lambda a: exponential(a)).call(A)[0])
        assert len(names(place)) == 1 and list((tmp_path / "jax").iterdir())
        for path in place.iterdir():
            path.unlink()
        np.testing.assert_array_equal(ask(lambda a: exponential(a)).call(A)[0], expected)
        assert names(place) == set()
    finally:
        jax.config.update("jax_compilation_cache_dir", before[0])
        jax.config.update("jax_persistent_cache_min_compile_time_secs", before[1])


# Names


def name_of(parts: Any = None) -> str | None:
    if parts is None:
        parts = (loop._assess, likelihoods.BernoulliProbit(), kernels.Matern52())
    return program_names.name_of_parts(parts, ((3, 4),))


NAME = """
import jax
from sitewise import kernels, likelihoods
from sitewise.inference import loop
from sitewise.arrays import program_names
{also}
with jax.enable_x64(True):
    print(program_names.name_of_parts((loop._assess, likelihoods.BernoulliProbit(), kernels.Matern52()), ((3, 4),)))
"""


def test_a_name_is_the_same_in_all_processes() -> None:
    ways = (("", "1"), ("import sitewise.estimators, sitewise.testing", "2"))
    found = {in_another_process(NAME.format(also=also), PYTHONHASHSEED=seed) for also, seed in ways}
    assert len(found) == 1 and len(found.pop()) == 64


@module
class Own(kernels.Kernel):
    factor: float = 1.0

    def pairs(self, A: jax.Array, B: jax.Array) -> jax.Array:
        return self.factor * A @ B.T


def test_only_the_librarys_own_code_has_a_name_by_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    known = name_of()
    assert known is not None and known == name_of()
    for others in (Own(), [Own], exponential, lambda a: a, functools.partial(exponential)):
        assert name_of((loop._assess, others)) is None
    monkeypatch.setattr(program_names, "_library_files", lambda: None)
    assert name_of() is None  # the library's files cannot be read


def test_a_name_changes_with_everything_that_a_program_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    known = name_of()
    found = [
        known,
        program_names.name_of_parts((loop._assess, likelihoods.BernoulliProbit(), kernels.Matern52()), ((3, 5),)),
    ]
    for parts in ((loop._assess,), (loop._slopes_alone, likelihoods.BernoulliProbit(), kernels.Matern52())):
        found.append(name_of(parts))
    with jax.default_matmul_precision("highest"):
        found.append(name_of())
    for where, name, value in (
        (program_names, "_library_files", lambda: b"other files"),
        (program_names, "FORMAT", 0),
        (jax, "__version__", "0.10.99"),
        (np, "__version__", "2.99"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, value)
            program_names._machine.cache_clear()
            found.append(name_of())
    with monkeypatch.context() as patch:
        patch.setenv("XLA_FLAGS", "--other")
        program_names._machine.cache_clear()
        found.append(name_of())
    program_names._machine.cache_clear()
    assert name_of() == known
    assert len(set(found)) == len(found), found


def factor(value: float) -> kernels.Kernel:
    """A user's kernel: each call makes a class of the same name with other code."""

    @module
    class Mine(kernels.Kernel):
        def pairs(self, A: jax.Array, B: jax.Array) -> jax.Array:
            return value * (A @ B.T)

    return Mine()


def test_a_users_class_that_changes_is_another_program(compilations: Compilations) -> None:
    X = A.T.copy()
    for value in (1.0, 2.0, 3.0):
        np.testing.assert_allclose(factor(value).matrix(X), value * X @ X.T, rtol=1e-14)
    count = compilations.count
    programs._memory.renew()
    np.testing.assert_allclose(factor(2.0).matrix(X), 2.0 * X @ X.T, rtol=1e-14)
    assert compilations.count == count


FIT = """
import sys
import jax, numpy as np
from sitewise import GPRegressor
compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, *_, **__: compiled.append(event) if event.endswith("backend_compile_duration") else None
)
rng = np.random.default_rng(0)
X = rng.normal(size=(30, 2))
mean = GPRegressor(likelihood="poisson").fit(X, rng.poisson(np.exp(X[:, 0]))).predict(X)
print(len(compiled), mean.tobytes().hex())
"""


def test_a_second_process_compiles_nothing_and_gets_the_same_bits() -> None:
    first, second = (in_another_process(FIT).split() for _ in range(2))
    assert int(first[0]) > 0 and int(second[0]) == 0 and first[1] == second[1]


# What a person sees


class Screen(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


class Notebook(io.StringIO):
    __module__ = "ipykernel.iostream"


def told(monkeypatch: pytest.MonkeyPatch, screen: io.StringIO, seconds: float = 0.0) -> str:
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with waiting.told_after(seconds, "compiling …"):
        time.sleep(0.2)
    return screen.getvalue()


def test_a_person_who_waits_is_told_and_a_file_is_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "sitewise"):
        assert told(monkeypatch, Screen(True)) == "\r\x1b[Ksitewise: compiling …\n"
        assert told(monkeypatch, Notebook()) == "sitewise: compiling …\n"
        assert told(monkeypatch, Screen(False)) == ""
        assert [record.getMessage() for record in caplog.records] == 3 * ["compiling …"]
        assert told(monkeypatch, Screen(True), 60.0) == "" and len(caplog.records) == 3
        closed = Screen(True)
        closed.close()
        monkeypatch.setattr(sys, "stderr", closed)
        with waiting.told_after(0.0, "compiling …"):
            time.sleep(0.2)
        assert len(caplog.records) == 4


def test_the_line_stands_above_a_progress_line(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(True)
    with _Terminal(Bar("fitting", 1), screen):
        text = told(monkeypatch, screen)
    drawn, line = text.split("sitewise:")
    assert drawn.startswith("\rfitting") and drawn.endswith("\r\x1b[K") and line == " compiling …\n"
    assert screen.getvalue().endswith("\r\x1b[K")


def test_a_long_compilation_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, place: Path
) -> None:
    class Slow:
        def compile(self) -> None:
            time.sleep(0.3)

    monkeypatch.setattr(programs, "LONG_COMPILATION", 0.1)
    with caplog.at_level(logging.INFO, "sitewise"):
        programs._compile(Slow(), "text", "name", None)
        programs._compile(Slow(), "custom_call @callback", "name", None)
        monkeypatch.setenv(program_store.OFF, "off")
        programs._compile(Slow(), "text", "name", None)
    kept, *others = (record.getMessage() for record in caplog.records)
    assert kept == "compiling … (once; the result is kept for the next time)"
    assert others == 2 * ["compiling … (once; the result cannot be kept for the next time)"]
    assert names(place) == set()  # what is no program is not stored


def test_a_process_does_not_wait_for_what_it_would_have_told() -> None:
    began = time.monotonic()
    in_another_process("from sitewise.process import progress as waiting\nwaiting.told_after(600, '').__enter__()")
    assert time.monotonic() - began < 60
