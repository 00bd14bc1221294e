"""Sparse symmetric matrices: nested dissection, multifrontal Cholesky factor, and the inverse on the pattern."""
