"""Evidence and predictive-density surfaces of the paper's Figs. 2 and 6–9, with the MCMC gold standard.

    python experiments/surfaces.py --set ionosphere --data DIR --out FILE.npz

At every point of the grid log ℓ, log σ ∈ [−1, 5] (isotropic Matérn-5/2, probit): Laplace, EP, VI and hybrid
evidences and test log densities, and log Z by annealed importance sampling with standard errors.  Writes FILE.npz,
FILE.png and FILE.json (seconds, summary); resumable: blocks that are finished lie in FILE.parts.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import time
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sitewise import Data, Model, evidence, kernels, likelihoods, posterior
from sitewise.data import bucket
from sitewise.inference import EP, VI, Laplace
from sitewise.inference.driver import initial_sites, iterate
from sitewise.mcmc import surface
from sitewise.mcmc.ais import Annealing
from sitewise.parameters import Trainable
from sitewise.precision import working_precision

sys.path.insert(0, str(Path(__file__).parent / "icml2023"))
from protocol import folds, load

SETS = ("ionosphere", "parkinsons", "monks-2", "sonar", "usps")
METHODS = {
    "laplace": (Laplace(), evidence.laplace),
    "ep": (EP(), evidence.ep),
    "vi": (VI(), evidence.elbo),
    "hybrid": (VI(), evidence.ep),
}
# Fig. 1a of the paper, MCMC curve: ionosphere at log σ = 2.3, log ℓ = −1, −0.7, …, 5, per training row.
FIG1A_MCMC = np.array([
    -0.657526546378798, -0.619832838278508, -0.566336369913481, -0.502380451225104, -0.443281277826544,
    -0.397944387696695, -0.361751424078755, -0.330411565376686, -0.299996668426016, -0.279569390927532,
    -0.268254272907398, -0.263004731404356, -0.260724448607089, -0.265662309827204, -0.276973990756866,
    -0.294005566332735, -0.317531530803751, -0.345083825862569, -0.374487773006757, -0.407762060951404,
    -0.445417953413899,
])  # fmt: skip


def split(name: str, directory: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training and test rows of the paper's surface for this set."""
    if name in ("sonar", "usps"):
        with np.load(directory / "surfaces" / f"{name}.npz", allow_pickle=False) as saved:
            return saved["train_X"], saved["train_Y"].ravel(), saved["test_X"], saved["test_Y"].ravel()
    X, y = load(name, directory)
    train, test = folds(len(X), 42)[3]
    return X[train], y[train], X[test], y[test]


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _approximate(methods, trainable, batch, model, data, X_new, y_new, vectors):
    """(value, mean test log density, outcome, steps) of every method at every point."""

    def point(vector):
        here = trainable.from_vector(model, vector)
        gram = here.prior.gram(data.X)
        out = []
        for method, read in methods:
            found, solution = iterate(method, here.likelihood, gram, data, initial_sites(here.likelihood, data))
            density = posterior(here, data, solution.sites).log_density(X_new, y_new)
            values = [e.read(here.likelihood, data, found.q, solution.sites) for e in read]
            out.append((values, density, solution.code, solution.stats.steps))
        return out

    return lax.map(point, vectors, batch_size=batch)


def approximate(model, data, trainable, vectors, test, batch) -> dict[str, np.ndarray]:
    """Laplace, EP, VI and hybrid (VI's sites, EP's evidence) surfaces."""
    methods = ((Laplace(), (evidence.laplace,)), (EP(), (evidence.ep,)), (VI(), (evidence.elbo, evidence.ep)))
    out = {}
    for pair in methods:
        rows = _approximate((pair,), trainable, batch, model, data, *map(jnp.asarray, test), jnp.asarray(vectors))
        values, density, code, steps = jax.tree.map(np.asarray, rows[0])
        name = pair[0].name
        out[f"{name}_evidence"] = values[0]
        if name == "vi":
            out["hybrid_evidence"] = values[1]
        out[f"{name}_log_density"], out[f"{name}_code"], out[f"{name}_steps"] = density, code, steps
    return out


