"""Parts that several solvers share: pair steps, linear systems, certified runs."""
