"""Conformance tests for user-defined likelihoods, kernels, inference methods, evidences and priors.

    from sitewise.testing import check_likelihood
    check_likelihood(MyLikelihood(), y=[0.0, 1.0, 5.0])

Each function runs its checks in order and raises one AssertionError with the messages of the first failed check; later
checks would fail for the same reason.  The library's own parts pass the same tests.  `check_prior` is for priors of one
latent function per row; it calls `check_posterior`, which is for any number of latent functions per row.
`check_two_functions` is for likelihoods of two latent functions per row.
"""

from sitewise.testing.check_evidence import check_evidence
from sitewise.testing.check_inference import check_inference
from sitewise.testing.check_kernel import check_kernel
from sitewise.testing.check_likelihood import check_likelihood
from sitewise.testing.check_posterior import check_posterior
from sitewise.testing.check_prior import check_prior
from sitewise.testing.check_two_functions import check_two_functions

__all__ = [
    "check_evidence",
    "check_inference",
    "check_kernel",
    "check_likelihood",
    "check_posterior",
    "check_prior",
    "check_two_functions",
]