def picture(path: Path, name: str, out: dict[str, np.ndarray], log_l, log_s, rows: int) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    clip = np.log(1e-12)
    top = {"MCMC": out["mcmc_log_z"], **{m: out[f"{m}_evidence"] for m in METHODS}}
    bottom = {m: out[f"{m}_log_density"] for m in ("mcmc", "laplace", "ep", "vi")}
    fig, axes = plt.subplots(2, 6, figsize=(19, 6.4), layout="constrained")
    shape = (len(log_s), len(log_l))
    low, high = np.max(top["MCMC"]) / rows - 0.6, np.max(top["MCMC"]) / rows
    for ax, (title, values) in zip(axes[0], top.items(), strict=False):
        table = np.asarray(values).reshape(shape) / rows
        image = ax.contourf(log_l, log_s, np.clip(table, low, None), np.linspace(low, high + 0.02, 32))
        best = np.unravel_index(np.nanargmax(table), shape)
        ax.plot(log_l[best[1]], log_s[best[0]], "k.", markersize=10)
        ax.set_title(f"{title}: log evidence / n")
    fig.colorbar(image, ax=axes[0, 4])
    error = axes[0, 5].pcolormesh(log_l, log_s, out["mcmc_se"].reshape(shape))
    axes[0, 5].set_title("MCMC standard error (nats)")
    fig.colorbar(error, ax=axes[0, 5])
    means = {m: np.maximum(v, clip).mean(axis=1).reshape(shape) for m, v in bottom.items()}
    high = max(np.nanmax(v) for v in means.values())
    for ax, (title, table) in zip(axes[1], means.items(), strict=False):
        image = ax.contourf(log_l, log_s, np.clip(table, high - 0.6, None), np.linspace(high - 0.6, high + 0.01, 32))
        ax.set_title(f"{title}: test log density")
    fig.colorbar(image, ax=axes[1, 3])
    gap = axes[1, 4].pcolormesh(log_l, log_s, (out["ep_evidence"] - out["mcmc_log_z"]).reshape(shape))
    axes[1, 4].set_title("EP − MCMC (nats)")
    fig.colorbar(gap, ax=axes[1, 4])
    gap = axes[1, 5].pcolormesh(log_l, log_s, (out["hybrid_evidence"] - out["mcmc_log_z"]).reshape(shape))
    axes[1, 5].set_title("hybrid − MCMC (nats)")
    fig.colorbar(gap, ax=axes[1, 5])
    for ax in axes.ravel():
        ax.set_xlabel("log ℓ")
    for ax in axes[:, 0]:
        ax.set_ylabel("log σ")
    fig.suptitle(f"{name}, n = {rows}")
    fig.savefig(path, dpi=110)
    plt.close(fig)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=SETS, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--points", type=int, default=21, help="grid points an axis")
    parser.add_argument("--chains", type=int, default=16)
    parser.add_argument("--steps", type=int, default=256, help="first schedule length; doubled where needed")
    parser.add_argument("--max-steps", type=int, default=4096)
    parser.add_argument("--target-se", type=float, default=0.3)
    parser.add_argument("--draws", type=int, default=32, help="draws a chain for predictions, 4 moves apart")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--block", type=int, default=None, help="points a file; all on a GPU, 21 on a CPU")
    parser.add_argument("--device-batch", type=int, default=None, help="points side by side (GPU memory)")
    parser.add_argument("--warm", action="store_true", help="compile first, so that the seconds are those of the run")
    args = parser.parse_args()

    X, y, X_new, y_new = split(args.set, args.data)
    log_l = log_s = np.linspace(-1.0, 5.0, args.points)
    grid_l, grid_s = np.meshgrid(log_l, log_s)
    vectors = np.stack([grid_l.ravel(), 2 * grid_s.ravel()], axis=1)  # log lengthscale, log variance
    model = Model.full(kernels.Matern52(), likelihoods.BernoulliProbit())
    trainable = Trainable.of(model)
    assert trainable.labels == ["kernel.lengthscale", "kernel.variance"]
    data = Data.of(X, y)
    seconds: dict[str, float] = {}

    def timed(label, call):
        start = time.perf_counter()
        result = call()
        seconds[label] = time.perf_counter() - start
        print(f"{label}: {seconds[label]:.2f} s", flush=True)
        return result

    def sample(store, steps, max_steps, draws, show=None, points=vectors, block=args.block):
        return surface.sample_points(
            model, data, points, (X_new, y_new), trainable=trainable, annealing=Annealing(chains=args.chains),
            steps=steps, max_steps=max_steps, target_se=args.target_se, draws=draws, seed=args.seed,
            block=block, batch=args.device_batch, store=store, done=show,
        )  # fmt: skip

    print(f"{args.set}: n = {len(y)}, {len(vectors)} points, {jax.devices()[0].device_kind}, jax {jax.__version__}")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    if args.warm:
        timed("compile mcmc (all block sizes)", lambda: warm(sample, vectors, args))
        start = time.perf_counter()

    def show(text):
        print(f"  {time.perf_counter() - start:7.2f} s  {text}", flush=True)

    parts = args.out.with_suffix(".parts")
    found = timed("mcmc", lambda: sample(parts, args.steps, args.max_steps, args.draws, show=show))
    out = {f"mcmc_{name}": value for name, value in found._asdict().items()}
    with working_precision():
        padded = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), data.pad(bucket(data.rows)))
        batch = args.device_batch or surface.default_batch(padded.rows, len(vectors))

        def others():
            return approximate(model, padded, trainable, vectors, (X_new, y_new), batch)

        others_out = timed("laplace, ep, vi (with compilation)", others)
        if args.warm:
            others_out = timed("laplace, ep, vi", others)
    out |= others_out
    out |= {"log_lengthscale": log_l, "log_sigma": log_s, "rows": np.array(len(y))}
    np.savez(args.out, **out)
    report = summary(args, out, seconds, len(y))
    args.out.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    picture(args.out.with_suffix(".png"), args.set, out, log_l, log_s, len(y))


