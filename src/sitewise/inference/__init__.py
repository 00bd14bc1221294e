"""Inference finds sites: Laplace, EP, VI."""

from sitewise.inference.base import Inference
from sitewise.inference.ep import EP
from sitewise.inference.laplace import Laplace
from sitewise.inference.update import Point, SiteUpdate, Solution, Stats
from sitewise.inference.vi import VI

__all__ = ["EP", "VI", "Inference", "Laplace", "Point", "SiteUpdate", "Solution", "Stats"]
