"""Make blobs on the workers of a Dask cluster, which all see the source and the store."""
