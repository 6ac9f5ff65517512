"""Where tasks run: threads of this process, joblib's processes, or a Dask cluster."""
