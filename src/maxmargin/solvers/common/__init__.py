"""Parts that several solvers share: SMO steps, linear systems, certified runs."""