def warm(sample, vectors, args) -> None:
    """Compile every program of the run, by runs of length 1."""
    block = args.block or (len(vectors) if jax.default_backend() != "cpu" else 21)
    for size in surface.block_sizes(min(block, len(vectors))):
        sample(None, 1, 1, 1, points=vectors[:size], block=block)


def summary(args, out: dict[str, np.ndarray], seconds: dict[str, float], rows: int) -> dict:
    """What the run found, printed and returned."""
    report = {
        "set": args.set, "rows": rows, "points": len(out["mcmc_se"]), "chains": args.chains,
        "device": jax.devices()[0].device_kind, "jax": jax.__version__, "seconds": seconds,
        "se_median": float(np.median(out["mcmc_se"])), "se_max": float(np.max(out["mcmc_se"])),
        "gap_max": float(np.max(np.abs(out["mcmc_upper"] - out["mcmc_log_z"]))),
        "flagged": int(np.sum(~out["mcmc_tight"])),
        "steps": {str(k): int(v) for k, v in zip(*np.unique(out["mcmc_steps"], return_counts=True), strict=True)},
        "stuck_max": float(np.max(out["mcmc_stuck"])),
    }  # fmt: skip
    for name in METHODS:
        gap = out[f"{name}_evidence"] - out["mcmc_log_z"]
        report[f"{name}_minus_mcmc"] = {"median": float(np.median(gap)), "max_abs": float(np.max(np.abs(gap)))}
        if name != "hybrid":
            report[f"{name}_not_converged"] = int(np.sum(out[f"{name}_code"] != 0))
    if args.set == "ionosphere" and args.points == 21:
        row = int(np.argmin(np.abs(out["log_sigma"] - 2.3)))
        ours = out["mcmc_log_z"].reshape(21, 21)[row] / rows
        report["fig1a_max_difference"] = float(np.max(np.abs(ours - FIG1A_MCMC)))
        print("fig1a (log σ = 2.3)  log ℓ   ours      published  difference")
        for log_l, a, b in zip(out["log_lengthscale"], ours, FIG1A_MCMC, strict=True):
            print(f"{log_l:26.1f} {a:10.5f} {b:10.5f} {a - b:10.5f}")
    print(json.dumps(report, indent=1))
    return report


if __name__ == "__main__":
    main()
