"""GPBoost: Laplace's method with a Vecchia approximation of the prior."""

from importlib.metadata import version

import gpboost
import markov_protocol
import numpy as np

NAMES = {"binary": "bernoulli_logit", "probit": "bernoulli_probit", "counts": "poisson", "gaussian": "gaussian"}


def fit(data: dict) -> dict:
    gaussian = data["likelihood"] == "gaussian"
    y = (data["y"] > 0).astype(float) if data["likelihood"] in ("binary", "probit") else data["y"]
    model = gpboost.GPModel(
        gp_coords=data["X"],
        cov_function="matern",
        cov_fct_shape=int(data["order"]) / 2,
        likelihood=NAMES[data["likelihood"]],
        gp_approx="vecchia",
        num_parallel_threads=1,
    )
    start = [float(data["start_variance"]), float(data["start_lengthscale"])]
    model.fit(y=y, params={"init_cov_pars": [float(data["start_noise"]) ** 2, *start] if gaussian else start})
    learned = np.ravel(model.get_cov_pars(format_pandas=False))
    noise = {"noise": float(learned[0]) ** 0.5} if gaussian else {}

    def predict(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = model.predict(gp_coords_pred=X, predict_response=False, predict_var=True)
        return found["mu"], found["var"]

    return {
        "lengthscale": float(learned[-1]), "deviation": float(learned[-2]) ** 0.5, **noise,
        "evidence": -float(model.get_current_neg_log_likelihood()), "predict": predict,
    }  # fmt: skip


if __name__ == "__main__":
    markov_protocol.serve(f"gpboost {version('gpboost')}", fit)
