"""What importing the library needs, and what it does to the program that imports it."""

import subprocess
import sys

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
