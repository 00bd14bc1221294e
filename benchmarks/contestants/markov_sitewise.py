"""sitewise: the Markov prior by a method, or the full one ("full")."""

import sys
from importlib.metadata import version

import markov_protocol

from sitewise import Data, Model, kernels, likelihoods, resolve

KERNELS = {3: kernels.Matern32, 5: kernels.Matern52}


def fit(data: dict) -> dict:
    method, _, structure = sys.argv[3].partition("-")
    likelihood = {
        "binary": likelihoods.BernoulliLogit, "probit": likelihoods.BernoulliProbit, "counts": likelihoods.Poisson,
        "gaussian": lambda: likelihoods.Gaussian(float(data["start_noise"])),
    }[data["likelihood"]]()  # fmt: skip
    make = Model.full if structure == "full" else Model.markov
    kernel = KERNELS[int(data["order"])](float(data["start_lengthscale"]), float(data["start_variance"]))
    fitted = resolve(method).fit(make(kernel, likelihood), Data.of(data["X"], data["y"]))
    found = {name.split(".")[-1]: float(value) for name, value in fitted.parameters.items()}
    noise = {"noise": found["scale"]} if "scale" in found else {}
    return {
        "lengthscale": found["lengthscale"], "deviation": found["variance"] ** 0.5, **noise,
        "evidence": float(fitted.objective), "evaluations": len(fitted.trace), "predict": fitted.posterior().f,
    }  # fmt: skip


if __name__ == "__main__":
    markov_protocol.serve(f"sitewise {version('sitewise')}", fit)
