"""Conformance suites for parts that users write themselves; the library's own parts pass the same ones.

    from sitewise.testing import check_likelihood
    check_likelihood(MyLikelihood(), y=[0.0, 1.0, 5.0])

Each suite runs every check that applies and raises one AssertionError with a sentence per failure.
"""

from sitewise.testing.evidence import check_evidence
from sitewise.testing.inference import check_inference
from sitewise.testing.kernel import check_kernel
from sitewise.testing.likelihood import check_likelihood
from sitewise.testing.prior import check_prior

__all__ = ["check_evidence", "check_inference", "check_kernel", "check_likelihood", "check_prior"]
