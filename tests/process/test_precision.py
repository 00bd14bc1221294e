import os
import subprocess
import sys

PROGRAM = """
import threadpoolctl
import sitewise.process.precision

with sitewise.process.precision.working_precision():
    import jax.numpy as jnp

    jnp.linalg.cholesky(jnp.eye(3)).block_until_ready()  # loads the BLAS that JAX factorises with
    threads = {p["num_threads"] for p in threadpoolctl.threadpool_info() if p["user_api"] == "blas"}
assert threads == {1}, threads
"""


def test_the_first_fit_of_a_process_runs_with_one_blas_thread() -> None:
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    subprocess.run([sys.executable, "-c", PROGRAM], env={**environment, "OPENBLAS_NUM_THREADS": "2"}, check=True)
