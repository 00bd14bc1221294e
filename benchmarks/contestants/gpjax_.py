"""GPJax: whitened variational Gaussian with every training row an inducing input, trained by SciPy's L-BFGS-B."""

import jax

jax.config.update("jax_enable_x64", True)

from importlib.metadata import version

import gpjax as gpx
import jax.numpy as jnp
import protocol


def fit(task: dict, data: dict) -> dict:
    if task["method"] != "vi":
        raise NotImplementedError("is measured for variational inference")
    X, y = jnp.asarray(data["X"]), jnp.asarray((data["y"] > 0).astype(float))[:, None]
    prior = gpx.gps.Prior(mean_function=gpx.mean_functions.Zero(), kernel=gpx.kernels.Matern52())
    rows = gpx.Dataset(X=X, y=y)
    q = gpx.variational_families.WhitenedVariationalGaussian(
        model=prior * gpx.likelihoods.Bernoulli(), inducing_inputs=X
    )
    trained, history = gpx.fit_scipy(
        model=q, objective=lambda p, d: -gpx.objectives.elbo(p, d), train_data=rows, max_iters=500, verbose=False
    )
    return {
        "objective": float(gpx.objectives.elbo(trained, rows)) / len(data["y"]),
        "rounds": len(history),
        "note": "inducing inputs trained too",
    }


if __name__ == "__main__":
    protocol.serve({"fit": fit}, {"library": f"GPJax {version('gpjax')}, JAX {jax.__version__}"})
