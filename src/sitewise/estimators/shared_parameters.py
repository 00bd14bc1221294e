"""The documentation of the parameters that GPClassifier, GPRegressor and GPOrdinal share, written once.

`documented` inserts an entry into the docstring of a class in place of a line {name}.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import TypeVar

T = TypeVar("T", bound=type)

ENTRIES = {
    "kernel": """
kernel : Kernel, PerColumn, list or str, default=None
    The covariance function: a name, a kernel of `sitewise.kernels` from which learning starts, or
    `PerColumn(kernel)`, which has one lengthscale per column.  None is "average" for full GPs of several columns up to
    2 000 rows (times classes).  For larger tables, and with `groups`, `hyperparameters`, `integrate`, `warm_start`,
    `varying` or class_kernels="own", None is one Matérn 5/2 kernel: "shrunk" for 2 to 100 columns, "isotropic" for one
    or for more columns.  With the methods "mcmc" and "hybrid-vem" None is "isotropic".  `fit_report_` names the kernel.
    Names:

    - "isotropic": one lengthscale for all columns
    - "shrunk": one lengthscale per column, shrunk towards a common lengthscale (`kernels.Shrunk`)
    - "ard": one free lengthscale per column
    - "additive": a sum of effects of single columns and of pairs (`kernels.Additive`), which `predict_terms`,
      `term_shares` and `effect` show; its hyperparameters have weak priors
    - "main_effects": a sum of effects of single columns
    - "laplacian": the exponential of the L1 distance, with shrunk lengthscales, for thresholds and rules
      (`kernels.Laplacian`)
    - "average": fits a shrunk kernel, an additive kernel with pairs, and a shrunk, a Laplacian and (for wide tables) a
      linear kernel of normal scores of the columns (`kernels.NormalScores`), and weights their predictions by
      evidence^0.25; the best predictions on average, in two to five times the time of "shrunk".  A list of kernels is
      averaged in the same way
""",
    "groups": """
groups : str, int or list of them, default=None
    Random effects: columns of X, by name or number, whose values name groups of rows.  Every group has its own offset
    (a random intercept, `kernels.Index`); the kernel does not use these columns.  New groups are predicted without an
    offset.
""",
    "method": """
method : str or Method, default="hybrid"
    How to infer the latent function and to learn the hyperparameters.  Names:

    - "hybrid": VI sites and EP evidence; with inducing inputs EP sites; for joint classes power EP, and with
      inducing inputs VI
    - "ep": expectation propagation
    - "vi": variational inference; learns from the ELBO
    - "laplace": Laplace's approximation, the fastest
    - "hybrid-vem": the hybrid trained by the paper's Algorithm 1
    - "mcmc": averages predictions over draws of the hyperparameters and the latent function, the slowest

    `Method("ep", tol=1e-4, restarts=3)` changes its settings.
""",
    "integrate": """
integrate : bool or str, default="auto"
    Whether predictions are averaged over the hyperparameters instead of using the optimum.  Nodes around the optimum
    are weighted by the evidence and the priors, by default log θ ~ N(log start, 2²).  Names:

    - "auto": for the kernels "isotropic" and "shrunk" with at most 200 distinct rows and 8 hyperparameters, with a
      small design; otherwise the optimum, also of each kernel of an average
    - True: always, with standard deviations within about 3 % for up to four hyperparameters; takes several times as
      long as the fit
    - False: never
    - "fine" (True), "coarse", "star", "grid", "ccd", "lattice" or "laplace": the design
      (`sitewise.learning.integration.integrate`)

    `fit_report_` describes the integral.
""",
    "hyperparameters": """
hyperparameters : Hyperparameters, default=None
    Which hyperparameters are learned, and how: `Hyperparameters(fixed="*")` holds all of them fixed;
    `bounds`, `priors`, `train` and `tied` are its other fields.
""",
    "structure": """
structure : str, Structure, Part or list of Part, default="auto"
    How the prior over functions is computed:

    - "full" or `Full()`: exactly, O(n³)
    - "sparse" or `Sparse(300)`: with inducing inputs, O(nm²)
    - "markov" or `Markov()`: as a Markov chain, O(n), for X of one column, the time
    - `Series("sensor")`: one Markov chain per series, with the column that names the series
    - `parts.Map(("lon", "lat"))`, or a list of `sitewise.parts`: a sum of maps, groups, areas, trends and linear
      effects by a sparse precision matrix.  The parts replace `kernel` and `groups`; an intercept is added
    - "exact": "markov" above 2 000 rows of one column where the kernel has this form, otherwise "full"
    - "auto": as "exact", but "sparse" above 2 000 rows where "markov" is not possible; a warning says so
""",
    "random_state": """
random_state : int, RandomState or None, default=0
    Seed of restarts, draws and inducing inputs.  The default makes every fit reproducible; None takes a new seed in
    every fit, as in scikit-learn.
""",
    "warm_start": """
warm_start : bool, default=False
    Whether fit starts from the hyperparameters of the last fit.
""",
    "verbose": """
verbose : bool, int or function, default=False
    Whether fit prints its progress; a function is called with a description and the finished share instead.
""",
    "fitted": """
kernel_ : Kernel
    The learned kernel; with method="mcmc", at the median of the draws; of an average, the kernel of largest weight.
kernel_weights_ : dict
    Of an average (the default of many fits, kernel="average" or a list of kernels): the weight of each kernel.
mean_ : Mean
    The learned mean function.
likelihood_ : Likelihood
    The learned likelihood.
n_features_in_ : int
    The number of columns of X.
feature_names_in_ : array of shape (n_columns,)
    The names of the columns of X, if X had names.
n_iter_ : int
    Rounds of learning.
converged_ : bool
    Whether learning converged.
fit_report_ : str
    A description of the fit in plain words.
evidence_ : dict
    The evidences laplace, elbo, ep and loo at the fitted sites, in nats; of an average, of its kernel `kernel_`.
sites_ : Sites
    The sites of the training rows; of an average, of its kernel `kernel_`.
loo_ : ClassLoo or ValueLoo
    Leave-one-out predictions of the training rows, without refits.
influence_ : array of shape (n_rows,)
    The influence of each training row on the fit, in nats.
feature_importances_ : array of shape (n_columns,)
    The share of the variance of the fitted function per column (`importance`).
models_ : list of (Model, Data)
    The trained model and its rows per latent function, as objects of the library; of an average, with `kernel_`.
samples_ : HyperSamples
    With method="mcmc": the draws.  `evidence_`, `sites_`, `loo_` and `influence_` are then not available.
""",
}  # fmt: skip


def documented(cls: T) -> T:
    """Insert the shared entries into the docstring of a class."""
    if cls.__doc__ is not None:  # python -OO has no docstrings
        text = inspect.cleandoc(cls.__doc__)
        cls.__doc__ = re.sub(r"^\{(\w+)\}$", lambda found: textwrap.dedent(ENTRIES[found[1]]).strip(), text, flags=re.M)
    return cls
