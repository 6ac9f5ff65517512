"""Solutions of one problem for growing C, on a kernel matrix in memory."""
