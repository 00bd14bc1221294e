"""Markov chain Monte Carlo: samples of latent values and hyperparameters, and log Z with a standard error.

log_evidence          log Z ± standard error, from below and above
evidence_certificate  comparison of the approximate evidences with log Z
sample                samples from the posterior of hyperparameters and latent values
sample_points         log Z and predictive density on a whole grid, resumable
"""

from sitewise.mcmc.ais import PAPER, Annealing
from sitewise.mcmc.certificate import Certificate, LogEvidence, evidence_certificate, log_evidence
from sitewise.mcmc.hyper import sample
from sitewise.mcmc.points import Points, sample_points
from sitewise.mcmc.samples import HyperSamples

__all__ = [
    "PAPER",
    "Annealing",
    "Certificate",
    "HyperSamples",
    "LogEvidence",
    "Points",
    "evidence_certificate",
    "log_evidence",
    "sample",
    "sample_points",
]
