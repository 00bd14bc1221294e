"""L4. The paper's experiments, and the same comparison on any data.

registry, sources   which data sets there are, and how a set gets onto this machine
protocols           how rows become folds: `published` and `clean`, as data
methods, tasks      a task is (set, protocol, seed, fold, method); its result is one row
store, runner       rows are appended to a JSONL file; tasks that are in it never run again
paper, tables       the paper's printed numbers; rows → Markdown, LaTeX, CSV
figures             the paper's figures
"""
