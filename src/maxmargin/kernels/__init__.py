"""Kernel values: functions of blocks, samples, and the matrix that solvers see."""
