"""scikit-learn: Laplace with the logistic link, its only link; the evidence is therefore of another model."""

import protocol
import sklearn
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import ConstantKernel, Matern


def fit(task: dict, data: dict) -> dict:
    if task["method"] != "laplace":
        raise NotImplementedError("has Laplace only")
    kernel = ConstantKernel(1.0) * Matern(1.0, nu=2.5)
    model = GaussianProcessClassifier(kernel).fit(data["X"], data["y"] > 0)
    trained = model.base_estimator_
    variance, lengthscale = trained.kernel_.k1.constant_value, trained.kernel_.k2.length_scale
    return {
        "objective": trained.log_marginal_likelihood_value_ / len(data["y"]),
        "parameters": {"lengthscale": float(lengthscale), "variance": float(variance)},
        "note": "logit link",
    }


def predict(task: dict, data: dict) -> dict:
    if "model" not in predict.__dict__:
        kernel = ConstantKernel(10.0) * Matern(10.0, nu=2.5)
        predict.model = GaussianProcessClassifier(kernel, optimizer=None).fit(data["X"], data["y"] > 0)
    return {"mean_probability": float(predict.model.predict_proba(data["X_new"])[:, 1].mean())}


if __name__ == "__main__":
    protocol.serve({"fit": fit, "predict": predict}, {"library": f"scikit-learn {sklearn.__version__}"})
