"""Attacks dpsql from outside, on made-up data, and says what it found.

Two methods, each with its theorem beside the code: `one_run` (many canaries, one answer) and `betting` (two neighbours,
many answers). `canaries` and `neighbours` say what is attacked, `report` when a finding counts.

Promise: it uses `dpsql.connect` and what that gives, as any analyst does. It shares no code with what it attacks: a
mistake in the product's noise, limits or accounting cannot be repeated here. It never touches the person's own budgets
or snapshots.
"""
