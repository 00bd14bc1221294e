"""Gaussian Markov chains in time: Kalman filter, smoother, covariance products, random draws, derivatives."""
