"""Reproduction of the ICML 2023 paper: data sets, protocols, tables and figures, with the printed numbers beside ours.

registry, sources, generate   which data sets there are, and how a set gets onto this machine
protocols                     how rows become folds: `published` and `clean`, as data
variants, tasks, suites       a task is (set, protocol, seed, fold, method), its result one row; a suite is many tasks
store, runner, pool, cluster  rows are appended to a JSONL file; tasks that are in it never run again
paper, tables, agreement      the paper's printed numbers; rows → Markdown, LaTeX, CSV
figures                       the paper's figures
commands                      `reproduce` and `data`, as commands of `sitewise` and of `sitewise-icml2023`
"""
