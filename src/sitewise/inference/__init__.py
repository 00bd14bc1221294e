"""Inference finds sites: Laplace, EP, VI."""

from sitewise.inference.base import Inference, Solution, Stats
from sitewise.inference.ep import EP
from sitewise.inference.laplace import Laplace
from sitewise.inference.vi import VI

__all__ = ["EP", "VI", "Inference", "Laplace", "Solution", "Stats"]
