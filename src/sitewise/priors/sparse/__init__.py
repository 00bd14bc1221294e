"""Sparse priors with inducing inputs."""
