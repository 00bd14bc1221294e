"""What importing the library does to the program that imports it."""

import subprocess
import sys

SETTINGS = """
import jax
before = dict(jax.config.values)
import sitewise
changed = {k for k, v in jax.config.values.items() if before.get(k, v) != v}
import sys
heavy = {'optax', 'matplotlib', 'typer', 'rich', 'pandas'} & set(sys.modules)
print(sorted(changed), sorted(heavy), jax.numpy.ones(1).dtype)
"""


def _run(code: str) -> str:
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return out.stdout.strip()


def test_import_changes_no_setting_and_loads_nothing_heavy():
    assert _run(SETTINGS) == "[] [] float32"


def test_import_costs_less_than_half_of_jax_and_sklearn_on_top():
    """Best of three, in fresh processes, alternating."""
    base = "import time; t = time.perf_counter(); import jax, sklearn.base, scipy.special, jax.scipy.linalg; "
    ours = "import time; t = time.perf_counter(); import sitewise; "
    stop = "print(time.perf_counter() - t)"
    pairs = [(float(_run(base + stop)), float(_run(ours + stop))) for _ in range(3)]
    assert min(b for _, b in pairs) < 1.5 * min(a for a, _ in pairs)
