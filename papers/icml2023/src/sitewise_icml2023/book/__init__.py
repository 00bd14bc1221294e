"""Every number of the paper beside ours: pure functions of stored results.

`items` has the printed number, ours, and the verdict; `tables`, `figures` and `text` find them; `errata` says what
the printed numbers really are, with the numbers that show it; `page` writes results/icml2023/every-number.md.
"""
