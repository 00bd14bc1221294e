"""tinygp: the quasiseparable solver, Gaussian noise; L-BFGS-B of SciPy on the logarithms."""

from importlib.metadata import version

import jax
import jax.numpy as jnp
import markov_protocol
import numpy as np
import tinygp
from scipy.optimize import minimize

jax.config.update("jax_enable_x64", True)
BLOCK = 500
KERNELS = {3: tinygp.kernels.quasisep.Matern32, 5: tinygp.kernels.quasisep.Matern52}


def fit(data: dict) -> dict:
    if data["likelihood"] != "gaussian":
        raise NotImplementedError("Gaussian noise only")
    time, y = jnp.asarray(data["X"][:, 0]), jnp.asarray(data["y"])
    kernel = KERNELS[int(data["order"])]

    def process(theta: jax.Array, time: jax.Array) -> tinygp.GaussianProcess:
        scale, variance, noise = jnp.exp(theta[0]), jnp.exp(theta[1]), jnp.exp(theta[2])
        return tinygp.GaussianProcess(variance * kernel(scale), time, diag=noise**2)

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
    def some(theta: jax.Array, time: jax.Array, y: jax.Array, new: jax.Array) -> tuple[jax.Array, jax.Array]:
        return process(theta, time).predict(y, new, return_var=True)

    def predict(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """In blocks: between rows the library keeps a matrix of rows × new rows."""
        parts = [
            some(jnp.asarray(found.x), time, y, jnp.asarray(X[at : at + BLOCK, 0])) for at in range(0, len(X), BLOCK)
        ]
        return tuple(np.concatenate([np.asarray(part[i]) for part in parts]) for i in range(2))

    return {
        "lengthscale": float(scale), "deviation": float(variance) ** 0.5, "noise": float(noise),
        "evidence": -found.fun * len(y), "evaluations": int(found.nfev), "predict": predict,
    }  # fmt: skip


if __name__ == "__main__":
    markov_protocol.serve(f"tinygp {version('tinygp')}", fit)
