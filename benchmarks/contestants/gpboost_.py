"""GPBoost: Laplace in C++, probit link."""

from importlib.metadata import version

import gpboost
import protocol


def _model(data: dict) -> gpboost.GPModel:
    return gpboost.GPModel(
        gp_coords=data["X"],
        cov_function="matern",
        cov_fct_shape=2.5,
        likelihood="bernoulli_probit",
        num_parallel_threads=1,
    )


def fit(task: dict, data: dict) -> dict:
    if task["method"] != "laplace":
        raise NotImplementedError("has Laplace only")
    y = (data["y"] > 0).astype(float)
    model = _model(data)
    start = protocol.start(data)
    model.fit(y=y, params={"init_cov_pars": [start["variance"], start["lengthscale"]]} if start else None)
    variance, lengthscale = model.get_cov_pars(format_pandas=False)
    return {
        "objective": -model.get_current_neg_log_likelihood() / len(y),
        "parameters": {"lengthscale": float(lengthscale), "variance": float(variance)},
        "rounds": int(model._get_num_optim_iter()),
    }


def predict(task: dict, data: dict) -> dict:
    if "model" not in predict.__dict__:
        predict.model = _model(data)
        predict.model.fit(y=(data["y"] > 0).astype(float))
    found = predict.model.predict(gp_coords_pred=data["X_new"], predict_response=True, predict_var=False)
    return {"mean_probability": float(found["mu"].mean())}


if __name__ == "__main__":
    protocol.serve({"fit": fit, "predict": predict}, {"library": f"gpboost {version('gpboost')}"})
