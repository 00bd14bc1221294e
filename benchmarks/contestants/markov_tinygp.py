"""tinygp: the quasiseparable solver, Gaussian noise; L-BFGS-B of SciPy on the logarithms."""

from importlib.metadata import version

import jax
import jax.numpy as jnp
import markov_protocol
import numpy as np
import tinygp
from scipy.optimize import minimize

jax.config.update("jax_enable_x64", True)
WEAK = 1e10  # variance of the noise of rows that are not observed
KERNELS = {3: tinygp.kernels.quasisep.Matern32, 5: tinygp.kernels.quasisep.Matern52}


def fit(data: dict) -> dict:
    if data["likelihood"] != "gaussian":
        raise NotImplementedError("Gaussian noise only")
    time, y = jnp.asarray(data["X"][:, 0]), jnp.asarray(data["y"])
    kernel = KERNELS[int(data["order"])]

    def process(theta: jax.Array, time: jax.Array, more: jax.Array | float = 0.0) -> tinygp.GaussianProcess:
        scale, variance, noise = jnp.exp(theta[0]), jnp.exp(theta[1]), jnp.exp(theta[2])
        return tinygp.GaussianProcess(variance * kernel(scale), time, diag=noise**2 + more)

    @jax.jit
    def loss(theta: jax.Array, time: jax.Array, y: jax.Array) -> jax.Array:
        return -process(theta, time).log_probability(y)

    slope = jax.jit(jax.value_and_grad(loss))
    start = np.log([float(data[f"start_{name}"]) for name in ("lengthscale", "variance", "noise")])

    def both(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, by = slope(jnp.asarray(theta), time, y)
        return float(value) / len(y), np.asarray(by) / len(y)

    found = minimize(both, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-12, "gtol": 1e-6})
    scale, variance, noise = np.exp(found.x)

    @jax.jit
    def among(theta: jax.Array, time: jax.Array, y: jax.Array, weak: jax.Array) -> tuple[jax.Array, jax.Array]:
        return process(theta, time, weak).predict(y, return_var=True)

    def predict(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Held-out rows are rows of almost no weight: between rows the library keeps a matrix of rows × new rows."""
        both = np.concatenate([data["X"][:, 0], X[:, 0]])
        order = np.argsort(both)
        weak = np.concatenate([np.zeros(len(y)), np.full(len(X), WEAK)])[order]
        values = np.concatenate([data["y"], np.zeros(len(X))])[order]
        found_at = among(jnp.asarray(found.x), jnp.asarray(both[order]), jnp.asarray(values), jnp.asarray(weak))
        new = np.argsort(order)[len(y) :]
        return tuple(np.asarray(part)[new] for part in found_at)

    return {
        "lengthscale": float(scale), "deviation": float(variance) ** 0.5, "noise": float(noise),
        "evidence": -found.fun * len(y), "evaluations": int(found.nfev), "predict": predict,
    }  # fmt: skip


if __name__ == "__main__":
    markov_protocol.serve(f"tinygp {version('tinygp')}", fit)
