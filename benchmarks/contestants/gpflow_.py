"""GPflow: VGP trained by L-BFGS, SVGP by natural gradients and Adam; compiled with tf.function as its manual says."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import gpflow
import numpy as np
import protocol
import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
_KEPT = {}


def _rows(data: dict) -> tuple[np.ndarray, np.ndarray]:
    return data["X"], (data["y"] > 0).astype(float)[:, None]


def fit(task: dict, data: dict) -> dict:
    if task["method"] != "vi":
        raise NotImplementedError("has variational inference only")
    model = gpflow.models.VGP(_rows(data), gpflow.kernels.Matern52(), gpflow.likelihoods.Bernoulli())
    result = gpflow.optimizers.Scipy().minimize(
        model.training_loss, model.trainable_variables, options={"maxiter": task.get("max_rounds", 2000)}, compile=True
    )
    return {
        "objective": float(model.elbo()) / len(data["y"]),
        "parameters": {
            "lengthscale": float(model.kernel.lengthscales.numpy()),
            "variance": float(model.kernel.variance.numpy()),
        },
        "rounds": int(result.nit),
        "note": "compiles at every fit",
    }


def _sparse(data: dict) -> dict:
    if "model" not in _KEPT:
        model = gpflow.models.SVGP(
            gpflow.kernels.Matern52(lengthscales=float(data["lengthscale"]), variance=float(data["variance"])),
            gpflow.likelihoods.Bernoulli(),
            data["Z"],
            num_data=len(data["y"]),
        )
        gpflow.set_trainable(model.inducing_variable, False)
        gpflow.set_trainable(model.q_mu, False)
        gpflow.set_trainable(model.q_sqrt, False)
        rows = tuple(tf.constant(part) for part in _rows(data))
        natural = gpflow.optimizers.NaturalGradient(gamma=0.1)
        loss = model.training_loss_closure(rows, compile=False)

        @tf.function
        def step() -> None:
            natural.minimize(loss, [(model.q_mu, model.q_sqrt)])

        @tf.function
        def value_and_gradient() -> tuple:
            with tf.GradientTape() as tape:
                value = loss()
            return value, tape.gradient(value, model.trainable_variables)

        _KEPT.update(model=model, step=step, value_and_gradient=value_and_gradient, loss=loss)
    return _KEPT


def sparse_step(task: dict, data: dict) -> dict:
    """One natural-gradient step on all rows."""
    _sparse(data)["step"]()
    return {}


def sparse_elbo(task: dict, data: dict) -> dict:
    """The ELBO and its gradient in the hyperparameters."""
    value, _ = _sparse(data)["value_and_gradient"]()
    return {"objective": -float(value) / len(data["y"])}


def sparse_train(task: dict, data: dict) -> dict:
    """Natural gradient and Adam in turn, until the ELBO is within 1e-4 a row of `target`, or for `cap_seconds`."""
    import time

    kept = _sparse(data)
    adam = tf.optimizers.Adam(0.05)

    @tf.function
    def learn() -> tf.Tensor:
        with tf.GradientTape() as tape:
            value = kept["loss"]()
        variables = kept["model"].trainable_variables
        adam.apply_gradients(zip(tape.gradient(value, variables), variables, strict=True))
        return value

    began, value, rounds = time.process_time(), -np.inf, 0
    while value < task["target"] - 1e-4 and time.process_time() - began < task["cap_seconds"]:
        kept["step"]()
        value = -float(learn()) / len(data["y"])
        rounds += 1
    return {"objective": value, "rounds": rounds, "reached": bool(value >= task["target"] - 1e-4)}


if __name__ == "__main__":
    verbs = {"fit": fit, "sparse_step": sparse_step, "sparse_elbo": sparse_elbo, "sparse_train": sparse_train}
    protocol.serve(verbs, {"library": f"GPflow {gpflow.__version__}, TensorFlow {tf.__version__}"})
