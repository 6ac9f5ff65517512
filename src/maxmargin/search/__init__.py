"""Tuning: grids of parameters by cross-validation, with everything shared that can be."""
