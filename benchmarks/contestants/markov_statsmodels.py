"""statsmodels: its Kalman filter with the exact steps of a Matérn-3/2 process; L-BFGS of statsmodels, by differences.

Hold-out rows are passed as missing observations, because statsmodels has no other way to predict between rows.
"""

from importlib.metadata import version

import markov_protocol
import numpy as np
from statsmodels.tsa.statespace.mlemodel import MLEModel


class Matern32(MLEModel):
    """State (f, f'/λ), λ = √3/ℓ, at irregular times; parameters log ℓ, log σ² and log noise."""

    def __init__(self, time: np.ndarray, y: np.ndarray, start: np.ndarray) -> None:
        super().__init__(y, k_states=2, k_posdef=2, initialization="stationary")
        self._step, self._start = np.append(np.diff(time), 0.0), start
        self["design"] = np.array([[1.0, 0.0]])
        self["selection"] = np.eye(2)
        self.ssm.initialize_known(np.zeros(2), np.eye(2))

    @property
    def start_params(self) -> np.ndarray:
        return self._start

    @property
    def param_names(self) -> list[str]:
        return ["log_lengthscale", "log_variance", "log_noise"]

    def update(self, params: np.ndarray, **kwargs: object) -> None:
        params = super().update(params, **kwargs)
        scale, variance, noise = np.exp(params)
        r = np.sqrt(3.0) * self._step / scale
        A = np.exp(-r) * np.array([[1 + r, r], [-r, 1 - r]])
        self["transition"] = A
        self["state_cov"] = variance * (np.eye(2)[:, :, None] - np.einsum("ikt,jkt->ijt", A, A))
        self["obs_cov", 0, 0] = noise**2
        self.ssm.initialize_known(np.zeros(2), variance * np.eye(2))


def fit(data: dict) -> dict:
    if data["likelihood"] != "gaussian" or int(data["order"]) != 3:
        raise NotImplementedError("Gaussian noise and Matérn-3/2 only")
    time, y = data["X"][:, 0], data["y"]
    start = np.log([float(data[f"start_{name}"]) for name in ("lengthscale", "variance", "noise")])
    model = Matern32(time, y, start)
    found = model.fit(disp=False, maxiter=200, cov_type="none")
    scale, variance, noise = np.exp(found.params)

    def predict(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        both = np.concatenate([time, X[:, 0]])
        order = np.argsort(both)
        values = np.concatenate([y, np.full(len(X), np.nan)])[order]
        smoothed = Matern32(both[order], values, start).smooth(found.params)
        new = np.argsort(order)[len(time) :]
        return smoothed.smoothed_state[0, new], smoothed.smoothed_state_cov[0, 0, new]

    return {
        "lengthscale": float(scale), "deviation": float(variance) ** 0.5, "noise": float(noise),
        "evidence": float(found.llf), "predict": predict,
    }  # fmt: skip


if __name__ == "__main__":
    markov_protocol.serve(f"statsmodels {version('statsmodels')}", fit)
