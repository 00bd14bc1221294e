"""What importing the library needs, and what it does to the program that imports it."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import sitewise

# What belongs to the application, its reports and the paper: the library works without.
NOT_NEEDED = ("typer", "rich", "matplotlib", "pandas", "sitewise_icml2023")
WITHOUT = f"import sys; sys.modules.update(dict.fromkeys({NOT_NEEDED!r})); "

SETTINGS = """
import jax
before = dict(jax.config.values)
import sitewise
changed = {k for k, v in jax.config.values.items() if before.get(k, v) != v}
import sys
heavy = {'optax', 'matplotlib', 'typer', 'rich', 'pandas', 'sklearn'} & set(sys.modules)
print(sorted(changed), sorted(heavy), jax.numpy.ones(1).dtype)
"""


def _run(code: str) -> str:
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return out.stdout.strip()


def test_import_changes_no_setting_and_loads_nothing_heavy() -> None:
    assert _run(SETTINGS) == "[] [] float32"


# Modules that are slow to import: the library imports them inside the functions that need them.  scikit-learn itself
# imports scipy.stats, so that only the text of the library shows who does.
SLOW = (
    "scipy.stats", "pandas", "matplotlib", "optax", "sklearn.pipeline", "sklearn.preprocessing", "sklearn.metrics",
)  # fmt: skip
FIRST_FIT = """
import sys
import numpy as np
from sitewise import Data, Model, kernels, likelihoods, resolve
X = np.random.default_rng(0).normal(size=(20, 2))
resolve("hybrid").fit(Model.full(kernels.Matern52(), likelihoods.BernoulliProbit()), Data.of(X, np.sign(X[:, 0])))
print(sorted({name for name in SLOW if name in sys.modules}))
from sitewise import GPClassifier
GPClassifier().fit(X, X[:, 0] > 0)
ours = ("sklearn.preprocessing", "sklearn.metrics", "matplotlib", "jax.experimental.serialize_executable")
print(sorted({name for name in ours if name in sys.modules}))
"""


def test_a_first_fit_imports_nothing_slow() -> None:
    assert _run(FIRST_FIT.replace("SLOW", repr(SLOW))) == "[]\n[]"


def test_no_module_of_the_library_imports_what_is_slow() -> None:
    library = Path(sitewise.__file__).parent
    found = []
    for path in library.rglob("*.py"):
        if "app" in path.relative_to(library).parts:
            continue
        for node in ast.parse(path.read_text()).body:
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            found += [f"{path.name}: {name}" for name in names if name in SLOW]
    assert found == []


def test_a_first_fit_of_two_classes_compiles_nothing(tmp_path: Path) -> None:
    code = """
import jax
import numpy as np
compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, *_, **__: compiled.append(event) if event.endswith("backend_compile_duration") else None)
from sitewise import GPClassifier
X = np.random.default_rng(0).normal(size=(60, 3))
for method in ("hybrid", "ep", "vi", "laplace"):
    GPClassifier(method=method).fit(X, X[:, 0] + X[:, 1] ** 2 > 0.5)
before = len(compiled)
jax.jit(lambda x: x + 1)(1.0)
print(before, len(compiled) > before)
"""
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "SITEWISE_CACHE": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)},
    )  # fmt: skip
    assert out.stdout.split() == ["0", "True"]


def test_the_library_needs_nothing_of_the_application_or_the_paper() -> None:
    code = "import sitewise, sitewise.estimators, sitewise.mcmc, sitewise.testing; print(sitewise.GPClassifier())"
    assert _run(WITHOUT + code) == "GPClassifier()"


def test_without_its_extra_the_command_line_says_what_to_install() -> None:
    code = WITHOUT + "sys.argv = ['sitewise', 'demo']; from sitewise.app import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: the command line needs `pip install 'sitewise[app]'`.\n"


def test_import_costs_less_than_half_of_jax_and_sklearn_on_top() -> None:
    """Best of three, in fresh processes, alternating."""
    base = "import time; t = time.perf_counter(); import jax, sklearn.base, scipy.special, jax.scipy.linalg; "
    ours = "import time; t = time.perf_counter(); import sitewise; "
    stop = "print(time.perf_counter() - t)"
    pairs = [(float(_run(base + stop)), float(_run(ours + stop))) for _ in range(3)]
    assert min(b for _, b in pairs) < 1.5 * min(a for a, _ in pairs)


def test_explanations_can_be_imported_before_the_estimators() -> None:
    assert _run("import sitewise.explain.lengthscales, sitewise.explain.calibration; print('done')") == "done"
